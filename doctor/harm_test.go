package doctor_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/internal/keys"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/repairs"
)

// A harm is random damage: a change of one key or one member.
type harm struct {
	what string
	key  string // without the prefix
	jid  string // of the damaged job record, or empty
	do   []any  // the commands: an operation, a key and arguments
}

// strange are values that no program writes.
var strange = []string{"", "garbage", "1e300", "-1", "nan", "\xff\x00", "{}", "7 8 9"}

// scores are times and places that no program writes.
var scores = []string{"inf", "-inf", "1e300", "-1"}

// harms returns all harms to the namespace's keys: a key or member is deleted, unexpected, garbage,
// of a wrong type, or an extreme number.
func (e *env) harms() []harm {
	e.t.Helper()
	all := e.dump()
	var found []harm
	for _, key := range slices.Sorted(maps.Keys(all)) {
		typ := e.rdb.Type(e.ctx, key).Val()
		name := strings.TrimPrefix(key, "ql:")
		kind, known := keys.Of(name, typ)
		require.True(e.t, known, key)
		if kind.Passing || name == "config" || name == "paused_queues" {
			continue // workers write it again, or an operator sets it
		}
		jid := ""
		if kind.Pattern == "j:<jid>" || kind.Pattern == "r:<jid>" {
			jid = kind.Name("jid")
		}
		add := func(what string, do ...any) {
			found = append(found, harm{fmt.Sprintf("%s: %q", what, do), name, jid, do})
		}
		add("gone", "DEL", key)
		add("wrong type", "wrong", key)
		switch values := all[key].(type) {
		case map[string]any: // a hash
			for _, field := range slices.Sorted(maps.Keys(values)) {
				add("gone", "HDEL", key, field)
				for _, value := range strange {
					add("garbage", "HSET", key, field, value)
				}
			}
		case map[string]bool: // a set
			for _, member := range slices.Sorted(maps.Keys(values)) {
				add("gone", "SREM", key, member)
			}
			add("other", "SADD", key, "other")
			add("garbage", "SADD", key, "garbage")
		case []any:
			switch typ {
			case keys.ZSet:
				for i := 0; i < len(values); i += 2 {
					add("gone", "ZREM", key, values[i])
					for _, score := range scores {
						add("extreme", "ZADD", key, score, values[i])
					}
				}
				add("other", "ZADD", key, "1", "other")
				add("garbage", "ZADD", key, "inf", "garbage")
			case keys.List:
				add("gone", "LPOP", key)
				add("other", "LPUSH", key, "other")
				for _, value := range strange {
					add("garbage", "LSET", key, "0", value)
				}
			case keys.String:
				for _, value := range append(strange, "0 other", "inf waiting") {
					add("garbage", "SET", key, value)
				}
			}
		}
	}
	return found
}

// apply damages the namespace.
func (e *env) apply(h harm) {
	e.t.Helper()
	if h.do[0] != "wrong" {
		e.do(e.rdb.Do(e.ctx, h.do...).Err())
		return
	}
	typ := e.rdb.Type(e.ctx, h.do[1].(string)).Val()
	e.do(e.rdb.Del(e.ctx, h.do[1].(string)).Err())
	if typ == keys.Set {
		e.do(e.rdb.Set(e.ctx, h.do[1].(string), "1", 0).Err())
	} else {
		e.do(e.rdb.SAdd(e.ctx, h.do[1].(string), "1").Err())
	}
}

// drain lets a worker of all queues run all jobs for some hours, and counts how often each ran.
func (e *env) drain(worker *qless.Client, h harm, ran map[string]int) {
	e.t.Helper()
	for range 12 {
		for _, group := range []string{"group", "failed-retries-q", "failed-retries-limited"} {
			_, err := repairs.Unfail(e.ctx, e.Client, group, 100)
			e.refused(err)
		}
		queues, err := e.Queues(e.ctx)
		e.refused(err)
		for _, queue := range queues {
			if queue.Name == "" {
				continue // a job of a damaged queue
			}
			jobs, err := worker.Queue(queue.Name).Pop(e.ctx, 20)
			e.refused(err)
			e.complete(jobs, h, ran)
		}
		e.clock.Advance(10 * time.Minute)
	}
}

// refused requires that an error reports a damaged key.
func (e *env) refused(err error) {
	e.t.Helper()
	if err != nil && !errors.Is(err, qless.ErrServer) {
		e.t.Errorf("%v", err)
	}
}

// live are the unfinished jobs of furnish, each with its dependencies.
var live = map[string][]string{
	"running": nil, "waiting": nil, "scheduled": nil, "depends": {"waiting", "running"},
	"unique": nil, "slot": nil, "parked": {"slot"}, "one": nil, "failed": nil, "other": nil,
	"recurring-1": {"recurring"}, "held": nil,
}

// decisive are the fields of a record that decide a job's fate.
var decisive = []string{"state", "queue", "failure", "x:o", "interval"}

// excused reports whether a job need not run: its record or that of a dependency was damaged, or an
// unrepairable finding concerns one of these jobs or the damaged key.
func (e *env) excused(findings []doctor.Reason, h harm, jid string) bool {
	about := append([]string{jid}, live[jid]...)
	if slices.Contains(about, h.jid) && (len(h.do) == 2 || slices.Contains(decisive, h.do[2].(string))) {
		return true
	}
	return slices.ContainsFunc(findings, func(f doctor.Reason) bool {
		concerns := slices.Contains(about, f.JID) || f.Key == "ql:"+h.key
		return !f.Fixable && concerns && f.Gravity == doctor.Broken
	})
}

func TestRandomDamageIsFoundAndRepaired(t *testing.T) {
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	count := 60
	if text := os.Getenv("HARMS"); text != "" {
		count, _ = strconv.Atoi(text)
	}
	server := testkit.Start(t)
	rdb := server.Client(t)
	first := newHarmed(t, server, rdb)
	all := first.harms()
	require.Greater(t, len(all), 500)
	for _, i := range random.Perm(len(all))[:min(count, len(all))] {
		h := all[i]
		t.Run(h.what, func(t *testing.T) {
			e := newHarmed(t, server, rdb)
			e.check(h, workers[random.IntN(len(workers))])
		})
	}
}

// newHarmed returns an env on a server, emptied and furnished.
func newHarmed(t *testing.T, server *testkit.Server, rdb *redis.Client) *env {
	t.Helper()
	e := &env{t: t, ctx: t.Context(), server: server, rdb: rdb, clock: testkit.NewClock()}
	e.do(rdb.FlushAll(t.Context()).Err())
	e.Client = e.as("w1")
	e.furnish()
	e.furnishMore()
	return e
}

// furnishMore adds a key of each kind that a dump copies and furnish does not create.
func (e *env) furnishMore() {
	e.t.Helper()
	e.do(e.Limit("rate").Set(e.ctx, qless.LimitConfig{Rate: 100, Per: time.Hour}))
	e.put("rated", "rated", qless.Limits{"rate"}, qless.Unique("day").For(24*time.Hour))
	e.do(e.pop("rated", 1)[0].Complete(e.ctx))
	e.put("held", "held", qless.Unique("later"), qless.Delay(time.Hour))
	_, err := e.Queue("held").Put(e.ctx, "K", nil, qless.Unique("later"))
	require.ErrorIs(e.t, err, qless.ErrExists)
	there := map[string]bool{}
	for key := range e.dump() {
		kind, _ := keys.Of(strings.TrimPrefix(key, "ql:"), e.rdb.Type(e.ctx, key).Val())
		there[kind.Pattern] = true
	}
	for _, kind := range keys.Kinds() {
		if !kind.Passing && !there[kind.Pattern] {
			e.addKey(kind)
		}
	}
}

// take lets a worker take a job of each queue.
func (e *env) take(worker *qless.Client) []*qless.Job {
	e.t.Helper()
	var taken []*qless.Job
	for _, queue := range []string{"q", "limited", "fair"} {
		jobs, err := worker.Queue(queue).Pop(e.ctx, 1)
		e.refused(err)
		taken = append(taken, jobs...)
	}
	return taken
}

// complete completes jobs, and counts the runs of each.
func (e *env) complete(jobs []*qless.Job, h harm, ran map[string]int) {
	e.t.Helper()
	for _, job := range jobs {
		err := job.Complete(e.ctx)
		if job.JID != h.jid {
			e.refused(err)
		}
		if err == nil {
			ran[job.JID]++
		}
	}
}

// workers are the ways in which workers run jobs during a repair. Each returns a function that ends
// the work.
var workers = []func(e *env, worker *qless.Client, h harm, ran map[string]int) (end func()){
	func(*env, *qless.Client, harm, map[string]int) func() { return func() {} },
	// Jobs are taken before the repair and completed after it.
	func(e *env, worker *qless.Client, h harm, ran map[string]int) func() {
		taken := e.take(worker)
		return func() { e.complete(taken, h, ran) }
	},
	// Jobs are taken and completed all the time.
	func(e *env, worker *qless.Client, h harm, ran map[string]int) func() {
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for {
				e.complete(e.take(worker), h, ran)
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
		return func() { close(stop); <-ended }
	},
}

// check damages the namespace, repairs it while workers run jobs, and requires that no damage
// remains unreported and that every job runs once.
func (e *env) check(
	h harm, work func(e *env, worker *qless.Client, h harm, ran map[string]int) (end func()),
) {
	e.t.Helper()
	other, ran := e.as("w2"), map[string]int{}
	e.apply(h)
	findings := e.examine()
	end := work(e, other, h, ran)
	e.fix(findings...)
	end()
	left := e.examine()
	e.fix(left...) // such as the turns of tenants that a repair has left
	left = e.examine()
	for _, f := range left {
		require.False(e.t, f.Fixable, "it comes back: %+v", f)
	}
	after := e.dump()
	e.fix(left...)
	require.Empty(e.t, changed(after, e.dump()), "a third repair has nothing to do")

	_, err := e.Queue("q").Put(e.ctx, "K", nil, qless.JID("second"), qless.Unique("key"))
	if !e.excused(left, h, "unique") && ran["unique"] == 0 {
		require.ErrorIs(e.t, err, qless.ErrExists, "the key is held")
	}
	e.drain(other, h, ran)
	for jid := range live {
		if e.excused(left, h, jid) {
			continue
		}
		if ran[jid] != 1 {
			e.t.Errorf("%s ran %d times; found %v, left %v", jid, ran[jid], findings, left)
		}
	}
}
