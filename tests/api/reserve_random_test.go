package api

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// reserveSteps is the number of random steps of each scene.
const reserveSteps = 150

// Whatever the queues, their settings and the limits of the jobs are, a worker that gets fewer jobs
// than it asked for has left none that may start, and none may start before it asks again.
// RESERVE_SEED repeats a run.
func TestAReserveLeavesNoJobThatMayStart(t *testing.T) {
	seed := rand.Uint64()
	if given := os.Getenv("RESERVE_SEED"); given != "" {
		seed = must(strconv.ParseUint(given, 10, 64))(t)
	}
	t.Logf("RESERVE_SEED=%d", seed)
	for i, order := range []string{"ordered", "round-robin", "shuffled", "weighted"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			r := &reserving{env: newEnv(t), order: order, dice: rand.New(rand.NewPCG(seed, uint64(i)))}
			r.limit("one", qless.LimitConfig{Concurrency: 1})
			r.limit("two", qless.LimitConfig{Concurrency: 2})
			r.limit("slow", qless.LimitConfig{Rate: 2, Per: 10 * time.Second})
			r.limit("each", qless.LimitConfig{Concurrency: 1})
			r.Set("b-max-concurrency", 2)
			r.Set("c-max-rate", "3/20")
			for range reserveSteps {
				r.step()
			}
			require.Positive(t, r.checks)
		})
	}
}

// A limit's room is not kept for a job of a queue that may start none at present.
func TestAFullQueueLeavesTheRoomOfALimit(t *testing.T) {
	e := newEnv(t)
	e.limit("api", qless.LimitConfig{Concurrency: 1})
	e.Set("full-max-concurrency", 1)
	holder := e.Put("q", qless.Limits{"api"})
	e.run("reserve", "w1", "1", "10", "0", "q")
	e.Put("full", qless.JID("high"), qless.Limits{"api"}, qless.Priority(5))
	e.run("reserve", "w2", "1", "10", "0", "full")
	e.Put("full")
	e.run("reserve", "w2", "1", "10", "0", "full")
	e.Put("q", qless.JID("low"), qless.Limits{"api"})
	e.run("reserve", "w3", "1", "10", "0", "q")

	require.NoError(t, must(e.As("w1").Job(t.Context(), holder))(t).Complete(t.Context()))
	require.Len(t, e.Pops("q", 1), 1)
}

// A lost job that a full limit parks leaves its place to another one.
func TestAParkedLostJobLeavesItsPlace(t *testing.T) {
	e := newEnv(t)
	e.limit("api", qless.LimitConfig{Concurrency: 1})
	e.Put("q", qless.JID("limited"), qless.Limits{"api"}, qless.LockTime(time.Second))
	require.Len(t, e.Pops("q", 1), 1)
	e.Clock.Advance(2 * time.Second)
	e.limit("api", qless.LimitConfig{Concurrency: 1, Rate: 1, Per: time.Hour})
	e.Put("other", qless.Limits{"api"})
	require.Len(t, e.Pops("other", 1), 1)
	e.Put("q", qless.JID("free"))

	reply := e.run("reserve", "w2", "1", "10", "0", "q").([]any)
	require.Len(t, reply, 6)
	require.True(t, strings.HasPrefix(reply[5].(string), "free\x01"), reply[5])
}

// A worker asks again at once when the lost jobs that it met can't be taken yet, but others can.
func TestLostJobsInTheirGracePeriodHideNoOthers(t *testing.T) {
	e := newEnv(t)
	for range 4 {
		e.Put("q")
	}
	require.Len(t, e.Pops("q", 4), 4)
	e.Clock.Advance(time.Minute + time.Second)
	e.Put("q", qless.LockTime(time.Second), qless.Priority(1))
	require.Len(t, e.Pops("q", 1), 1)
	e.Clock.Advance(2 * time.Second)

	reply := e.run("reserve", "w2", "2", "60", "0", "q").([]any)
	require.Equal(t, "0", reply[1], reply)
	require.Len(t, e.run("reserve", "w2", "2", "60", "0", "q"), 6)
}

// A reserving is a namespace that is changed at random, with one worker.
type reserving struct {
	*env
	order  string
	dice   *rand.Rand
	jobs   int
	steps  []string
	checks int
}

var (
	reservedQueues = []string{"a", "b", "c", "paused"}
	reservedLimits = []string{"one", "two", "slow", "each/x", "each/y"}
)

// seconds draws a number of whole seconds less than n.
func (r *reserving) seconds(n int) time.Duration {
	return time.Duration(r.dice.IntN(n)) * time.Second
}

// note adds a line to the log of the scene, the end of which is printed on a failure.
func (r *reserving) note(format string, args ...any) {
	r.steps = append(r.steps, r.Clock.Now().Format("05.000000 ")+fmt.Sprintf(format, args...))
}

func (r *reserving) step() {
	r.T.Helper()
	ctx, queue := r.T.Context(), reservedQueues[r.dice.IntN(len(reservedQueues))]
	switch r.dice.IntN(8) {
	case 0, 1, 2:
		r.jobs++
		options := []qless.PutOption{qless.JID("j" + strconv.Itoa(r.jobs)), qless.Priority(r.dice.IntN(3))}
		if r.dice.IntN(3) == 0 {
			options = append(options, qless.Delay(r.seconds(5)))
		}
		if at := r.dice.IntN(2 * len(reservedLimits)); at < len(reservedLimits) && queue != "paused" {
			options = append(options, qless.Limits{reservedLimits[at]})
		}
		switch r.dice.IntN(8) {
		case 0:
			options = append(options, qless.StartBy(5*time.Second+r.seconds(20)))
		case 1:
			options = append(options, qless.TTL(5*time.Second+r.seconds(20)))
		case 2:
			options = append(options, qless.LockTime(time.Second+r.seconds(10)))
		case 3:
			options = append(options, []qless.OnLost{qless.OnLostLast, qless.OnLostInPlace}[r.dice.IntN(2)])
		case 4:
			options = append(options, qless.Retries(0))
		case 5:
			options = append(options, qless.Fair(strconv.Itoa(r.dice.IntN(3))))
		}
		r.note("put %s %v", queue, options)
		r.Put(queue, options...)
	case 3:
		running := r.Redis.ZRange(ctx, "ql:w:w:jobs", 0, -1).Val()
		if len(running) == 0 {
			return
		}
		job, err := r.As("w").Job(ctx, running[r.dice.IntN(len(running))])
		if err == nil {
			r.note("complete %s", job.JID)
			err = job.Complete(ctx)
		}
		if !errors.Is(err, qless.ErrNotFound) { // its life may be over
			require.NoError(r.T, err)
		}
	case 4:
		r.Clock.Advance(time.Duration(r.dice.IntN(5000)) * time.Millisecond)
	case 5:
		if r.dice.IntN(2) == 0 {
			require.NoError(r.T, r.Queue("paused").Pause(ctx))
		} else {
			require.NoError(r.T, r.Queue("paused").Resume(ctx))
		}
	default:
		r.reserve(1+r.dice.IntN(4), r.dice.IntN(3))
	}
}

// reserve asks for jobs, and checks that none is left behind if there are too few.
func (r *reserving) reserve(count, ahead int) {
	r.T.Helper()
	pairs := []any{"order", r.order, "cursor", 1 + r.dice.IntN(1000), "ahead", ahead}
	if r.order == "weighted" {
		pairs = append(pairs, "weights", "1 2 3 1")
	}
	for {
		args := append([]any{"w", count, 30, len(pairs)}, pairs...)
		for _, queue := range reservedQueues {
			args = append(args, queue)
		}
		items := must(r.Do(r.T.Context(), "reserve", args...))(r.T).([]any)
		r.note("reserve %v -> %q", args, items)
		wait := must(strconv.ParseFloat(items[1].(string), 64))(r.T)
		count -= max(0, len(items)-5)
		switch {
		case count <= 0:
			return
		case wait > 0 && wait <= 0.002:
			r.Clock.Advance(2 * time.Millisecond)
		case wait > 0:
			r.requireNone("now")
			r.checks++
			if wait > 1 { // a full limit is looked at once a second
				r.Clock.Advance(time.Duration(wait*1000)*time.Millisecond - 2*time.Millisecond)
				r.requireNone("before the worker asks again")
			}
			return
		}
	}
}

// requireNone checks that no job of any queue may start.
func (r *reserving) requireNone(when string) {
	r.T.Helper()
	promised := r.promised()
	for _, queue := range reservedQueues {
		var told []string
		for _, job := range r.Pops(queue, 9) {
			if limits := job.Options.Limits; len(limits) == 0 || !promised[limits[0]] {
				told = append(told, job.JID+" with the limits "+strings.Join(limits, ", "))
			}
		}
		require.Empty(r.T, told, "%s: %s may start jobs, after\n%s", when, queue,
			strings.Join(r.steps[max(0, len(r.steps)-20):], "\n"))
	}
}

// promised returns the limits with jobs that wait in full queues. These got the room while their
// queues were not full. A parked job is tried when it falls due.
func (r *reserving) promised() map[string]bool {
	found := map[string]bool{}
	for _, queue := range []string{"b", "c"} {
		for _, jid := range r.Redis.ZRange(r.T.Context(), "ql:q:"+queue+"-work", 0, -1).Val() {
			for _, limit := range must(r.Job(r.T.Context(), jid))(r.T).Options.Limits {
				found[limit] = true
			}
		}
	}
	return found
}
