package model

import (
	"bytes"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/dump"
	"github.com/qless/qless-go/internal/testkit"
)

// The numbers of all steps, and of steps between two dumps.
const (
	dumpSteps = 400
	dumpEvery = 80
)

// notDumped are the keys rewritten by workers.
var notDumped = []string{
	"x:due:", "x:empty", "x:filled", "x:follow:", "x:idle", "x:list:", "x:listed:", "x:looked:",
	"x:relay", "x:swept", "x:worker:",
}

// all returns the contents of the server, except for keys not dumped, and the expiring keys.
func (w *world) all() (testkit.Keyspace, map[string]bool) {
	keys, expire := testkit.Dump(w.t, w.rdb, prefix+"*"), map[string]bool{}
	for key := range keys {
		for _, name := range notDumped {
			if strings.HasPrefix(key, prefix+name) {
				delete(keys, key)
			}
		}
		if e := w.k.entries[key]; e != nil && e.expires {
			expire[key] = true
		}
	}
	return keys, expire
}

// move dumps the server, empties it, and restores it through another namespace: no value may
// contain the first namespace.
func (w *world) move() {
	w.t.Helper()
	const other = "{other}:"
	keys, expire := w.all()
	texts := [2]string{w.dump(prefix), ""}
	require.NoError(w.t, w.rdb.FlushDB(w.ctx).Err())
	w.restore(other, texts[0])
	texts[1] = w.dump(other)
	require.NoError(w.t, w.rdb.FlushDB(w.ctx).Err())
	w.restore(prefix, texts[1])
	w.update()
	after, expireAfter := w.all()
	require.Equal(w.t, keys, after)
	maps.DeleteFunc(expire, func(key string, _ bool) bool { return keys[key] == nil })
	require.Equal(w.t, expire, expireAfter)
}

func (w *world) dump(namespace string) string {
	w.t.Helper()
	var text bytes.Buffer
	n, err := dump.Open(w.ctx, w.rdb, namespace, func() {})
	require.NoError(w.t, err)
	_, err = n.Write(w.ctx, &text)
	require.NoError(w.t, err)
	return text.String()
}

// restore restores a dump, and compares the result.
func (w *world) restore(namespace, text string) {
	w.t.Helper()
	n, err := dump.Open(w.ctx, w.rdb, namespace, func() {})
	require.NoError(w.t, err)
	require.NoError(w.t, n.Restore(w.ctx, strings.NewReader(text)))
	found, err := n.Compare(w.ctx, strings.NewReader(text))
	require.NoError(w.t, err)
	require.Equal(w.t, dump.Comparison{Same: strings.Count(text, "\n") - 2}, found)
}

// The model agrees with restored jobs, and with their further course.
func TestDumpsHoldAllThatTheModelKnows(t *testing.T) {
	seed := newSeed(t)
	w := newWorld(t)
	d := newDice(seed, w.m, false)
	for i := range dumpSteps {
		if v := w.play(d.step()); v != nil {
			t.Fatalf("-model.seed=%d, step %d: %s: %s", seed, i, v.class, v.text)
		}
		if i%dumpEvery == dumpEvery-1 {
			w.move()
			require.Nil(t, w.check())
		}
	}
	require.Empty(t, w.examine())
}

// Jobs with all options, batches, limits and shares follow the rules, and are all run in the end.
func TestDumpsHoldWhatAnyCommandLeaves(t *testing.T) {
	seed := newSeed(t)
	x := newMix(t)
	for x.taken < dumpSteps {
		x.restart()
		d := newDrawer(seed, x)
		for i := range mixedLength {
			if v := x.play(d.step()); v != nil {
				t.Fatalf("-model.seed=%d, step %d: %s: %s", seed, i, v.class, v.text)
			}
			if i%dumpEvery == dumpEvery-1 {
				x.move()
			}
		}
		if v := x.play(step{Do: "Drain"}); v != nil {
			t.Fatalf("-model.seed=%d, drained: %s: %s", seed, v.class, v.text)
		}
		seed++
	}
}
