package web

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/guard"
)

// guard puts guards around the functions of the options. These functions are called for requests,
// which wait for them. If Allow does not return, the user may do nothing.
func (o *Options) guard() {
	o.Logger = guard.Logger(o.Logger)
	if allow, g := o.Allow, guardOf("Allow", o.Logger); allow != nil {
		o.Allow = func(r *http.Request, action Action) bool {
			allowed, _ := guard.Value(g.Call, func() bool { return allow(r, action) })
			return allowed
		}
	}
	if user, g := o.User, guardOf("User", o.Logger); user != nil {
		o.User = func(r *http.Request) string {
			name, _ := guard.Value(g.Call, func() string { return user(r) })
			return name
		}
	}
	if links, g := o.Links, guardOf("Links", o.Logger); links != nil {
		o.Links = func(job *qless.Job) []Link {
			all, _ := guard.Value(g.Call, func() []Link { return links(job) })
			return all
		}
	}
	if find, g := o.Namespaces, guardOf("Namespaces", o.Logger); find != nil {
		o.Namespaces = func(ctx context.Context) (found []Source, err error) {
			broken := g.Call(func() { found, err = find(ctx) })
			return found, cmp.Or(broken, err)
		}
	}
	if redact, g := o.Redact, guardOf("Redact", o.Logger); redact != nil {
		o.Redact = func(job *qless.Job) {
			if g.Call(func() { redact(job) }) != nil {
				hide(job)
			}
		}
	}
}

func guardOf(name string, logger *slog.Logger) *guard.Guard {
	return guard.New("Options."+name, logger).Patient(guard.Forever)
}

// hide removes all parts of a job that Redact might have changed.
func hide(job *qless.Job) {
	job.Data, job.Headers, job.Failure = nil, nil, nil
	job.Attempts, job.History, job.Progress = nil, nil, nil
}
