package qless

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/script"
)

// DefaultNamespace is the prefix of the keys that clients of all languages share.
const DefaultNamespace = "ql:"

// A Client is the way into one namespace of one Redis. It is safe for concurrent use and
// holds no state of its own but the connection pool it was given.
//
// Every method that talks to the server takes a context and is one script, run atomically
// on the server, unless it says otherwise. Errors are of type [*Error].
type Client struct {
	rdb    redis.UniversalClient
	owned  bool // the pool was made by Dial
	prefix string
	clock  func() time.Time // nil for the server's
	runner *script.Runner
	worker string
	logger *slog.Logger

	batcher  *putBatcher      // nil when each put goes by itself
	replicas *script.Replicas // nil when puts don't wait for any
}

// An Option changes a client that is being made.
type Option func(*Client)

// WithNamespace sets the prefix of all keys and channels. Defaults to "ql:", which is what
// clients of other languages use. On a Redis Cluster all keys of a namespace must be in one
// slot, so it needs a hash tag: "{tenant}:ql:".
func WithNamespace(prefix string) Option {
	return func(c *Client) { c.prefix = prefix }
}

// WithClock sets where the time comes from. Defaults to the server's own clock, so that
// the clocks of the machines need not agree.
func WithClock(clock func() time.Time) Option {
	return func(c *Client) { c.clock = clock }
}

// WithLogger sets where the client reports what it can't return as an error, such as lost
// subscriptions. Defaults to [slog.Default].
func WithLogger(logger *slog.Logger) Option {
	return func(c *Client) { c.logger = logger }
}

// WithWorkerName sets the name under which the client pops and works jobs. Defaults to
// host-pid-random, which no other client has.
func WithWorkerName(name string) Option {
	return func(c *Client) { c.worker = name }
}

// New returns a client that uses a go-redis client: a single server's, a sentinel's or a
// cluster's. It does not talk to the server. An option that can't be used is [ErrInvalid],
// and so are a namespace without a hash tag on a cluster, and a [redis.Ring]: it would spread one
// namespace over several servers. To do that with jobs, see [Shard].
func New(rdb redis.UniversalClient, options ...Option) (*Client, error) {
	if rdb == nil {
		return nil, invalid("new", "", "no redis client")
	}
	c := &Client{
		rdb:    rdb,
		prefix: DefaultNamespace,
		worker: newWorkerName(),
	}
	for _, option := range options {
		option(c)
	}
	if c.logger == nil {
		c.logger = slog.Default()
	}
	if err := checkName("new", "namespace", c.prefix); err != nil {
		return nil, err
	}
	if err := checkName("new", "worker name", c.worker); err != nil {
		return nil, err
	}
	if _, ok := rdb.(*redis.Ring); ok {
		return nil, invalid("new", "", "a ring sends commands of one namespace to several servers: "+
			"make a client of each server, and spread jobs over them with Shard")
	}
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		if !hasHashTag(c.prefix) {
			return nil, invalid("new", "", "namespace %q has no hash tag, as in \"{tenant}:ql:\": "+
				"its keys would be spread over the cluster", c.prefix)
		}
		if cluster.Options().ReadOnly {
			return nil, invalid("new", "", "the cluster client reads from replicas, where no worker can be woken")
		}
	}
	if c.replicas != nil {
		if err := checkReplicas(rdb, c.replicas); err != nil {
			return nil, err
		}
	}
	c.runner = script.NewRunner(commands, rdb, c.prefix, c.clock)
	return c, nil
}

// Dial connects to the server of a URL such as redis://user:password@localhost:6379/0, checks that
// it answers, and returns a client to be closed with [Client.Close]. Special characters in the
// password are written percent-encoded, as in %2F for a slash. The scheme rediss is TLS, and unix a
// socket. A URL that can't be used is [ErrInvalid]; no error holds the password.
func Dial(ctx context.Context, url string, options ...Option) (*Client, error) {
	parsed, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	parsed.ContextTimeoutEnabled = true // a call ends with its context
	rdb := redis.NewClient(parsed)
	c, err := New(rdb, options...)
	if err == nil {
		c.owned = true
		err = wrap("dial", "", rdb.Ping(ctx).Err())
	}
	if err != nil {
		_ = rdb.Close()
		return nil, err
	}
	return c, nil
}

// Close closes the connections that [Dial] opened. A client made by [New] leaves the
// go-redis client open: it belongs to the caller.
func (c *Client) Close() error {
	if !c.owned {
		return nil
	}
	return wrap("close", "", c.rdb.Close())
}

// Namespace returns the prefix of the client's keys.
func (c *Client) Namespace() string { return c.prefix }

// WorkerName returns the name under which the client pops and works jobs.
func (c *Client) WorkerName() string { return c.worker }

// Queue returns a queue. It need not exist: a queue comes into being with its first job.
func (c *Client) Queue(name string) *Queue {
	return &Queue{client: c, name: name}
}

// as returns a client of the same namespace that pops and works jobs under another name.
func (c *Client) as(worker string) *Client {
	other := *c
	other.worker = worker
	return &other
}

// Config returns the settings of the namespace, which all its clients share.
func (c *Client) Config() *Config { return &Config{client: c} }

// run runs a command that may be about one job.
func (c *Client) run(ctx context.Context, op, jid string, args ...any) (any, error) {
	if c.replicas != nil && commands.Command(op).Replicated() {
		return c.runReplicated(ctx, op, jid, args...)
	}
	reply, err := c.runner.Run(ctx, op, args...)
	return reply, wrap(op, jid, err)
}

// newWorkerName returns host-pid-random.
func newWorkerName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	var random [4]byte
	_, _ = rand.Read(random[:]) // it never fails
	return fmt.Sprintf("%s-%d-%s", strings.ToValidUTF8(host, ""), os.Getpid(), hex.EncodeToString(random[:]))
}

// checkName errors unless a queue, jid, klass, tag or other name can be used: it is not
// empty, and survives the JSON of the replies.
func checkName(op, what, name string) error {
	if name == "" {
		return invalid(op, "", "the %s is empty", what)
	}
	if !utf8.ValidString(name) {
		return invalid(op, "", "the %s %q is not UTF-8", what, name)
	}
	return nil
}

// checkNames is checkName for each of at least one name.
func checkNames(op, what string, names []string) error {
	if len(names) == 0 {
		return invalid(op, "", "no %s is named", what)
	}
	for _, name := range names {
		if err := checkName(op, what, name); err != nil {
			return err
		}
	}
	return nil
}

// hasHashTag reports whether a Redis Cluster takes a part of the prefix for the slot.
func hasHashTag(prefix string) bool {
	_, rest, found := strings.Cut(prefix, "{")
	return found && strings.IndexByte(rest, '}') > 0
}

// anys makes script arguments of strings, after others.
func anys(first []any, rest ...string) []any {
	for _, s := range rest {
		first = append(first, s)
	}
	return first
}
