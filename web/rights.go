package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/qless/qless-go/web/internal/actions"
)

// refusal returns why the user of a request may not do an action, or nil.
func (s *site) refusal(r *http.Request, action Action) error {
	options := &s.handler.options
	switch {
	case options.ReadOnly:
		return errReadOnly
	case options.Allow != nil && !options.Allow(r, action):
		return errDenied
	}
	if left := s.denials.left(action); left > 0 {
		return fmt.Errorf("%w; in %s it can be tried again", errNoPerm, left.Round(time.Second))
	}
	return nil
}

// check is refusal for an action's name, and logs the reason.
func (s *site) check(r *http.Request, action string) error {
	err := s.refusal(r, Action(action))
	if err != nil {
		s.log(r, action).Warn("dashboard: an action was refused", "error", err)
	}
	return err
}

// May reports whether an action is offered to the viewer.
func (f *frame) May(action string) bool {
	return f.Site.refusal(f.Request, Action(action)) == nil
}

// denialAge is how long a denied action is not offered.
const denialAge = time.Minute

func (d *denials) add(action Action) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.until == nil {
		d.until = map[Action]time.Time{}
	}
	d.until[action] = time.Now().Add(denialAge)
}

// left returns the time until an action is offered again.
func (d *denials) left(action Action) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Until(d.until[action])
}

// all returns the actions not offered.
func (d *denials) all() []Action {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []Action
	for action, until := range d.until {
		if time.Now().Before(until) {
			all = append(all, action)
		}
	}
	slices.Sort(all)
	return all
}

// Denied returns the actions with disabled buttons, because the server denied them.
func (f *frame) Denied() []Action { return f.Site.denials.all() }

// refuseForeign refuses a browser request made by another site.
func (h *Handler) refuseForeign(w http.ResponseWriter, r *http.Request) {
	path, _ := url.PathUnescape(actions.Short(r.URL.EscapedPath()))
	h.options.Logger.Warn("dashboard: a request from another site was refused",
		"user", h.options.User(r), "path", path)
	http.Error(w, "requests from other sites are refused", http.StatusForbidden)
}

// refuseHost refuses a request for another host: perhaps a page of another site, with a name that
// resolves to this address.
func (h *Handler) refuseHost(w http.ResponseWriter, r *http.Request) {
	h.options.Logger.Warn("dashboard: a request for an unknown host was refused",
		"user", h.options.User(r), "host", actions.Short(r.Host))
	http.Error(w, "the dashboard has another name: Options.Hosts, or qless serve --web-host, "+
		"says under which it is reached", http.StatusForbidden)
}
