package qless

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/hub"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/script"
	"github.com/qless/qless-go/internal/wire"
)

// A Client gives access to one namespace of one Redis server or cluster, and is safe for concurrent
// use.
//
// Besides the connections of the go-redis client, a Client has one for messages to its workers and
// waits, as long as there are any.
//
// Unless noted otherwise, every method that takes a context runs one script on the server,
// atomically. Errors are of type [*Error].
type Client struct {
	*connection
	worker  string
	hub     *hub.Hub                                // another client's hub for a worker of a group
	observe func(ctx context.Context, call Command) // nil if the config has none

	batcher *putBatcher // nil if unbatched
}

// A connection is the state that a client shares with copies under other worker names.
type connection struct {
	rdb    redis.UniversalClient
	owned  bool // the pool was made by Dial
	prefix string
	clock  func() time.Time // nil to use the server's clock
	runner *script.Runner
	logger *slog.Logger

	unbatched bool             // each put is sent alone
	replicas  *script.Replicas // nil if puts don't wait for any
	waits     *hub.Waits

	attaching sync.Once // sets attached, unless the client was closed first
	attached  inside.Attached

	// These are nil if the config has none.
	headers     func(ctx context.Context) (map[string]string, error)
	nextHeaders func(ctx context.Context, headers map[string]string) map[string]string
	putObserver func(ctx context.Context, put Command) (context.Context, func(put Command))

	codec   Codec   // encodes, unless nil
	codecs  []Codec // decode
	maxData int     // -1 for no limit
}

// New returns a client that uses a go-redis client for a single server, a sentinel or a cluster,
// without talking to the server. A nil config means the defaults. The error is [ErrInvalid] if a
// field of the config is invalid, rdb is nil or a [redis.Ring], or the namespace has no hash tag on
// a cluster.
func New(rdb redis.UniversalClient, config *ClientConfig) (*Client, error) {
	full := config.withDefaults()
	if err := full.check(rdb); err != nil {
		return nil, err
	}
	c := &Client{worker: full.WorkerName, observe: full.Observer, connection: &connection{
		rdb:         rdb,
		prefix:      full.Namespace,
		clock:       full.Clock,
		runner:      script.NewRunner(commands, rdb, full.Namespace, full.Clock),
		logger:      full.Logger,
		unbatched:   full.Unbatched,
		replicas:    full.replicas(),
		headers:     full.guardedHeaders(),
		nextHeaders: full.NextHeaders,
		putObserver: full.PutObserver,
		codec:       full.Codec,
		codecs:      full.codecs(),
		maxData:     full.MaxData,
	}}
	if !c.unbatched {
		c.batcher = newPutBatcher(c)
	}
	c.hub = hub.New(c.hubConfig())
	c.waits = hub.NewWaits(c.hub)
	return c, nil
}

// Close ends all waits ([Client.Wait]) and calls that take jobs, and closes the connections that
// [Dial] opened. A go-redis client passed to [New] belongs to the caller and stays open; the
// client's workers keep using it until stopped.
func (c *Client) Close() error {
	c.attaching.Do(func() {})
	if c.attached != nil {
		c.attached.Close()
	}
	c.waits.Close()
	if c.attached != nil {
		c.attached.Wait()
	}
	if !c.owned {
		return nil
	}
	return wrap("close", "", c.rdb.Close())
}

// Redis returns the underlying go-redis client. [Client.Close] closes it if [Dial] made it.
func (c *Client) Redis() redis.UniversalClient { return c.rdb }

// Namespace returns the prefix of the client's keys.
func (c *Client) Namespace() string { return c.prefix }

// WorkerName returns the name used by the client to pop and run jobs.
func (c *Client) WorkerName() string { return c.worker }

// Queue returns the queue with this name. It need not exist: putting the first job creates it.
func (c *Client) Queue(name string) *Queue {
	return &Queue{client: c, name: name}
}

// as returns a client for the same namespace with another worker name.
func (c *Client) as(worker string) *Client {
	other := &Client{connection: c.connection, worker: worker, hub: c.hub, observe: c.observe}
	if !c.unbatched {
		other.batcher = newPutBatcher(other)
	}
	return other
}

// hubConfig returns the configuration of the client's hub.
func (c *Client) hubConfig() hub.Config {
	return hub.Config{
		Redis: c.rdb, Prefix: c.prefix, Worker: c.worker, Warn: c.warn, Do: c.Do,
	}
}

// run runs a command. jid is the job concerned, if there is one.
func (c *Client) run(ctx context.Context, op, jid string, args ...any) (any, error) {
	return c.call(ctx, op, jid, false, args)
}

// runNew is like run, for a command with only new jobs, safe to send again.
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
	return asInvalid(op, "", jobopts.CheckName(what, name))
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

// checkJobName returns an error if no job can have the jid.
func checkJobName(op, jid string) error {
	if err := checkName(op, "jid", jid); err != nil {
		return err
	}
	return asInvalid(op, jid, jobopts.CheckJID(jid))
}

// checkJobNames returns an error if no job can have one of the jids.
func checkJobNames(op string, jids []string) error {
	for _, jid := range jids {
		if err := checkJobName(op, jid); err != nil {
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

// Do runs a command of the script with the client's namespace, clock, observer and retries. Do is
// meant for tools: the headers of lua/commands describe the commands, their arguments after NOW and
// their replies.
//
// Each argument is a string, an integer, a [time.Time] or [time.Duration], both sent in seconds, or
// a [PutOption]. All options are sent in place of the first, as pairs of a name and a value. [JID],
// [Unique] and an unknown command are [ErrInvalid]. The reply is nil, a string, an int64 or a []any
// of these.
func (c *Client) Do(ctx context.Context, command string, args ...any) (any, error) {
	if _, known := commandFacts[command]; !known {
		return nil, invalid("do", "", "the script has no command %q", command)
	}
	var sent []any
	var options []PutOption
	place := 0 // of the options
	for i, arg := range args {
		switch v := arg.(type) {
		case PutOption:
			if len(options) == 0 {
				place = len(sent)
			}
			options = append(options, v)
		case time.Time:
			sent = append(sent, wire.FormatTime(v))
		case time.Duration:
			sent = append(sent, wire.FormatSeconds(v))
		default:
			text, ok := plainText(v)
			if !ok {
				return nil, invalid(command, "", "args[%d] is a %T", i, arg)
			}
			sent = append(sent, text)
		}
	}
	if len(options) > 0 {
		pairs, err := optionPairs(command, options)
		if err != nil {
			return nil, err
		}
		sent = append(sent[:place:place], append(pairs, sent[place:]...)...)
	}
	return c.run(ctx, command, "", sent...)
}

// plainText returns a string or an integer of any type as text.
func plainText(arg any) (string, bool) {
	switch v := reflect.ValueOf(arg); v.Kind() {
	case reflect.String:
		return v.String(), true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10), true
	}
	return "", false
}

// optionPairs returns the pairs of arguments for the options of a put of an existing job.
func optionPairs(op string, options []PutOption) ([]any, error) {
	var o jobopts.Options
	if err := applyOptions(op, "", &o, options, PutOption.applyPut); err != nil {
		return nil, err
	}
	switch {
	case o.JID != "":
		return nil, invalid(op, "", "JID can't be used here")
	case o.Unique != nil:
		return nil, invalid(op, "", "Unique can't be used here")
	}
	if err := checkOptions(op, "", &o); err != nil {
		return nil, err
	}
	var pairs []any
	if o.Delay != nil {
		pairs = append(pairs, "delay", o.DelayText())
	}
	return o.PutArgs(pairs, false), nil
}

// Decode decodes stored data from a reply of [Client.Do]: JSON, or the envelope of a [Codec]. Data
// that no codec of the client can decode is returned unchanged, with [ErrInvalid].
func (c *Client) Decode(stored []byte) (json.RawMessage, error) {
	return c.decode("", "data", bytes.Clone(stored))
}

// warn logs an error of the client's hub.
func (c *Client) warn(message string, err error, args ...any) {
	c.logger.Warn("qless: "+message, redisx.WithHint(err, args...)...)
}

// hostName returns the name of this machine.
func hostName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "localhost"
	}
	return strings.ToValidUTF8(host, "")
}

// DefaultNamespace is the key prefix shared by clients in all languages.
const DefaultNamespace = "ql:"

// A ClientConfig configures one or more clients, for [New] and [Dial]. No field is required.
// Functions must be safe for concurrent use. To extend a function that is set, wrap it.
type ClientConfig struct {
	// Clock is the source of the time, meant for tests. If it does not return, the time is this
	// machine's.
	//
	// Defaults to the server's clock, so that the clocks of client machines need not agree.
	Clock func() time.Time

	// Codec encodes the data and results that the client stores, and decodes the data that it reads,
	// except data without an envelope. [Unique] and MaxData apply before data is encoded.
	//
	// If data can't be decoded, Job.Data is the envelope, and [Job.Unmarshal] returns the reason. A
	// worker fails a job with an unknown codec in the group <klass>:data, and retries a job for which
	// Decode returns an error.
	//
	// Defaults to nil: data is stored as JSON.
	Codec Codec

	// Headers returns headers for each job that the client puts, by the context of the put. [Headers]
	// of the put replace headers with the same key, and Headers(nil) leaves the job without any.
	// [Job.Next] and [Job.Move] don't call Headers. After a panic, the put is [ErrInvalid].
	Headers func(ctx context.Context) map[string]string

	// Logger receives problems outside of a call, such as a lost subscription. go-redis logs failed
	// connections by itself: see its SetLogger.
	//
	// Defaults to [slog.Default].
	Logger *slog.Logger

	// MaxData is the maximum size in bytes of the data or the result of a job, as JSON. Larger ones
	// are [ErrInvalid]. Large values are better stored elsewhere, and their names in the jobs.
	//
	// Defaults to 8 MiB. The value -1 means no limit.
	MaxData int

	// Namespace is the prefix of all keys and channels. On a Redis Cluster, a hash tag must keep all
	// keys in one slot: "{tenant}:ql:".
	//
	// Defaults to [DefaultNamespace].
	Namespace string

	// NextHeaders returns the headers of a job that [Job.Next] moves to another queue, by the context
	// of the call and a copy of the job's headers. [Headers] of the call take precedence over the
	// result. NextHeaders is not called for Headers(nil), nor for a handler that returns [Next]. A
	// result of more than 8 KiB, or a panic, changes no headers.
	NextHeaders func(ctx context.Context, headers map[string]string) map[string]string

	// Observer is called after every command of the client and its workers. The command waits, so
	// Observer must return quickly. Puts of several goroutines in one script are one command,
	// "put.many", with the values of the first put's context; PutObserver sees each put.
	//
	// A panic is logged. A call that takes a second is logged, and no longer waited for.
	Observer func(ctx context.Context, call Command)

	// OldCodecs are codecs that only decode, for jobs that were stored before Codec was used. No two
	// codecs of a client may have the same name.
	OldCodecs []Codec

	// PutObserver is called before each call that puts jobs, such as [Queue.Put] and [Batch.Add], but
	// not for the schedules of a worker. The put is "put", or "put.many" for several jobs.
	//
	// The jobs are put with the returned context, which is also passed to Headers: the headers of the
	// jobs can name a span that begins here. The returned function, unless nil, is called when the put
	// is over, with the JID, the Duration and the Err. A panic is logged.
	PutObserver func(ctx context.Context, put Command) (context.Context, func(put Command))

	// ReplicaTimeout is the maximum time to wait for the Replicas of a put.
	//
	// Defaults to 1 s. The minimum is 1 ms.
	ReplicaTimeout time.Duration

	// Replicas is the number of replicas that must have a job before the put returns, so that the job
	// outlives the loss of the master. If fewer have confirmed it by the ReplicaTimeout, the job is
	// put anyway, and the error is [ErrNotReplicated]. Repeat the put with [IfAbsent] to learn when
	// the job is safe. It should be the number of all replicas: with fewer, a replica without the job
	// may become the master.
	//
	// Defaults to 0: puts do not wait.
	Replicas int

	// Unbatched sends each put by itself, and each call of package lease. By default, concurrent puts
	// share scripts: while one is in flight, the others wait, and the next one takes them together,
	// which saves most of the server's time.
	Unbatched bool

	// WorkerName is the client's name for popping and running jobs. A [Worker] has a name of its own:
	// see [WorkerConfig].
	//
	// Defaults to a unique name of the form host-pid-random.
	WorkerName string
}

// withDefaults returns a copy of the config, which may be nil.
func (c *ClientConfig) withDefaults() ClientConfig {
	var full ClientConfig
	if c != nil {
		full = *c
	}
	full.Logger = cmp.Or(full.Logger, slog.Default())
	full.guard()
	full.MaxData = cmp.Or(full.MaxData, defaultMaxData)
	full.Namespace = cmp.Or(full.Namespace, DefaultNamespace)
	full.ReplicaTimeout = cmp.Or(full.ReplicaTimeout, time.Second)
	full.WorkerName = cmp.Or(full.WorkerName, newWorkerName())
	return full
}

// check returns an error unless the config, with its defaults, fits the go-redis client.
func (c *ClientConfig) check(rdb redis.UniversalClient) error {
	if redisx.IsNil(rdb) {
		return invalid("new", "", "no redis client")
	}
	if c.MaxData < noLimit {
		return invalid("new", "", "MaxData %d is negative, and not -1", c.MaxData)
	}
	if err := checkCodecs(c.codecs()); err != nil {
		return err
	}
	if err := checkName("new", "namespace", c.Namespace); err != nil {
		return err
	}
	if err := checkName("new", "worker name", c.WorkerName); err != nil {
		return err
	}
	if err := checkServers(rdb, c.Namespace); err != nil {
		return err
	}
	return c.checkReplicas(rdb)
}

// checkServers returns an error if the keys of the namespace would be spread over several servers.
func checkServers(rdb redis.UniversalClient, namespace string) error {
	if _, ok := rdb.(*redis.Ring); ok {
		return invalid("new", "", "a ring sends commands of one namespace to several servers: "+
			"make a client for each server, and spread jobs over them with package shards")
	}
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		return nil
	}
	if !hasHashTag(namespace) {
		return invalid("new", "", "namespace %q has no hash tag, as in \"{tenant}:ql:\": "+
			"its keys would be spread over the cluster", namespace)
	}
	if cluster.Options().ReadOnly {
		return invalid("new", "", "the cluster client reads from replicas, "+
			"where no worker can be woken")
	}
	return nil
}

// checkReplicas returns an error if the client can't wait for the replicas.
func (c *ClientConfig) checkReplicas(rdb redis.UniversalClient) error {
	if c.Replicas < -1 {
		return invalid("new", "", "Replicas %d is negative, and not -1", c.Replicas)
	}
	if c.ReplicaTimeout < time.Millisecond {
		return invalid("new", "", "ReplicaTimeout %v is less than 1ms", c.ReplicaTimeout)
	}
	if c.Replicas > 0 && !script.CanWait(rdb) {
		return invalid("new", "", "replicas can't be waited for with a %T", rdb)
	}
	return nil
}

// codecs returns all codecs for decoding.
func (c *ClientConfig) codecs() []Codec {
	if c.Codec == nil {
		return slices.Clone(c.OldCodecs)
	}
	return slices.Concat([]Codec{c.Codec}, c.OldCodecs)
}

// replicas returns the replicas to wait for after a put, or nil.
func (c *ClientConfig) replicas() *script.Replicas {
	if c.Replicas <= 0 {
		return nil
	}
	return &script.Replicas{Count: c.Replicas, Timeout: c.ReplicaTimeout}
}
