package model

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// shrinkTime bounds how long a failure is reduced.
const shrinkTime = 2 * time.Minute

// shrink reduces steps that fail to a list that fails in the same way, and of which no step can be
// left out: by delta debugging, from large pieces to single steps.
func shrink(steps []step, fails func([]step) bool) []step {
	deadline := time.Now().Add(shrinkTime)
	pieces := 2
	for len(steps) > 1 && time.Now().Before(deadline) {
		size := (len(steps) + pieces - 1) / pieces
		shorter := withoutPiece(steps, size, fails)
		switch {
		case shorter != nil:
			steps, pieces = shorter, max(2, pieces-1)
		case size == 1:
			return steps
		default:
			pieces = min(2*pieces, len(steps))
		}
	}
	return steps
}

// withoutPiece returns the steps without a piece that the failure does not need; nil when it needs
// every one. The last pieces are tried first: what failed is near the end.
func withoutPiece(steps []step, size int, fails func([]step) bool) []step {
	for to := len(steps); to > 0; to -= size {
		from := max(0, to-size)
		if shorter := slices.Concat(steps[:from], steps[to:]); fails(shorter) {
			return shorter
		}
	}
	return nil
}

// minimal returns the shortest steps that are found to fail as these do, and how they fail.
func (w *world) minimal(steps []step, v *violation) ([]step, *violation) {
	steps = shrink(steps, func(some []step) bool {
		got, _ := w.playAll(some)
		return got != nil && got.class == v.class
	})
	if again, _ := w.playAll(steps); again != nil {
		v = again
	}
	return steps, v
}

// report tells of a failure and the steps that lead to it.
func report(v *violation, steps []step) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\nafter these steps:\n", v.class, v.text)
	for i, s := range steps {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, s)
	}
	return b.String()
}
