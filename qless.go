package qless

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/hub"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/script"
	"github.com/qless/qless-go/internal/wire"
)

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
	*connection
	worker  string
	hub     *hub.Hub                             // that of another client for a worker of a group
	observe func(ctx context.Context, call Call) // nil if the config has none

	// These are nil if unbatched; endBatcher also if each end waits for replicas.
	batcher         *putBatcher
	endBatcher      *endBatcher
	completeBatcher *completeBatcher
}

// A connection is what a client and its copies, which have other worker names, share.
type connection struct {
	rdb    redis.UniversalClient
	owned  bool // the pool was made by Dial
	prefix string
	clock  func() time.Time // nil to use the server's clock
	runner *script.Runner
	logger *slog.Logger

	unbatched bool             // each put is sent alone
	replicas  *script.Replicas // nil if puts don't wait for any
	waits     *waits
	receivers *receivers

	// These are nil if the config has none.
	headers     func(ctx context.Context) map[string]string
	nextHeaders func(ctx context.Context, headers map[string]string) map[string]string
	putObserver func(ctx context.Context, put Call) (context.Context, func(put Call))

	codec   Codec   // encodes, unless nil
	codecs  []Codec // decode
	maxData int     // -1 for no limit
}

// New returns a client that uses a go-redis client for a single server, a sentinel or a cluster. It
// does not talk to the server. A nil config means the defaults. The error is [ErrInvalid] if a field
// of the config is invalid, rdb is nil, the namespace has no hash tag on a cluster, or rdb is a
// [redis.Ring], which would spread one namespace over several servers. To spread jobs over servers,
// see [NewShards].
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
		headers:     full.Headers,
		nextHeaders: full.NextHeaders,
		putObserver: full.PutObserver,
		codec:       full.Codec,
		codecs:      full.codecs(),
		maxData:     full.MaxData,
	}}
	c.startBatching()
	c.hub = hub.New(c.hubConfig())
	c.waits = newWaits(c)
	c.receivers = newReceivers()
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
	other := &Client{connection: c.connection, worker: worker, hub: c.hub, observe: c.observe}
	other.startBatching()
	return other
}

// hubConfig returns the client as a hub needs it.
func (c *Client) hubConfig() hub.Config {
	return hub.Config{
		Redis: c.rdb, Prefix: c.prefix, Worker: c.worker, Warn: c.warn, Do: c.Do, PutInto: c.putInto,
	}
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

// Do runs a command of the script, with the client's namespace, clock, observer and rules for sending
// a command again. It is meant for tools: the headers of lua/commands describe the commands, their
// arguments after NOW and their replies.
//
// An argument is a string, a whole number, a [time.Time] or a [time.Duration], which are sent as seconds,
// or a [PutOption]. Options are written as pairs of a name and a value, all of them in the
// place of the first, as in a put; [JID] and [Unique], which need the rest of a put, are
// [ErrInvalid]. The reply is nil, a string, an int64 or a []any of these. A command that the script
// does not have is [ErrInvalid].
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

// plainText returns a string or a whole number, of whatever type, as text.
func plainText(arg any) (string, bool) {
	switch v := reflect.ValueOf(arg); v.Kind() {
	case reflect.String:
		return v.String(), true
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10), true
	}
	return "", false
}

// optionPairs returns the pairs of arguments for the options of a put of a job that exists.
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

// Decode returns data that a reply of [Client.Do] contains as it is stored: JSON, or the envelope of a
// [Codec]. Data that no codec of the client can decode is returned as it is, with [ErrInvalid].
func (c *Client) Decode(stored []byte) (json.RawMessage, error) {
	return c.decode("", "data", string(stored))
}
