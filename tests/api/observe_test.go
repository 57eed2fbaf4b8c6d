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
		{func() error { return errOf(q.Put(ctx, "K", nil, qless.JID("a"))) },
			qless.Command{Name: "put", Queue: "q", Klass: "K", JID: "a", Count: 1}},
		{func() error {
			_, err := q.PutMany(ctx, []qless.JobSpec{
				spec(qless.Tags{"t"}), {Klass: "L"}, {Klass: "K"},
			})
			return err
		}, qless.Command{Name: "put.many", Queue: "q", Count: 3}},
		{func() error {
			_, err := q.PutMany(ctx, []qless.JobSpec{
				spec(qless.JID("b")),
			})
			return err
		}, qless.Command{Name: "put.many", Queue: "q", Klass: "K", JID: "b", Count: 1}},
		{func() error { return errOf(q.Peek(ctx, 2)) },
			qless.Command{Name: "peek", Queue: "q", Count: 2}},
		{func() error { return errOf(q.Pop(ctx, 10)) },
			qless.Command{Name: "pop", Queue: "q", Count: 5}},
		{func() error { return errOf(q.Pop(ctx, 10)) },
			qless.Command{Name: "pop", Queue: "q"}},
		{func() error { return errOf(e.Job(ctx, "a")) },
			qless.Command{Name: "get", JID: "a", Count: 1}},
		{func() error { return errOf(e.Jobs(ctx, "a", "b", "c")) },
			qless.Command{Name: "multiget", Count: 2}},
		{func() error {
			return errOf(e.inspect().Queue(q.Name(), inspect.Waiting).JIDs(ctx, inspect.Range{}))
		},
			qless.Command{Name: "list", Queue: "q"}},
		{func() error { return errOf(e.inspect().Completed().JIDs(ctx, inspect.Range{})) },
			qless.Command{Name: "list"}},
		{func() error { return errOf(e.Queues(ctx)) }, qless.Command{Name: "queues"}},
		{func() error { return e.Cancel(ctx, "x") }, qless.Command{Name: "cancel", JID: "x", Count: 1}},
		{func() error { return e.Cancel(ctx, "x", "y") }, qless.Command{Name: "cancel.all"}},
		{func() error { return errOf(repairs.UnfailInto(ctx, e.Client, q.Name(), "g", 5)) },
			qless.Command{Name: "unfail", Queue: "q"}},
		{func() error { return errOf(q.Settings(ctx)) }, qless.Command{Name: "queue.settings", Queue: "q"}},
		{func() error { return errOf(e.Config().All(ctx)) }, qless.Command{Name: "config.get"}},
		{func() error { return errOf(events.Listen(ctx, e.Client)) }, qless.Command{Name: "subscribe"}},
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
			require.NoError(t, errOf(q.Put(ctx, "K", nil, qless.JID(jid))))
		}
	}
	fail := func(jids ...string) {
		put(jids...)
		for _, job := range must(q.Pop(ctx, 100))(t) {
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
			return errOf(lease.New(e.Client).Take(ctx, lease.Request{Queues: []string{"p", "q"}, NoWait: true}))
		}, qless.Command{Name: "reserve", Count: 1}},
		{"End", func() error { return errOf(repairs.End(ctx, e.Client, "a", repairs.Ending{})) },
			qless.Command{Name: "end", JID: "a", Count: 1}},
		{"Forget", func() error { return repairs.Forget(ctx, e.Client, "a") },
			qless.Command{Name: "forget", JID: "a", Count: 1}},
		{"Sweep", func() error { return errOf(e.Sweep(ctx, "q")) },
			qless.Command{Name: "sweep", Queue: "q"}},
		{"Sweep of all queues", func() error { return errOf(e.Sweep(ctx, "*")) },
			qless.Command{Name: "sweep"}},
		{"Latency", func() error { return errOf(e.inspect().Latency(ctx, q.Name())) },
			qless.Command{Name: "latency", Queue: "q"}},
		{"List", func() error {
			put("d", "e")
			seen.take()
			return errOf(e.inspect().Queue(q.Name(), inspect.Waiting).List(ctx, inspect.Range{}))
		}, qless.Command{Name: "list", Queue: "q", Count: 2}},
		{"Find", func() error {
			return errOf(e.inspect().Queue(q.Name(), inspect.Waiting).Where(inspect.Filter{JID: "d"}).Find(ctx, ""))
		}, qless.Command{Name: "find", Queue: "q", Count: 1}},
		{"Cancel", func() error {
			return errOf(e.inspect().Queue(q.Name(), inspect.Waiting).Cancel(ctx))
		}, qless.Command{Name: "repair", Queue: "q", Count: 2}},
		{"Tag", func() error {
			put("f", "g")
			seen.take()
			return errOf(e.inspect().JIDs("f", "g", "missing").Tag(ctx, "t"))
		}, qless.Command{Name: "repair", Count: 2}},
		{"List of a tag", func() error { return errOf(e.inspect().Tagged("t").List(ctx, inspect.Range{})) },
			qless.Command{Name: "list", Count: 2}},
		{"Move", func() error { return errOf(e.inspect().JIDs("f", "g").Move(ctx, "other")) },
			qless.Command{Name: "repair", Count: 2}},
		{"Unfail of a group", func() error {
			fail("h", "i")
			seen.take()
			return errOf(e.inspect().Failed("g").AtMost(1).Unfail(ctx))
		}, qless.Command{Name: "repair", Count: 1}},
		{"Unfail of jobs", func() error { return errOf(e.inspect().JIDs("h", "i").Unfail(ctx)) },
			qless.Command{Name: "repair", Count: 1}},
		{"Cancel of a group", func() error {
			fail("j")
			seen.take()
			return errOf(e.inspect().Failed("g").AtMost(10).Cancel(ctx))
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

	require.NoError(t, errOf(q.Put(ctx, "K", nil, qless.JID("a"))))
	require.Equal(t, qless.Command{Name: "put", Queue: "q", Klass: "K", JID: "a", Count: 1}, take())
	require.Equal(t, "put q 1", span("a"))

	jids := must(q.PutMany(ctx, []qless.JobSpec{{Klass: "K"}, {Klass: "L"}}))(t)
	require.Equal(t, qless.Command{Name: "put.many", Queue: "q", Count: 2}, take())
	require.Equal(t, "put.many q 2", span(jids[0]))
	require.Equal(t, "put.many q 2", span(jids[1]))

	requireCode(t, qless.ErrExists, errOf(q.Put(ctx, "K", nil, qless.JID("a"), qless.IfAbsent)))
	requireCode(t, qless.ErrExists, take().Err)

	batch := must(e.NewBatch(ctx, "q", qless.JobSpec{Klass: "Done"}))(t)
	require.Equal(t, batch.ID, take().JID)
	require.NoError(t, errOf(batch.Add(ctx, "r", []qless.JobSpec{{Klass: "K"}})))
	require.Equal(t, "r", take().Queue)

	require.Error(t, errOf(q.Put(ctx, "", nil)))
	require.Empty(t, w.take(), "it was refused before")
}

// Puts of many goroutines share scripts, but each has a span of its own.
func TestAPutObserverSeesPutsThatGoTogether(t *testing.T) {
	var w putWitness
	e := newEnvWith(t, qless.ClientConfig{Headers: headersOfSpan, PutObserver: w.begin})
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			assert.NoError(t, errOf(e.Queue("q").Put(t.Context(), "K", nil, qless.JID(strconv.Itoa(i)))))
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
	require.NoError(t, errOf(e.Queue("q").Put(t.Context(), "K", nil)))
	require.Equal(t, "begun", seen)
}

func TestAPutObserverSeesThePutOfEachShard(t *testing.T) {
	var w putWitness
	config := qless.ClientConfig{Headers: headersOfSpan, PutObserver: w.begin, Namespace: "a:"}
	a := newEnvWith(t, config)
	config.Namespace = "b:"
	b := a.NewClient(a.Redis, config)
	sharded := must(shards.New(shards.ByJID, a.Client, b))(t)
	jids := must(sharded.Queue("q").PutMany(t.Context(), slices.Repeat([]qless.JobSpec{{Klass: "K"}}, 50)))(t)
	calls := w.take()
	require.Len(t, calls, 2)
	require.Equal(t, 50, calls[0].Count+calls[1].Count)
	for _, jid := range jids {
		job := must(sharded.Client("q", jid).Job(t.Context(), jid))(t)
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
	sharded := must(shards.New(shards.ByJID, a.Client, b))(t)
	jobs := slices.Repeat([]qless.JobSpec{{Klass: "K"}}, 50)
	puts := map[string]func() error{
		"Put":     func() error { return errOf(a.Queue("q").Put(t.Context(), "K", nil)) },
		"PutMany": func() error { return errOf(a.Queue("q").PutMany(t.Context(), jobs)) },
		"shards":  func() error { return errOf(sharded.Queue("q").PutMany(t.Context(), jobs)) },
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

	require.Error(t, errOf(e.Queue("").Counts(t.Context())))
	require.Empty(t, seen.take(), "nothing was sent")
}
