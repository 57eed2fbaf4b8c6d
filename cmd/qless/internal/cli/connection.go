package cli

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
	"github.com/qless/qless-go/cmd/qless/internal/text"
)

// testClock is the clock of the server, which tests set.
var testClock func() time.Time

// defaultURL is the server used when none is named.
const defaultURL = "redis://localhost:6379"

// A place is the namespace that commands work on, as flags, the environment or a context name it.
// It connects when it is first needed.
type place struct {
	*console

	redis, namespace, context string
	timeout                   time.Duration

	located     bool
	location    location
	locationErr error

	connected *qless.Client
}

func newPlace(c *console) *place { return &place{console: c} }

// addFlags adds the flags of all commands, with those of the console.
func (p *place) addFlags(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&p.redis, "redis", "", "URL of the server (default $QLESS_REDIS_URL)")
	flags.StringVar(&p.namespace, "namespace", "",
		`prefix of the keys (default $QLESS_NAMESPACE, or "ql:"), or a pattern`)
	flags.StringVar(&p.context, "context", "",
		"name of a server and a namespace, from qless context (default $QLESS_CONTEXT)")
	flags.DurationVar(&p.timeout, "timeout", 30*time.Second,
		"time limit for the server, or for commands that wait")
	p.console.addFlags(flags)
	_ = root.RegisterFlagCompletionFunc("context", p.completeContext)
}

// A location is a namespace of a server.
type location struct {
	redis     string // "" if none is named
	namespace string // "" is the default
	from      string // the source of the server's name
}

// where returns the location named by the flags, else by the environment, else by the context in
// use. The namespace of a context belongs to its server: it does not apply to a server named
// otherwise.
func (p *place) where() (location, error) {
	if !p.located {
		p.location, p.locationErr = p.locate()
		p.located = true
	}
	return p.location, p.locationErr
}

func (p *place) locate() (location, error) {
	redis, named := os.Getenv("QLESS_REDIS_URL"), os.Getenv("QLESS_CONTEXT")
	spaces := cmp.Or(p.namespace, os.Getenv("QLESS_NAMESPACE"))
	switch {
	case p.redis != "" && p.context != "":
		return location{}, usageError{errors.New("--redis and --context can't be used together")}
	case p.redis != "":
		return location{p.redis, spaces, "--redis"}, nil
	case p.context != "":
		return p.contextPlace(p.context, p.namespace, "--context")
	case redis != "" && named != "":
		return location{}, usageError{errors.New(
			"QLESS_REDIS_URL and QLESS_CONTEXT are both set: unset one, or use --redis or --context")}
	case redis != "":
		return location{redis, spaces, "QLESS_REDIS_URL"}, nil
	case named != "":
		return p.contextPlace(named, spaces, "QLESS_CONTEXT")
	}
	file, err := p.loadContexts()
	if err != nil {
		return location{}, err
	}
	if file.Current != "" {
		return p.contextPlace(file.Current, spaces, "the context in use")
	}
	return location{"", spaces, "the default"}, nil
}

// contextPlace returns the location of a context, with its own namespace or a given one.
func (p *place) contextPlace(name, namespace, from string) (location, error) {
	file, err := p.loadContexts()
	if err != nil {
		return location{}, err
	}
	c, found := file.Contexts[name]
	if !found {
		return location{}, noContext(name)
	}
	from = fmt.Sprintf("context %q, by %s", name, from)
	return location{c.Redis, cmp.Or(namespace, c.Namespace), from}, nil
}

// redisURL returns the URL of the server to use.
func (p *place) redisURL() string {
	return cmp.Or(p.namedRedis(), defaultURL)
}

// namedRedis returns the URL of the server that the user has named, or "".
func (p *place) namedRedis() string {
	where, _ := p.where() // connecting reports the error
	return where.redis
}

// namespaceName returns the namespace to use, or "" for the default.
func (p *place) namespaceName() string {
	where, _ := p.where()
	return where.namespace
}

// masked returns the URL of a server without its password.
func masked(redis string) string {
	parsed, err := url.Parse(redis)
	if err != nil || parsed.Opaque != "" {
		return "(a URL that can't be read)" // the password may be anywhere in it
	}
	options := parsed.Query()
	if options.Has("password") { // of the server, which sentinels name
		options.Set("password", "xxxxx")
		parsed.RawQuery = options.Encode()
	}
	return parsed.Redacted()
}

// clientConfig returns the config of every client.
func (p *place) clientConfig() *qless.ClientConfig {
	return &qless.ClientConfig{Clock: testClock, Namespace: p.namespaceName()}
}

// client returns the client of the namespace that the flags name. It connects at the first call.
func (p *place) client(ctx context.Context) (*qless.Client, error) {
	if err := p.refusePattern(); err != nil {
		return nil, err
	}
	return p.dial(ctx)
}

// dial is client for a namespace that may be a pattern.
func (p *place) dial(ctx context.Context) (*qless.Client, error) {
	if p.connected != nil {
		return p.connected, nil
	}
	if _, err := p.where(); err != nil {
		return nil, err
	}
	client, err := qless.Dial(ctx, p.redisURL(), p.clientConfig())
	if err != nil {
		return nil, err
	}
	p.connected = client
	return client, nil
}

func (p *place) close() {
	if p.connected != nil {
		_ = p.connected.Close()
	}
}

// serverName returns the address of the server, without secrets.
func (p *place) serverName() string {
	parsed, err := url.Parse(p.redisURL())
	if err != nil {
		return "server"
	}
	return text.Clean(parsed.Host + strings.TrimRight(parsed.Path, "/"))
}
