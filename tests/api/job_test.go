package api

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/tests/repairs"
)

// jobMethods calls each method that changes a job on the server, on a running job.
var jobMethods = map[string]func(ctx context.Context, job *qless.Job) error{
	"Cancel":      func(ctx context.Context, job *qless.Job) error { return job.Cancel(ctx) },
	"Complete":    func(ctx context.Context, job *qless.Job) error { return job.Complete(ctx) },
	"Depend":      func(ctx context.Context, job *qless.Job) error { return job.Depend(ctx, "waiting") },
	"Fail":        func(ctx context.Context, job *qless.Job) error { return job.Fail(ctx, "g", "m") },
	"Heartbeat":   func(ctx context.Context, job *qless.Job) error { return errOf(job.Heartbeat(ctx)) },
	"Log":         func(ctx context.Context, job *qless.Job) error { return job.Log(ctx, "m", nil) },
	"Move":        func(ctx context.Context, job *qless.Job) error { return job.Move(ctx, "other", qless.Priority(7)) },
	"Next":        func(ctx context.Context, job *qless.Job) error { return job.Next(ctx, "other", qless.Tags{"b"}) },
	"Release":     func(ctx context.Context, job *qless.Job) error { return job.Release(ctx, time.Hour) },
	"Reschedule":  func(ctx context.Context, job *qless.Job) error { return job.Reschedule(ctx, time.Hour) },
	"Retry":       func(ctx context.Context, job *qless.Job) error { return errOf(job.Retry(ctx, 0, "", "")) },
	"SetPriority": func(ctx context.Context, job *qless.Job) error { return job.SetPriority(ctx, 3) },
	"Tag":         func(ctx context.Context, job *qless.Job) error { return job.Tag(ctx, "b") },
	"SetProgress": func(ctx context.Context, job *qless.Job) error { return job.SetProgress(ctx, 1, 2, "") },
	"Track":       func(ctx context.Context, job *qless.Job) error { return job.Track(ctx) },
	"Undepend":    func(ctx context.Context, job *qless.Job) error { return job.Undepend(ctx, "waiting") },
	"UndependAll": func(ctx context.Context, job *qless.Job) error { return job.UndependAll(ctx) },
	"Unfail":      func(ctx context.Context, job *qless.Job) error { return job.Unfail(ctx) },
	"Untag":       func(ctx context.Context, job *qless.Job) error { return job.Untag(ctx, "a") },
	"Untrack":     func(ctx context.Context, job *qless.Job) error { return job.Untrack(ctx) },
}

// takesContext returns the methods of a type that take a context.
func takesContext(value any) []string {
	var methods []string
	kind := reflect.TypeOf(value)
	for i := range kind.NumMethod() {
		if m := kind.Method(i); m.Type.NumIn() > 1 && m.Type.In(1) == reflect.TypeFor[context.Context]() {
			methods = append(methods, m.Name)
		}
	}
	return methods
}

func TestMethodsLeaveAJobAsItWasRead(t *testing.T) {
	for _, name := range takesContext(&qless.Job{}) {
		if name == "Refresh" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			call := jobMethods[name]
			require.NotNil(t, call)
			e := newEnv(t)
			e.Put("q", qless.JID("waiting"), qless.Priority(-1))
			jid := e.Put("q", qless.Tags{"a"})
			job := e.Pop("q")
			switch name {
			case "Depend", "Undepend", "UndependAll":
				require.NoError(t, job.Next(t.Context(), "q", qless.DependsOn{"waiting"}))
			case "Promote", "Reschedule":
				require.NoError(t, job.Release(t.Context(), time.Minute))
			case "Unfail":
				require.NoError(t, job.Fail(t.Context(), "g", "m"))
			}
			require.NoError(t, job.Refresh(t.Context()))
			before := jsonOf(t, job)
			require.NoError(t, call(t.Context(), job))
			require.Equal(t, before, jsonOf(t, job))
			if name != "Cancel" {
				require.NoError(t, job.Refresh(t.Context()))
				read := e.Read(jid)
				read.PoppedAt, read.Waited = job.PoppedAt, job.Waited // only the pop sets these
				require.Equal(t, jsonOf(t, read), jsonOf(t, job))
			}
		})
	}
}

// callEach calls the methods that take a context, with valid arguments.
func callEach(t *testing.T, value any) map[string]error {
	t.Helper()
	arguments := map[reflect.Type]any{
		reflect.TypeFor[context.Context](): t.Context(), reflect.TypeFor[string](): "x", reflect.TypeFor[int](): 1,
		reflect.TypeFor[time.Duration](): time.Second, reflect.TypeFor[[]string](): []string{"x"},
	}
	errs := map[string]error{}
	for _, name := range takesContext(value) {
		method := reflect.ValueOf(value).MethodByName(name)
		var in []reflect.Value
		for i := range method.Type().NumIn() {
			kind := method.Type().In(i)
			if argument, known := arguments[kind]; known {
				in = append(in, reflect.ValueOf(argument))
			} else {
				in = append(in, reflect.Zero(kind))
			}
		}
		call := method.Call
		if method.Type().IsVariadic() {
			call = method.CallSlice
		}
		out := call(in)
		errs[name], _ = out[len(out)-1].Interface().(error)
	}
	return errs
}

func TestJobsThatDidNotComeFromAServer(t *testing.T) {
	for _, job := range []*qless.Job{{}, {JID: "j", Klass: "K", Queue: "q", Data: raw("{}"), State: qless.StateRunning}} {
		for name, err := range callEach(t, job) {
			own := requireCode(t, qless.ErrInvalid, err)
			require.Equal(t, job.JID, own.JID, name)
			require.Contains(t, own.Message, "the job has no client", name)
		}
	}
	for _, recurring := range []*qless.RecurringJob{{}, {JID: "r", Klass: "K"}} {
		for name, err := range callEach(t, recurring) {
			own := requireCode(t, qless.ErrInvalid, err)
			require.Equal(t, recurring.JID, own.JID, name)
			require.Contains(t, own.Message, "the recurring job has no client", name)
		}
	}
	job := &qless.Job{}
	require.NoError(t, job.SetData(map[string]int{"n": 1}))
	var data map[string]int
	require.NoError(t, job.Unmarshal(&data))
	require.Equal(t, map[string]int{"n": 1}, data)
	requireCode(t, qless.ErrInvalid, (&qless.Job{}).Unmarshal(&data))
}

func TestUpdateWritesWhatWasChangedInARecurringJob(t *testing.T) {
	e := newEnv(t)
	_, err := e.Queue("q").Recur(t.Context(), "K", nil, time.Hour, qless.JID("r"), qless.Tags{"a"})
	require.NoError(t, err)
	job := e.recurring("r")
	seen := e.recurring("r")
	job.Klass, job.Priority = "K2", 2
	require.NoError(t, job.Update(t.Context()))
	require.Equal(t, e.recurring("r"), job)
	seen.Klass, seen.Tags[0] = "K3", "b"
	require.NoError(t, seen.Update(t.Context()))
	require.NoError(t, job.Refresh(t.Context()))
	require.Equal(t, "K3", job.Klass)
	require.Equal(t, 2, job.Priority, "fields that the other has not changed stay")
	require.Equal(t, qless.Tags{"b"}, job.Tags)
	e.Unchanged(func() { require.NoError(t, seen.Update(t.Context()), "nothing was changed again") })

	require.NoError(t, json.Unmarshal([]byte(`{"klass":"K4","interval":"1m"}`), job))
	require.NoError(t, job.Update(t.Context()))
	require.Equal(t, e.recurring("r"), job)
	require.Equal(t, time.Minute, job.Interval)
	require.NoError(t, job.Cancel(t.Context()))
	requireCode(t, qless.ErrNotFound, job.Refresh(t.Context()))
}

func TestAttemptCountsTheRetriesThatWereUsed(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q", qless.Retries(1))
	job := e.Pop("q")
	require.Equal(t, 1, job.Attempt)
	require.NoError(t, job.Release(t.Context(), 0))
	job = e.Pop("q")
	require.Equal(t, 1, job.Attempt, "a release uses up none")
	require.NoError(t, errOf(job.Retry(t.Context(), 0, "", "")))
	job = e.Pop("q")
	require.Equal(t, 2, job.Attempt)
	require.NoError(t, errOf(job.Retry(t.Context(), 0, "", "")))
	require.Equal(t, 2, e.Read(jid).Attempt, "it has failed in the second")
	require.NoError(t, e.Read(jid).Unfail(t.Context()))
	require.NoError(t, e.Pop("q").Next(t.Context(), "next"))
	require.Equal(t, 1, e.Pop("next").Attempt)
}

func TestAPoppedJobKnowsHowLongItWaited(t *testing.T) {
	e := newEnv(t)
	e.Put("q")
	e.Clock.Advance(1500 * time.Millisecond)
	before := e.Clock.Now()
	job := e.Pop("q")
	require.WithinRange(t, job.PoppedAt, before, e.Clock.Now())
	require.GreaterOrEqual(t, job.Waited, 1500*time.Millisecond)
	require.Less(t, job.Waited, 1501*time.Millisecond)
	popped, waited := job.PoppedAt, job.Waited
	require.NoError(t, job.Refresh(t.Context()))
	require.Equal(t, popped, job.PoppedAt)
	require.Equal(t, waited, job.Waited)
	read := e.Read(job.JID)
	require.Zero(t, read.PoppedAt)
	require.Zero(t, read.Waited)

	require.NoError(t, errOf(job.Retry(t.Context(), time.Second, "", "")))
	e.Clock.Advance(time.Minute)
	require.InDelta(t, time.Minute, e.Pop("q").Waited, float64(time.Second), "from the first pop to the second")
}

func TestANilOptionIsRefused(t *testing.T) {
	e := stage(t)
	q, job := e.Queue("q"), e.Read("running")
	e.Unchanged(func() {
		for call, err := range map[string]error{
			"Put":     errOf(q.Put(t.Context(), "K", nil, qless.Delay(1), nil)),
			"PutMany": errOf(q.PutMany(t.Context(), []qless.JobSpec{spec(nil)})),
			"Recur":   errOf(q.Recur(t.Context(), "K", nil, time.Hour, nil)),
			"Move":    job.Move(t.Context(), "q", nil),
			"Next":    job.Next(t.Context(), "q", nil),
		} {
			require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "] is nil", call)
		}
	})
}

func TestDataIsStoredAsJSON(t *testing.T) {
	e := newEnv(t)
	for _, c := range []struct {
		data   any
		stored string
	}{
		{nil, "{}"}, {raw("[ 1 ]"), "[ 1 ]"}, {[]byte(`{"a": 1}`), `{"a": 1}`}, {[]byte(nil), "{}"}, {raw("null"), "null"},
		{"text", `"text"`}, {`{"a":1}`, `"{\"a\":1}"`}, {struct{ B []byte }{[]byte("x")}, `{"B":"eA=="}`},
		{int64(9007199254740993), `9007199254740993`}, {[]string{}, `[]`},
		{&struct{ To string }{"<é>"}, `{"To":"\u003cé\u003e"}`},
	} {
		require.NoError(t, errOf(e.Queue("q").Put(t.Context(), "K", c.data)))
		require.Equal(t, c.stored, string(e.Pop("q").Data))
	}
	_, err := e.Queue("q").Put(t.Context(), "K", []byte("plain text"))
	message := requireCode(t, qless.ErrInvalid, err).Message
	require.True(t, strings.Contains(message, "json.Marshal") && !strings.Contains(message, "plain text"), message)
}

// The rows in the doc of Priority are checked: they are the steps of a double.
func TestHowFarApartJobsOfAPriorityKeepTheirOrder(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^//\s+(\d+)\s+([0-9.]+) (µs|ms|s)$`).FindAllStringSubmatch(readFile(t, "options.go"), -1)
	require.Len(t, rows, 4)
	for _, row := range rows {
		priority := must(strconv.Atoi(row[1]))(t)
		documented := must(time.ParseDuration(row[2] + row[3]))(t)
		for _, sign := range []int{1, -1} {
			score := math.Abs(float64(sign*priority) - float64(noon.Unix())/1e10)
			apart := (math.Nextafter(score, math.Inf(1)) - score) * 1e10
			require.LessOrEqual(t, apart, 2.2*documented.Seconds(), "%d", sign*priority)
			if sign > 0 {
				require.InEpsilon(t, documented.Seconds(), apart, 0.1, row[0])
			}
		}

		e := newEnv(t)
		var put []string
		for range 20 {
			put = append(put, e.Put("q", qless.Priority(priority)))
			e.Clock.Advance(documented + documented/10 + time.Microsecond)
		}
		require.Equal(t, put, jids(e.Pops("q", 20)), row[0])
	}
}

// places are the states in which a job can be ended.
var places = []qless.State{
	qless.StateWaiting, qless.StateScheduled, qless.StateDepends, qless.StateRunning, lost,
	qless.StateTimedOut,
}

func TestAJobIsEndedByAnybodyWhereverItIs(t *testing.T) {
	for _, place := range places {
		for _, end := range []repairs.Ending{
			{Result: 7},
			{State: qless.StateFailed, Group: "g", Message: "m", Result: 7},
		} {
			runOnEach(t, fmt.Sprint(place, " ", end.State), func(t *testing.T, e *env) {
				bring[place](e, qless.JID("j"), qless.Unique("k"), qless.Limits{"l"})
				e.Put("q", qless.JID("child"), qless.DependsOn{"j"}, qless.OnFailure(qless.OnFailureRun))
				ended := e.waits(t.Context(), "j")
				state := must(repairs.End(t.Context(), e.As("anybody"), "j", end))(t)
				want := qless.StateComplete
				if end.State != "" {
					want = end.State
				}
				require.Equal(t, want, state)
				job := e.Read("j")
				require.Equal(t, want, job.State)
				require.Empty(t, job.Worker)
				require.Empty(t, job.Dependencies)
				require.Zero(t, inside.Ends(job))
				got := e.soon(ended)
				require.NoError(t, got.err)
				require.Equal(t, "7", string(got.value.Data))
				require.Equal(t, want, got.value.State)
				if want == qless.StateFailed {
					require.Equal(t, "g", job.Failure.Group)
					require.Equal(t, "m", job.Failure.Message)
				}
				require.Equal(t, qless.StateWaiting, e.Read("child").State)
				require.NoError(t, e.Cancel(t.Context(), "child"))
				e.Put("q", qless.JID("next"), qless.Unique("k")) // the key is free
				require.NoError(t, e.Cancel(t.Context(), "next"))
				counts := e.Counts("q")
				counts.Name = ""
				require.Equal(t, qless.QueueCounts{}, counts)
				require.Empty(t, must(repairs.HeldBy(t.Context(), e.Client, "w1"))(t))
				if place == qless.StateDepends {
					require.NoError(t, e.Pop("p").Complete(t.Context()))
				}
				require.Equal(t, want, e.Read("j").State, "nothing brings it back")
				require.Empty(t, e.Pops("q", 9))
				for _, again := range []repairs.Ending{end, {}} {
					e.Unchanged(func() {
						requireCode(t, qless.ErrFinished, errOf(repairs.End(t.Context(), e.Client, "j", again)))
					})
				}
			})
		}
	}
}

func TestTheWorkerOfAnEndedJobIsNotified(t *testing.T) {
	for _, end := range []repairs.Ending{{}, {State: qless.StateFailed, Group: "g"}, {TryAgain: 2}} {
		onEach(t, func(t *testing.T, e *env) {
			job := e.start("q", qless.JID("j"))
			told := heard(t, e.Redis, "ql:w:w1")
			require.NoError(t, errOf(repairs.End(t.Context(), e.As("anybody"), "j", end)))
			require.JSONEq(t, `{"jid":"j","event":"lock_lost","worker":"w1"}`, told())
			requireCode(t, qless.ErrNotRunning, job.Complete(t.Context()))
		})
	}
}

func TestAJobIsTriedAgainUntilItWasEndedSoOften(t *testing.T) {
	for _, place := range places {
		runOnEach(t, string(place), func(t *testing.T, e *env) {
			bring[place](e, qless.JID("j"), qless.Retries(3))
			before := e.Read("j")
			goesOn := qless.StateWaiting
			if place == qless.StateScheduled || place == qless.StateDepends {
				goesOn = place
			}
			for n := 1; n <= 2; n++ {
				state := e.end("j", repairs.Ending{TryAgain: 3, Result: 1})
				require.Equal(t, goesOn, state)
				job := e.Read("j")
				require.Equal(t, goesOn, job.State)
				require.Equal(t, n, inside.Ends(job))
				require.Equal(t, before.Remaining, job.Remaining)
				requireCode(t, qless.ErrUnfinished, errOf(e.Result(t.Context(), "j")))
				if goesOn == qless.StateWaiting {
					require.Equal(t, "j", e.Pop("q").JID)
				}
			}
			state := e.end("j", repairs.Ending{TryAgain: 3, Result: 2})
			require.Equal(t, qless.StateComplete, state)
			require.Equal(t, 3, inside.Ends(e.Read("j")))
			require.Equal(t, "2", string(must(e.Result(t.Context(), "j"))(t).Data))
			e.Put("q", qless.JID("j"))
			require.Zero(t, inside.Ends(e.Read("j")), "another life begins")
		})
	}
}

// The methods of jobOnEach are tests on a real server, and on miniredis.
type jobOnEach struct{}

func TestJobsOnEachServer(t *testing.T) { runEach(t, jobOnEach{}) }

func (jobOnEach) AJobThatIsTriedAgainKeepsItsPlace(t *testing.T, e *env) {
	for i := range 4 {
		e.Put("q", qless.JID(fmt.Sprint("j", i)), qless.OnLostInPlace)
		e.Clock.Advance(time.Second)
	}
	e.Pops("q", 3)
	e.Clock.Advance(time.Second)
	for _, jid := range []string{"j2", "j0", "j1"} {
		e.end(jid, repairs.Ending{TryAgain: 9})
	}
	require.Equal(t, []string{"j0", "j1", "j2", "j3"}, jids(e.Pops("q", 9)))
}

func (jobOnEach) AnEndCountsItsCallsOnlyIfItMayTryAgain(t *testing.T, e *env) {
	e.Put("q", qless.JID("j"))
	e.end("j", repairs.Ending{State: qless.StateFailed, Group: "g", TryAgain: 1})
	require.Equal(t, 1, inside.Ends(e.Read("j")))
	require.NoError(t, e.Read("j").Unfail(t.Context()))
	require.Zero(t, inside.Ends(e.Read("j")))
	require.Empty(t, e.stored("j"))
	e.Put("q", qless.JID("gone"), qless.KeepFor(0))
	state := e.end("gone", repairs.Ending{TryAgain: 1})
	require.Equal(t, qless.StateComplete, state)
	requireCode(t, qless.ErrNotFound, errOf(e.Job(t.Context(), "gone")))
}

func (jobOnEach) AnInvalidEnd(t *testing.T, e *env) {
	e.Put("q", qless.JID("j"))
	for message, end := range map[string]repairs.Ending{
		"need State":    {Group: "g"},
		"State: State":  {Message: "m"},
		"group is empt": {State: qless.StateFailed},
		"State \"runni": {State: qless.StateRunning},
		"is negative":   {TryAgain: -1},
		"JSON":          {Result: func() {}},
	} {
		e.Unchanged(func() {
			_, err := repairs.End(t.Context(), e.Client, "j", end)
			require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, message)
		})
	}
	e.Unchanged(func() {
		requireCode(t, qless.ErrNotFound, errOf(repairs.End(t.Context(), e.Client, "unknown", repairs.Ending{})))
		requireCode(t, qless.ErrNotFound, repairs.Forget(t.Context(), e.Client, "unknown"))
	})
}

func TestCompletedJobsAreKeptUpToANumber(t *testing.T) {
	e := newEnv(t)
	for i := range 150 {
		e.Put("q", qless.JID(fmt.Sprint(i)))
	}
	for _, job := range e.Pops("q", 150) {
		require.NoError(t, job.Complete(t.Context()))
	}
	e.Set("jobs-history-count", 3)
	require.NoError(t, e.start("q", qless.JID("x")).Complete(t.Context()))
	completed := must(e.inspect().Completed().JIDs(t.Context(), inspect.Range{Limit: 200}))(t)
	require.InDelta(t, 50, len(completed.Items), 1, "a call deletes a hundred or so at most")

	require.NoError(t, e.start("q", qless.JID("y")).Complete(t.Context()))
	completed = must(e.inspect().Completed().JIDs(t.Context(), inspect.Range{Limit: 200}))(t)
	require.Equal(t, []string{"y", "x", "149"}, completed.Items)
}

func TestLogAddsToTheHistory(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	job := e.Read(jid)
	e.Clock.Advance(time.Second)
	require.NoError(t, job.Log(t.Context(), "plain", nil))
	require.NoError(t, job.Log(t.Context(), `odd "\ é`+"\n", raw(`{"n": 12345678901234567890, "list": []}`)))
	require.NoError(t, job.Log(t.Context(), "all", map[string]string{"q": "x", "worker": "y", "group": "z"}))
	require.NoError(t, job.Log(t.Context(), "list", []int{1}))

	history := e.Read(jid).History
	require.Len(t, history, 5)
	require.Equal(t, qless.HistoryEntry{When: noon.Add(time.Second).Local(), What: "plain"}, history[1])
	require.Equal(t, `odd "\ é`+"\n", history[2].What)
	require.Len(t, history[2].Details, 2)
	require.NotEmpty(t, history[2].Details["n"])
	require.Equal(t, [3]string{"x", "y", "z"}, [3]string{history[3].Queue, history[3].Worker, history[3].Group})
	require.Equal(t, "list", history[4].What)

	for range 150 {
		require.NoError(t, job.Log(t.Context(), "again", nil))
	}
	history = e.Read(jid).History
	require.Len(t, history, 100, "by default")
	require.Equal(t, "put", history[0].What)
}

func TestJobsThatCannotBeCompletedLeaveOthersAlone(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	mine := e.start("q").JID
	waiting, elsewhere := e.Put("q"), e.Put("p")
	e.Pop("p")
	errs := lease.New(e.Client).Complete(ctx, "q", waiting, "missing", mine, elsewhere, "", mine)
	require.Len(t, errs, 6)
	for i, want := range map[int]error{
		0: qless.ErrNotRunning, 1: qless.ErrNotFound, 3: qless.ErrWrongQueue, 4: qless.ErrInvalid,
		5: qless.ErrNotRunning,
	} {
		require.ErrorIs(t, errs[i], want, i)
	}
	require.NoError(t, errs[2])
	require.Equal(t, qless.StateComplete, e.Read(mine).State)
	require.Equal(t, qless.StateWaiting, e.Read(waiting).State)
	require.Equal(t, qless.StateRunning, e.Read(elsewhere).State)

	errs = lease.New(e.As("w2")).Complete(ctx, "q", e.Pop("q").JID)
	require.ErrorIs(t, errs[0], qless.ErrLockLost)
}

func TestWorkersReportWhatTheyHold(t *testing.T) {
	e := newEnv(t)
	e.Set("slow-heartbeat", time.Hour)
	short, long := e.Put("q"), e.Put("slow")
	e.Pop("q")
	e.Pop("slow")
	e.Clock.Advance(time.Second)
	require.NoError(t, errOf(e.As("w2").Queue("q").Pop(t.Context(), 1)))

	workers := must(e.inspect().Workers(t.Context()))(t)
	require.Equal(t, []inspect.WorkerStatus{{Name: "w2"}, {Name: "w1", Jobs: 2}}, workers)
	e.Clock.Advance(2 * time.Minute)
	workers = must(e.inspect().Workers(t.Context()))(t)
	require.Equal(t, []inspect.WorkerStatus{{Name: "w2"}, {Name: "w1", Jobs: 1, Stalled: 1}}, workers)
	require.Equal(t, []string{short, long}, must(repairs.HeldBy(t.Context(), e.Client, "w1"))(t))
	require.Empty(t, must(repairs.HeldBy(t.Context(), e.Client, "unknown"))(t))
}

func TestAnOutcomeNamesTheRunThatItIsOf(t *testing.T) {
	e := newEnv(t)
	for _, jid := range []string{"a", "b", "c", "d"} {
		e.Put("q", qless.JID(jid))
	}
	require.Len(t, e.Pops("q", 4), 4)
	since := must(e.Redis.HGet(t.Context(), "ql:j:a", "time").Result())(t)
	require.NoError(t, repairs.TimeOut(t.Context(), e.Client, "a", "b", "c", "d"))
	require.Len(t, e.Pops("q", 4), 4)
	finish := func(args ...any) string {
		return e.run("finish", append([]any{"w1"}, args...)...).([]any)[0].(string)
	}
	const lost = " another worker: w1, at "
	e.Unchanged(func() {
		require.Contains(t, finish("complete", "a", "q", "", "2", "since", since), lost)
		require.Contains(t, finish("fail", "b", "q", "", "6", "group", "g", "message", "m", "since", since), lost)
		require.Contains(t, finish("retry", "c", "q", "", "2", "since", since), lost)
		require.Contains(t, finish("release", "d", "q", "", "2", "since", since), lost)
	})
	since = must(e.Redis.HGet(t.Context(), "ql:j:a", "time").Result())(t)
	require.Equal(t, "complete", finish("complete", "a", "q", "", "2", "since", since))
}

func TestCancelLeavesACompleteJobThatIsNamedTwice(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.start("q", qless.JID("j")).Complete(t.Context()))
	e.Unchanged(func() { require.NoError(t, e.Cancel(t.Context(), "j", "j")) })
}

// attemptsOf returns the attempts of a job, without the microseconds by which the clock advances.
func attemptsOf(job *qless.Job) []qless.Attempt {
	for i := range job.Attempts {
		job.Attempts[i].Ran = job.Attempts[i].Ran.Truncate(time.Millisecond)
	}
	return job.Attempts
}

func (jobOnEach) AJobKeepsItsAttempts(t *testing.T, e *env) {
	ctx := t.Context()
	e.Set("grace-period", 0)
	jid := e.Put("q", qless.Retries(3))
	var want []qless.Attempt
	// run pops the job, and ends the run after the attempt's time.
	run := func(a qless.Attempt, end func(job *qless.Job) error) {
		t.Helper()
		job := e.Pop("q")
		require.Empty(t, job.Attempts)
		a.Began, a.Worker, a.Queue = job.PoppedAt, "w1", "q"
		want = append(want, a)
		e.Clock.Advance(a.Ran)
		require.NoError(t, end(job))
		e.Clock.Advance(a.Delay)
	}
	require.Empty(t, e.Read(jid).Attempts)
	run(qless.Attempt{
		What: "retried", Ran: 1500 * time.Millisecond, Delay: 8 * time.Second, Group: "io", Message: "no route",
	}, func(job *qless.Job) error { return errOf(job.Retry(ctx, 8*time.Second, "io", "no route\n\nstack")) })
	run(qless.Attempt{What: "released", Ran: time.Second, Delay: time.Minute}, func(job *qless.Job) error {
		return job.Release(ctx, time.Minute)
	})
	run(qless.Attempt{What: "timed_out", Ran: 2 * time.Second}, func(*qless.Job) error {
		return repairs.TimeOut(ctx, e.Client, jid)
	})
	run(qless.Attempt{What: "released"}, func(*qless.Job) error {
		return errOf(repairs.End(ctx, e.Client, jid, repairs.Ending{TryAgain: 9}))
	})
	run(qless.Attempt{What: "lost", Ran: time.Minute}, func(*qless.Job) error {
		e.Clock.Advance(time.Hour)
		return nil
	})
	run(qless.Attempt{What: "retried"}, func(job *qless.Job) error { return errOf(job.Retry(ctx, 0, "", "")) })
	run(qless.Attempt{What: "failed", Ran: time.Second, Group: "io", Message: "boom"}, func(job *qless.Job) error {
		return job.Fail(ctx, "io", "boom")
	})
	read := e.Read(jid)
	require.Equal(t, want, attemptsOf(read))

	require.NoError(t, read.Unfail(ctx))
	job := e.Pop("q")
	require.NoError(t, job.Refresh(ctx))
	require.Equal(t, want, attemptsOf(job))
	require.NoError(t, job.Complete(ctx))
	jobs := must(e.Jobs(ctx, jid))(t)
	require.Equal(t, want, attemptsOf(jobs[0]), "a completing attempt is not listed")

	text := must(json.Marshal(want[0]))(t)
	require.Contains(t, string(text), `"ran":"1.5s","delay":"8s"`)
	var again qless.Attempt
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, want[0].Ran, again.Ran)
	require.Equal(t, want[0].Delay, again.Delay)
	require.Error(t, json.Unmarshal([]byte(`[]`), &again))
}

func (jobOnEach) AttemptsOfJobsWithoutRetriesLeft(t *testing.T, e *env) {
	e.Set("grace-period", 0)
	for queue, end := range map[string]func(job *qless.Job) error{
		"retried": func(job *qless.Job) error { return errOf(job.Retry(t.Context(), time.Minute, "g", "m")) },
		"lost": func(*qless.Job) error {
			e.Clock.Advance(time.Hour)
			e.Pops("lost", 1)
			return nil
		},
	} {
		jid := e.Put(queue, qless.Retries(0))
		require.NoError(t, end(e.Pop(queue)))
		read := e.Read(jid)
		require.Equal(t, qless.StateFailed, read.State)
		require.Len(t, read.Attempts, 1)
		require.Zero(t, read.Attempts[0].Delay)
	}
}

func TestABackOffAfterALostLock(t *testing.T) {
	e := newEnv(t)
	e.Set("grace-period", 0)
	e.Set("backoff-initial-delay", 30)
	jid := e.start("q").JID
	e.Clock.Advance(time.Hour)
	require.Empty(t, e.Pops("q", 1))
	require.Equal(t, 90*time.Second, e.Read(jid).Attempts[0].Delay, "the factor is 3")
}

func TestAttemptsAreBounded(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q", qless.Retries(99))
	for i := range 30 {
		message := "\n" + strings.Repeat("ü", i*10+1) + "\r\nnot this"
		require.NoError(t, errOf(e.Pop("q").Retry(t.Context(), 0, "g", message)))
		last := e.Read(jid).Attempts
		require.Equal(t, strings.Repeat("ü", min(i*10+1, 100)), last[len(last)-1].Message)
	}
	read := e.Read(jid)
	require.Len(t, read.Attempts, 25)
	require.Equal(t, strings.Repeat("ü", 51), read.Attempts[0].Message)
	require.NoError(t, errOf(e.Pop("q").Retry(t.Context(), 0, "g", "a"+strings.Repeat("ü", 100))))
	require.Equal(t, "a"+strings.Repeat("ü", 99), e.Read(jid).Attempts[24].Message)

	require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:"+jid, "x:attempts", `{"what":`).Err())
	require.Empty(t, e.Read(jid).Attempts, "damaged attempts count as none")
	require.NoError(t, read.Cancel(t.Context()))
	require.Zero(t, e.Redis.Exists(t.Context(), "ql:j:"+jid).Val())
}

func TestAttemptsCostAPlainJobNothing(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	require.NoError(t, e.Pop("q").Complete(t.Context()))
	require.NotContains(t, e.Redis.HGetAll(t.Context(), "ql:j:"+jid).Val(), "x:attempts")

	cost := func(jid string) int { return e.cost(func() { e.Read(jid) }) }
	plain := cost(jid)
	jid = e.Put("q")
	require.NoError(t, e.Pop("q").Release(t.Context(), 0))
	require.Len(t, e.Read(jid).Attempts, 1)
	require.Equal(t, plain, cost(jid))
}
