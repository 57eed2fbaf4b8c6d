package api

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/shards"
	"github.com/qless/qless-go/tests/repairs"
	"github.com/qless/qless-go/tests/scripts"
)

// badNames are invalid as names of anything.
var badNames = []string{"", "\xff", "a\xc3(", "\xed\xa0\x80"}

// usages returns every call that is given a name. It has a job of each kind to use.
func usages(e *env, job *qless.Job) map[string]func(name string) error {
	ctx, update, q, in, all := e.T.Context(), e.updates("r"), e.Queue("q"), e.inspect(), inspect.Range{}
	put := func(option qless.PutOption) error { return errOf(q.Put(ctx, "K", nil, option)) }
	recur := func(option qless.RecurOption) error { return errOf(q.Recur(ctx, "K", nil, time.Hour, option)) }
	return map[string]func(s string) error{
		"Cancel":          func(s string) error { return e.Cancel(ctx, "waiting", s) },
		"Config.Get":      func(s string) error { return errOf(e.Config().Get(ctx, s)) },
		"Config.Set":      func(s string) error { return e.Config().Set(ctx, s, "1") },
		"Config.Unset":    func(s string) error { return e.Config().Unset(ctx, s) },
		"Deregister":      func(s string) error { return in.ForgetWorkers(ctx, "w1", s) },
		"Failed":          func(s string) error { return errOf(in.Failed(s).JIDs(ctx, all)) },
		"Job":             func(s string) error { return errOf(e.Job(ctx, s)) },
		"Jobs":            func(s string) error { return errOf(e.Jobs(ctx, "waiting", s)) },
		"RecurringJob":    func(s string) error { return errOf(e.RecurringJob(ctx, s)) },
		"Tagged":          func(s string) error { return errOf(in.Tagged(s).JIDs(ctx, all)) },
		"Worker":          func(s string) error { return errOf(repairs.HeldBy(ctx, e.Client, s)) },
		"Job.Depend":      func(s string) error { return job.Depend(ctx, "waiting", s) },
		"Job.Fail":        func(s string) error { return job.Fail(ctx, s, "m") },
		"Job.Log":         func(s string) error { return job.Log(ctx, s, nil) },
		"Job.Move":        func(s string) error { return job.Move(ctx, s) },
		"Job.Next":        func(s string) error { return job.Next(ctx, s) },
		"Job.Next tag":    func(s string) error { return job.Next(ctx, "q", qless.Tags{s}) },
		"Job.Tag":         func(s string) error { return job.Tag(ctx, "a", s) },
		"Job.Undepend":    func(s string) error { return job.Undepend(ctx, "waiting", s) },
		"Job.Untag":       func(s string) error { return job.Untag(ctx, "a", s) },
		"Put klass":       func(s string) error { return errOf(q.Put(ctx, s, nil)) },
		"Put tag":         func(s string) error { return put(qless.Tags{"a", s}) },
		"Put depends":     func(s string) error { return put(qless.DependsOn{s}) },
		"Recur klass":     func(s string) error { return errOf(q.Recur(ctx, s, nil, time.Hour)) },
		"Recur jid":       func(s string) error { return recur(qless.JID(s)) },
		"Recur tag":       func(s string) error { return recur(qless.Tags{s}) },
		"Recurring.Tags":  func(s string) error { return update(func(r *qless.RecurringJob) { r.Tags = []string{"b", s} }) },
		"Recurring.Queue": func(s string) error { return update(func(r *qless.RecurringJob) { r.Queue = s }) },
		"Recurring.Klass": func(s string) error { return update(func(r *qless.RecurringJob) { r.Klass = s }) },
		"Client.Unfail":   func(s string) error { return errOf(repairs.Unfail(ctx, e.Client, s, 1)) },
		"Queue.Put":       func(s string) error { return errOf(e.Queue(s).Put(ctx, "K", nil)) },
		"Queue.Pop":       func(s string) error { return errOf(e.Queue(s).Pop(ctx, 1)) },
		"Queue.Peek":      func(s string) error { return errOf(e.Queue(s).Peek(ctx, 1)) },
		"Queue.Counts":    func(s string) error { return errOf(e.Queue(s).Counts(ctx)) },
		"Queue.Settings":  func(s string) error { return errOf(e.Queue(s).Settings(ctx)) },
		"Queue.Jobs":      func(s string) error { return errOf(in.Queue(s, inspect.Waiting).JIDs(ctx, all)) },
		"Queue.Pause":     func(s string) error { return e.Queue(s).Pause(ctx) },
		"Queue.Unpause":   func(s string) error { return e.Queue(s).Resume(ctx) },
		"Queue.Forget":    func(s string) error { return e.ForgetQueue(ctx, s) },
		"Queue.Recur":     func(s string) error { return errOf(e.Queue(s).Recur(ctx, "K", nil, time.Hour)) },
		"Queue.Stats":     func(s string) error { return errOf(e.Queue(s).Stats(ctx, noon)) },
		"Queue.Latency":   func(s string) error { return errOf(in.Latency(ctx, s)) },
		"Move into":       func(s string) error { return errOf(in.Failed("g").Move(ctx, s)) },
		"Recurring list":  func(s string) error { return errOf(in.Queue(s, inspect.Recurring).JIDs(ctx, all)) },
	}
}

func TestBadNamesAreRefusedEverywhere(t *testing.T) {
	e := stage(t)
	for what, use := range usages(e, e.Read("running")) {
		for _, name := range badNames {
			e.Unchanged(func() { require.ErrorIs(t, use(name), qless.ErrInvalid, what) })
		}
	}
}

func TestBadJIDsAreRefusedByCallsThatEndOrWait(t *testing.T) {
	e := stage(t)
	ctx, sharded := t.Context(), e.sharded(shards.ByJID, 2)
	e.Unchanged(func() {
		for _, bad := range []string{"", "j-history", "\xff"} {
			for _, err := range []error{
				errOf(e.Result(ctx, bad)), errOf(e.Wait(ctx, bad)), errOf(e.WaitAll(ctx, "waiting", bad)),
				errOf(sharded.Result(ctx, bad)), errOf(sharded.Wait(ctx, bad)), errOf(sharded.WaitAll(ctx, bad)),
				errOf(repairs.End(ctx, e.Client, bad, repairs.Ending{})), repairs.Forget(ctx, e.Client, bad),
				lease.New(e.Client).Withdraw(ctx, bad),
			} {
				requireCode(t, qless.ErrInvalid, err)
			}
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
		one := errOf(e.inspect().Tags(ctx, p))
		for _, selection := range selections(e) {
			require.Equal(t, one == nil, errOf(selection.JIDs(ctx, p)) == nil)
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
		requireCode(t, qless.ErrInvalid, e.Read("running").Next(t.Context(), "q", qless.DependsOn{"running"}))
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

// calls are commands that succeed on a stage. Many arguments have the form SIGN NAME = VALUE. The
// sign says what they are: # a number, % an integer, + a non-negative integer, @ an array of names,
// $ JSON, ~ a text that is not empty, ! any text. Without them, the command is refused, unless a
// question mark follows the name.
var calls = []string{
	`put|w1|~Queue=q|~jid?=new|!klass=K|$data=[]|#delay=0|priority|#priority?=1|retries|#retries?=2|tags|@tags?=["a"]|depends|@depends?=["parent"]`,
	`put|w1|~Queue=q|~jid?=running|!klass=K|$data=[]|#delay=0|priority|#priority?=1|retries|#retries?=2|tags|@tags?=["a"]|depends|@depends?=["parent"]`,
	`requeue|w1|q|!jid=waiting|!klass=K|$data=[]|#delay=0|priority|#priority?=1|retries|#retries?=2|tags|@tags?=["a"]|depends|@depends?=["parent"]`,
	`put.many|w1||q|~jid?=new|K|$data?=[]|#delay?=0|+n=4|priority|#priority?=1|tags|@tags?=["a"]|q2|~jid?=other|K|$data?=[]|#delay?=0|+n=2|depends|@depends?=["parent"]`,
	`schedule|!id=s|#due=1|+missed=2|w1|~Queue=q|~jid?=new|!klass=K|$data=[]|#delay=0|priority|#priority?=1`,
	`schedule.last|!id=s`,
	`schedule.last|!id=s|w1|~digest=digest`,
	`schedule.register|~id=s|~digest=digest|!spec=0 0 * * *|!on_missed=once|!queue=q|!klass=K|!only=|!data={}|!pairs=[]`,
	`schedule.leave|!worker=w1|s`,
	`schedule.forget|!id=s`,
	`schedules|!id=s`,
	`schedules|+offset?=0|+limit?=25`,
	`recur|~Queue=q|~jid=r|!klass=K|$data=[]|interval|#interval=60|#offset=0|priority|#priority?=1|tags|@tags?=[]|retries|#retries?=2|backlog|#backlog?=3`,
	`recur.update|!Recurring=r|priority|#priority?=1|interval|#interval?=60|retries|#retries?=2|data|$data?=[]|klass|K|queue|~queue?=q2|backlog|#backlog?=3|tags|@tags?=["a"]`,
	`complete|!Job=running|!worker=w1|!queue=q|$data=[]|next|q|delay|#delay?=1|priority|#priority?=1|retries|#retries?=2|tags|@tags?=[]|depends|@depends?=["parent"]`,
	`complete|!Job=running|!worker=w1|!queue=q|$data={}|result|$result?=[]`,
	`fail|!Job=running|!worker=w1|!group=g|!message=m|$data?=[]|$result?=[]`,
	`heartbeat|!Job=running|!worker=w1|$data?=[]`,
	`retry|!Job=running|!queue=q|!worker=w1|#delay?=1|g|m`,
	`retry|!Job=running|!queue=q|!worker=w1|#delay?=1|||here||$data?=[]|$result?=[]`,
	`result|!Job=running`,
	`await|!Job=running`,
	`progress|!worker=w1|~jid?=running||#done?=1|#total?=2|n`,
	`worker.register|~worker=w1|#age=1|$json=[]`,
	`rates.add|~run=run|+number=1|#age=0`,
	`rates|#first=0|+minutes=1`,
	`queue.history|#from=0|~queue?=q`,
	`put|w1|~Queue=q|~jid?=new|!klass=K|$data=[]|#delay=0|batch|~batch?=batch`,
	`relations|!Job=waiting|dependents|!cursor=0`,
	`withdraw|!Job=running`,
	`end|!Job=running|complete|||+tries=0|$result?=[]`,
	`end|!Job=running|failed|~group?=g|m|+tries=2`,
	`forget|!Job=running`,
	`finish|!worker=w1|complete|running|q|[]|+n=12|next|q|delay|#delay?=1|priority|#priority?=1|retries|#retries?=2|tags|@tags?=[]|depends|@depends?=["parent"]`,
	`finish|!worker=w1|fail|running|q|[]|+n=4|group|g|message|m`,
	`finish|!worker=w1|complete|running|q|[]|+n=2|result|$result?=[]`,
	`finish|!worker=w1|retry|running|q|[]|+n=6|delay|#delay?=1|group|g|message|m`,
	`finish|!worker=w1|release|running|q|[]|+n=2|delay|#delay?=1`,
	`finish|!worker=w1|release|running|q|[]|+n=4|delay|#delay?=1|place|+place?=1`,
	`finish|!worker=w1|release|running|q|[]|+n=4|delay|#delay?=1|throttled|@throttled?=["api"]`,
	`limit.set|!name=api|+concurrency=1|+rate=1|#per=1`,
	`limit.hold|!name=api|#seconds=1`,
	`limit.delete|!name=api`,
	`limit.info|!name=api`,
	`queue.settings|!Queue=q`,
	`overview|+offset?=0|+count?=1|+more?=1|~queue?=q`,
	`pop|!Queue=q|!worker=w1|+count=1`,
	`peek|!Queue=q|+count=1`,
	`reserve|!worker=w1|+count=1|#poll=1|+n=4|order|round-robin|cursor|+cursor?=0|~queue?=q`,
	`reserve|!worker=w1|+count=1|#poll=1|+n=6|ahead|+ahead?=1|owner|~owner?=w2|lock|#lock?=5|~queue?=q`,
	`priority|!Job=waiting|#priority=1`,
	`unfail|!Queue=q|!group=g|+count?=1`,
	`repair|!action=unfail|!value=|failed|g|@jids?=["failed"]|+limit=1|+n=0|retries|+retries?=1|ttl|60`,
	`repair|!action=unfail|!value=|jids||@jids?=["failed"]|+limit=1|+n=0|retries|+retries?=1`,
	`list|waiting|q|+offset=0|+count=1|+shown=9`,
	`find|waiting|q|!cursor=|+count=1|+limit=0|+shown?=9|K|a|b|c|1|1`,
	`failures|!group=g|!cursor=|+count=1`,
	`repair|!action=cancel|!value=|failed|g|@jids?=["failed"]|+limit=1|+n=0`,
	`repair|!action=cancel|!value=|waiting|q|@jids?=["waiting"]|+limit=1|+n=6|K|||||`,
	`repair|!action=priority|#priority?=1|jids||@jids?=["waiting"]|+limit=1|+n=0`,
	`repair|!action=tag|@tags?=["a"]|jids||@jids?=["waiting"]|+limit=1|+n=0`,
	`repair|!action=move|!value=q|jids||@jids?=["waiting"]|+limit=1|+n=0|worker|w1|delay|#delay?=0|priority|#priority?=1`,
	`reschedule|!Job=waiting|#seconds=1`,
	`log|!jid=waiting|!message=m|$data?=[]`,
	`depends|!Job=child|!command=on|waiting`,
	`tag|get|!tag=a|%offset?=0|%count?=1`,
	`tag|top|%offset?=0|%count?=1`,
	`failed|g|%start?=0|%limit?=1`,
	`jobs|!state=waiting|!queue=q|%offset?=0|%count?=1`,
	`jobs|!state=scheduled|!queue=q|%offset?=0|%count?=1`,
	`jobs|!state=complete|0|%count?=1`,
	`jobs|!state=complete|q|%offset?=0|%count?=1`,
	`release|!Job=running|!queue=q|!worker=w1|#delay=0|$data=[]`,
	`depart|!worker=w|!claim=c`,
	`popByJid|!Queue=q|!jid=waiting|!worker=w1`,
	`subscription|!queue=q|!action=add|!topic=a.b`,
	`tags|+offset=0|+count=1`,
	`stats|!Queue=q|#date=0`,
	`config.set|!option=heartbeat|!value=1`,
	`config.unset|!option=heartbeat`,
}

// badBySign has invalid values for arguments of each kind.
var badBySign = map[byte][]string{
	'#': {"", "x", "nan", "NaN", "-nan", "inf", "-inf", "infinity", "1e400", "-1e400", "1,5", "1 2", "{}", "\x00"},
	'%': {"", "x", "nan", "inf", "1e400", "1.5", "4294967296", "-4294967296", "1e300"},
	'+': {"", "x", "nan", "inf", "1e400", "-1", "1.5", "4294967296", "1e300"},
	'@': {"", "x", "5", "true", "null", `"a"`, `{"a":1}`, `{"1":"a"}`, "[{}]", "[[]]", "[null]", "[true]", `["a",{}]`, `["a"`, `["a"] x`},
	'$': {"", "{", "[1,]", "x", "{}{}", "'a'", "\x00"},
	'~': {""},
}

// A parameter is an argument of a call.
type parameter struct {
	area     string // how errors begin
	sign     byte   // 0 if the call says nothing about it
	name     string
	optional bool
	value    string
}

var signed = regexp.MustCompile(`(?s)^([#%+@$~!])(\w+)(\??)=(.*)$`)

// parametersOf returns a call's line as it succeeds, and its arguments.
func parametersOf(call string) (line []string, all []parameter) {
	words := strings.Split(call, "|")
	line = words[:1]
	for _, word := range words[1:] {
		p := parameter{area: areaOf(words[0]), value: word}
		if m := signed.FindStringSubmatch(word); m != nil {
			p.sign, p.name, p.optional, p.value = m[1][0], m[2], m[3] != "", m[4]
		}
		line, all = append(line, p.value), append(all, p)
	}
	return line, all
}

// areaOf returns a pattern of how a command's errors about arguments begin.
func areaOf(command string) string {
	first, _, _ := strings.Cut(command, ".")
	switch {
	case first == "config":
		return command
	case command == "popByJid", first == "limit", command == "recur.update":
		command = strings.TrimSuffix(first, "ByJid")
	case command == "requeue", first == "put":
		return "Put"
	case command == "schedule", command == "repair":
		return "(?:" + strings.ToUpper(command[:1]) + command[1:] + "|Put)"
	}
	return strings.ToUpper(command[:1]) + command[1:]
}

// complaint returns a pattern of the error about a bad value.
func (p parameter) complaint(bad string) string {
	missing, about := "missing", p.area+`\(\): Arg "`+p.name+`" `
	if p.name[0] <= 'Z' {
		about, missing = p.name+`\(\): `, map[bool]string{true: "no queue name provided", false: "no jid provided"}[p.name == "Queue"]
	}
	n, err := strconv.ParseFloat(bad, 64)
	told := regexp.QuoteMeta(strings.ReplaceAll(bad, "\x00", " "))
	switch {
	case p.sign == '~' || p.sign == '!':
		return about + missing
	case (p.sign == '$' || p.sign == '@') && !json.Valid([]byte(bad)):
		return about + "missing or not JSON: " + told
	case p.sign == '@' && bad[0] == '[':
		return about + "is not a JSON array of strings"
	case p.sign == '@':
		return about + `is not a JSON array(?: script|$)`
	case err != nil || math.IsNaN(n) || math.IsInf(n, 0):
		return about + "(?:missing or |is )?not a number: " + told
	case bad == "-1":
		return about + "is negative: -1"
	}
	return about + "is not a whole number: " + told
}

// refused requires that both surfaces refuse a line because of an argument, and that it leaves the
// keyspace as it was.
func (e *env) refused(line []string, p parameter, bad string, before testkit.Keyspace) {
	e.T.Helper()
	command, args := arguments(strings.Join(line, "|"))
	_, err := e.Run(e.T.Context(), command, "", args...)
	_, message, _ := strings.Cut(p.complaint(bad), `\(\): `)
	require.Regexp(e.T, "^"+message, requireCode(e.T, qless.ErrInvalid, err).Message, "%q", line)
	message = p.complaint(bad)
	if command == "put" {
		message = `\(\): ` // it also takes puts without a worker
	}
	require.Regexp(e.T, message, e.dropIn(strings.Join(line, "|")), "%q", line)
	require.Equal(e.T, before, e.Dump(), "%q", line)
}

func TestBadArgumentsOfScriptsChangeNothing(t *testing.T) {
	e := stage(t)
	before := e.Dump()
	for _, call := range calls {
		line, all := parametersOf(call)
		for i, p := range all {
			for _, bad := range badBySign[p.sign] {
				changed := slices.Clone(line)
				changed[i+1] = bad
				e.refused(changed, p, bad, before)
			}
		}
	}
}

func TestTheCallsSucceedAsTheyAre(t *testing.T) {
	e := newEnv(t)
	for _, call := range calls {
		line, _ := parametersOf(call)
		e.stage()
		command, args := arguments(strings.Join(line, "|"))
		require.NoError(t, errOf(e.Run(t.Context(), command, "", args...)), call)
		e.stage()
		require.NoError(t, e.dropIn(strings.Join(line, "|")), call)
	}
}

// A call whose last arguments are missing is refused, unless they are optional.
func TestMissingArgumentsAreRefusedOrHaveDefaults(t *testing.T) {
	e := newEnv(t)
	for _, call := range calls {
		line, all := parametersOf(call)
		e.stage()
		before := e.Dump()
		for i, p := range all {
			if p.sign != 0 && !p.optional {
				e.refused(line[:i+1], p, "nil", before)
				continue
			}
			command, args := arguments(strings.Join(line[:i+1], "|"))
			_, err := e.Run(t.Context(), command, "", args...)
			if err != nil {
				require.NotErrorIs(t, err, qless.ErrServer, line[:i+1])
				require.Equal(t, before, e.Dump(), line[:i+1])
			} else {
				e.stage()
				before = e.Dump()
			}
		}
		e.drain("q")
	}
}

// drain pops a queue until it is empty, which shows that nothing blocks it.
func (e *env) drain(queue string) {
	e.T.Helper()
	for {
		jobs := e.Pops(queue, 10)
		if len(jobs) == 0 {
			return
		}
		for _, job := range jobs {
			require.NoError(e.T, job.Complete(e.T.Context()))
		}
	}
}

func TestABadNowChangesNothing(t *testing.T) {
	e := stage(t)
	for _, call := range calls {
		line, _ := parametersOf(call)
		for _, now := range []string{"x", "nan", "inf", "1e400", "{}"} {
			args := slices.Insert(anys(line), 1, any(now))
			e.Unchanged(func() {
				_, err := scripts.RunDropIn(t.Context(), e.Redis, args...)
				require.ErrorContains(t, err, `Arg "now" missing or not a number`, call)
			})
		}
	}
	require.ErrorContains(t, e.dropIn("nonsense|1"), "Unknown command nonsense")
}

func TestDoRunsACommandWithItsArguments(t *testing.T) {
	var seen observer
	e := newEnvWith(t, qless.ClientConfig{Observer: seen.observe})
	ctx := t.Context()
	e.Put("q", qless.JID("j"))
	seen.take()
	require.Equal(t, int64(1), must(e.Do(ctx, "length", "q"))(t))
	require.Equal(t, "length", seen.take()[0].Name)

	require.Equal(t, []any{"j"}, must(e.Do(ctx, "jobs", qless.StateWaiting, "q", 0, int64(5)))(t))
	require.Nil(t, must(e.Do(ctx, "recur.get", "unknown"))(t))
	require.NoError(t, errOf(e.Do(ctx, "reschedule", "j", time.Minute)))
	require.WithinDuration(t, noon.Add(time.Minute), e.Read("j").Due, time.Second)
}

// The options of a put are written as pairs in the place of the first.
func TestDoWritesTheOptionsOfAPut(t *testing.T) {
	e := newEnv(t)
	_, err := e.Do(t.Context(), "put", "w1", "q", "j", "K", "{}", 0,
		qless.Priority(3), qless.Tags{"red"}, qless.Headers{"a": "b"}, qless.TTL(time.Hour))
	require.NoError(t, err)
	job := e.Read("j")
	require.Equal(t, 3, job.Priority)
	require.Equal(t, qless.Tags{"red"}, job.Tags)
	require.Equal(t, qless.Headers{"a": "b"}, job.Headers)
	require.True(t, noon.Add(time.Hour).Equal(job.Options.TTL))
}

func TestDoRefusesWhatItCannotSend(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	e.Unchanged(func() {
		for _, err := range []error{
			errOf(e.Do(ctx, "")), errOf(e.Do(ctx, "nonsense")), errOf(e.Do(ctx, "length", 1.5)),
			errOf(e.Do(ctx, "length", nil)), errOf(e.Do(ctx, "length", []string{"q"})),
			errOf(e.Do(ctx, "put", "w", "q", "j", "K", "{}", 0, qless.JID("other"))),
			errOf(e.Do(ctx, "put", "w", "q", "j", "K", "{}", 0, qless.Unique("k"))),
			errOf(e.Do(ctx, "put", "w", "q", "j", "K", "{}", 0, qless.Delay(-1))),
		} {
			requireCode(t, qless.ErrInvalid, err)
		}
	})
	requireCode(t, qless.ErrNotFound, errOf(e.Do(ctx, "depends", "nobody", "on", "j")))
}

func TestDecodeReadsStoredData(t *testing.T) {
	e := newEnvWith(t, qless.ClientConfig{Codec: &reversed{name: "rev", key: "k1"}})
	jid := must(e.Queue("q").Put(t.Context(), "K", "secret"))(t)
	stored := e.Redis.HGet(t.Context(), "ql:j:"+jid, "data").Val()
	require.NotContains(t, stored, "secret")
	require.Equal(t, `"secret"`, string(must(e.Decode([]byte(stored)))(t)))
	require.Equal(t, `{"a":1}`, string(must(e.Decode([]byte(`{"a":1}`)))(t)))
	unknown, err := e.Decode([]byte(`{"x:codec":"other:","bytes":"AA=="}`))
	requireCode(t, qless.ErrInvalid, err)
	require.Contains(t, string(unknown), "x:codec")
}
