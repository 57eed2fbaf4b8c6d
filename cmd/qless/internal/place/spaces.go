package place

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/together"
	"github.com/qless/qless-go/internal/units"
)

// spacesAtOnce is the number of namespaces read at a time.
const spacesAtOnce = 16

// ManySpaces reports whether --namespace is a pattern for several namespaces.
func (p *Place) ManySpaces() bool { return inspect.IsPattern(p.NamespaceName()) }

// RefusePattern returns an error if --namespace is a pattern, for commands that need one namespace.
func (p *Place) RefusePattern() error {
	if !p.ManySpaces() {
		return nil
	}
	return out.Error(fmt.Errorf("the namespace %q is a pattern, which only status, queue ls, doctor "+
		"(without --fix), exporter, and serve with only --web or --metrics take: name one namespace",
		p.NamespaceName()))
}

// A doMany runs a command for several namespaces.
type doMany = func(ctx context.Context, clients []*qless.Client) error

// RunEither is Run for a command with a separate function for several namespaces.
func (p *Place) RunEither(one Do, many doMany) runFunc {
	return p.inTime(func(ctx context.Context, args []string) error {
		if p.ManySpaces() {
			clients, err := p.Spaces(ctx)
			if err != nil {
				return err
			}
			return many(ctx, clients)
		}
		client, err := p.Client(ctx)
		if err != nil {
			return err
		}
		return one(ctx, client, args)
	})
}

// Spaces returns clients of the namespaces that match --namespace. The clients share connections.
func (p *Place) Spaces(ctx context.Context) ([]*qless.Client, error) {
	shared, err := p.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return p.SpacesOf(ctx, shared, p.ClientConfig())
}

// SpacesOf returns clients, with a config, of the namespaces that match a pattern.
func (p *Place) SpacesOf(
	ctx context.Context, shared *qless.Client, config *qless.ClientConfig,
) ([]*qless.Client, error) {
	pattern := p.NamespaceName()
	names, err := inspect.Namespaces(ctx, shared.Redis(), pattern)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, out.Missing(fmt.Errorf(
			"no namespace with queues matches %q%s", pattern, OtherSpaces(ctx, shared)))
	}
	clients := make([]*qless.Client, len(names))
	for i, name := range names {
		own := *config
		own.Namespace = name
		if clients[i], err = qless.New(shared.Redis(), &own); err != nil {
			return nil, err
		}
	}
	return clients, nil
}

// otherSpacesTime limits the search for namespaces not named by the user.
const otherSpacesTime = time.Second

// OtherSpaces names some namespaces with queues.
func OtherSpaces(ctx context.Context, client *qless.Client) string {
	const most = 5
	ctx, cancel := context.WithTimeout(ctx, otherSpacesTime)
	defer cancel()
	names, _ := inspect.Namespaces(ctx, client.Redis(), "*:") // the user may lack the permission
	if len(names) == 0 {
		return ""
	}
	return "; there are queues in " +
		text.Clean(strings.Join(names[:min(len(names), most)], ", ")) + " (--namespace)"
}

// An UnreadSpace is an unreadable namespace.
type UnreadSpace struct {
	Namespace string `json:"namespace"`
	Error     string `json:"error"`
	err       error
}

// ReadSpaces reads several namespaces concurrently, and calls a function for each result in order.
// It returns the unreadable namespaces.
func ReadSpaces[T any](
	ctx context.Context, clients []*qless.Client,
	read func(ctx context.Context, client *qless.Client) (T, error),
	add func(namespace string, value T),
) (unread []UnreadSpace) {
	type answer struct {
		value T
		err   error
	}
	answers, _ := together.AskFew(spacesAtOnce, clients, func(c *qless.Client) (answer, error) {
		value, err := read(ctx, c)
		return answer{value, err}, nil
	})
	for i, c := range clients {
		if err := answers[i].err; err != nil {
			unread = append(unread, UnreadSpace{c.Namespace(), err.Error(), err})
			continue
		}
		add(c.Namespace(), answers[i].value)
	}
	return unread
}

// UnreadError returns an error that names the unreadable namespaces, or nil.
func UnreadError(unread []UnreadSpace) error {
	if len(unread) == 0 {
		return nil
	}
	first := unread[0]
	if len(unread) == 1 {
		return fmt.Errorf("%s can't be read: %w", text.Clean(first.Namespace), first.err)
	}
	return fmt.Errorf("%d namespaces can't be read, such as %s: %w",
		len(unread), text.Clean(first.Namespace), first.err)
}

// InNamespace returns a command for one of several namespaces.
func InNamespace(command, namespace string) string {
	if command == "" {
		return ""
	}
	return command + " --namespace " + units.Quote(namespace)
}

// A QueueSum sums up the queues of a name in several namespaces.
type QueueSum struct {
	Name       string            `json:"name"`
	Namespaces int               `json:"namespaces"` // the number with such a queue
	Waiting    int               `json:"waiting"`
	Running    int               `json:"running"`
	Stalled    int               `json:"stalled"`
	Scheduled  int               `json:"scheduled"`
	Depends    int               `json:"depends"`
	Recurring  int               `json:"recurring"`
	Oldest     units.Text        `json:"oldest"`              // of the waiting jobs
	OldestIn   string            `json:"oldest_in,omitempty"` // the namespace of the oldest
	Paused     int               `json:"paused"`              // the namespaces with the queue paused
	Workers    int               `json:"workers"`
	Rates      doctor.Throughput `json:"rates"`
}

// Add adds the queue of a namespace.
func (q *QueueSum) Add(namespace string, one *inspect.QueueOverview) {
	q.Namespaces++
	q.Waiting += max(0, one.Waiting) // -1 if a key is damaged
	q.Running += max(0, one.Running)
	q.Stalled += max(0, one.Stalled)
	q.Scheduled += max(0, one.Scheduled)
	q.Depends += max(0, one.Depends)
	q.Recurring += max(0, one.Recurring)
	if oldest := units.Text(one.Oldest); oldest > q.Oldest {
		q.Oldest, q.OldestIn = oldest, namespace
	}
	if one.Paused {
		q.Paused++
	}
}

// State reports in how many of the namespaces the queue is paused.
func (q *QueueSum) State() any {
	if q.Paused == 0 || q.Paused == q.Namespaces {
		return out.OpenOrPaused(q.Paused > 0)
	}
	return out.Paint(fmt.Sprintf("paused in %d", q.Paused), out.Yellow)
}

// QueueSums are sums by the name of the queue.
type QueueSums map[string]*QueueSum

// Of returns the sum for a name, perhaps a new sum.
func (s QueueSums) Of(name string) *QueueSum {
	if s[name] == nil {
		s[name] = &QueueSum{Name: name}
	}
	return s[name]
}

// Sorted returns the sums by name.
func (s QueueSums) Sorted() []*QueueSum {
	all := make([]*QueueSum, 0, len(s))
	for _, q := range s {
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b *QueueSum) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
