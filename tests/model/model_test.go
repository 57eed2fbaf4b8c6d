package model

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/scripts"
)

var (
	seedFlag  = flag.Uint64("model.seed", 0, "the seed of the first run; 0 for one that is new")
	stepsFlag = flag.Int("model.steps", 8000, "how many steps")
	backFlag  = flag.Bool("model.back", false, "let the clock go back, too, in all of the steps")
)

// runLength is the number of steps on one server: the next run begins with an empty one.
const runLength = 2000

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // every step reads all keys, and keeps little
	testkit.Main(m)
}

func TestStepsForward(t *testing.T) {
	if *backFlag {
		t.Skip("the clock must go back")
	}
	walk(t, *stepsFlag, false)
}

func TestStepsBack(t *testing.T) {
	steps := *stepsFlag
	if !*backFlag {
		steps /= 10
	}
	walk(t, steps, true)
}

// walk takes random steps, in runs.
func walk(t *testing.T, steps int, back bool) {
	seed := newSeed(t)
	w := newWorld(t)
	for ; steps > 0; steps -= runLength {
		if v, taken := w.walk(seed, min(steps, runLength), back); v != nil {
			failed(t, w, seed, taken, v)
		}
		if broken := w.examine(); len(broken) > 0 {
			t.Fatalf("-run %s -model.seed=%d: after the last step: %v", t.Name(), seed, broken)
		}
		seed++
	}
}

// announce prints a line at once: a test's log is lost when the test exceeds the time limit.
func announce(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// walk takes one run of random steps, and returns the first violation and the steps that led to it.
func (w *world) walk(seed uint64, steps int, back bool) (*violation, []step) {
	w.restart()
	d := newDice(seed, w.m, back)
	// Short histories make a run much faster. Other settings lead to longer ones.
	s := step{Do: "Config.Set", Worker: "a", Option: "max-job-history", Value: "10"}
	var taken []step
	for ; steps > 0; steps, s = steps-1, d.step() {
		taken = append(taken, s)
		if v := w.play(s); v != nil {
			return v, taken
		}
	}
	return nil, taken
}

// newSeed returns the given seed, or a new one, and prints it.
func newSeed(t *testing.T) uint64 {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	announce("%s: -model.seed=%d", t.Name(), seed)
	return seed
}

// shrinkTime limits how long a failure is reduced, regardless of the machine's speed.
const shrinkTime = 45 * time.Second

// shrink reduces failing steps to a list that fails in the same way, without unnecessary steps. It
// uses delta debugging, from large pieces to single steps. When the context ends, it returns the
// shortest list so far.
func shrink(ctx context.Context, steps []step, fails func([]step) bool) []step {
	for size := len(steps) / 2; size > 0; {
		shorter := withoutPieces(ctx, steps, size, fails)
		if size > 1 || len(shorter) == len(steps) {
			size /= 2
		}
		steps = shorter
	}
	return steps
}

// withoutPieces returns the steps without the pieces of a size not needed for the failure. It tries
// the last pieces first.
func withoutPieces(
	ctx context.Context, steps []step, size int, fails func([]step) bool,
) []step {
	for to := len(steps); to > 0 && ctx.Err() == nil; to -= size {
		from := max(0, to-size)
		if shorter := slices.Concat(steps[:from], steps[to:]); fails(shorter) {
			steps = shorter
		}
	}
	return steps
}

// shrinkArguments removes unnecessary jobs and jids from the steps of the failure.
func shrinkArguments(ctx context.Context, steps []step, fails func([]step) bool) []step {
	try := func(i int, shorter step) bool {
		if ctx.Err() != nil {
			return false
		}
		changed := slices.Clone(steps)
		changed[i] = shorter
		if !fails(changed) {
			return false
		}
		steps = changed
		return true
	}
	for i := range steps {
		for at := 0; len(steps[i].JIDs) > 1 && at < len(steps[i].JIDs); {
			shorter := steps[i]
			shorter.JIDs = slices.Delete(slices.Clone(shorter.JIDs), at, at+1)
			if !try(i, shorter) {
				at++
			}
		}
		for at := 0; len(steps[i].Many) > 1 && at < len(steps[i].Many); {
			shorter := steps[i]
			shorter.Many = slices.Delete(slices.Clone(shorter.Many), at, at+1)
			if !try(i, shorter) {
				at++
			}
		}
	}
	return steps
}

// report formats a failure and the steps that lead to it.
func report(v *violation, steps []step) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\nafter these steps:\n", v.class, v.text)
	for i, s := range steps {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, s)
	}
	return b.String()
}

// A player takes steps, from the beginning. Each returns the violation after it, or nil.
type player interface {
	restart()
	play(s step) *violation
}

// playAll plays steps from the beginning, and returns the first violation, or nil if there is none
// until the context ends.
func playAll(ctx context.Context, p player, steps []step) *violation {
	p.restart()
	for _, s := range steps {
		if ctx.Err() != nil {
			return nil
		}
		if v := p.play(s); v != nil {
			return v
		}
	}
	return nil
}

// minimal returns the shortest list of steps found, until the context ends, that fails in the same
// way, and its violation.
func minimal(ctx context.Context, p player, steps []step, v *violation) ([]step, *violation) {
	fails := func(some []step) bool {
		got := playAll(ctx, p, some)
		if got == nil || got.class != v.class || got.kind != v.kind {
			return false
		}
		v = got
		return true
	}
	steps = shrink(ctx, steps, fails)
	return shrinkArguments(ctx, steps, fails), v
}

// failed ends the test with the failing steps, reduced as far as time allows.
func failed(t *testing.T, p player, seed uint64, taken []step, v *violation) {
	rerun := fmt.Sprintf("-run %s -model.seed=%d, step %d", t.Name(), seed, len(taken))
	announce("%s: %s: %s", rerun, v.class, v.text)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), shrinkTime)
	defer cancel()
	shortest, again := minimal(ctx, p, taken, v)
	if ctx.Err() != nil {
		announce("%s: there was no time to reduce the steps further", rerun)
	}
	t.Fatalf("%s: %s", rerun, report(again, shortest))
}

// noon is the time at which the clock of a run starts.
var noon = time.Date(2024, time.January, 2, 12, 0, 0, 0, time.UTC)

// A world has a server and its model, both taking the same steps.
type world struct {
	t       testing.TB
	ctx     context.Context
	rdb     *redis.Client
	clients map[string]*qless.Client // by the worker's name
	micros  int64                    // the clock: it stands still while a step is played

	handles map[handleKey][]*qless.Job // the latest first
	recurs  map[string]*qless.RecurringJob
	m       *queues
	k       *keyspace // the keys after the last step
}

// newWorld starts a server for a test.
func newWorld(t testing.TB) *world {
	w := &world{t: t, ctx: t.Context(), clients: map[string]*qless.Client{}}
	w.rdb = redis.NewClient(patient(testkit.Options(testkit.Start(t).Addr())))
	t.Cleanup(func() { _ = w.rdb.Close() })
	for _, name := range workerNames {
		client, err := qless.New(w.rdb, &qless.ClientConfig{
			Clock:      func() time.Time { return time.UnixMicro(w.micros) },
			Logger:     testkit.Quiet(),
			WorkerName: name,
		})
		require.NoError(t, err)
		w.clients[name] = client
	}
	w.restart()
	return w
}

// patient makes a client wait for a slow machine: a call sent twice would not be a single step.
func patient(options *redis.Options) *redis.Options {
	options.MaxRetries = -1
	options.ReadTimeout, options.WriteTimeout = time.Minute, time.Minute
	options.DialTimeout, options.PoolTimeout = time.Minute, time.Minute
	return options
}

// examine returns the doctor's findings in the whole namespace.
func (w *world) examine() []doctor.Reason {
	w.t.Helper()
	report, err := doctor.Examine(w.ctx, w.rdb, doctor.Options{
		Pause: -1, Clock: func() time.Time { return time.UnixMicro(w.micros) },
	})
	require.NoError(w.t, err)
	return report.With(doctor.Broken)
}

// restart empties the server and the model.
func (w *world) restart() {
	require.NoError(w.t, w.rdb.FlushAll(w.ctx).Err())
	w.micros = noon.UnixMicro()
	w.handles, w.recurs = map[handleKey][]*qless.Job{}, map[string]*qless.RecurringJob{}
	w.m, w.k = newQueues(), newKeyspace()
}

// A violation is a failed check.
type violation struct {
	class string // the check
	kind  string // the field that differs from the model, or the action with a wrong reply
	text  string
}

// play takes one step, and returns the violation after it, or nil.
func (w *world) play(s step) *violation {
	w.micros += s.Tick.Microseconds()
	w.m.begin(w.micros)
	w.m.server = w.k
	a := actionOf(s)
	want := a.predict(w.m, s)
	got := a.play(w, s)
	w.update()
	if v := w.check(); v != nil {
		return v
	}
	if got != want {
		text := fmt.Sprintf("the server: %s\nthe model:  %s", got, want)
		return &violation{class: "reply", kind: s.Do, text: text}
	}
	return nil
}

// begin begins a call at a time.
func (m *queues) begin(micros int64) {
	m.now, m.stamp = secondsOf(micros), scripts.Time(time.UnixMicro(micros))
	m.inOrder, m.anyOrder, m.madeLast, m.linked = nil, false, 0, map[string]bool{}
}

// secondsOf returns a time in the form for scripts.
func secondsOf(micros int64) float64 {
	seconds, _ := strconv.ParseFloat(fmt.Sprintf("%d.%06d", micros/1e6, micros%1e6), 64)
	return seconds
}

// check checks the keys by themselves, then against the model. The model adopts the values that it
// can't know exactly.
func (w *world) check() *violation {
	for _, i := range invariants {
		var p problems
		if i.check(&p, w.k, w.m); len(p) > 0 {
			return &violation{class: i.name, text: p.String()}
		}
	}
	var p problems
	if w.m.compare(&p, w.k); len(p) > 0 {
		text := p.String()
		return &violation{class: "model", kind: strings.Fields(text)[0], text: text}
	}
	w.m.adopt(w.k)
	return nil
}
