package model

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// shrinkTime limits how long a failure is reduced, however slow the machine is.
const shrinkTime = 45 * time.Second

// shrink reduces failing steps to a list that fails in the same way, and in which every step is
// needed. It uses delta debugging, from large pieces to single steps. When the context ends, it
// returns the shortest list so far.
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

// withoutPieces returns the steps without the pieces of a size that the failure does not need. It
// tries the last ones first.
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

// shrinkArguments removes jobs and jids from the steps that the failure does not need.
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

// minimal returns the shortest list of steps found, until the context ends, that fails in the same
// way, and its violation.
func (w *world) minimal(ctx context.Context, steps []step, v *violation) ([]step, *violation) {
	fails := func(some []step) bool {
		got := w.playAll(ctx, some)
		if got == nil || got.class != v.class || got.kind != v.kind {
			return false
		}
		v = got
		return true
	}
	steps = shrink(ctx, steps, fails)
	return shrinkArguments(ctx, steps, fails), v
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
