package qless

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/script"
)

// DefaultNamespace is the prefix of the keys that clients of all languages share.
const DefaultNamespace = "ql:"

// A Client gives access to one namespace of one Redis server or cluster. It is safe for concurrent
// use.
//
// Besides the connections of its go-redis client, it has one for what the server tells its workers,
// its waits and its calls of Receive, while there are any. A subscription of [Client.Events] has one
// of its own.
//
// Unless it says otherwise, every method that takes a context runs one script, atomically, on the
// server. Errors are of type [*Error].
type Client struct {
	rdb    redis.UniversalClient
	owned  bool // the pool was made by Dial
	prefix string
	clock  func() time.Time // nil to use the server's clock
	runner *script.Runner
	worker string
	logger *slog.Logger

	unbatched bool             // each put is sent alone
	replicas  *script.Replicas // nil if puts don't wait for any
	hub       *hub             // shared by all copies of the client, as are these two
	waits     *waits
	receivers *receivers

	// These are nil if unbatched; endBatcher also if each end waits for replicas.
	batcher         *putBatcher
	endBatcher      *endBatcher
	completeBatcher *completeBatcher

	observe      func(ctx context.Context, call Call) // nil without an observer
	headerFuncs  []func(ctx context.Context) map[string]string
	nextHeaders  func(ctx context.Context, headers map[string]string) map[string]string
	putObservers []func(ctx context.Context, put Call) (context.Context, func(put Call))

	codecs  []Codec // the first one encodes
	maxData int     // -1 for no limit
}

// A ClientOption configures a client, for [New] and [Dial]: [WithClock], [WithCodec],
// [WithHeaders], [WithLogger], [WithMaxData], [WithNamespace], [WithObserver],
// [WithPutObserver], [WithReplicas], [WithWorkerName], [WithoutBatching].
type ClientOption func(*Client)

// WithNamespace sets the prefix of all keys and channels. Defaults to "ql:", which is what clients
// of other languages use. On a Redis Cluster, the keys of a namespace must be in one slot, so it
// needs a hash tag: "{tenant}:ql:".
func WithNamespace(prefix string) ClientOption {
	return func(c *Client) { c.prefix = prefix }
}

// WithClock sets the source of the time. Defaults to the server's clock, so that the clocks of
// client machines need not agree.
func WithClock(clock func() time.Time) ClientOption {
	return func(c *Client) { c.clock = clock }
}

// WithLogger sets the logger for what the client can't return as an error, such as a lost
// subscription. Defaults to [slog.Default]. go-redis logs failed connections by itself: see
// SetLogger there.
func WithLogger(logger *slog.Logger) ClientOption {
	return func(c *Client) { c.logger = logger }
}

// WithWorkerName sets the name under which the client pops and works jobs. Defaults to
// host-pid-random, which no other client has. A [Worker] has a name of its own: see [WorkerConfig].
func WithWorkerName(name string) ClientOption {
	return func(c *Client) { c.worker = name }
}

// New returns a client that uses a go-redis client for a single server, a sentinel or a cluster. It
// does not talk to the server. The error is [ErrInvalid] if an option is invalid, rdb is nil, the
// namespace has no hash tag on a cluster, or rdb is a [redis.Ring], which would spread one
// namespace over several servers. To spread jobs over servers, see [NewShards].
func New(rdb redis.UniversalClient, options ...ClientOption) (*Client, error) {
	if isNil(rdb) {
		return nil, invalid("new", "", "no redis client")
	}
	c := &Client{
		rdb:    rdb,
		prefix: DefaultNamespace,
		worker: newWorkerName(),
	}
	for i, option := range options {
		if option == nil {
			return nil, invalid("new", "", "options[%d] is nil", i)
		}
		option(c)
	}
	if c.logger == nil {
		c.logger = slog.Default()
	}
	c.logger = redisx.SafeLogger(c.logger)
	c.maxData = cmp.Or(c.maxData, defaultMaxData)
	if err := c.check(); err != nil {
		return nil, err
	}
	c.runner = script.NewRunner(commands, rdb, c.prefix, c.clock)
	c.startBatching()
	c.hub = newHub(c)
	c.waits = newWaits(c)
	c.receivers = newReceivers(c)
	return c, nil
}

// startBatching gives the client batchers of its own, unless it is not to batch.
func (c *Client) startBatching() {
	if c.unbatched {
		return
	}
	c.batcher, c.completeBatcher = newPutBatcher(c), newCompleteBatcher(c)
	if c.replicas == nil {
		c.endBatcher = newEndBatcher(c)
	}
}

// isNil reports whether rdb is nil or a nil pointer.
func isNil(rdb redis.UniversalClient) bool {
	if rdb == nil {
		return true
	}
	v := reflect.ValueOf(rdb)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// check returns an error unless the options and the go-redis client fit together.
func (c *Client) check() error {
	if err := c.checkCodecs(); err != nil {
		return err
	}
	if err := checkName("new", "namespace", c.prefix); err != nil {
		return err
	}
	if err := checkName("new", "worker name", c.worker); err != nil {
		return err
	}
	if _, ok := c.rdb.(*redis.Ring); ok {
		return invalid("new", "", "a ring sends commands of one namespace to several servers: "+
			"make a client for each server, and spread jobs over them with NewShards")
	}
	if cluster, ok := c.rdb.(*redis.ClusterClient); ok {
		if !hasHashTag(c.prefix) {
			return invalid("new", "", "namespace %q has no hash tag, as in \"{tenant}:ql:\": "+
				"its keys would be spread over the cluster", c.prefix)
		}
		if cluster.Options().ReadOnly {
			return invalid("new", "", "the cluster client reads from replicas, "+
				"where no worker can be woken")
		}
	}
	if c.replicas != nil {
		return checkReplicas(c.rdb, c.replicas)
	}
	return nil
}

// Close ends all waits ([Client.Wait]) and calls of [Client.Receive], and closes the connections that
// [Dial] opened. The go-redis client that was given to [New] belongs to the caller and stays open.
// The client's workers go on with it, until they are stopped.
func (c *Client) Close() error {
	c.receivers.close()
	c.waits.close()
	c.receivers.wait()
	if !c.owned {
		return nil
	}
	return wrap("close", "", c.rdb.Close())
}

// Namespace returns the prefix of the client's keys.
func (c *Client) Namespace() string { return c.prefix }

// WorkerName returns the worker name under which the client pops and runs jobs.
func (c *Client) WorkerName() string { return c.worker }

// Queue returns the queue with this name. It need not exist: putting the first job creates it.
func (c *Client) Queue(name string) *Queue {
	return &Queue{client: c, name: name}
}

// as returns a client for the same namespace with another worker name.
func (c *Client) as(worker string) *Client {
	other := *c
	other.worker = worker
	other.startBatching()
	return &other
}

// Config returns the settings of the namespace, which all of its clients share.
func (c *Client) Config() *Config { return &Config{client: c} }

// run runs a command. The jid is the job that it is about, if any.
func (c *Client) run(ctx context.Context, op, jid string, args ...any) (any, error) {
	return c.call(ctx, op, jid, false, args)
}

// runNew is run for a command whose arguments say that all jobs which it puts are new, so that it
// may be sent again.
func (c *Client) runNew(ctx context.Context, op, jid string, args ...any) (any, error) {
	return c.call(ctx, op, jid, true, args)
}

func (c *Client) call(
	ctx context.Context, op, jid string, isNew bool, args []any,
) (any, error) {
	if c.observe == nil {
		return c.send(ctx, op, jid, isNew, args)
	}
	sent := time.Now()
	reply, err := c.send(ctx, op, jid, isNew, args)
	c.observed(ctx, op, jid, args, reply, sent, err)
	return reply, err
}

func (c *Client) send(
	ctx context.Context, op, jid string, isNew bool, args []any,
) (any, error) {
	if c.replicas != nil && commands.Facts(op).Replicated {
		return c.runReplicated(ctx, op, jid, isNew, args)
	}
	run := c.runner.Run
	if isNew {
		run = c.runner.RunNew
	}
	reply, err := run(ctx, op, args...)
	return reply, wrap(op, jid, err)
}

// newWorkerName returns host-pid-random.
func newWorkerName() string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails
	return fmt.Sprintf("%s-%d-%s", hostName(), os.Getpid(), hex.EncodeToString(random[:]))
}

// checkName returns an error if the name of a queue, a jid, a klass, a tag or the like is empty, or
// would not survive the JSON of the replies.
func checkName(op, what, name string) error {
	if name == "" {
		return invalid(op, "", "the %s is empty", what)
	}
	if !utf8.ValidString(name) {
		return invalid(op, "", "the %s %q is not UTF-8", what, name)
	}
	return nil
}

// checkNames checks at least one name.
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

// hasHashTag reports whether the prefix determines the slot on a Redis Cluster.
func hasHashTag(prefix string) bool {
	_, rest, found := strings.Cut(prefix, "{")
	return found && strings.IndexByte(rest, '}') > 0
}

// anys appends strings to script arguments.
func anys(first []any, rest ...string) []any {
	for _, s := range rest {
		first = append(first, s)
	}
	return first
}
