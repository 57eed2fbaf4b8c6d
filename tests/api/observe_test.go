package api

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/shards"
	"github.com/qless/qless-go/tests/repairs"
)

// An observer records the calls that it receives.
type observer struct {
	mu    sync.Mutex
	calls []qless.Command
}

func (o *observer) observe(_ context.Context, call qless.Command) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, call)
}

// take returns and removes the recorded calls.
func (o *observer) take() []qless.Command {
	o.mu.Lock()
	defer o.mu.Unlock()
	calls := o.calls
	o.calls = nil
	return calls
}

func TestTheObserverSeesEachCall(t *testing.T) {
	var seen observer
	e := newEnvWith(t, qless.ClientConfig{Observer: seen.observe})
	ctx, q := t.Context(), e.Queue("q")
	for _, c := range []struct {
		do   func() error
		want qless.Command
	}{
		{func() error { _, err := q.Put(ctx, "K", nil, qless.JID("a")); return err },
			qless.Command{Name: "put", Queue: "q", Klass: "K", JID: "a", Count: 1}},
		{func() error {
			_, err := q.PutMany(ctx, []qless.JobSpec{
				{Klass: "K", Options: []qless.PutOption{qless.Tags{"t"}}}, {Klass: "L"}, {Klass: "K"},
			})
			return err
		}, qless.Command{Name: "put.many", Queue: "q", Count: 3}},
		{func() error {
			_, err := q.PutMany(ctx, []qless.JobSpec{
				{Klass: "K", Options: []qless.PutOption{qless.JID("b")}},
			})
			return err
		}, qless.Command{Name: "put.many", Queue: "q", Klass: "K", JID: "b", Count: 1}},
		{func() error { _, err := q.Peek(ctx, 2); return err },
			qless.Command{Name: "peek", Queue: "q", Count: 2}},
		{func() error { _, err := q.Pop(ctx, 10); return err },
			qless.Command{Name: "pop", Queue: "q", Count: 5}},
		{func() error { _, err := q.Pop(ctx, 10); return err },
			qless.Command{Name: "pop", Queue: "q"}},
		{func() error { _, err := e.Job(ctx, "a"); return err },
			qless.Command{Name: "get", JID: "a", Count: 1}},
		{func() error { _, err := e.Jobs(ctx, "a", "b", "c"); return err },
			qless.Command{Name: "multiget", Count: 2}},
		{func() error {
			_, err := inspect.New(e.Client).Queue(q.Name(), inspect.Waiting).JIDs(ctx, inspect.Range{})
			return err
		},
			qless.Command{Name: "list", Queue: "q"}},
		{func() error { _, err := inspect.New(e.Client).Completed().JIDs(ctx, inspect.Range{}); return err },
			qless.Command{Name: "list"}},
		{func() error { _, err := e.Queues(ctx); return err }, qless.Command{Name: "queues"}},
		{func() error { return e.Cancel(ctx, "x") }, qless.Command{Name: "cancel", JID: "x", Count: 1}},
		{func() error { return e.Cancel(ctx, "x", "y") }, qless.Command{Name: "cancel.all"}},
		{func() error {
			_, err := repairs.UnfailInto(ctx, e.Client, q.Name(), "g", 5)
			return err
		},
			qless.Command{Name: "unfail", Queue: "q"}},
		{func() error { _, err := q.Settings(ctx); return err }, qless.Command{Name: "queue.settings", Queue: "q"}},
		{func() error { _, err := e.Config().All(ctx); return err }, qless.Command{Name: "config.get"}},
		{func() error {
			_, err := events.Listen(ctx, e.Client)
			return err
		}, qless.Command{Name: "subscribe"}},
		{func() error {
			popped := e.Read("a")
			seen.take()
			return popped.Complete(ctx)
		}, qless.Command{Name: "complete", Queue: "q", JID: "a", Count: 1}},
	} {
		seen.take()
		require.NoError(t, c.do())
		calls := seen.take()
		require.Len(t, calls, 1, c.want.Name)
		require.Positive(t, calls[0].Duration)
		calls[0].Duration = 0
		require.Equal(t, c.want, calls[0])
	}
}

func TestTheObserverSeesQueuesAndCounts(t *testing.T) {
	var seen observer
	e := newEnvWith(t, qless.ClientConfig{Observer: seen.observe})
	defer func() { _ = e.Close() }()
	ctx, q := t.Context(), e.Queue("q")
	put := func(jids ...string) {
		for _, jid := range jids {
			_, err := q.Put(ctx, "K", nil, qless.JID(jid))
			require.NoError(t, err)
		}
	}
	fail := func(jids ...string) {
		put(jids...)
		jobs, err := q.Pop(ctx, 100)
		require.NoError(t, err)
		for _, job := range jobs {
			require.NoError(t, job.Fail(ctx, "g", ""))
		}
	}
	put("a", "b")
	for _, c := range []struct {
		name string
		do   func() error
		want qless.Command
	}{
		{"Receive", func() error {
			_, err := lease.New(e.Client).Take(ctx, lease.Request{Queues: []string{"q"}, Count: 9, NoWait: true})
			return err
		}, qless.Command{Name: "reserve", Queue: "q", Count: 2}},
		{"Receive of several queues", func() error {
			put("c")
			seen.take()
			_, err := lease.New(e.Client).Take(ctx, lease.Request{Queues: []string{"p", "q"}, NoWait: true})
			return err
		}, qless.Command{Name: "reserve", Count: 1}},
		{"End", func() error { _, err := repairs.End(ctx, e.Client, "a", repairs.Ending{}); return err },
			qless.Command{Name: "end", JID: "a", Count: 1}},
		{"Forget", func() error { return repairs.Forget(ctx, e.Client, "a") },
			qless.Command{Name: "forget", JID: "a", Count: 1}},
		{"Sweep", func() error { _, err := e.Sweep(ctx, "q"); return err },
			qless.Command{Name: "sweep", Queue: "q"}},
		{"Sweep of all queues", func() error { _, err := e.Sweep(ctx, "*"); return err },
			qless.Command{Name: "sweep"}},
		{"Latency", func() error { _, err := inspect.New(e.Client).Latency(ctx, q.Name()); return err },
			qless.Command{Name: "latency", Queue: "q"}},
		{"List", func() error {
			put("d", "e")
			seen.take()
			_, err := inspect.New(e.Client).Queue(q.Name(), inspect.Waiting).List(ctx, inspect.Range{})
			return err
		}, qless.Command{Name: "list", Queue: "q", Count: 2}},
		{"Find", func() error {
			_, err := inspect.New(e.Client).Queue(q.Name(), inspect.Waiting).Where(inspect.Filter{JID: "d"}).Find(ctx, "")
			return err
		}, qless.Command{Name: "find", Queue: "q", Count: 1}},
		{"Cancel", func() error {
			_, err := inspect.New(e.Client).Queue(q.Name(), inspect.Waiting).Cancel(ctx)
			return err
		}, qless.Command{Name: "repair", Queue: "q", Count: 2}},
		{"Tag", func() error {
			put("f", "g")
			seen.take()
			_, err := inspect.New(e.Client).JIDs("f", "g", "missing").Tag(ctx, "t")
			return err
		}, qless.Command{Name: "repair", Count: 2}},
		{"List of a tag", func() error { _, err := inspect.New(e.Client).Tagged("t").List(ctx, inspect.Range{}); return err },
			qless.Command{Name: "list", Count: 2}},
		{"Move", func() error { _, err := inspect.New(e.Client).JIDs("f", "g").Move(ctx, "other"); return err },
			qless.Command{Name: "repair", Count: 2}},
		{"Unfail of a group", func() error {
			fail("h", "i")
			seen.take()
			_, err := inspect.New(e.Client).Failed("g").AtMost(1).Unfail(ctx)
			return err
		}, qless.Command{Name: "repair", Count: 1}},
		{"Unfail of jobs", func() error { _, err := inspect.New(e.Client).JIDs("h", "i").Unfail(ctx); return err },
			qless.Command{Name: "repair", Count: 1}},
		{"Cancel of a group", func() error {
			fail("j")
			seen.take()
			_, err := inspect.New(e.Client).Failed("g").AtMost(10).Cancel(ctx)
			return err
		}, qless.Command{Name: "repair", Count: 3}},
		{"Limit.Set", func() error {
			return e.Limit("smtp").Set(ctx, qless.LimitConfig{Concurrency: 1})
		}, qless.Command{Name: "limit.set"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen.take()
			require.NoError(t, c.do())
			calls := seen.take()
			for i := range calls {
				calls[i].Duration = 0
			}
			require.Contains(t, calls, c.want)
		})
	}
}

// A spanKey is the context key of the span that a put observer has begun.
type spanKey struct{}

// A putWitness begins a span for each put, adds it to the headers, and records the ends.
type putWitness struct {
	observer
	begun int
}

func (w *putWitness) begin(
	ctx context.Context, put qless.Command,
) (context.Context, func(qless.Command)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun++
	span := fmt.Sprintf("%s %s %d", put.Name, put.Queue, w.begun)
	return context.WithValue(ctx, spanKey{}, span), func(put qless.Command) { w.observe(ctx, put) }
}

func headersOfSpan(ctx context.Context) map[string]string {
	span, _ := ctx.Value(spanKey{}).(string)
	return map[string]string{"span": span}
}

func TestAPutObserverBeginsAndEndsEachPut(t *testing.T) {
	var w putWitness
	e := newEnvWith(t, qless.ClientConfig{Headers: headersOfSpan, PutObserver: w.begin})
	ctx, q := t.Context(), e.Queue("q")
	span := func(jid string) string { return e.Read(jid).Headers["span"] }
	take := func() qless.Command {
		calls := w.take()
		require.Len(t, calls, 1)
		require.Positive(t, calls[0].Duration)
		calls[0].Duration = 0
		return calls[0]
	}

	_, err := q.Put(ctx, "K", nil, qless.JID("a"))
	require.NoError(t, err)
	require.Equal(t, qless.Command{Name: "put", Queue: "q", Klass: "K", JID: "a", Count: 1}, take())
	require.Equal(t, "put q 1", span("a"))

	jids, err := q.PutMany(ctx, []qless.JobSpec{{Klass: "K"}, {Klass: "L"}})
	require.NoError(t, err)
	require.Equal(t, qless.Command{Name: "put.many", Queue: "q", Count: 2}, take())
	require.Equal(t, "put.many q 2", span(jids[0]))
	require.Equal(t, "put.many q 2", span(jids[1]))

	_, err = q.Put(ctx, "K", nil, qless.JID("a"), qless.IfAbsent)
	requireCode(t, qless.ErrExists, err)
	requireCode(t, qless.ErrExists, take().Err)

	batch, err := e.NewBatch(ctx, "q", qless.JobSpec{Klass: "Done"})
	require.NoError(t, err)
	require.Equal(t, batch.ID, take().JID)
	_, err = batch.Add(ctx, "r", []qless.JobSpec{{Klass: "K"}})
	require.NoError(t, err)
	require.Equal(t, "r", take().Queue)

	_, err = q.Put(ctx, "", nil)
	require.Error(t, err)
	require.Empty(t, w.take(), "it was refused before")
}

// Puts of many goroutines share scripts, but each has a span of its own.
func TestAPutObserverSeesPutsThatGoTogether(t *testing.T) {
	var w putWitness
	e := newEnvWith(t, qless.ClientConfig{Headers: headersOfSpan, PutObserver: w.begin})
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			_, err := e.Queue("q").Put(t.Context(), "K", nil, qless.JID(strconv.Itoa(i)))
			assert.NoError(t, err)
		})
	}
	all.Wait()
	require.Len(t, w.take(), 20)
	spans := map[string]bool{}
	for i := range 20 {
		spans[e.Read(strconv.Itoa(i)).Headers["span"]] = true
	}
	require.Len(t, spans, 20)
}

func TestAPutObserverMayWatchOnlyTheBegin(t *testing.T) {
	type key struct{}
	var seen any
	e := newEnvWith(t, qless.ClientConfig{
		Headers: func(ctx context.Context) map[string]string { seen = ctx.Value(key{}); return nil },
		PutObserver: func(ctx context.Context, _ qless.Command) (context.Context, func(qless.Command)) {
			return context.WithValue(ctx, key{}, "begun"), nil
		},
	})
	_, err := e.Queue("q").Put(t.Context(), "K", nil)
	require.NoError(t, err)
	require.Equal(t, "begun", seen)
}

func TestAPutObserverSeesThePutOfEachShard(t *testing.T) {
	var w putWitness
	config := qless.ClientConfig{Headers: headersOfSpan, PutObserver: w.begin, Namespace: "a:"}
	a := newEnvWith(t, config)
	config.Namespace = "b:"
	b := a.NewClient(a.Redis, config)
	sharded, err := shards.New(shards.ByJID, a.Client, b)
	require.NoError(t, err)
	jids, err := sharded.Queue("q").PutMany(t.Context(), slices.Repeat([]qless.JobSpec{{Klass: "K"}}, 50))
	require.NoError(t, err)
	calls := w.take()
	require.Len(t, calls, 2)
	require.Equal(t, 50, calls[0].Count+calls[1].Count)
	for _, jid := range jids {
		job, err := sharded.Client("q", jid).Job(t.Context(), jid)
		require.NoError(t, err)
		require.Contains(t, job.Headers["span"], "put.many q ")
	}
}

// Shards are queried in the module's own goroutines, where users could not recover from a panic.
func TestAnObserverThatDoesNotReturnIsLogged(t *testing.T) {
	var broken string
	misdeed := func() { panic("broken") }
	breaksIf := func(isBroken bool) {
		if isBroken {
			misdeed()
		}
	}
	begin := func(ctx context.Context, _ qless.Command) (context.Context, func(qless.Command)) {
		breaksIf(broken == "begin")
		return ctx, func(qless.Command) { breaksIf(broken == "end") }
	}
	call := func(context.Context, qless.Command) { breaksIf(broken == "call") }
	var told bytes.Buffer
	config := qless.ClientConfig{
		Observer: call, PutObserver: begin, Namespace: "a:",
		Logger: slog.New(slog.NewTextHandler(&told, nil)),
	}
	a := newEnvWith(t, config)
	config.Namespace = "b:"
	b := a.NewClient(a.Redis, config)
	sharded, err := shards.New(shards.ByJID, a.Client, b)
	require.NoError(t, err)
	jobs := slices.Repeat([]qless.JobSpec{{Klass: "K"}}, 50)
	puts := map[string]func() error{
		"Put":     func() error { _, err := a.Queue("q").Put(t.Context(), "K", nil); return err },
		"PutMany": func() error { _, err := a.Queue("q").PutMany(t.Context(), jobs); return err },
		"shards":  func() error { _, err := sharded.Queue("q").PutMany(t.Context(), jobs); return err },
	}
	for name, put := range puts {
		for _, broken = range []string{"begin", "end", "call"} {
			for _, misdeed = range []func(){func() { panic("broken") }, runtime.Goexit} {
				told.Reset()
				require.NoError(t, put(), "%s: %s", name, broken)
				require.Contains(t, told.String(), "Observer ", "%s: %s", name, broken)
			}
		}
		broken = ""
		told.Reset()
		require.NoError(t, put(), name)
		require.Empty(t, told.String())
	}
}

func TestTheObserverSeesErrors(t *testing.T) {
	var seen observer
	e := newEnvWith(t, qless.ClientConfig{Observer: seen.observe})
	job := e.Read(e.Put("q", qless.JID("nobody")))
	require.NoError(t, job.Cancel(t.Context()))
	seen.take()
	require.Error(t, job.Tag(t.Context(), "red"))
	calls := seen.take()
	require.Len(t, calls, 1)
	requireCode(t, qless.ErrNotFound, calls[0].Err)
	require.Equal(t, "nobody", calls[0].JID)

	_, err := e.Queue("").Counts(t.Context())
	require.Error(t, err)
	require.Empty(t, seen.take(), "nothing was sent")
}
