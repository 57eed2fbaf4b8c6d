package qless

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// A UniqueOption is returned by [Unique].
type UniqueOption struct {
	parts    []any
	key      string // in place of the parts
	started  bool
	window   *time.Duration
	replaces bool
	keepsDue bool
	within   *time.Duration
}

// Unique claims a key for a job, so that no other job of the namespace can be put with the same key
// until the job is complete for good, has failed, or was canceled. The key is made of the parts,
// which are compared as JSON, in their order: Unique("invoice", 7) and Unique("invoice", "7") claim
// different keys. Without any parts, it is made of the job's klass and data. The queue is not part
// of the key.
//
// A put whose key another job holds changes nothing. Its error is [ErrExists], with the jid of the
// holder. The server decides, so of several puts at once exactly one puts the job. A job never
// stands in the way of its own put with the same [JID].
//
// Only puts look at the key. A job that failed, and is unfailed or put again without this option,
// runs even if another job has its key by then; otherwise it claims it again. A job with a key
// keeps it when it is retried or goes on to another queue.
//
// A part that is nil or an empty string, one that can't be JSON, or a key of more than 512 bytes is
// [ErrInvalid].
func Unique(parts ...any) UniqueOption { return UniqueOption{parts: parts} }

// UntilStarted lets another job with the same key be put while the job runs, for instance by its
// own handler. If the job is retried, it holds the key again while it waits, unless another job
// has claimed the key. It can't be used with For.
func (o UniqueOption) UntilStarted() UniqueOption {
	o.started = true
	return o
}

// For holds the key for this time after the put, whatever becomes of the job, unless it is
// canceled. It is at least 1 ms. It can't be used with UntilStarted.
func (o UniqueOption) For(d time.Duration) UniqueOption {
	o.window = &d
	return o
}

// Replace puts the job in the place of the one that holds the key, instead of refusing the put:
//
//   - If the holder is waiting in any way, also after a retry, it becomes the new job: with its
//     klass, data, queue, delay and options, and the defaults of those that the put does not give.
//     Its jid, its history, and its place among dependencies stay. The put returns that jid.
//   - If the holder is running, the new job waits until it is complete or has failed for good, as
//     with [OnFailureRun], and has the key. Further puts replace the one that waits.
//
// So of the jobs with the key, at most one runs and one waits, and the latest put always leads to a
// run. With a [Delay], each put begins the delay again: see KeepDue and Within. A job without a
// delay becomes the last of its priority.
//
// A key that is held For some time refuses the put as without Replace. A job that holds its key
// UntilStarted is replaced while it waits, and is not waited for. Replace can't be used with For,
// [JID], [DependsOn], [OnFailure], a [ConflictOption] or [Job.Move].
//
// If the connection breaks, the put is sent again, as it has no JID. Should another put have
// replaced the job meanwhile, this one replaces it again; should the job have been run, it is put
// once more.
func (o UniqueOption) Replace() UniqueOption {
	o.replaces = true
	return o
}

// KeepDue has a job that replaces a waiting one fall due when that one would have, or did: it keeps
// its place in the queue. The delay of the put counts only if it replaces none. It needs Replace,
// and can't be used with Within.
func (o UniqueOption) KeepDue() UniqueOption {
	o.keepsDue = true
	return o
}

// Within has the job fall due at most this long after the first put of the job that waits, however
// often it is replaced. A job that was popped before counts from then. It is at least 1 ms and no
// shorter than the [Delay]. It needs Replace, and can't be used with KeepDue.
func (o UniqueOption) Within(longest time.Duration) UniqueOption {
	o.within = &longest
	return o
}

func (o UniqueOption) applyPut(c *callOptions) { c.unique = &o }

// maxUniqueKey is how many bytes a unique key may have.
const maxUniqueKey = 512

// The modes of a claim.
const (
	claimUntilStarted = "start"
	claimFor          = "for"
)

// A claim is what a job with a unique key stores: see lua/lib/unique.lua.
type claim struct {
	Key     string  `json:"k"`
	Mode    string  `json:"m,omitempty"`
	Seconds float64 `json:"d,omitempty"`
}

// UnmarshalJSON reads what can be read.
func (c *claim) UnmarshalJSON(raw []byte) error {
	type plain claim
	*c = claim{}
	_ = json.Unmarshal(raw, (*plain)(c))
	return nil
}

// checkUnique returns an error if the unique key can't be used.
func (c *callOptions) checkUnique(op string) error {
	if c.unique == nil {
		return nil
	}
	if err := c.unique.check(op, c.jid); err != nil {
		return err
	}
	return c.checkReplace(op)
}

// checkReplace returns an error if there is an option that does not go with Replace.
func (c *callOptions) checkReplace(op string) error {
	other := ""
	switch o := c.unique; {
	case !o.replaces:
		return nil
	case c.named:
		other = "JID"
	case len(c.depends) > 0:
		other = "DependsOn"
	case c.onFailure != "":
		other = "OnFailure"
	case len(c.conditions) > 0:
		other = conditionNames[c.conditions[0]]
	case o.within != nil && c.delay != nil && *c.delay > *o.within:
		return invalid(op, c.jid, "the delay %v is longer than Unique.Within(%v)", *c.delay, *o.within)
	default:
		return nil
	}
	return invalid(op, c.jid, "%s and Unique.Replace can't be used together", other)
}

// check returns an error if the option can't be used.
func (o *UniqueOption) check(op, jid string) error {
	switch {
	case o.keepsDue && !o.replaces:
		return invalid(op, jid, "Unique.KeepDue needs Replace")
	case o.within != nil && !o.replaces:
		return invalid(op, jid, "Unique.Within needs Replace")
	case o.keepsDue && o.within != nil:
		return invalid(op, jid, "Unique.KeepDue and Within can't be used together")
	case o.replaces && o.window != nil:
		return invalid(op, jid, "Unique.Replace and For can't be used together")
	case o.within != nil && *o.within < time.Millisecond:
		return invalid(op, jid, "Unique.Within needs at least 1ms, not %v", *o.within)
	case o.started && o.window != nil:
		return invalid(op, jid, "UntilStarted and For can't be used together")
	case o.window != nil && *o.window < time.Millisecond:
		return invalid(op, jid, "Unique.For needs at least 1ms, not %v", *o.window)
	case len(o.key) > maxUniqueKey:
		return invalid(op, jid, "the unique key has %d bytes, which is more than %d",
			len(o.key), maxUniqueKey)
	case len(o.parts) == 0:
		return nil
	}
	_, err := uniqueKey(op, jid, o.parts)
	return err
}

// claim returns what the job of a put claims.
func (o *UniqueOption) claim(op string, p *put) (*claim, error) {
	if o == nil {
		return nil, nil
	}
	key := o.key
	switch {
	case key != "":
	case len(o.parts) == 0:
		key = dataKey(p.klass, p.data)
	default:
		var err error
		if key, err = uniqueKey(op, p.options.jid, o.parts); err != nil {
			return nil, err
		}
	}
	c := &claim{Key: key}
	switch {
	case o.started:
		c.Mode = claimUntilStarted
	case o.window != nil:
		c.Mode, c.Seconds = claimFor, o.window.Seconds()
	}
	return c, nil
}

// replaceArgs returns the pairs of arguments that say how a put replaces the job that is there.
func (c *callOptions) replaceArgs() []string {
	o := c.unique
	switch {
	case o == nil || !o.replaces:
		return nil
	case o.keepsDue:
		return []string{"replace", "due"}
	case o.within != nil:
		return []string{"replace", "delay", "within", wire.FormatSeconds(*o.within)}
	}
	return []string{"replace", "delay"}
}

// uniqueKey returns the key that is made of parts.
func uniqueKey(op, jid string, parts []any) (string, error) {
	for i, part := range parts {
		if part == nil || part == "" {
			return "", invalid(op, jid, "part %d of the unique key is empty", i)
		}
	}
	raw, err := json.Marshal(parts)
	if err != nil {
		return "", invalid(op, jid, "the unique key can't be JSON: %v", err)
	}
	if len(raw) > maxUniqueKey {
		return "", invalid(op, jid, "the unique key has %d bytes, which is more than %d",
			len(raw), maxUniqueKey)
	}
	return string(raw), nil
}

// dataKey returns the key of a job whose klass and data are unique. No key of parts is like it,
// because that begins with a bracket.
func dataKey(klass, data string) string {
	sum := sha256.Sum256([]byte(klass + "\x00" + data))
	return "data:" + hex.EncodeToString(sum[:])
}

// Holder returns the jid of the job that holds the [Unique] key of these parts: a put with the same
// key would be refused. It is empty if the key is free. A key of a job that was put for some time
// ([UniqueOption.For]) is held until then, even if the job is gone.
func (c *Client) Holder(ctx context.Context, parts ...any) (string, error) {
	const op = "holder"
	if len(parts) == 0 {
		return "", invalid(op, "", "the unique key has no parts")
	}
	key, err := uniqueKey(op, "", parts)
	if err != nil {
		return "", err
	}
	reply, err := c.run(ctx, op, "", key)
	if err != nil || reply == nil {
		return "", err
	}
	jid, ok := reply.(string)
	if !ok {
		return "", unexpected(op, reply)
	}
	return jid, nil
}

// Holder returns the jid of the job that holds the [Unique] key of these parts in any shard, as
// [Client.Holder] does.
func (s *Shards) Holder(ctx context.Context, parts ...any) (string, error) {
	jid, _, err := askFirst(ctx, s.clients,
		func(ctx context.Context, c *Client) (string, bool, error) {
			jid, err := c.Holder(ctx, parts...)
			return jid, jid != "", err
		})
	return jid, err
}
