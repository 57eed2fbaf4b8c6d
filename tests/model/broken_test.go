package model

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// breakActions are never drawn. The tests of the tester use breakActions to damage the server.
var breakActions = []action{
	{
		name: "Break",
		play: func(w *world, s step) outcome {
			reply, err := w.do(s.Raw)
			return outcomeOf(err, func() string {
				if s.Raw[0] == "ECHO" {
					return fmt.Sprint(reply)
				}
				return string(done)
			})
		},
		predict: func(m *queues, s step) outcome { return done },
	},
}

// do sends a raw command to the server.
func (w *world) do(words []string) (any, error) {
	args := make([]any, len(words))
	for i, word := range words {
		args[i] = word
	}
	return w.rdb.Do(w.ctx, args...).Result()
}

// A fault is a way to damage a server, and the check that must detect the damage.
type fault struct {
	name  string
	found string
	raw   func(k *keyspace) string // returns the command, or empty without anything to damage
}

var faults = []fault{
	{"a key of no known layout", "layout", always("SET ql:w:a:job 1")},
	{"a statistic that stays for ever", "layout", func(k *keyspace) string {
		for key, e := range k.entries {
			if e.expires {
				return "PERSIST " + key
			}
		}
		return ""
	}},
	{"a job that expires", "layout", onJobIn("waiting", "EXPIRE ql:j:%[1]s 1000")},
	{"a job's history without the job", "layout", always("RPUSH ql:j:gone-history x")},
	{"a job in a queue that is gone", "ghost", always("ZADD ql:q:q1-work 1 gone")},
	{"a completed job that is gone", "ghost", always("ZADD ql:completed 1 gone")},
	{"a locked job that is gone", "ghost", always("ZADD ql:w:b:jobs 1 gone")},
	{"a waiting job in no set", "place", onJobIn("waiting", "ZREM ql:q:%[2]s-work %[1]s")},
	{"a running job that also waits", "place", onJobIn("running", "ZADD ql:q:%[2]s-work 1 %[1]s")},
	{"a scheduled job that says it waits", "place", onJobIn("scheduled",
		"HSET ql:j:%[1]s state waiting")},
	{"a failed job that is also complete", "place", onJobIn("failed", "ZADD ql:completed 1 %[1]s")},
	{"a failed job that is twice in its group", "place", func(k *keyspace) string {
		jid, h := k.plain("failed")
		if h == nil {
			return ""
		}
		return fmt.Sprintf("RPUSH ql:f:%s %s", h.job.failure.group, jid)
	}},
	{"a completed job in no set", "place", onJobIn("complete", "ZREM ql:completed %[1]s")},
	{"a waiting job in front of all", "place", onJobIn("waiting", "ZADD ql:q:%[2]s-work +inf %[1]s")},
	{"a waiting job with a grace period", "lock", onJobIn("waiting", "HSET ql:j:%[1]s grace 1")},
	{"a lock that ends at another time", "lock", onJobIn("running",
		"ZADD ql:q:%[2]s-locks XX 5 %[1]s")},
	{"a running job that its worker lacks", "lock", onJobIn("running", "ZREM ql:w:%[3]s:jobs %[1]s")},
	{"a job that the wrong worker has", "worker list", onJobIn("waiting", "ZADD ql:w:b:jobs 5 %[1]s")},
	{"a dependent that is not known", "dependencies", func(k *keyspace) string {
		for _, jid := range inOrder(k.jobs) {
			needs := in(k.dependencies, jid).members
			if len(needs) > 0 && strings.HasPrefix(needs[0], "j") { // others take more steps
				return fmt.Sprintf("SREM ql:j:%s-dependents %s", needs[0], jid)
			}
		}
		return ""
	}},
	{"a dependency of a waiting job", "dependencies", onJobIn("waiting",
		"SADD ql:j:%[1]s-dependencies j1")},
	{"a tag counted twice", "tags", always("ZINCRBY ql:tags 1 red")},
	{"a tag that is not in the list", "tags", func(k *keyspace) string {
		for tag, e := range k.tags {
			return fmt.Sprintf("ZREM ql:t:%s %s", tag, e.names[0])
		}
		return ""
	}},
	{"a failure group that is not known", "failures", func(k *keyspace) string {
		if _, h := k.plain("failed"); h != nil {
			return "SREM ql:failures " + h.job.failure.group
		}
		return ""
	}},
	{"a failure that is not counted", "failed statistic", func(k *keyspace) string {
		if _, h := k.plain("failed"); h != nil {
			day := int64(h.job.failure.when) / 86400 * 86400
			return fmt.Sprintf("HINCRBY ql:s:stats:%d:%s failed -1", day, h.fields["queue"])
		}
		return ""
	}},
	{"a recurring job that never recurs", "recurring", func(k *keyspace) string {
		for jid, e := range k.recurs {
			return fmt.Sprintf("ZREM ql:q:%s-recur %s", e.fields["queue"], jid)
		}
		return ""
	}},
	{"a recurring job that recurs twice", "recurring", func(k *keyspace) string {
		for jid := range k.recurs {
			return "ZADD ql:q:q5-recur 1 " + jid
		}
		return ""
	}},
	{"a history without its beginning", "history", onJobIn("running",
		`LSET ql:j:%[1]s-history 0 [1,"popped"]`)},
	{"a history that is too long", "history", func(k *keyspace) string {
		limit := k.at("config").field("max-job-history")
		for _, jid := range inOrder(k.jobs) {
			if n := len(in(k.histories, jid).members); limit > 0 && n >= max(limit, 2) {
				return fmt.Sprintf(`RPUSH ql:j:%s-history [1,"put"]`, jid)
			}
		}
		return ""
	}},
	{"a retry that is lost", "model", onJobIn("running", "HINCRBY ql:j:%[1]s remaining -1")},
	{"a job in a later place", "model", onJobIn("waiting", "ZINCRBY ql:q:%[2]s-work -0.01 %[1]s")},
	{"a job that is lost with all its traces", "model", onJobIn("scheduled",
		"EVAL redis.call('zrem','ql:q:%[2]s-scheduled','%[1]s')"+
			"redis.call('del','ql:j:%[1]s','ql:j:%[1]s-history') 0")},
	{"a queue that pauses by itself", "model", always("SADD ql:paused_queues q5")},
	{"a queue that is not known", "model", func(k *keyspace) string {
		for queue := range k.at("queues").scores {
			return "ZREM ql:queues " + queue
		}
		return ""
	}},
	{"a popped job that is not counted", "model", func(k *keyspace) string {
		for key := range k.stats["wait"] {
			return fmt.Sprintf("HINCRBY ql:s:wait:%d:%s total -1", key.day, key.queue)
		}
		return ""
	}},
	{"a unique key of a job that is gone", "model", always(
		"EVAL redis.call('set','ql:x:unique:[\"x\"]','0 gone') 0")},
	{"options that are lost", "model", func(k *keyspace) string {
		for _, jid := range inOrder(k.jobs) {
			if t := &k.jobs[jid].job; t.options != "" && t.state == "running" {
				return "HDEL ql:j:" + jid + " x:o"
			}
		}
		return ""
	}},
	{"a unique key that two jobs have", "unique keys", func(k *keyspace) string {
		jid, h := k.plain("waiting")
		for other, e := range k.jobs {
			if c := claimIn(e.job.options); h != nil && jid != other && c != nil && c.Mode == "" &&
				e.job.state == "waiting" && !strings.Contains(e.fields["x:o"], " ") {
				return fmt.Sprintf("HSET ql:j:%s x:o %s", jid, e.fields["x:o"])
			}
		}
		return ""
	}},
	{"a result that was never set", "model", onJobIn("running", "HSET ql:j:%[1]s x:result complete|1|2")},
	{"progress that was never made", "model", onJobIn("running",
		"HSET ql:j:%[1]s x:progress 1|2|1|1704196800|x")},
	{"a replaced job that another put has", "model", func(k *keyspace) string {
		for _, jid := range inOrder(k.jobs) {
			if c := claimIn(k.jobs[jid].job.options); c != nil && c.PutAs != "" {
				stored := k.jobs[jid].fields["x:o"]
				return "HSET ql:j:" + jid + " x:o " +
					strings.ReplaceAll(strings.Replace(stored, c.PutAs, "other", 1), " ", "")
			}
		}
		return ""
	}},
	{"a job in the turn of another", "shares", onJobIn("waiting",
		"EVAL redis.call('zadd','ql:q:%[2]s-work','XX',"+
			"redis.call('hget','ql:j:%[1]s','priority')-0.6,'%[1]s') 0")},
	{"a turn that lasts longer", "model", func(k *keyspace) string {
		for _, name := range inOrder(k.ours) {
			if strings.HasPrefix(name, "fair:") {
				return fmt.Sprintf("ZINCRBY ql:x:%s 0.1 %s", name, k.ours[name].names[0])
			}
		}
		return ""
	}},
	{"a life that no sweep finds", "lifetimes", func(k *keyspace) string {
		for _, jid := range inOrder(k.jobs) {
			if h := k.jobs[jid]; !math.IsInf(h.job.ends(in(k.histories, jid).history), 1) {
				return "ZREM ql:x:until " + jid
			}
		}
		return ""
	}},
	{"a life that is looked at later", "model", func(k *keyspace) string {
		for _, jid := range in(k.ours, "until").names {
			return "ZINCRBY ql:x:until 1 " + jid
		}
		return ""
	}},
	{"an expired job that is not counted", "expired statistic", func(k *keyspace) string {
		for key := range k.expired {
			return fmt.Sprintf("HINCRBY ql:x:stats:%d:%s expired -1", key.day, key.queue)
		}
		return ""
	}},
	{"a reply that is wrong", "reply", always("ECHO wrong")},
}

func always(raw string) func(*keyspace) string { return func(*keyspace) string { return raw } }

// onJobIn damages a job in a state, by its jid, queue and worker.
func onJobIn(state, format string) func(*keyspace) string {
	return func(k *keyspace) string {
		jid, h := k.plain(state)
		if h == nil {
			return ""
		}
		return fmt.Sprintf(format+"%.0[1]s%.0[2]s%.0[3]s", jid, h.fields["queue"], h.fields["worker"])
	}
}

// plain returns a job in a state that concerns only that state's checks and is reached by few
// steps, or nil if there is none.
func (k *keyspace) plain(state string) (string, *entry) {
	for _, jid := range inOrder(k.jobs) {
		h := k.jobs[jid]
		simple := h.fields["grace"] == "" && h.fields["x:o"] == "" && h.fields["spawned_from_jid"] == "" &&
			len(h.job.tags) == 0 && len(in(k.dependents, jid).members) == 0
		if simple && h.fields["state"] == state {
			return jid, h
		}
	}
	return "", nil
}

// words splits a command into words. A script is one word.
func words(raw string) []string {
	if script, ok := strings.CutPrefix(raw, "EVAL "); ok {
		return []string{"EVAL", strings.TrimSuffix(script, " 0"), "0"}
	}
	return strings.Fields(raw)
}

// breakAfter returns random steps that end with damage to the server, or nil if the steps fail
// without the damage, or do not soon make it possible.
func (w *world) breakAfter(f fault, seed uint64, least int) (*violation, []step) {
	w.restart()
	d := newDice(seed, w.m, false)
	var taken []step
	for range 3 * least {
		s := d.step()
		if raw := f.raw(w.k); raw != "" && len(taken) >= least {
			s = step{Do: "Break", Raw: words(raw)}
		}
		taken = append(taken, s)
		v := w.play(s)
		if s.Do == "Break" {
			return v, taken
		}
		if v != nil {
			break
		}
	}
	return nil, nil
}

func TestEveryFaultIsFoundAndReduced(t *testing.T) {
	const least = 50  // steps before the damage
	const atMost = 10 // steps left after reduction
	const seeds = 200 // seeds to try
	w := newWorld(t)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			var v *violation
			var steps []step
			for seed := uint64(1); v == nil && seed <= seeds; seed++ {
				if v, steps = w.breakAfter(f, seed, least); v == nil {
					require.Empty(t, steps, "the damage of seed %d is not found", seed)
				}
			}
			require.NotNil(t, v, "no seed leads to a state that can be damaged")
			require.Equal(t, f.found, v.class, v.text)

			shortest, again := minimal(t.Context(), w, steps, v)
			told := report(again, shortest)
			require.Equal(t, f.found, again.class, told)
			require.LessOrEqual(t, len(shortest), atMost, told)
			require.Equal(t, "Break", shortest[len(shortest)-1].Do, told)
			require.Contains(t, told, strings.Join(shortest[len(shortest)-1].Raw[:1], " "))
		})
	}
}

// The changes of all steps add up to the data found by reading all keys.
func TestNoChangeOfAKeyIsMissed(t *testing.T) {
	w := newWorld(t)
	seed := uint64(time.Now().UnixNano())
	announce("%s: seed %d", t.Name(), seed)
	v, _ := w.walk(seed, 300, true)
	require.Nil(t, v)
	for _, raw := range []string{
		"DEL ql:j:j1", "LSET ql:j:j2-history 0 x", "ZADD ql:queues 1 q1", "PERSIST ql:config",
		"EXPIRE ql:queues 1000", "RENAME ql:workers ql:w:x:jobs", "SET ql:completed x",
	} {
		_, _ = w.do(words(raw)) // the key may not exist
		w.update()
	}
	known := w.k
	_, err := w.do(words("EVAL redis.call('select',1) return redis.call('flushdb') 0"))
	require.NoError(t, err)
	w.k = newKeyspace()
	w.update()
	require.Equal(t, w.k.entries, known.entries)
	require.Equal(t, w.k.jobs, known.jobs)
	require.Equal(t, w.k.holders, known.holders)
	require.Equal(t, w.k.unknown, known.unknown)
}

func TestShrinkLeavesOnlyWhatIsNeeded(t *testing.T) {
	var steps []step
	for i := range 500 {
		steps = append(steps, step{Do: "Pop", Count: i})
	}
	calls := 0
	shortest := shrink(t.Context(), steps, func(some []step) bool {
		calls++
		needed := 0
		for _, s := range some {
			if s.Count == 3 || s.Count == 250 || s.Count == 499 {
				needed++
			}
		}
		return needed == 3
	})
	require.Equal(t, []step{steps[3], steps[250], steps[499]}, shortest)
	require.Less(t, calls, 200)
}

func TestAReductionEndsWithItsTime(t *testing.T) {
	var steps []step
	for range 500 {
		steps = append(steps, step{Do: "Cancel", JIDs: []string{"j1", "j2"}, Many: make([]step, 2)})
	}
	for _, reduce := range []func(context.Context, []step, func([]step) bool) []step{
		shrink, shrinkArguments,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		reduced := reduce(ctx, steps, func([]step) bool {
			calls++
			if calls == 3 {
				cancel()
			}
			return calls == 1
		})
		require.Equal(t, 3, calls)
		require.NotEqual(t, steps, reduced, "the result so far counts")
	}
}

func TestAReductionWithoutTimeKeepsTheSteps(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	steps := []step{{Do: "Break", Worker: "a", Raw: words("SET ql:w:a:job 1")}}
	v := playAll(t.Context(), w, steps)
	require.NotNil(t, v)
	require.Nil(t, playAll(ctx, w, steps))
	shortest, again := minimal(ctx, w, steps, v)
	require.Equal(t, steps, shortest)
	require.Equal(t, v, again)
}

func TestStepsAreReadable(t *testing.T) {
	s := step{Do: "Put", Worker: "a", Queue: "q1", JID: "j1", Priority: ptr(7), Tags: []string{"red"}}
	require.Equal(t, `Put Worker=a Queue=q1 JID=j1 Priority=7 Tags=["red"]`, s.String())
}

// Runs with the same seed are the same, so a reported seed reproduces a failure.
func TestStepsOfASeedAreTheSame(t *testing.T) {
	draw := func() []step {
		m := newQueues()
		d := newDice(5, m, true)
		var steps []step
		for range 500 {
			s := d.step()
			m.begin(noon.UnixMicro())
			actionOf(s).predict(m, s)
			steps = append(steps, s)
		}
		return steps
	}
	require.Equal(t, fmt.Sprint(draw()), fmt.Sprint(draw()))
}
