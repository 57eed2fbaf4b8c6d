package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/together"
	"github.com/qless/qless-go/internal/units"
)

// spacesAtOnce is the number of namespaces read at a time.
const spacesAtOnce = 16

// manySpaces reports whether --namespace is a pattern for several namespaces.
func (p *place) manySpaces() bool { return inspect.IsPattern(p.namespaceName()) }

// refusePattern returns an error if --namespace is a pattern, for commands that need one namespace.
func (p *place) refusePattern() error {
	if !p.manySpaces() {
		return nil
	}
	return usageError{fmt.Errorf("the namespace %q is a pattern, which only status, queue ls, doctor "+
		"(without --fix), exporter, and serve with only --web or --metrics take: name one namespace",
		p.namespaceName())}
}

// A doMany runs a command for several namespaces.
type doMany = func(ctx context.Context, clients []*qless.Client) error

// runEither is run for a command with another function for several namespaces.
func (p *place) runEither(one do, many doMany) runFunc {
	return p.inTime(func(ctx context.Context, args []string) error {
		if p.manySpaces() {
			clients, err := p.spaces(ctx)
			if err != nil {
				return err
			}
			return many(ctx, clients)
		}
		client, err := p.client(ctx)
		if err != nil {
			return err
		}
		return one(ctx, client, args)
	})
}

// spaces returns clients of the namespaces that match --namespace. They share their connections.
func (p *place) spaces(ctx context.Context) ([]*qless.Client, error) {
	shared, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	return p.spacesOf(ctx, shared, p.clientConfig())
}

// spacesOf returns clients, with a config, of the namespaces that match a pattern.
func (p *place) spacesOf(
	ctx context.Context, shared *qless.Client, config *qless.ClientConfig,
) ([]*qless.Client, error) {
	pattern := p.namespaceName()
	names, err := inspect.Namespaces(ctx, shared.Redis(), pattern)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, missingError{fmt.Errorf(
			"no namespace with queues matches %q%s", pattern, otherSpaces(ctx, shared))}
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

// otherSpacesTime limits the search for namespaces that the user did not name.
const otherSpacesTime = time.Second

// otherSpaces names some namespaces with queues.
func otherSpaces(ctx context.Context, client *qless.Client) string {
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

// An unreadSpace is a namespace that could not be read.
type unreadSpace struct {
	Namespace string `json:"namespace"`
	Error     string `json:"error"`
	err       error
}

// readSpaces reads several namespaces concurrently, and calls a function for each result in order.
// It returns the namespaces that could not be read.
func readSpaces[T any](
	ctx context.Context, clients []*qless.Client,
	read func(ctx context.Context, client *qless.Client) (T, error),
	add func(namespace string, value T),
) (unread []unreadSpace) {
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
			unread = append(unread, unreadSpace{c.Namespace(), err.Error(), err})
			continue
		}
		add(c.Namespace(), answers[i].value)
	}
	return unread
}

// unreadError returns an error that names the namespaces that could not be read, or nil.
func unreadError(unread []unreadSpace) error {
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

// inNamespace returns a command for one of several namespaces.
func inNamespace(command, namespace string) string {
	if command == "" {
		return ""
	}
	return command + " --namespace " + units.Quote(namespace)
}
