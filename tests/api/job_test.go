package api

import (
	"context"
	"encoding/json"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
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

func TestServerClockIsUsedByDefault(t *testing.T) {
	e := newEnv(t)
	client := must(qless.New(e.Redis, nil))(t)
	before := time.Now().Truncate(time.Second)
	jid := must(client.Queue("q").Put(t.Context(), "K", nil, qless.Delay(time.Hour)))(t)
	put := e.Read(jid).History[0].When
	require.False(t, put.Before(before))
	require.False(t, put.After(time.Now()))
	require.Empty(t, must(client.Queue("q").Pop(t.Context(), 1))(t))
}

func TestHistoryIsCappedAt100ByDefault(t *testing.T) {
	e := newEnv(t)
	job := e.Read(e.Put("q"))
	for range 150 {
		require.NoError(t, job.Log(t.Context(), "again", nil))
	}
	require.NoError(t, job.Refresh(t.Context()))
	require.Len(t, job.History, 100)
	require.Equal(t, "put", job.History[0].What)
}
