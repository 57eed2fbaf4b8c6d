package api

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/tests/repairs"
)

// badNames are invalid as names of anything.
var badNames = []string{"", "\xff", "a\xc3(", "\xed\xa0\x80"}

// A usage is a call that is given a name.
type usage func(ctx context.Context, name string) error

// usages returns every call that is given a name. It has a job of each kind to use.
func usages(e *env, job *qless.Job) map[string]usage {
	update := e.updates("r")
	q := e.Queue("q")
	return map[string]usage{
		"Cancel":       func(ctx context.Context, s string) error { return e.Cancel(ctx, "waiting", s) },
		"Config.Get":   func(ctx context.Context, s string) error { return errOf(e.Config().Get(ctx, s)) },
		"Config.Set":   func(ctx context.Context, s string) error { return e.Config().Set(ctx, s, "1") },
		"Config.Unset": func(ctx context.Context, s string) error { return e.Config().Unset(ctx, s) },
		"Deregister":   func(ctx context.Context, s string) error { return e.inspect().ForgetWorkers(ctx, "w1", s) },
		"Failed": func(ctx context.Context, s string) error {
			return errOf(e.inspect().Failed(s).JIDs(ctx, inspect.Range{}))
		},
		"Job":          func(ctx context.Context, s string) error { return errOf(e.Job(ctx, s)) },
		"Jobs":         func(ctx context.Context, s string) error { return errOf(e.Jobs(ctx, "waiting", s)) },
		"RecurringJob": func(ctx context.Context, s string) error { return errOf(e.RecurringJob(ctx, s)) },
		"Tagged": func(ctx context.Context, s string) error {
			return errOf(e.inspect().Tagged(s).JIDs(ctx, inspect.Range{}))
		},
		"Worker":       func(ctx context.Context, s string) error { _, err := repairs.HeldBy(ctx, e.Client, s); return err },
		"Job.Depend":   func(ctx context.Context, s string) error { return job.Depend(ctx, "waiting", s) },
		"Job.Fail":     func(ctx context.Context, s string) error { return job.Fail(ctx, s, "m") },
		"Job.Log":      func(ctx context.Context, s string) error { return job.Log(ctx, s, nil) },
		"Job.Move":     func(ctx context.Context, s string) error { return job.Move(ctx, s) },
		"Job.Tag":      func(ctx context.Context, s string) error { return job.Tag(ctx, "a", s) },
		"Job.Undepend": func(ctx context.Context, s string) error { return job.Undepend(ctx, "waiting", s) },
		"Job.Untag":    func(ctx context.Context, s string) error { return job.Untag(ctx, "a", s) },
		"Put klass":    func(ctx context.Context, s string) error { return errOf(q.Put(ctx, s, nil)) },
		"Put tag": func(ctx context.Context, s string) error {
			return errOf(q.Put(ctx, "K", nil, qless.Tags{"a", s}))
		},
		"Put depends": func(ctx context.Context, s string) error {
			return errOf(q.Put(ctx, "K", nil, qless.DependsOn{s}))
		},
		"Recur klass": func(ctx context.Context, s string) error { _, err := q.Recur(ctx, s, nil, time.Hour); return err },
		"Recur jid": func(ctx context.Context, s string) error {
			return errOf(q.Recur(ctx, "K", nil, time.Hour, qless.JID(s)))
		},
		"Recur tag": func(ctx context.Context, s string) error {
			return errOf(q.Recur(ctx, "K", nil, time.Hour, qless.Tags{s}))
		},
		"Recurring.Tags": func(ctx context.Context, s string) error {
			return update(func(r *qless.RecurringJob) { r.Tags = []string{"b", s} })
		},
		"Recurring.Queue": func(ctx context.Context, s string) error { return update(func(r *qless.RecurringJob) { r.Queue = s }) },
		"Recurring.Klass": func(ctx context.Context, s string) error { return update(func(r *qless.RecurringJob) { r.Klass = s }) },
		"Client.Unfail": func(ctx context.Context, s string) error {
			return errOf(repairs.Unfail(ctx, e.Client, s, 1))
		},
		"Job.Next":     func(ctx context.Context, s string) error { return job.Next(ctx, s) },
		"Job.Next tag": func(ctx context.Context, s string) error { return job.Next(ctx, "q", qless.Tags{s}) },
		"Unfail group": func(ctx context.Context, s string) error {
			return errOf(repairs.Unfail(ctx, e.Client, s, 1))
		},
		"Queue.Put":      func(ctx context.Context, s string) error { _, err := e.Queue(s).Put(ctx, "K", nil); return err },
		"Queue.Pop":      func(ctx context.Context, s string) error { return errOf(e.Queue(s).Pop(ctx, 1)) },
		"Queue.Peek":     func(ctx context.Context, s string) error { return errOf(e.Queue(s).Peek(ctx, 1)) },
		"Queue.Counts":   func(ctx context.Context, s string) error { return errOf(e.Queue(s).Counts(ctx)) },
		"Queue.Settings": func(ctx context.Context, s string) error { return errOf(e.Queue(s).Settings(ctx)) },
		"Queue.Jobs": func(ctx context.Context, s string) error {
			return errOf(e.inspect().Queue(s, inspect.Waiting).JIDs(ctx, inspect.Range{}))
		},
		"Queue.Pause":   func(ctx context.Context, s string) error { return e.Queue(s).Pause(ctx) },
		"Queue.Unpause": func(ctx context.Context, s string) error { return e.Queue(s).Resume(ctx) },
		"Queue.Forget":  func(ctx context.Context, s string) error { return e.ForgetQueue(ctx, s) },
		"Move into": func(ctx context.Context, s string) error {
			return errOf(e.inspect().Failed("g").Move(ctx, s))
		},
		"Queue.Recur": func(ctx context.Context, s string) error {
			return errOf(e.Queue(s).Recur(ctx, "K", nil, time.Hour))
		},
		"Recurring list": func(ctx context.Context, s string) error {
			return errOf(e.inspect().Queue(s, inspect.Recurring).JIDs(ctx, inspect.Range{}))
		},
		"Queue.Stats": func(ctx context.Context, s string) error { return errOf(e.Queue(s).Stats(ctx, noon)) },
	}
}

func TestBadNamesAreRefusedEverywhere(t *testing.T) {
	e := stage(t)
	for what, use := range usages(e, e.Read("running")) {
		for _, name := range badNames {
			e.Unchanged(func() { requireCode(t, qless.ErrInvalid, use(t.Context(), name)) })
		}
		_ = what
	}
}

func TestBadJIDsAreRefusedByPut(t *testing.T) {
	e := stage(t)
	e.Unchanged(func() {
		for _, jid := range badNames {
			_, err := e.Queue("q").Put(t.Context(), "K", nil, qless.JID(jid))
			requireCode(t, qless.ErrInvalid, err)
		}
	})
}

func TestNoNamesAtAllAreRefused(t *testing.T) {
	e := stage(t)
	job := e.Read("running")
	e.Unchanged(func() {
		for _, err := range []error{
			e.Cancel(t.Context()), errOf(e.inspect().JIDs().Timeout(t.Context())), e.inspect().ForgetWorkers(t.Context()), job.Tag(t.Context()),
			job.Untag(t.Context()), job.Depend(t.Context()), job.Undepend(t.Context()),
		} {
			requireCode(t, qless.ErrInvalid, err)
		}
	})
}

func TestBadNumbersAreRefused(t *testing.T) {
	e := stage(t)
	ctx := t.Context()
	q, job, update := e.Queue("q"), e.Read("running"), e.updates("r")
	put := func(option qless.PutOption) error { return errOf(q.Put(ctx, "K", nil, option)) }
	recur := func(every time.Duration, options ...qless.RecurOption) error {
		return errOf(q.Recur(ctx, "K", nil, every, options...))
	}
	page := func(p inspect.Range) error {
		_, one := e.inspect().Queue(q.Name(), inspect.Waiting).JIDs(ctx, p)
		_, two := e.inspect().Completed().JIDs(ctx, p)
		_, three := e.inspect().Failed("g").JIDs(ctx, p)
		_, four := e.inspect().Tagged("a").JIDs(ctx, p)
		_, five := e.inspect().Tags(ctx, p)
		_, six := e.inspect().Queue(q.Name(), inspect.Recurring).JIDs(ctx, p)
		for _, err := range []error{two, three, four, five, six} {
			require.Equal(t, one == nil, err == nil)
		}
		return one
	}
	count := func(n int) error {
		_, one := q.Pop(ctx, n)
		_, two := q.Peek(ctx, n)
		_, three := repairs.Unfail(ctx, e.Client, "g", n)
		requireCode(t, qless.ErrInvalid, two)
		requireCode(t, qless.ErrInvalid, three)
		return one
	}
	e.Unchanged(func() {
		for what, err := range map[string]error{
			"put delay":        put(qless.Delay(-1)),
			"put retries":      put(qless.Retries(-1)),
			"put too many":     put(qless.Retries(math.MaxInt)),
			"put priority":     put(qless.Priority(math.MaxInt)),
			"put low priority": put(qless.Priority(math.MinInt)),
			"move delay":       job.Move(ctx, "q", qless.Delay(-time.Second)),
			"complete delay":   job.Next(ctx, "q", qless.Delay(-1)),
			"retry delay":      errOf(job.Retry(ctx, -1, "", "")),
			"release delay":    job.Release(ctx, -1),
			"next retries":     job.Next(ctx, "q", qless.Retries(-1)),
			"next priority":    job.Next(ctx, "q", qless.Priority(math.MaxInt)),
			"set priority":     job.SetPriority(ctx, math.MaxInt),
			"interval 0":       recur(0),
			"interval -1":      recur(-1),
			"offset":           recur(time.Hour, qless.Offset(-1)),
			"backlog":          recur(time.Hour, qless.Backlog(-1)),
			"recur retries":    recur(time.Hour, qless.Retries(-1)),
			"recur many":       recur(time.Hour, qless.Backlog(math.MaxInt)),
			"set interval 0":   update(func(r *qless.RecurringJob) { r.Interval = 0 }),
			"set interval -1":  update(func(r *qless.RecurringJob) { r.Klass, r.Interval = "K2", -time.Hour }),
			"set retries":      update(func(r *qless.RecurringJob) { r.Retries = -1 }),
			"set many retries": update(func(r *qless.RecurringJob) { r.Retries = math.MaxInt }),
			"set backlog":      update(func(r *qless.RecurringJob) { r.Backlog, r.Queue = -1, "q2" }),
			"set high":         update(func(r *qless.RecurringJob) { r.Priority = math.MaxInt }),
			"set jid":          update(func(r *qless.RecurringJob) { r.JID = "another" }),
			"set count":        update(func(r *qless.RecurringJob) { r.Count++ }),
			"page offset":      page(inspect.Range{Offset: -1}),
			"page limit":       page(inspect.Range{Limit: -2}),
			"page many":        page(inspect.Range{Limit: 100_001}),
			"page far":         page(inspect.Range{Offset: math.MaxInt}),
			"count 0":          count(0),
			"count -1":         count(-1),
			"count many":       count(math.MaxInt),
		} {
			require.ErrorIs(t, err, qless.ErrInvalid, what)
		}
	})
}

func TestDataThatIsNoJSONIsRefused(t *testing.T) {
	e := stage(t)
	job, update := e.Read("running"), e.updates("r")
	circle := map[string]any{}
	circle["self"] = circle
	e.Unchanged(func() {
		for _, data := range []any{
			make(chan int), func() {}, math.NaN(), math.Inf(1), complex(1, 1), circle, map[bool]int{true: 1},
			[]byte(""), []byte("{"), []byte("\xff"), raw(""), raw("{"), raw("nan"), raw("{} {}"), raw("[1,]"), raw("'x'"), raw("0x10"), raw("\"\xff\""), raw("1."),
		} {
			requireCode(t, qless.ErrInvalid, errOf(e.Queue("q").Put(t.Context(), "K", data)))
			requireCode(t, qless.ErrInvalid, errOf(e.Queue("q").Recur(t.Context(), "K", data, time.Hour)))
			if text, isText := data.(json.RawMessage); isText {
				requireCode(t, qless.ErrInvalid, update(func(r *qless.RecurringJob) { r.Data = text }))
			}
			requireCode(t, qless.ErrInvalid, job.SetData(data))
			requireCode(t, qless.ErrInvalid, job.Log(t.Context(), "m", data))
		}
		for _, data := range []string{"", "{", "nan", "\"\xff\""} {
			job.Data = raw(data)
			for _, err := range []error{
				job.Complete(t.Context()), errOf(job.Heartbeat(t.Context())), job.Fail(t.Context(), "g", "m"), job.Move(t.Context(), "q"),
			} {
				require.Equal(t, "running", requireCode(t, qless.ErrInvalid, err).JID)
			}
		}
	})
}

// Some JSON is valid for Go, but refused by the server's decoder.
func TestDataThatTheScriptsCannotReadIsRefused(t *testing.T) {
	e := newEnv(t)
	deep := func(n int) []byte {
		text := make([]byte, 0, 2*n)
		for range n {
			text = append(text, '[')
		}
		for range n {
			text = append(text, ']')
		}
		return text
	}
	for _, data := range []string{
		string(deep(1000)), `"\ud83d\ude00"`, `"\uD83D\uDE00\u00e9\\ud800"`, `["[", "\"[", "\\", "\ud7ff\ue000"]`,
	} {
		_, err := e.Queue("q").Put(t.Context(), "K", raw(data))
		require.NoError(t, err, data)
		job := e.Pop("q")
		require.Equal(t, data, string(job.Data))
		require.NoError(t, errOf(job.Heartbeat(t.Context())), data)
		require.NoError(t, job.Fail(t.Context(), "g", "m"), data)
	}
	e.Unchanged(func() {
		for _, data := range []string{
			string(deep(1001)), string(deep(9000)), string(deep(11000)),
			`"\ud800"`, `"\udc00"`, `"\ud800\ud800"`, `"\ud800\u0061"`, `"\ud800x"`, `"\ud800xudc00"`, `{"\uD83D":1}`, `["\\\ud800"]`,
		} {
			requireCode(t, qless.ErrInvalid, errOf(e.Queue("q").Put(t.Context(), "K", raw(data))))
			_, err := e.Run(t.Context(), "put", "", "w1", "q", "j", "K", data, "0")
			requireCode(t, qless.ErrInvalid, err)
		}
	})
}

func TestAJobCannotDependOnItself(t *testing.T) {
	e := stage(t)
	child := e.Read("child")
	e.Unchanged(func() {
		_, err := e.Queue("q").Put(t.Context(), "K", nil, qless.JID("j"), qless.DependsOn{"parent", "j"})
		require.Equal(t, "j", requireCode(t, qless.ErrInvalid, err).JID)
		requireCode(t, qless.ErrInvalid, child.Depend(t.Context(), "child"))
		requireCode(t, qless.ErrInvalid, child.Undepend(t.Context(), "child"))
		requireCode(t, qless.ErrInvalid, child.Move(t.Context(), "q", qless.DependsOn{"child"}))
		running := e.Read("running")
		requireCode(t, qless.ErrInvalid, running.Next(t.Context(), "q", qless.DependsOn{"running"}))
	})
}

func TestUnknownJIDs(t *testing.T) {
	e := stage(t)
	job := e.Read("running")
	require.NoError(t, e.Cancel(t.Context(), "running"))
	e.Unchanged(func() {
		for i, err := range []error{
			job.Complete(t.Context()), job.Fail(t.Context(), "g", "m"), errOf(job.Retry(t.Context(), 0, "", "")), errOf(job.Heartbeat(t.Context())),
			job.Move(t.Context(), "q"), job.Tag(t.Context(), "a"), job.Untag(t.Context(), "a"),
			job.Depend(t.Context(), "parent"), job.Undepend(t.Context(), "parent"), job.UndependAll(t.Context()),
			job.SetPriority(t.Context(), 1), job.Track(t.Context()), job.Untrack(t.Context()),
			job.Log(t.Context(), "m", nil), job.Refresh(t.Context()), job.Unfail(t.Context()),
			job.Next(t.Context(), "q"), job.Release(t.Context(), 0),
		} {
			require.Equal(t, "running", requireCode(t, qless.ErrNotFound, err).JID, fmt.Sprint(i))
		}
		require.NoError(t, job.Cancel(t.Context()), "it is gone, as requested")
	})
}

func TestOfSeveralFaultsTheSameIsReported(t *testing.T) {
	e := newEnv(t)
	in, ctx := e.inspect(), t.Context()
	bad := "\xff"
	for name, run := range map[string]func() error{
		"Filter": func() error {
			f := inspect.Filter{Klass: bad, Tag: bad, JID: bad, Data: bad}
			return errOf(in.Completed().Where(f).Count(ctx))
		},
		"Headers": func() error {
			return errOf(e.Queue("q").Put(ctx, "K", 1, qless.JID("j"), qless.Headers{"a": bad, "b": bad, "c": bad, "d": bad}))
		},
		"RateQuery": func() error {
			return errOf(in.Rates(ctx, inspect.RateQuery{Queue: bad, Klass: bad}))
		},
		"Weights": func() error {
			return errOf(qless.NewWorker(e.Client, qless.WorkerConfig{
				Queues: []string{"a", "b", "c"}, Weights: map[string]int{"a": -1, "b": -1, "c": -1},
			}))
		},
		"WorkerConfig": func() error {
			return errOf(qless.NewWorker(e.Client, qless.WorkerConfig{
				Queues: []string{"q"}, Linger: -5, MaxRunTime: -5, ShutdownTimeout: -5, UnknownKlassDelay: -5,
			}))
		},
	} {
		first := run()
		requireCode(t, qless.ErrInvalid, first)
		for range 50 {
			require.EqualError(t, run(), first.Error(), name)
		}
	}
}
