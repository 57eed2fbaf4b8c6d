package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/qless/qless-go"
)

// defaultURL is the server used when none is named.
const defaultURL = "redis://localhost:6379"

// A location is a namespace of a server.
type location struct {
	redis     string // "" if none is named
	namespace string // "" is the default
	from      string // the source of the server's name
}

// where returns the location named by the flags, else by the environment, else by the context in
// use. The namespace of a context belongs to its server: it does not apply to a server named
// otherwise.
func (a *app) where() (location, error) {
	if !a.located {
		a.location, a.locationErr = a.locate()
		a.located = true
	}
	return a.location, a.locationErr
}

func (a *app) locate() (location, error) {
	redis, named := os.Getenv("QLESS_REDIS_URL"), os.Getenv("QLESS_CONTEXT")
	spaces := cmp.Or(a.namespace, os.Getenv("QLESS_NAMESPACE"))
	switch {
	case a.redis != "" && a.context != "":
		return location{}, usageError{errors.New("--redis and --context can't be used together")}
	case a.redis != "":
		return location{a.redis, spaces, "--redis"}, nil
	case a.context != "":
		return a.contextPlace(a.context, a.namespace, "--context")
	case redis != "" && named != "":
		return location{}, usageError{errors.New(
			"QLESS_REDIS_URL and QLESS_CONTEXT are both set: unset one, or use --redis or --context")}
	case redis != "":
		return location{redis, spaces, "QLESS_REDIS_URL"}, nil
	case named != "":
		return a.contextPlace(named, spaces, "QLESS_CONTEXT")
	}
	file, err := a.loadContexts()
	if err != nil {
		return location{}, err
	}
	if file.Current != "" {
		return a.contextPlace(file.Current, spaces, "the context in use")
	}
	return location{"", spaces, "the default"}, nil
}

// contextPlace returns the location of a context, with its own namespace or a given one.
func (a *app) contextPlace(name, namespace, from string) (location, error) {
	file, err := a.loadContexts()
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
func (a *app) redisURL() string {
	return cmp.Or(a.namedRedis(), defaultURL)
}

// namedRedis returns the URL of the server that the user has named, or "".
func (a *app) namedRedis() string {
	where, _ := a.where() // connecting reports the error
	return where.redis
}

// namespaceName returns the namespace to use, or "" for the default.
func (a *app) namespaceName() string {
	where, _ := a.where()
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
func (a *app) clientConfig() *qless.ClientConfig {
	return &qless.ClientConfig{Clock: testClock, Namespace: a.namespaceName()}
}
