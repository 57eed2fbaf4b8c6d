// Package place connects commands to the namespace named by flags, the environment or a context.
package place

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/text"
)

// Clock is the server's clock, set by tests.
var Clock func() time.Time

// defaultURL is the default server.
const defaultURL = "redis://localhost:6379"

// A Place is the namespace for commands, as named by flags, the environment or a context. It
// connects when first needed.
type Place struct {
	*out.Console

	redis, namespace, context string
	Timeout                   time.Duration

	located     bool
	location    Location
	locationErr error

	connected *qless.Client
}

// AddFlags adds the persistent flags of the program, including the console's.
func (p *Place) AddFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&p.redis, "redis", "", "URL of the server (default $QLESS_REDIS_URL)")
	flags.StringVar(&p.namespace, "namespace", "",
		`prefix of the keys (default $QLESS_NAMESPACE, or "ql:"), or a pattern`)
	flags.StringVar(&p.context, "context", "",
		"name of a server and a namespace, from qless context (default $QLESS_CONTEXT)")
	flags.DurationVar(&p.Timeout, "timeout", 30*time.Second,
		"time limit for the server, or for commands that wait")
	p.Console.AddFlags(flags)
	_ = root.RegisterFlagCompletionFunc("context", p.completeContext)
}

// A Location is a namespace of a server.
type Location struct {
	Redis     string // "" if none is named
	Namespace string // "" is the default
	from      string // the source of the server's name
}

// Where returns the location named by the flags, else by the environment, else by the context in
// use. The namespace of a context belongs to its server: it does not apply to a server named
// otherwise.
func (p *Place) Where() (Location, error) {
	if !p.located {
		p.location, p.locationErr = p.locate()
		p.located = true
	}
	return p.location, p.locationErr
}

func (p *Place) locate() (Location, error) {
	redis, named := os.Getenv("QLESS_REDIS_URL"), os.Getenv("QLESS_CONTEXT")
	spaces := cmp.Or(p.namespace, os.Getenv("QLESS_NAMESPACE"))
	switch {
	case p.redis != "" && p.context != "":
		return Location{}, out.Error(errors.New("--redis and --context can't be used together"))
	case p.redis != "":
		return Location{p.redis, spaces, "--redis"}, nil
	case p.context != "":
		return p.contextPlace(p.context, p.namespace, "--context")
	case redis != "" && named != "":
		return Location{}, out.Error(errors.New(
			"QLESS_REDIS_URL and QLESS_CONTEXT are both set: unset one, or use --redis or --context"))
	case redis != "":
		return Location{redis, spaces, "QLESS_REDIS_URL"}, nil
	case named != "":
		return p.contextPlace(named, spaces, "QLESS_CONTEXT")
	}
	file, err := p.loadContexts()
	if err != nil {
		return Location{}, err
	}
	if file.Current != "" {
		return p.contextPlace(file.Current, spaces, "the context in use")
	}
	return Location{"", spaces, "the default"}, nil
}

// contextPlace returns the location of a context, with the context's or a given namespace.
func (p *Place) contextPlace(name, namespace, from string) (Location, error) {
	file, err := p.loadContexts()
	if err != nil {
		return Location{}, err
	}
	c, found := file.Contexts[name]
	if !found {
		return Location{}, noContext(name)
	}
	from = fmt.Sprintf("context %q, by %s", name, from)
	return Location{c.Redis, cmp.Or(namespace, c.Namespace), from}, nil
}

// RedisURL returns the URL of the server to use.
func (p *Place) RedisURL() string {
	return cmp.Or(p.namedRedis(), defaultURL)
}

// namedRedis returns the URL of the server named by the user, or "".
func (p *Place) namedRedis() string {
	where, _ := p.Where() // connecting reports the error
	return where.Redis
}

// NamespaceName returns the namespace to use, or "" for the default.
func (p *Place) NamespaceName() string {
	where, _ := p.Where()
	return where.Namespace
}

// masked returns the URL of a server without its password.
func masked(redis string) string {
	parsed, err := url.Parse(redis)
	if err != nil || parsed.Opaque != "" {
		return "(a URL that can't be read)" // the password may be anywhere in the URL
	}
	options := parsed.Query()
	if options.Has("password") { // of the server, named by sentinels
		options.Set("password", "xxxxx")
		parsed.RawQuery = options.Encode()
	}
	return parsed.Redacted()
}

// ClientConfig returns the config of every client.
func (p *Place) ClientConfig() *qless.ClientConfig {
	return &qless.ClientConfig{Clock: Clock, Namespace: p.NamespaceName()}
}

// Client returns the client of the namespace named by the flags. It connects at the first call.
func (p *Place) Client(ctx context.Context) (*qless.Client, error) {
	if err := p.RefusePattern(); err != nil {
		return nil, err
	}
	return p.Dial(ctx)
}

// Dial is Client for a namespace or a pattern.
func (p *Place) Dial(ctx context.Context) (*qless.Client, error) {
	if p.connected != nil {
		return p.connected, nil
	}
	if _, err := p.Where(); err != nil {
		return nil, err
	}
	client, err := qless.Dial(ctx, p.RedisURL(), p.ClientConfig())
	if err != nil {
		return nil, err
	}
	p.connected = client
	return client, nil
}

// Close closes the connection, if there is one.
func (p *Place) Close() {
	if p.connected != nil {
		_ = p.connected.Close()
	}
}

// ServerName returns the address of the server, without secrets.
func (p *Place) ServerName() string {
	parsed, err := url.Parse(p.RedisURL())
	if err != nil {
		return "server"
	}
	return text.Clean(parsed.Host + strings.TrimRight(parsed.Path, "/"))
}

// Run returns the function of a command with a client and a time limit.
func (p *Place) Run(do Do) runFunc {
	return p.inTime(func(ctx context.Context, args []string) error {
		client, err := p.Client(ctx)
		if err != nil {
			return err
		}
		return do(ctx, client, args)
	})
}

// inTime returns the function of a command with a time limit.
func (p *Place) inTime(do func(ctx context.Context, args []string) error) runFunc {
	return func(command *cobra.Command, args []string) error {
		ctx, end := context.WithCancelCause(command.Context())
		defer end(nil)
		p.Watch = out.NewWatch(p.Timeout, end)
		defer p.Watch.Stop()
		err := do(ctx, args)
		if err != nil && context.Cause(ctx) == out.ErrTimeout {
			return fmt.Errorf("not done within %s: %w", p.Timeout, context.DeadlineExceeded)
		}
		return err
	}
}

// RunWaiting is Run for a command that waits: only an explicit --timeout limits it.
func (p *Place) RunWaiting(do Do) runFunc {
	return func(command *cobra.Command, args []string) error {
		return p.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			if !command.Flags().Changed("timeout") {
				p.Watch.Stop()
			}
			return do(ctx, client, args)
		})(command, args)
	}
}

// A Do runs a connected command.
type Do = func(ctx context.Context, client *qless.Client, args []string) error

// A runFunc is the function of a command.
type runFunc = func(*cobra.Command, []string) error
