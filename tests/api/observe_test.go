package api

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
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

// told describes a call seen by an observer, but not its duration.
func told(call qless.Command) string {
	return strings.Join(strings.Fields(fmt.Sprintln(call.Name, call.Queue, call.Klass, call.JID, call.Count)), " ")
}

func TestTheObserverSeesEachCall(t *testing.T) {
	var seen observer
	e := newEnvWith(t, qless.ClientConfig{Observer: seen.observe})
	defer func() { _ = e.Close() }()
	ctx, q, in, taker := t.Context(), e.Queue("q"), e.inspect(), lease.New(e.Client)
	waiting := in.Queue("q", inspect.Waiting)
	var popped *qless.Job
	put := func(jids ...string) func() {
		return func() {
			for _, jid := range jids {
				e.Put("q", qless.JID(jid))
			}
		}
	}
	fail := func(jids ...string) func() {
		return func() {
			put(jids...)()
			for _, job := range e.Pops("q", 100) {
				require.NoError(t, job.Fail(ctx, "g", ""))
			}
		}
	}
	for _, c := range []struct {
		want   string
		before func()
		do     func() error
	}{
		{"put q K a 1", nil, func() error { return errOf(q.Put(ctx, "K", nil, qless.JID("a"))) }},
		{"put.many q 3", nil, func() error { return errOf(q.PutMany(ctx, []qless.JobSpec{spec(), {Klass: "L"}, spec()})) }},
		{"put.many q K b 1", nil, func() error { return errOf(q.PutMany(ctx, []qless.JobSpec{spec(qless.JID("b"))})) }},
		{"peek q 2", nil, func() error { return errOf(q.Peek(ctx, 2)) }},
		{"pop q 5", nil, func() error { return errOf(q.Pop(ctx, 10)) }},
		{"pop q 0", nil, func() error { return errOf(q.Pop(ctx, 10)) }},
		{"get a 1", nil, func() error { return errOf(e.Job(ctx, "a")) }},
		{"multiget 2", nil, func() error { return errOf(e.Jobs(ctx, "a", "b", "c")) }},
		{"list q 0", nil, func() error { return errOf(waiting.JIDs(ctx, inspect.Range{})) }},
		{"list 0", nil, func() error { return errOf(in.Completed().JIDs(ctx, inspect.Range{})) }},
		{"queues 0", nil, func() error { return errOf(e.Queues(ctx)) }},
		{"cancel x 1", nil, func() error { return e.Cancel(ctx, "x") }},
		{"cancel.all 0", nil, func() error { return e.Cancel(ctx, "x", "y") }},
		{"unfail q 0", nil, func() error { return errOf(repairs.UnfailInto(ctx, e.Client, "q", "g", 5)) }},
		{"queue.settings q 0", nil, func() error { return errOf(q.Settings(ctx)) }},
		{"config.get 0", nil, func() error { return errOf(e.Config().All(ctx)) }},
		{"subscribe 0", nil, func() error { return errOf(events.Listen(ctx, e.Client)) }},
		{"complete q a 1", func() { popped = e.Read("a") }, func() error { return popped.Complete(ctx) }},
		{"reserve q 2", put("c", "d"), func() error {
			return errOf(taker.Take(ctx, lease.Request{Queues: []string{"q"}, Count: 9, NoWait: true}))
		}},
		{"reserve 1", put("e"), func() error {
			return errOf(taker.Take(ctx, lease.Request{Queues: []string{"p", "q"}, NoWait: true}))
		}},
		{"end c 1", nil, func() error { return errOf(repairs.End(ctx, e.Client, "c", repairs.Ending{})) }},
		{"forget c 1", nil, func() error { return repairs.Forget(ctx, e.Client, "c") }},
		{"sweep q 0", nil, func() error { return errOf(e.Sweep(ctx, "q")) }},
		{"sweep 0", nil, func() error { return errOf(e.Sweep(ctx, "*")) }},
		{"latency q 0", nil, func() error { return errOf(in.Latency(ctx, "q")) }},
		{"list q 2", put("f", "g"), func() error { return errOf(waiting.List(ctx, inspect.Range{})) }},
		{"find q 1", nil, func() error { return errOf(waiting.Where(inspect.Filter{JID: "f"}).Find(ctx, "")) }},
		{"repair q 2", nil, func() error { return errOf(waiting.Cancel(ctx)) }},
		{"repair 2", put("h", "i"), func() error { return errOf(in.JIDs("h", "i", "missing").Tag(ctx, "t")) }},
		{"list 2", nil, func() error { return errOf(in.Tagged("t").List(ctx, inspect.Range{})) }},
		{"repair 2", nil, func() error { return errOf(in.JIDs("h", "i").Move(ctx, "other")) }},
		{"repair 1", fail("k", "l"), func() error { return errOf(in.Failed("g").AtMost(1).Unfail(ctx)) }},
		{"repair 1", nil, func() error { return errOf(in.JIDs("k", "l").Unfail(ctx)) }},
		{"repair 3", fail("m"), func() error { return errOf(in.Failed("g").AtMost(10).Cancel(ctx)) }},
		{"limit.set 0", nil, func() error { return e.Limit("smtp").Set(ctx, qless.LimitConfig{Concurrency: 1}) }},
	} {
		t.Run(c.want, func(t *testing.T) {
			if c.before != nil {
				c.before()
			}
			seen.take()
			require.NoError(t, c.do())
			var calls []string
			for _, call := range seen.take() {
				// Some do more, and so does the receiver of a Take that has enough.
				if strings.HasPrefix(c.want, call.Name+" ") && told(call) != "reserve q 0" {
					calls = append(calls, told(call))
					require.Positive(t, call.Duration)
				}
			}
			require.Equal(t, []string{c.want}, calls)
		})
	}
}

// A spanKey is the context key of the span begun by a put observer.
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
	refused := take()
	require.Equal(t, "a", refused.JID, requireCode(t, qless.ErrExists, refused.Err))

	batch := must(e.NewBatch(ctx, "q", qless.JobSpec{Klass: "Done"}))(t)
	require.Equal(t, batch.ID, take().JID)
	require.NoError(t, errOf(batch.Add(ctx, "r", []qless.JobSpec{{Klass: "K"}})))
	require.Equal(t, "r", take().Queue)

	require.Error(t, errOf(q.Put(ctx, "", nil)))
	require.Empty(t, w.take(), "it was refused before")
}

// Puts of many goroutines share scripts, but each has a separate span.
func TestAPutObserverSeesPutsThatGoTogether(t *testing.T) {
	var w putWitness
	e := newEnvWith(t, qless.ClientConfig{Headers: headersOfSpan, PutObserver: w.begin})
	together(20, func(i int) {
		assert.NoError(t, errOf(e.Queue("q").Put(t.Context(), "K", nil, qless.JID(strconv.Itoa(i)))))
	})
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
	sharded := newEnv(t).shardedWith(shards.ByJID, 2, func(string) qless.ClientConfig {
		return qless.ClientConfig{Headers: headersOfSpan, PutObserver: w.begin}
	})
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
	sharded := newEnv(t).shardedWith(shards.ByJID, 2, func(string) qless.ClientConfig {
		return qless.ClientConfig{
			Observer: call, PutObserver: begin, Logger: slog.New(slog.NewTextHandler(&told, nil)),
		}
	})
	queue := sharded.Clients()[0].Queue("q")
	jobs := slices.Repeat([]qless.JobSpec{{Klass: "K"}}, 50)
	puts := map[string]func() error{
		"Put":     func() error { return errOf(queue.Put(t.Context(), "K", nil)) },
		"PutMany": func() error { return errOf(queue.PutMany(t.Context(), jobs)) },
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

// misdeeds are actions of a user's function instead of returning.
var misdeeds = map[string]func(){"panic": func() { panic("a misdeed") }, "goexit": runtime.Goexit}

// An oldCodec decodes by a misdeed.
type oldCodec struct{ misdeed func() }

func (oldCodec) Name() string { return "old" }

func (oldCodec) Encode(_ string, data []byte) ([]byte, string, error) { return data, "", nil }

func (c oldCodec) Decode(string, []byte) ([]byte, error) { c.misdeed(); return nil, nil }

// Where a caller can learn that a function has not returned, the call returns that error.
func TestAMisdeedInACallIsAnError(t *testing.T) {
	for name, misdeed := range misdeeds {
		e := newEnv(t)
		ctx := t.Context()
		e.NewClient(e.Redis, qless.ClientConfig{Codec: oldCodec{}}).Queue("q").Put(ctx, "K", 1, qless.JID("old"))
		calls := map[string]func() error{
			"ClientConfig.Headers": func() error {
				c := e.NewClient(e.Redis, qless.ClientConfig{
					Headers: func(context.Context) map[string]string { misdeed(); return nil },
				})
				err := errOf(c.Queue("q").Put(ctx, "K", nil))
				requireCode(t, qless.ErrInvalid, err)
				return err
			},
			"ClientConfig.OldCodecs": func() error {
				c := e.NewClient(e.Redis, qless.ClientConfig{OldCodecs: []qless.Codec{oldCodec{misdeed}}})
				job := must(c.Job(ctx, "old"))(t)
				var data int
				return job.Unmarshal(&data)
			},
			"Selection.Apply": func() error {
				return errOf(e.inQueue(inspect.Waiting).Apply(ctx,
					func(context.Context, *qless.Job) error { misdeed(); return nil }))
			},
			"Selection.OnStep": func() error {
				return errOf(e.inQueue(inspect.Waiting).OnStep(
					func(inspect.Repair) error { misdeed(); return nil }).Tag(ctx, "red"))
			},
			"Options.Progress": func() error {
				return errOf(doctor.Examine(ctx, e.Redis, doctor.Options{
					Progress: func(doctor.Progress) { misdeed() },
				}))
			},
			"Options.Clock": func() error {
				return errOf(doctor.Examine(ctx, e.Redis, doctor.Options{
					Clock: func() time.Time { misdeed(); return time.Time{} },
				}))
			},
		}
		for function, call := range calls {
			require.ErrorContains(t, call(), "a function ", "%s: %s", function, name)
		}
		reader := doctor.StatusReader{
			Client: e.Client,
			Rates: func(context.Context) (doctor.QueueRates, error) {
				misdeed()
				return doctor.QueueRates{}, nil
			},
		}
		require.ErrorContains(t, errOf(reader.Read(ctx)), "a function ", "Rates: %s", name)
	}
}

// Where the call is done without the function, the problem is logged.
func TestAMisdeedInACallIsLogged(t *testing.T) {
	for _, misdeed := range misdeeds {
		var told bytes.Buffer
		e := newEnvWith(t, qless.ClientConfig{
			Logger: slog.New(slog.NewTextHandler(&told, nil)),
			NextHeaders: func(context.Context, map[string]string) map[string]string {
				misdeed()
				return nil
			},
		})
		t.Cleanup(func() { _ = e.Close() })
		jid := e.Put("q", qless.Headers{"a": "1"})
		require.NoError(t, e.Pop("q").Next(t.Context(), "next"))
		require.Equal(t, qless.Headers{"a": "1"}, e.Read(jid).Headers)
		require.Contains(t, told.String(), "NextHeaders ")

		job := e.Pop("next")
		require.NoError(t, job.SetProgress(t.Context(), 1, 2, ""))
		done := make(chan error, 1)
		begun := make(chan struct{})
		go func() {
			_, err := e.Client.Wait(t.Context(), jid, qless.OnProgress(func(qless.Progress) {
				close(begun)
				misdeed()
			}))
			done <- err
		}()
		<-begun
		require.NoError(t, job.Complete(t.Context()))
		require.NoError(t, <-done)
		require.Contains(t, told.String(), "OnProgress ")
	}
}
