package model

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/repairs"
)

// A limiter performs random operations on jobs with limits, and checks the keys after each. It
// tracks the starts of jobs, and the definitions of the limits, which only it sets.
type limiter struct {
	*rand.Rand
	t      *testing.T
	client *qless.Client
	rdb    *redis.Client
	clock  *testkit.Clock
	limits map[string]qless.LimitConfig // by name; limits of a family do not change
	loose  map[string]bool              // limits that were lowered while more jobs ran
	starts map[string][]time.Time       // by name, since the definition was set
	slots  map[string]map[string]bool   // by name: the jobs started while there was a concurrency
	jids   int
}

var (
	limitNames  = []string{"a", "b", "f/1", "f/2"}
	limitQueues = []string{"q1", "q2", "q3"}
)

func (l *limiter) name() string  { return limitNames[l.IntN(len(limitNames))] }
func (l *limiter) queue() string { return limitQueues[l.IntN(len(limitQueues))] }

// names returns one to all of the names, without duplicates.
func (l *limiter) names() []string {
	var names []string
	for _, i := range l.Perm(len(limitNames))[:1+l.IntN(3)] {
		names = append(names, limitNames[i])
	}
	return names
}

// jid returns a jid, mostly of an existing job.
func (l *limiter) jid() string { return fmt.Sprint("j", l.IntN(l.jids+1)) }

func (l *limiter) set(name string) {
	config := qless.LimitConfig{}
	if l.IntN(3) > 0 {
		config.Concurrency = 1 + l.IntN(3)
	}
	if config.Concurrency == 0 || l.IntN(2) == 0 {
		config.Rate, config.Per = 1+l.IntN(4), time.Duration(1+l.IntN(60))*time.Second
	}
	require.NoError(l.t, l.client.Limit(name).Set(l.t.Context(), config))
	l.limits[name], l.starts[name], l.loose[name] = config, nil, true
	if config.Concurrency == 0 || l.slots[name] == nil {
		l.slots[name] = map[string]bool{}
	}
}

// took checks that jobs were allowed to start, and notes their starts.
func (l *limiter) took(jobs []*qless.Job) {
	now := l.clock.Now()
	for _, job := range jobs {
		for _, name := range job.Options.Limits {
			l.starts[name] = append(l.starts[name], now)
			starts, config := l.starts[name], l.limits[name]
			l.slots[name][job.JID] = config.Concurrency > 0
			if n := len(starts) - 1 - config.Rate; config.Rate > 0 && n >= 0 {
				require.GreaterOrEqual(l.t, now.Sub(starts[n])+time.Millisecond, config.Per, "the rate of %s", name)
			}
		}
	}
}

// step performs one operation. The server may refuse it, for example the end of a job that does not
// run.
func (l *limiter) step() string {
	ctx := l.t.Context()
	job, err := l.client.Job(ctx, l.jid())
	found := err == nil
	switch n := l.IntN(100); {
	case n < 25:
		jid := l.jid()
		if l.IntN(5) > 0 {
			jid = fmt.Sprint("j", l.jids)
			l.jids++
		}
		options := []qless.PutOption{qless.JID(jid), qless.Priority(l.IntN(3)), qless.Retries(2)}
		if l.IntN(6) > 0 {
			options = append(options, qless.Limits(l.names()))
		}
		if l.IntN(5) == 0 {
			options = append(options, qless.Delay(time.Duration(l.IntN(30))*time.Second))
		}
		_, err := l.client.Queue(l.queue()).Put(ctx, "K", nil, options...)
		require.NoError(l.t, err)
		return "put " + jid
	case n < 50:
		queue := l.queue()
		jobs, err := l.client.Queue(queue).Pop(ctx, 1+l.IntN(4))
		require.NoError(l.t, err)
		l.took(jobs)
		return "pop " + queue
	case n < 58:
		l.clock.Advance(time.Duration(l.IntN(40_000)) * time.Millisecond)
		return "time passes"
	case n < 60:
		name := l.name()
		l.set(name)
		return "set " + name
	case n < 61:
		name := l.name()
		require.NoError(l.t, l.client.Limit(name).Hold(ctx, time.Duration(l.IntN(20))*time.Second))
		return "hold " + name
	case !found:
		return "nothing"
	case n < 75:
		_ = job.Complete(ctx)
		return "complete " + job.JID
	case n < 80:
		_, _ = job.Retry(ctx, time.Duration(l.IntN(2))*time.Second, "", "")
		return "retry " + job.JID
	case n < 84:
		_ = job.Release(ctx, 0)
		return "release " + job.JID
	case n < 88:
		_ = repairs.TimeOut(ctx, l.client, job.JID)
		return "timeout " + job.JID
	case n < 91:
		_ = job.Fail(ctx, "g", "m")
		return "fail " + job.JID
	case n < 94:
		_ = job.Next(ctx, l.queue())
		return "next " + job.JID
	case n < 97:
		_ = job.Move(ctx, l.queue())
		return "move " + job.JID
	}
	_ = job.Cancel(ctx)
	return "cancel " + job.JID
}

// check checks the invariants.
func (l *limiter) check(what string) {
	ctx := l.t.Context()
	running, holding, scheduled := map[string]int{}, map[string]int{}, map[string]int{}
	for _, queue := range limitQueues {
		jids, err := l.rdb.ZRange(ctx, "ql:q:"+queue+"-scheduled", 0, -1).Result()
		require.NoError(l.t, err)
		for _, jid := range jids {
			scheduled[jid]++
		}
	}
	for i := range l.jids {
		jid := fmt.Sprint("j", i)
		fields, err := l.rdb.HGetAll(ctx, "ql:j:"+jid).Result()
		require.NoError(l.t, err)
		limits := limitsIn(fields["x:o"])
		if fields["state"] == "running" {
			lasts := l.lasts(fields["queue"], jid, fields["grace"])
			for _, name := range limits {
				if l.slots[name][jid] {
					holding[name]++
				}
				if l.slots[name][jid] && lasts {
					running[name]++
				}
			}
		}
		if parked := fields["x:parked"]; parked != "" {
			require.Equal(l.t, "scheduled", fields["state"], "%s after %s", jid, what)
			require.Equal(l.t, 1, scheduled[jid], "in how many queues %s is scheduled after %s", jid, what)
			time, name, _ := strings.Cut(parked, " ")
			require.Equal(l.t, fields["time"], time)
			require.Contains(l.t, limits, name)
			require.NoError(l.t, l.rdb.ZScore(ctx, "ql:x:limit:"+name+":wait", jid).Err(), "%s waits after %s", jid, what)
		}
	}
	for _, name := range limitNames {
		most := l.limits[name].Concurrency
		// A job whose lock has ended keeps its slot if it is the next one taken.
		if most == 0 || holding[name] <= most {
			l.loose[name] = most == 0
		}
		require.True(l.t, l.loose[name] || running[name] <= most, "%d run with %s, of %d, after %s", running[name], name, most, what)
		waiting, err := l.rdb.ZRange(ctx, "ql:x:limit:"+name+":wait", 0, -1).Result()
		require.NoError(l.t, err)
		for _, jid := range waiting { // only our scripts are used
			require.NotEmpty(l.t, l.rdb.HGet(ctx, "ql:j:"+jid, "x:parked").Val(), "%s waits for %s after %s", jid, name, what)
		}
	}
}

// lasts reports whether its worker still has the lock on a job.
func (l *limiter) lasts(queue, jid, grace string) bool {
	ends, err := l.rdb.ZScore(l.t.Context(), "ql:q:"+queue+"-locks", jid).Result()
	if err != nil {
		return false
	}
	expires, err := l.rdb.HGet(l.t.Context(), "ql:j:"+jid, "expires").Float64()
	require.NoError(l.t, err)
	now := float64(l.clock.Now().UnixMicro())/1e6 + 0.001
	if grace == "" || ends == expires { // the field is left from the worker before
		return ends+10 > now
	}
	// The grace period begins when a call notices the end of the lock. A slot does not wait for
	// that.
	return ends > now && expires+10 > now
}

// limitsIn returns the limits in a field x:o.
func limitsIn(text string) []string {
	_, rest, _ := strings.Cut(text, `"c":[`)
	list, _, _ := strings.Cut(rest, "]")
	var names []string
	for _, name := range strings.Split(list, ",") {
		if name = strings.ReplaceAll(strings.Trim(name, `"`), `\/`, "/"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// No more jobs run with a limit, or start in a period, than it allows. A parked job is in one
// place. In the end, all jobs can be run.
func TestRandomStepsOfJobsWithLimits(t *testing.T) {
	seed := testkit.Seed(t)
	rdb := testkit.Start(t).Client(t)
	clock := testkit.NewClock()
	client, err := qless.New(rdb, &qless.ClientConfig{Clock: clock.Now, Logger: testkit.Quiet(), WorkerName: "w1"})
	require.NoError(t, err)
	l := &limiter{
		Rand: rand.New(rand.NewPCG(seed, 0)), t: t, client: client, rdb: rdb, clock: clock,
		limits: map[string]qless.LimitConfig{}, loose: map[string]bool{}, starts: map[string][]time.Time{},
		slots: map[string]map[string]bool{},
	}
	for _, name := range limitNames {
		l.set(name)
	}
	const steps = 400
	for range steps {
		l.check(l.step())
	}
	l.drain()
}

// drain runs all jobs, advancing only the clock.
func (l *limiter) drain() {
	ctx := l.t.Context()
	for range 10_000 {
		left := 0
		for _, queue := range limitQueues {
			jobs, err := l.client.Queue(queue).Pop(ctx, 10)
			require.NoError(l.t, err)
			l.took(jobs)
			l.check("the end")
			for _, job := range jobs {
				require.NoError(l.t, job.Complete(ctx))
			}
			counts, err := l.client.Queue(queue).Counts(ctx)
			require.NoError(l.t, err)
			left += counts.Waiting + counts.Running + counts.Stalled + counts.Scheduled
		}
		if left == 0 {
			keys, err := l.rdb.Keys(ctx, "ql:x:limit:*:[hw]*").Result()
			require.NoError(l.t, err)
			require.Empty(l.t, keys, "slots and parked jobs")
			return
		}
		l.clock.Advance(5 * time.Second)
	}
	l.t.Fatal("jobs are left that no worker gets")
}
