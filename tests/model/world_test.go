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
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/scripts"
)

// noon is the time at which the clock of a run starts.
var noon = time.Date(2024, time.January, 2, 12, 0, 0, 0, time.UTC)

// A world has a server and its model, which take the same steps.
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
	w.reset()
	return w
}

// patient makes a client wait for a slow machine: a call that is sent twice would not be a single
// step.
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

// reset empties the server and the model.
func (w *world) reset() {
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

// check checks the keys by themselves, then against the model, which adopts the values that it
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

// playAll plays steps from the beginning, and returns the first violation, or nil if there is none
// until the context ends.
func (w *world) playAll(ctx context.Context, steps []step) *violation {
	w.reset()
	for _, s := range steps {
		if ctx.Err() != nil {
			return nil
		}
		if v := w.play(s); v != nil {
			return v
		}
	}
	return nil
}
