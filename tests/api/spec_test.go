package api

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// optionsOfJobs has every put option that a job keeps.
var optionsOfJobs = map[string][]qless.PutOption{
	"none":            {},
	"all at once":     {qless.Priority(-7), qless.Tags{"b", "a"}, qless.Retries(0), qless.Delay(time.Hour)},
	"a delay":         {qless.Delay(90 * time.Second)},
	"a time":          {qless.At(noon.Add(time.Hour + 1234*time.Microsecond))},
	"dependencies":    {qless.DependsOn{"waiting", "complete", "none"}},
	"a late waiter":   {qless.DependsOn{"waiting"}, qless.Delay(time.Hour)},
	"run on failure":  {qless.DependsOn{"waiting", "complete", "failed"}, qless.OnFailure("run")},
	"fail on failure": {qless.DependsOn{"waiting", "complete"}, qless.OnFailure("fail")},
	"wait on failure": {qless.DependsOn{"waiting", "failed"}, qless.OnFailure("wait")},
	"a policy":        {qless.OnFailure("run")},
	"headers":         {qless.Headers(map[string]string{"b": "", "a": "\u2028 x"})},
	"limits":          {qless.Limits{"l2", "l1"}},
	"a lock time":     {qless.LockTime(333 * time.Millisecond)},
	"lost jobs last":  {qless.OnLostLast},
	"lost in place":   {qless.OnLostInPlace, qless.LockTime(time.Hour)},
	"a start":         {qless.StartBy(time.Minute)},
	"a late start":    {qless.StartBy(2 * time.Hour), qless.Delay(time.Hour)},
	"a life":          {qless.TTL(90 * time.Minute), qless.StartBy(time.Hour)},
	"kept":            {qless.KeepFor(time.Minute), qless.KeepFailedFor(1500 * time.Millisecond)},
	"not kept":        {qless.KeepFor(0), qless.KeepFailedFor(0)},
	"kept for ever":   {qless.KeepFailedFor(qless.Forever)},
	"a run time":      {qless.MaxRunTime(1100 * time.Millisecond)},
	"a key":           {qless.Unique("invoice", 7, map[string]any{"eu": true})},
	"a key of data":   {qless.Unique()},
	"a key for now":   {qless.Unique("x").UntilStarted()},
	"a key for long":  {qless.Unique("y").For(time.Hour)},
	"a tenant":        {qless.Fair("ann")},
	"a heavy tenant":  {qless.Fair("bob", qless.Weight(2.5)), qless.Priority(3)},
}

// putNeeded puts the jobs that other jobs of a test wait for.
func (e *env) putNeeded() {
	e.Put("q", qless.JID("waiting"))
	e.Put("done", qless.JID("complete"))
	require.NoError(e.T, e.Pop("done").Complete(e.T.Context()))
	e.Put("done", qless.JID("failed"))
	require.NoError(e.T, e.Pop("done").Fail(e.T.Context(), "g", "m"))
}

// putAgain cancels a job, and puts it again from its JSON.
func (e *env) putAgain(job *qless.Job) {
	e.T.Helper()
	receipt := must(json.Marshal(job))(e.T)
	require.NoError(e.T, e.Cancel(e.T.Context(), job.JID))
	var read qless.Job
	require.NoError(e.T, json.Unmarshal(receipt, &read))
	_, err := e.Queue(read.Queue).PutMany(e.T.Context(), []qless.JobSpec{read.Spec()})
	require.NoError(e.T, err)
}

func TestACanceledJobIsPutAgainFromItsJSONAsItWas(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.putNeeded()
		for name, options := range optionsOfJobs {
			t.Run(name, func(t *testing.T) {
				options := append([]qless.PutOption{qless.JID(name)}, options...)
				_, err := e.Queue("other").Put(t.Context(), "Klass",
					json.RawMessage(`{"big": 12345678901234567890}`), options...)
				require.NoError(t, err)
				before, stored := e.Read(name), e.stored(name)
				e.Clock.Advance(10 * time.Second)
				e.putAgain(before)
				after := e.Read(name)
				before.History, after.History = nil, nil
				require.Equal(t, shown(t, before), shown(t, after))
				require.Equal(t, withoutPutTime(t, stored), withoutPutTime(t, e.stored(name)))
				require.NoError(t, e.Cancel(t.Context(), name))
			})
		}
	})
}

func shown(t testing.TB, job *qless.Job) string {
	t.Helper()
	return string(must(json.MarshalIndent(job, "", "  "))(t))
}

// withoutPutTime returns stored options without the times at which their lifetimes were put.
func withoutPutTime(t *testing.T, stored string) map[string]any {
	t.Helper()
	if stored == "" {
		return nil
	}
	_, text, _ := strings.Cut(stored, "|")
	var values map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &values))
	delete(values, "put")
	return values
}

func TestOptionsBeforeThoseOfASpecCount(t *testing.T) {
	e := newEnv(t)
	spec := e.Read(e.Put("q", qless.Priority(7))).Spec()
	spec.Options = append([]qless.PutOption{
		qless.Priority(1), qless.DependsOn{"x"}, qless.KeepFor(time.Minute), qless.Limits{"l"},
	}, append(spec.Options, qless.JID("again"))...)
	e.puts("q", spec)
	job := e.Read("again")
	require.Equal(t, 7, job.Priority)
	require.Equal(t, time.Minute, *job.Options.KeepFor)
	require.Equal(t, qless.Limits{"l"}, job.Options.Limits)
}

func TestAJobWhoseLifeIsOverIsNotPutAgain(t *testing.T) {
	for name, option := range map[string]qless.PutOption{
		"StartBy": qless.StartBy(time.Minute), "TTL": qless.TTL(time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			jid := e.Put("q", option)
			job := e.Read(jid)
			require.NoError(t, e.Cancel(t.Context(), jid))
			e.Clock.Advance(90 * time.Second)
			_, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{job.Spec()})
			require.ErrorIs(t, err, qless.ErrInvalid)
			require.ErrorContains(t, err, name+" was over 30.000 s ago")

			spec := job.Spec()
			spec.Options = append(spec.Options, qless.StartBy(time.Hour), qless.TTL(time.Hour))
			e.puts("q", spec)
			require.WithinDuration(t, e.Clock.Now().Add(time.Hour), e.Read(jid).Options.TTL, time.Millisecond)
		})
	}
}

func TestEndedJobIsPutAgainWithoutItsLifetimes(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q", qless.TTL(time.Hour), qless.KeepFor(time.Minute))
	require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
	e.putAgain(e.Read(jid))
	job := e.Read(jid)
	require.Zero(t, job.Options.TTL)
	require.Equal(t, time.Minute, *job.Options.KeepFor)
	require.Equal(t, qless.StateWaiting, job.State)
	require.Nil(t, job.Failure)
}

func TestTheCallbackOfABatchIsPutAgain(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	batch := must(e.NewBatch(ctx, "q", qless.NewKlass[any]("Done").Spec(nil, qless.JID("batch"))))(t)
	_, err := batch.Add(ctx, "q", []qless.JobSpec{spec(qless.JID("a"))})
	require.NoError(t, err)
	before := e.Read("batch")
	require.Equal(t, 1, *before.BatchSize)
	e.putAgain(before)
	require.ElementsMatch(t, before.Dependencies, e.Read("batch").Dependencies)
	_, err = batch.Add(ctx, "q", []qless.JobSpec{spec(qless.JID("b"))})
	require.NoError(t, err)
	require.Equal(t, 2, *e.Read("batch").BatchSize)
	require.NoError(t, batch.Commit(ctx))
	for range 2 {
		require.NoError(t, e.Pop("q").Complete(ctx))
	}
	require.Equal(t, "batch", e.Pop("q").JID)
}

func TestAJobThatIsParkedIsPutAgainWithoutATime(t *testing.T) {
	e := newEnv(t)
	e.limit("l", qless.LimitConfig{Concurrency: 1})
	e.Put("q", qless.JID("first"), qless.Limits{"l"})
	e.Put("q", qless.JID("second"), qless.Limits{"l"})
	e.Pop("q")
	require.Empty(t, must(e.Queue("q").Pop(t.Context(), 1))(t))
	parked := e.Read("second")
	require.Equal(t, "l", parked.Parked)
	e.putAgain(parked)
	require.Equal(t, qless.StateWaiting, e.Read("second").State)
}

func TestWhenAJobIsDueIsSaidToThoseWhoAsk(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("j"), qless.Delay(time.Hour))
	require.Contains(t, e.run("get", "j", "x:due"), `"due":`)
	require.NotContains(t, e.run("get", "j"), `"due":`)
	require.WithinDuration(t, e.Clock.Now().Add(time.Hour), e.Read("j").Due, time.Millisecond)
	reply := must(e.Redis.Eval(t.Context(), qless.DropInScript(), nil, "get", "0", "j").Result())(t)
	require.NotContains(t, reply, `"due":`)
}
