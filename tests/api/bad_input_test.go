package api

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
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

// usages returns every call with a name. It has a job of each kind to use.
func usages(e *env, job *qless.Job) map[string]func(name string) error {
	ctx, q, in, all := e.T.Context(), e.Queue("q"), e.inspect(), inspect.Range{}
	update := e.updates("r")
	put := func(option qless.PutOption) error { return errOf(q.Put(ctx, "K", nil, option)) }
	recur := func(o qless.RecurOption) error { return errOf(q.Recur(ctx, "K", nil, time.Hour, o)) }
	list := func(q string, list inspect.List) error { return errOf(in.Queue(q, list).JIDs(ctx, all)) }
	type changed = *qless.RecurringJob
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
		"Recurring.Tags":  func(s string) error { return update(func(r changed) { r.Tags = []string{"b", s} }) },
		"Recurring.Queue": func(s string) error { return update(func(r changed) { r.Queue = s }) },
		"Recurring.Klass": func(s string) error { return update(func(r changed) { r.Klass = s }) },
		"Client.Unfail":   func(s string) error { return errOf(repairs.Unfail(ctx, e.Client, s, 1)) },
		"Queue.Put":       func(s string) error { return errOf(e.Queue(s).Put(ctx, "K", nil)) },
		"Queue.PutMany":   func(s string) error { return errOf(e.Queue(s).PutMany(ctx, specs(1))) },
		"Queue.Pop":       func(s string) error { return errOf(e.Queue(s).Pop(ctx, 1)) },
		"Queue.Peek":      func(s string) error { return errOf(e.Queue(s).Peek(ctx, 1)) },
		"Queue.Counts":    func(s string) error { return errOf(e.Queue(s).Counts(ctx)) },
		"Queue.Settings":  func(s string) error { return errOf(e.Queue(s).Settings(ctx)) },
		"Queue.Jobs":      func(s string) error { return list(s, inspect.Waiting) },
		"Queue.Pause":     func(s string) error { return e.Queue(s).Pause(ctx) },
		"Queue.Unpause":   func(s string) error { return e.Queue(s).Resume(ctx) },
		"Queue.Forget":    func(s string) error { return e.ForgetQueue(ctx, s) },
		"Queue.Recur":     func(s string) error { return errOf(e.Queue(s).Recur(ctx, "K", nil, day)) },
		"Queue.Stats":     func(s string) error { return errOf(e.Queue(s).Stats(ctx, noon)) },
		"Queue.Latency":   func(s string) error { return errOf(in.Latency(ctx, s)) },
		"Move into":       func(s string) error { return errOf(in.Failed("g").Move(ctx, s)) },
		"Recurring list":  func(s string) error { return list(s, inspect.Recurring) },
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
				errOf(sharded.Result(ctx, bad)), errOf(sharded.Wait(ctx, bad)),
				errOf(sharded.WaitAll(ctx, bad)), errOf(repairs.End(ctx, e.Client, bad, repairs.Ending{})), repairs.Forget(ctx, e.Client, bad),
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
		require.Empty(t, must(e.Jobs(t.Context()))(t))
	})
}

func TestBadNumbersAreRefused(t *testing.T) {
	e := stage(t)
	ctx := t.Context()
	q, job, update := e.Queue("q"), e.Read("running"), e.updates("r")
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
			"retry delay":      errOf(job.Retry(ctx, -1, "", "")),
			"release delay":    job.Release(ctx, -1),
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
			requireCode(t, qless.ErrInvalid, job.SetResult(data))
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

// Some valid JSON for Go is refused by the server's decoder.
func TestDataThatTheScriptsCannotReadIsRefused(t *testing.T) {
	e := newEnv(t)
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	var job *qless.Job
	for _, data := range []string{
		deep(1000), `"\ud83d\ude00"`, `"\uD83D\uDE00\u00e9\\ud800"`, `["[", "\"[", "\\", "\ud7ff\ue000"]`,
	} {
		_, err := e.Queue("q").Put(t.Context(), "K", raw(data))
		require.NoError(t, err, data)
		job = e.Pop("q")
		require.Equal(t, data, string(job.Data))
		require.NoError(t, errOf(job.Heartbeat(t.Context())), data)
		require.NoError(t, job.Fail(t.Context(), "g", "m"), data)
	}
	e.Unchanged(func() {
		for _, data := range []string{
			deep(1001), deep(9000), deep(11000),
			`"\ud800"`, `"\udc00"`, `"\ud800\ud800"`, `"\ud800\u0061"`, `"\ud800x"`, `"\ud800xudc00"`, `{"\uD83D":1}`, `["\\\ud800"]`,
		} {
			requireCode(t, qless.ErrInvalid, errOf(e.Queue("q").Put(t.Context(), "K", raw(data))))
			requireCode(t, qless.ErrInvalid, job.SetResult(raw(data)))
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
		for name, call := range jobMethods {
			if err := call(t.Context(), job); name == "Cancel" {
				require.NoError(t, err, "it is gone, as requested")
			} else {
				require.Equal(t, "running", requireCode(t, qless.ErrNotFound, err).JID, name)
			}
		}
		requireCode(t, qless.ErrNotFound, job.Refresh(t.Context()))
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
		"RateQuery": func() error { return errOf(in.Rates(ctx, inspect.RateQuery{Queue: bad, Klass: bad})) },
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

// calls are commands that succeed on a stage. Many arguments have the form SIGN NAME = VALUE. Signs
// are # for a number, % for an integer, + for a non-negative integer, @ for an array of names, $
// for JSON, ~ for a nonempty text, and ! for any text. A command without such an argument is
// refused, unless a question mark follows the name. Queue, Job and Recurring have errors of their
// own.
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

// parametersOf returns a call's successful line, and its arguments.
func parametersOf(call string) (line []string, all []parameter) {
	words := strings.Split(call, "|")
	line = []string{words[0]}
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
		about, missing = p.name+`\(\): `, "no jid provided"
	}
	if p.name == "Queue" {
		missing = "no queue name provided"
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
		return about + `is not a JSON array(?: [^o]| ?$)`
	case err != nil || math.IsNaN(n) || math.IsInf(n, 0):
		return about + "(?:missing or |is )?not a number: " + told
	case bad == "-1":
		return about + "is negative: -1"
	}
	return about + "is not a whole number: " + told
}

// refused requires that both surfaces refuse a line because of an argument, and that the keyspace
// stays unchanged.
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

// A call without its last arguments is refused, unless they are optional.
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
		for jobs := e.Pops("q", 10); len(jobs) > 0; jobs = e.Pops("q", 10) { // nothing blocks it
			for _, job := range jobs {
				require.NoError(t, job.Complete(t.Context()))
			}
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

	_, err := e.Do(ctx, "put", "w1", "q", "k", "K", "{}", 0, // the options are written as pairs
		qless.Priority(3), qless.Tags{"red"}, qless.Headers{"a": "b"}, qless.TTL(time.Hour))
	require.NoError(t, err)
	job := e.Read("k")
	require.Equal(t, 3, job.Priority)
	require.Equal(t, qless.Tags{"red"}, job.Tags)
	require.Equal(t, qless.Headers{"a": "b"}, job.Headers)
	require.WithinDuration(t, e.Clock.Now().Add(time.Hour), job.Options.TTL, time.Millisecond)
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

// A refusal is a command with its arguments after NOW, separated by bars, and the resulting error
// in the keyspace of stage.
type refusal struct {
	line string
	text string
	kind error // nil means ErrInvalid
}

// thousandAndOne repeats a part of a line that many times, each with a different number.
func thousandAndOne(part string) string {
	var line strings.Builder
	for i := range 1001 {
		fmt.Fprintf(&line, part, i)
	}
	return line.String()
}

// refusals has a call for each error raised by a script, besides the complaints about the arguments
// of calls. The conformance tests have the words of others, and the model their codes.
var refusals = []refusal{
	{"cancel|waiting|parent", `Cancel(): parent is a dependency of child but is not mentioned to be canceled`, qless.ErrHasDependents},
	{"complete|running|w1|q|{}|next", `Complete(): Odd number of additional args`, nil},
	{"complete|running|w1|q|{}|delay|1", `Complete(): "delay" cannot be used without a "next".`, nil},
	{"complete|running|w1|q|{}|tags|[]", `Complete(): "priority", "retries", "tags", "o" and "drop" need a "next"`, nil},
	{"complete|running|w1|q|{}|next|q|o|h", `Complete(): Arg "o" is not options: h`, nil},
	{`complete|running|w1|q|{}|next|q|depends|["x-dependents"]`, `Complete(): Arg "depends" names no job: x-dependents`, nil},
	{"complete|nowhere|w1|q|{}", `Complete(): Job nowhere running in another queue: false`, qless.ErrWrongQueue},
	{"complete|un\x00known|w1|q|{}", `Complete(): Job un`, qless.ErrNotFound},
	{"complete|unknown|w1|q|{}", `Complete(): Job unknown does not exist`, qless.ErrNotFound},
	{"depends|child|over|parent", `Depends(): Argument "command" must be "on" or "off"`, nil},
	{"depends|unknown|on|parent", `Depends(): Job unknown not in the depends state: false`, qless.ErrNotFound},
	{"depends|child|on|x-history", `Depends(): Arg "depends" names no job: x-history`, nil},
	{"depends|unknown|fewer", `Depends(): Job unknown not in the depends state: false`, qless.ErrNotFound},
	{"depends|batch|upon|after batch", `Depends(): Job batch would wait for itself`, nil},
	{`put|w1|q|parent|K|{}|0|checked|1|depends|["child"]`, `Put(): Job parent would wait for itself`, nil},
	{"depends|waiting|on|parent", `Depends(): Job waiting not in the depends state: waiting`, qless.ErrNotDepending},
	{"fail|nowhere|w1|g|m", `Fail(): Job nowhere is in no queue`, nil},
	{"heartbeat|nowhere|w1", `Heartbeat(): Job nowhere is in no queue`, nil},
	{"holder", `Holder(): Arg "key" missing`, nil},
	{"limit.delete|a b", `Limit(): This is no name of a limit: a b`, nil},
	{"limit.hold|", `Limit(): This is no name of a limit: `, nil},
	{"limit.hold|a|-1", `Limit(): Arg "seconds" is negative: -1`, nil},
	{"limit.list", `Limits(): Arg "cursor" missing`, nil},
	{"limit.list|x", `Limits(): Arg "cursor" is no cursor: x`, nil},
	{"failed||0|0|from", `Failed(): Arg "cursor" missing`, nil},
	{"failed||0|0|from|-1", `Failed(): Arg "cursor" is no cursor: -1`, nil},
	{"config.get||from", `Config.get(): Arg "cursor" missing`, nil},
	{"config.get||from|x", `Config.get(): Arg "cursor" is no cursor: x`, nil},
	{"limit.set|a|1|1|0", `Limit(): Arg "rate" and "per" go together: 1 and 0`, nil},
	{"limit.set|a|0|0|0", `Limit(): Arg "concurrency" or "rate" must be more than 0`, nil},
	{"jobs|nonsense|q", `Jobs(): Unknown type "nonsense"`, nil},
	{"log|waiting|m|[nan]", `Log(): Arg "data" missing or not JSON: [nan]`, nil},
	{"log|unknown|m", `Log(): Job unknown does not exist`, qless.ErrNotFound},
	{"pause", `Pause(): Arg "queue" missing`, nil},
	{"peek|q|1|beside|x", `Peek(): Arg "cursor" is no cursor: x`, nil},
	{"peek|q|1|beside|lx", `Peek(): Arg "cursor" is no cursor: x`, nil},
	{"peek|q|1|beside|d-1", `Peek(): Arg "cursor" is negative: -1`, nil},
	{"priority|unknown|1", `Priority(): Job unknown does not exist`, qless.ErrNotFound},
	{"put|w1|q|j|K|{}|0|if|never", `Put(): Unknown condition "never"`, nil},
	{"put|w1|q|j|K|{}|0|o|{}", `Put(): Arg "o" is not options: {}`, nil},
	{"put|w1|q|j|K|{}|0|priority", `Put(): Odd number of additional args`, nil},
	{"put|w1|q|j|K|{}|0|at|noon", `Put(): Arg "at" not a number: noon`, nil},
	{`put|w1|q|j|K|{}|0|depends|["x-dependencies"]`, `Put(): Arg "depends" names no job: x-dependencies`, nil},
	{"put.many|w1||q|j|K|{}|0|0|q2|j|K|{}|0|0", `Put(): Job j is named twice`, nil},
	{"put.many|w1|" + thousandAndOne("|q|%d|K|{}|0|0"), `Put(): More than 1000 jobs`, nil},
	{"queue.forget", `Queue.forget(): Arg "queue" missing`, nil},
	{"queue.forget||nowhere|later", `Queue.forget(): Queue later has 1 job`, nil},
	{"release|running|q||0|{}", `Release(): Job running has been handed out to another worker: w1`, qless.ErrLockLost},
	{"release|running|other|w1|0|{}", `Release(): Job running running in another queue: q`, qless.ErrWrongQueue},
	{"release|running|q|w1|0|{}|1", `Release(): Job running has been handed out to another worker: w1, at `, qless.ErrLockLost},
	{"release|theirs|q|w1|0|{}", `Release(): Job theirs has been handed out to another worker: w2`, qless.ErrLockLost},
	{"release|nowhere|q|w1|0|{}", `Release(): Job nowhere is in no queue`, nil},
	{"requeue|w1|q|unknown|K|{}|0", `Requeue(): Job unknown does not exist`, qless.ErrNotFound},
	{"recur|q|j|K|{}|cron|1|0", `Recur(): schedule type "cron" unknown`, nil},
	{"recur|q|j|K|{}|interval|0|0", `Recur(): Arg "interval" must be greater than 0`, nil},
	{"recur|q|j|K|{}|interval|1|0|priority", `Recur(): Odd number of additional args`, nil},
	{"recur.get", `Recurring(): no jid provided`, nil},
	{"recur.tag", `Recurring(): no jid provided`, nil},
	{"recur.tag|unknown|a", `Tag(): Job unknown does not exist`, qless.ErrNotFound},
	{"recur.untag", `Recurring(): no jid provided`, nil},
	{"recur.untag|unknown|a", `Untag(): Job unknown does not exist`, qless.ErrNotFound},
	{"recur.update|unknown|priority|1", `Recur(): No recurring job unknown`, qless.ErrNotFound},
	{"recur.update|r|priority", `Recur(): Odd number of additional args`, nil},
	{"recur.update|r|color|red", `Recur(): Unrecognized option "color"`, nil},
	{"recur.update|r|interval|-1", `Recur(): Arg "interval" must be greater than 0`, nil},
	{"unrecur", `Recurring(): no jid provided`, nil},
	{"retry|running|other|w1|0|||here|", `Retry(): Job running running in another queue: q`, qless.ErrWrongQueue},
	{"retry|running|q|w1|0|||here|1", `Retry(): Job running has been given to another worker: w1, at `, qless.ErrLockLost},
	{"tag", `Tag(): Arg "command" must be "add", "remove", "get" or "top"`, nil},
	{"tag|nonsense", `Tag(): First argument must be "add", "remove", "get" or "top"`, nil},
	{"tag|add", `Tag(): Arg "jid" missing`, nil},
	{"tag|remove|unknown|a", `Tag(): Job unknown does not exist`, qless.ErrNotFound},
	{"timeout|running|unknown", `Timeout(): Job unknown does not exist`, qless.ErrNotFound},
	{"timeout|running|nowhere", `Timeout(): Job nowhere is in no queue`, nil},
	{"timeout|running|waiting", `Timeout(): Job waiting not running`, qless.ErrNotRunning},
	{"track|track", `Track(): Arg "jid" missing`, nil},
	{"track|track|unknown", `Track(): Job does not exist`, qless.ErrNotFound},
	{"track|follow|waiting", `Track(): Unknown action "follow"`, nil},
	{"relations|j", `Relations(): Unknown relation "nil"`, nil},
	{"relations|j|history|0", `Relations(): Unknown relation "history"`, nil},
	{"relations|j|dependents|x", `Relations(): Arg "cursor" is no cursor: x`, nil},
	{"list|nonsense|q|0|1|0", `List(): Unknown list "nonsense"`, nil},
	{"list|waiting||0|1|0", `Queue(): no queue name provided`, nil},
	{"list|failed||0|1|0", `List(): Arg "group" missing`, nil},
	{"list|tagged||0|1|0", `List(): Arg "tag" missing`, nil},
	{"list|waiting|q|0|501|0", `List(): Arg "count" is more than 500: 501`, nil},
	{"list|waiting|q|0|5001|jid", `List(): Arg "count" is more than 5000: 5001`, nil},
	{"find|waiting|q||1|0|0|K", `Find(): Odd number of filter args`, nil},
	{"find|jids|x||1|0|0", `Find(): Arg "jids" missing or not JSON: x`, nil},
	{"find|worker|||1|0|0", `Find(): Arg "worker" missing`, nil},
	{"cancel.all", `Cancel(): Arg "jid" missing`, nil},
	{"cancel.all" + thousandAndOne("|j"), `Cancel(): More than 500 jobs`, nil},
	{"cancel.all|running|parent", `Cancel(): parent is a dependency of child but is not mentioned to be canceled`, qless.ErrHasDependents},
	{"repair|cancel||waiting|q", `Repair(): Arg "jids" missing`, nil},
	{"repair|cancel||jids||[" + strings.Repeat("1,", 500) + "1]|0|0", `Repair(): More than 500 jobs`, nil},
	{"repair|cancel||waiting|q|[]|0|4|K", `Repair(): Odd number of filter args`, nil},
	{"repair|cancel||waiting||[]|0|0", `Queue(): no queue name provided`, nil},
	{"repair|cancel||failed||[]|0|0", `Repair(): Arg "group" missing`, nil},
	{"repair|cancel||recurring|q|[]|0|0", `Repair(): Recurring jobs are not repaired`, nil},
	{"repair|cancel||nonsense|q|[]|0|0", `Repair(): Unknown list "nonsense"`, nil},
	{"repair|nonsense||waiting|q|[]|0|0", `Repair(): Unknown action "nonsense"`, nil},
	{"repair|move||waiting|q|[]|0|0", `Queue(): no queue name provided`, nil},
	{"repair|move|p|waiting|q|[]|0|0|delay", `Repair(): Odd number of additional args`, nil},
	{"repair|unfail||failed|g|[]|0|0|retries", `Repair(): Odd number of additional args`, nil},
	{"repair|unfail||failed|g|[]|0|0|ttl|x", `Repair(): Arg "ttl" not a number: x`, nil},
	{"repair|unfail||failed|g|[]|0|0|ttl|0", `Repair(): Arg "o" has no lifetime "t": t|{"t":0}`, nil},
	{"find|waiting|q||0|0|0", `Find(): Arg "count" is not from 1 to 1000: 0`, nil},
	{"find|waiting|q||1001|0|0", `Find(): Arg "count" is not from 1 to 1000: 1001`, nil},
	{"find|waiting|q|x|1|0|0", `Find(): Arg "cursor" is no cursor: x`, nil},
	{"find|failed|g|1.5 j|1|0|0", `Find(): Arg "cursor" is no cursor: 1.5 j`, nil},
	{"failures|g||0", `Failures(): Arg "count" is not from 1 to 1000: 0`, nil},
	{"latency", `Latency(): Arg "queue" missing`, nil},
	{"reschedule|mortal|3601", `Reschedule(): StartBy or TTL of job mortal is over before`, nil},
	{"reschedule|waiting|-1", `Reschedule(): Arg "seconds" is negative: -1`, nil},
	{"unfail.job", `Job(): no jid provided`, nil},
	{"unfail.job|unknown", `Unfail.job(): Job unknown does not exist`, qless.ErrNotFound},
	{"unfail.job|waiting", `Unfail.job(): Job waiting has not failed: waiting`, qless.ErrNotFailed},
	{"unfail.job|lost in failure", `Unfail.job(): Job lost in failure is in no queue`, nil},
	{"unpause", `Unpause(): Arg "queue" missing`, nil},
	{"queues.record|k0", `Queues.record(): Arg "cursor" is no cursor: 0`, nil},
	{"queues.record||x", `Queues.record(): Arg "figures" not a number: x`, nil},
	{"queue.history|0" + thousandAndOne("|q%d"), `Queue.history(): More than 100 queues`, nil},
	{"rates.add|run|1|0|q|K", `Rates.add(): Each klass needs 3 args`, nil},
	{"rates.add|run|1|0|q|K|1,2", `Rates.add(): Arg "counts" is not of the known form: 1,2`, nil},
	{"rates.add|run|1|0" + thousandAndOne("|q|%d|c"), `Rates.add(): More than 1000 klasses`, nil},
	{"rates|0|61", `Rates(): More than 60 minutes`, nil},
	{"worker.deregister", `Worker.deregister(): Arg "worker" missing`, nil},
	{"subscription|q|publish|a.b", `Subscription(): Unknown action "publish"`, nil},
	{"tags|0|0", `Tags(): Arg "count" is 0`, nil},
	{"workers||x", `Workers(): Arg "first" not a number: x`, nil},
	{"workers||0|1.5", `Workers(): Arg "last" is not a whole number: 1.5`, nil},
	{"workers||||registered", `Workers(): Arg "cursor" missing`, nil},
	{"workers||||registered|x", `Workers(): Arg "cursor" is no cursor: x`, nil},
	{"queues||from", `Queues(): Arg "cursor" missing`, nil},
	{"queues||from|kx", `Queues(): Arg "cursor" is no cursor: x`, nil},
	{"wake|", `Wake(): Arg "cursor" missing`, nil},
	{"put|w1|q|new|K|{}|0|at|x", `Put(): Arg "at" not a number: x`, nil},
	{"put|w1|q|new|K|{}|0|batch|unknown", `Put(): Job unknown not in the depends state: false`, qless.ErrNotFound},
	{"put|w1|q|new|K|{}|0|batch|waiting", `Put(): Job waiting not in the depends state: waiting`, qless.ErrNotDepending},
	{"put|w1|q|new|K|{}|0|batch|child", `Put(): Job child is not a batch`, nil},
	{"put|w1|q|batch|K|{}|0|batch|batch", `Put(): Job batch would wait for its own batch`, nil},
	{"put.many|w1||q|new|K|{}|0|2|batch|batch|q|batch|K|{}|0|0", `Put(): Job batch is put together with its members`, nil},
	{`put|w1|q|new|K|{}|0|batch|batch|depends|["batch"]`, `Put(): Job new would wait for its own batch`, nil},
	{"batch.commit", `Job(): no jid provided`, nil},
	{"batch.commit|unknown", `Batch.commit(): Job unknown does not exist`, qless.ErrNotFound},
	{"batch.commit|waiting", `Batch.commit(): Job waiting is not a batch`, nil},
	{"batch.status", `Job(): no jid provided`, nil},
	{"batch.status|batch|x", `Batch.status(): Arg "cursor" is no cursor: x`, nil},
	{"batch.status|unknown", `Batch.status(): Job unknown does not exist`, qless.ErrNotFound},
	{"batch.status|waiting", `Batch.status(): Job waiting is not a batch`, nil},
	{"progress|w1|running||1|2", `Progress(): Each job needs 5 args`, nil},
	{"progress|w1|running||1|-2|", `Progress(): Arg "total" is negative: -2`, nil},
	{"withdraw|parent", `Cancel(): parent is a dependency of child but is not mentioned to be canceled`, qless.ErrHasDependents},
	{"end|running|done|||0", `End(): Unknown state "done"`, nil},
	{"end|nowhere|complete|||0", `End(): Job nowhere is in no queue`, nil},
	{"finish|w1|complete|running|q", `Finish(): Arg "data" missing or not JSON`, nil}, // without a jid or a queue, too
	{"finish|w1|complete|running|q|{|0", `Finish(): Arg "data" missing or not JSON`, nil},
	{"finish|w1" + thousandAndOne("|complete|%d|q||0"), `Finish(): More than 1000 jobs`, nil},
	{"finish|w1|complete|running|q|{}|1", `Finish(): Odd number of additional args`, nil},
	{"finish|w1|complete|running|q|{}|4|next|q", `Finish(): Odd number of additional args`, nil},
	{`finish|w1|complete|running|q||4|next|q|depends|["x-history"]`, `Finish(): Arg "depends" names no job: x-history`, nil},
	{"finish|w1|fail|running|q||0", `Finish(): Arg "group" missing`, nil},
	{"finish|w1|end|running|q||0", `Finish(): Unknown action "end"`, nil},
	{"renew", `Renew(): Arg "worker" missing`, nil},
	{"reserve|\x01w|1|10|0|q", `Reserve(): Arg "worker" begins with the byte 1, like a list of queues`, nil},
	{"reserve|w1|1|10|1|order|q", `Reserve(): Odd number of additional args`, nil},
	{"reserve|w1|1|10|4|order|ordered", `Reserve(): Odd number of additional args`, nil},
	{"reserve|w1|1|10|2|lock|-1|q", `Reserve(): Arg "lock" is negative: -1`, nil},
	{"reserve|w1|1|10|2|order|sorted|q", `Reserve(): Unknown order "sorted"`, nil},
	{"reserve|w1|1|10|2|order|weighted|q", `Reserve(): Arg "weights" has 0 for 1 queues`, nil},
	{"reserve|w1|1|10|4|order|weighted|weights|0|q", `Reserve(): Arg "weights" not positive: 0`, nil},
	{"reserve|w1|1|10|4|order|weighted|weights|x|q", `Reserve(): Arg "weights" not a number: x`, nil},
	{"reserve|w1|1|10|0", `Reserve(): Arg "queue": needs 1 to 1000`, nil},
}

// stage returns an env with the jobs named in refusals, each in the state given by its name.
func stage(t *testing.T) *env {
	e := newEnv(t)
	e.stage()
	return e
}

// stage empties the server, and creates the jobs named in refusals.
func (e *env) stage() {
	e.T.Helper()
	ctx := e.T.Context()
	require.NoError(e.T, e.Redis.FlushDB(ctx).Err())
	e.start("q", qless.JID("running"), qless.Tags{"a"})
	e.Put("q", qless.JID("theirs"))
	require.NoError(e.T, errOf(e.As("w2").Queue("q").Pop(ctx, 1)))
	e.start("q", qless.JID("nowhere"))
	require.NoError(e.T, e.Redis.HDel(ctx, "ql:j:nowhere", "queue").Err())
	require.NoError(e.T, e.start("q", qless.JID("lost in failure")).Fail(ctx, "lost", "m"))
	require.NoError(e.T, e.Redis.HDel(ctx, "ql:j:lost in failure", "queue").Err())
	e.Put("q", qless.JID("waiting"))
	e.Put("q", qless.JID("parent"))
	e.Put("q", qless.JID("child"), qless.DependsOn{"parent"})
	e.batch(qless.JID("batch"))
	e.Put("after", qless.JID("after batch"), qless.DependsOn{"batch"})
	e.Put("later", qless.JID("mortal"), qless.TTL(time.Hour))
	_, err := e.Queue("q").Recur(ctx, "K", nil, time.Hour, qless.JID("r"), qless.Offset(time.Hour))
	require.NoError(e.T, err)
}

// arguments returns a line's command, and the arguments after NOW.
func arguments(line string) (command string, args []any) {
	words := strings.Split(line, "|")
	for _, word := range words[1:] {
		args = append(args, word)
	}
	return words[0], args
}

// dropIn runs a line like a classic client.
func (e *env) dropIn(line string) error {
	e.T.Helper()
	return errOf(e.dropInReply(line))
}

// dropInReply does the same, and returns the reply.
func (e *env) dropInReply(line string) (any, error) {
	e.T.Helper()
	command, args := arguments(line)
	args = append([]any{command, scripts.Time(e.Clock.Now())}, args...)
	return scripts.RunDropIn(e.T.Context(), e.Redis, args...)
}

// messageFor returns the message of a refusal's error in Go, without the verb.
func messageFor(c refusal) string {
	_, message, _ := strings.Cut(c.text, "(): ")
	if about, missing := strings.CutSuffix(message, "not in the depends state: false"); missing {
		return about + "does not exist"
	}
	return withoutVerb(message)
}

// withoutVerb leaves out the verb omitted by some of qless-core's texts.
func withoutVerb(message string) string { return strings.Replace(message, " is ", " ", 1) }

func TestEveryScriptErrorHasItsCodeAndChangesNothing(t *testing.T) {
	e := stage(t)
	for _, c := range refusals {
		kind := c.kind
		if kind == nil {
			kind = qless.ErrInvalid
		}
		e.Unchanged(func() {
			command, args := arguments(c.line)
			_, err := e.Run(t.Context(), command, "some jid", args...)
			require.Error(t, err, c.line)
			own := requireCode(t, kind, err)
			require.Equal(t, "some jid", own.JID, c.line)
			require.True(t, strings.HasPrefix(withoutVerb(own.Message), messageFor(c)),
				"%s: %s", c.line, own.Message)
			if err := e.dropIn(c.line); command == "put" {
				require.ErrorContains(t, err, "(): ", c.line) // it also takes puts without a worker
			} else {
				require.ErrorContains(t, err, c.text, c.line)
			}
		})
	}
}

// Patterns of checked calls in the sources, of the texts in these checks, and of errors written
// out.
var (
	checkCall = regexp.MustCompile(`\b(required|named|number|integer|whole|json|names|options)\('([^']+)'(?:, '([^']+)')?`)
	written   = regexp.MustCompile(`(?m)\b(reject|raise)\('([^']+)', (?:(\w+)\()?(.*)\)$`)
	literal   = regexp.MustCompile(`'[^']*'`)
	complaint = map[string][]string{
		"required": {`" missing`},
		"named":    {`" missing`},
		"number":   {`" .*not a number`},
		"integer":  {`" .*not a number`, `" is not a whole number`},
		"whole":    {`" .*not a number`, `" is not a whole number`, `" is negative`},
		"json":     {`" missing or not JSON`},
		"names":    {`" missing or not JSON`, `" is not a JSON array`, `" is not a JSON array of strings`},
	}
)

// problems has the beginnings of the texts returned by functions that report problems.
var problems = map[string]string{
	"no_job":        "Job .* does not exist",
	"no_queue":      "Job .* is in no queue",
	"no_batch":      "Job .* is not a batch",
	"named_twice":   "Job .* is named twice",
	"not_depending": "Job .* not in the depends state",
}

// sources returns the Lua sources by their names.
func sources(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, folder := range []string{"lua/commands/*.lua", "lua/lib/*.lua"} {
		for _, file := range must(fs.Glob(os.DirFS(scripts.Root), folder))(t) {
			all[file] = readFile(t, file)
		}
	}
	return all
}

// raisable returns patterns of all errors raised by the sources, by place. For a check with several
// texts, one is enough: the same code raises them all.
func raisable(t *testing.T) map[string]*regexp.Regexp {
	all := map[string]*regexp.Regexp{}
	add := func(where, pattern string) { all[where] = regexp.MustCompile(pattern) }
	for file, source := range sources(t) {
		for _, m := range checkCall.FindAllStringSubmatch(source, -1) {
			where, area := file+": "+m[0], regexp.QuoteMeta(m[2]+"(): ")
			switch {
			case m[1] == "options":
				add(where, area+"Odd number of additional args")
			case m[3] != "": // otherwise the name is a variable
				add(where, area+`(Arg "`+m[3]+"("+strings.Join(complaint[m[1]], "|")+")|no .* provided)")
			}
		}
		for _, m := range written.FindAllStringSubmatch(source, -1) {
			pattern, texts := problems[m[3]], literal.FindAllString(m[4], -1)
			if m[3] == "new_problem" {
				texts = texts[1:] // the code
				if !strings.Contains(m[4], " nil, ") {
					pattern = "Job .*"
				}
			}
			for _, text := range texts {
				pattern += regexp.QuoteMeta(strings.Trim(text, "'")) + ".*"
			}
			if pattern != "" { // else it is a variable
				add(file+": "+m[0], regexp.QuoteMeta(m[2]+"(): ")+pattern)
			}
		}
	}
	return all
}

// complaintsAbout returns the texts of the errors about the arguments of a call.
func complaintsAbout(call string) (all []string) {
	escapes := strings.NewReplacer(`\`, "", "(?:missing or |is )?", "", "(?: [^o]| ?$)", "", "(?:", "", "|Put)", "")
	_, parameters := parametersOf(call)
	for _, p := range parameters {
		bad := badBySign[p.sign]
		if p.sign != 0 && !p.optional {
			bad = append(slices.Clone(bad), "nil")
		}
		for _, bad := range bad {
			all = append(all, escapes.Replace(p.complaint(bad)))
		}
	}
	return all
}

func TestNoScriptErrorIsLeftOut(t *testing.T) {
	var texts []string
	for _, c := range refusals {
		texts = append(texts, c.text)
	}
	for _, call := range calls {
		texts = append(texts, complaintsAbout(call)...)
	}
	all := raisable(t)
	require.Greater(t, len(all), 100, "the sources' checks are found")
	for where, pattern := range all {
		if strings.Contains(where, "'Finish', 'jid'") || strings.Contains(where, "'Finish', 'queue'") {
			continue // the data, which comes after them, is checked first
		}
		if strings.Contains(where, "MAX_DEPENDENTS") {
			continue // TestACancelOfJobsWithVeryManyDependencies has this
		}
		covered := slices.ContainsFunc(texts, pattern.MatchString)
		require.True(t, covered, "no refusal for %s: %s", where, pattern)
	}
}

// Patterns of the codes of problems in the sources, and of texts that reach a client without one.
var (
	problemCode = regexp.MustCompile(`\bnew_problem\('(\w*)'`)
	uncoded     = regexp.MustCompile(`(?m)^.*(?:\berror\(|'!' \.\. ).*$`)
)

// coded are the lines that match uncoded, but have the code of a problem or no problem.
var coded = []string{
	`error(area .. '(): ' .. text_of(problem))`,
	`error({err = 'NOPERM this user may not publish to ' .. prefix .. 'log'})`,
	`outcomes[job.at] = '!' .. text_of(reply)`,
	`outcomes[i - 3] = '!' .. text_of(problem)`,
	`outcomes[i] = problem and '!' .. text_of(problem) or ''`,
	`outcomes[i] = '!' .. text_of(item.problem)`,
	`return '!' .. state`, // an ended job's, in end
}

func TestEachProblemHasACodeOfThePackage(t *testing.T) {
	seen := map[string]bool{}
	for file, source := range sources(t) {
		for _, m := range problemCode.FindAllStringSubmatch(source, -1) {
			seen[m[1]] = true
			require.NotEqual(t, "qless: "+m[1], qless.Code(m[1]).Error(), "%s: %s", file, m[0])
		}
		for _, line := range uncoded.FindAllString(source, -1) {
			require.Contains(t, coded, strings.TrimSpace(line), file)
		}
	}
	require.Greater(t, len(seen), 7, "the sources' problems are found")
}
