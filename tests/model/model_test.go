package model

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"github.com/qless/qless-go/internal/testkit"
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
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	announce("%s: -model.seed=%d", t.Name(), seed)
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

// failed ends the test with the failing steps, reduced as far as time allows.
func failed(t *testing.T, w *world, seed uint64, taken []step, v *violation) {
	rerun := fmt.Sprintf("-run %s -model.seed=%d, step %d", t.Name(), seed, len(taken))
	announce("%s: %s: %s", rerun, v.class, v.text)
	ctx, cancel := context.WithTimeout(w.ctx, shrinkTime)
	defer cancel()
	minimal, again := w.minimal(ctx, taken, v)
	if ctx.Err() != nil {
		announce("%s: there was no time to reduce the steps further", rerun)
	}
	t.Fatalf("%s: %s", rerun, report(again, minimal))
}

// announce prints a line at once: a test's log is lost when the test runs into the time limit.
func announce(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// walk takes one run of random steps, and returns the first violation and the steps that led to it.
func (w *world) walk(seed uint64, steps int, back bool) (*violation, []step) {
	w.reset()
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
