package model

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// noon is when the clock of a run begins.
var noon = time.Date(2024, time.January, 2, 12, 0, 0, 0, time.UTC)

// A world is a server and the model of it, which take the same steps.
type world struct {
	t       testing.TB
	ctx     context.Context
	rdb     *redis.Client
	clients map[string]*qless.Client // by the worker's name
	micros  int64                    // the clock: it stands still while a step is played

	handles map[handleKey][]*qless.Job // the latest first
	recurs  map[string]*qless.RecurringJob
	m       *queues
	k       *keyspace // after the last step
}

// newWorld starts a server for a test.
func newWorld(t testing.TB) *world {
	w := &world{t: t, ctx: t.Context(), clients: map[string]*qless.Client{}}
	w.rdb = testkit.Start(t).Client(t)
	for _, name := range workerNames {
		client, err := qless.New(w.rdb,
			qless.WithWorkerName(name),
			qless.WithClock(func() time.Time { return time.UnixMicro(w.micros) }),
			qless.WithLogger(testkit.Quiet()),
		)
		require.NoError(t, err)
		w.clients[name] = client
	}
	w.reset()
	return w
}

// reset empties the server and the model.
func (w *world) reset() {
	require.NoError(w.t, w.rdb.FlushAll(w.ctx).Err())
	w.micros = noon.UnixMicro()
	w.handles, w.recurs = map[handleKey][]*qless.Job{}, map[string]*qless.RecurringJob{}
	w.m, w.k = newQueues(), newKeyspace()
}

// A violation is a check that failed.
type violation struct {
	class string // which one
	kind  string // of what: the field that differs from the model, or the action with a wrong reply
	text  string
}

// play takes one step, and returns what is wrong after it, or nil.
func (w *world) play(s step) *violation {
	w.micros += s.Tick.Microseconds()
	w.m.begin(w.micros)
	a := actionOf(s)
	want := a.predict(w.m, s)
	got := a.play(w, s)
	before := w.k
	w.k = w.read()
	if v := w.check(before); v != nil {
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
	text := fmt.Sprintf("%d.%06d", micros/1e6, micros%1e6)
	m.now, _ = strconv.ParseFloat(text, 64) // as the scripts read it
	m.inOrder = nil
}

// check checks the keys by themselves, then against the model. The model takes over what it can't
// know exactly.
func (w *world) check(before *keyspace) *violation {
	for _, i := range invariants {
		if problem := i.check(w.k, before, w.m); problem != "" {
			return &violation{class: i.name, text: problem}
		}
	}
	if problem := w.m.compare(w.k); problem != "" {
		return &violation{class: "model", kind: strings.Fields(problem)[0], text: problem}
	}
	w.m.adopt(w.k)
	return nil
}

// playAll takes steps from the beginning, and returns the first violation and how many steps led to
// it; nil when there is none.
func (w *world) playAll(steps []step) (*violation, int) {
	w.reset()
	for i, s := range steps {
		if v := w.play(s); v != nil {
			return v, i + 1
		}
	}
	return nil, len(steps)
}
