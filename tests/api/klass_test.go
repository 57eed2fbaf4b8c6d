package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/shards"
)

type given = []qless.PutOption

// merged gives defaults of a klass, options of a put, and the options that have the same effect.
var merged = map[string]struct{ defaults, put, same given }{
	"no defaults": {nil, given{qless.Retries(1)}, given{qless.Retries(1)}},
	"defaults only": {given{qless.Retries(3), qless.Limits{"psp"}}, nil,
		given{qless.Retries(3), qless.Limits{"psp"}}},
	"different types": {given{qless.Retries(3)}, given{qless.Priority(2)},
		given{qless.Retries(3), qless.Priority(2)}},
	"a zero":  {given{qless.Retries(3)}, given{qless.Retries(0)}, given{qless.Retries(0)}},
	"tags":    {given{qless.Tags{"a", "b"}}, given{qless.Tags{"c"}}, given{qless.Tags{"c"}}},
	"no tags": {given{qless.Tags{"a"}}, given{qless.Tags{}}, given{qless.Tags{}}},
	"limits":  {given{qless.Limits{"a", "b"}}, given{qless.Limits{"c"}}, given{qless.Limits{"c"}}},
	"a unique key": {given{qless.Unique("a").Replace()}, given{qless.Unique("b")},
		given{qless.Unique("b")}},
	"a tenant": {given{qless.Fair("a", 2)}, given{qless.Fair("b")}, given{qless.Fair("b")}},
	"a policy": {given{qless.OnFailureRun}, given{qless.OnFailureFail},
		given{qless.OnFailureFail}},
	"a place":     {given{qless.OnLostLast}, given{qless.OnLostFirst}, given{qless.OnLostFirst}},
	"a lock time": {given{qless.LockTime(1e9)}, given{qless.LockTime(2e9)}, given{qless.LockTime(2e9)}},
	"a life":      {given{qless.TTL(time.Hour)}, given{qless.TTL(1e9)}, given{qless.TTL(1e9)}},
	"without a life": {given{qless.TTL(time.Hour)}, given{qless.TTL(qless.Forever)},
		given{qless.TTL(qless.Forever)}},
	"a record": {given{qless.KeepFor(time.Hour)}, given{qless.KeepFor(0)}, given{qless.KeepFor(0)}},
	"headers": {given{qless.Headers{"a": "1", "b": "1"}}, given{qless.Headers{"b": "2"}},
		given{qless.Headers{"a": "1", "b": "2"}}},
	"no headers": {given{qless.Headers{"a": "1"}}, given{qless.Headers(nil)},
		given{qless.Headers(nil)}},
	"delays": {given{qless.Delay(1e9)}, given{qless.Delay(2e9)}, given{qless.Delay(2e9)}},
	"a time": {given{qless.Delay(1e9)}, given{qless.At(noon)}, given{qless.At(noon)}},
	"conditions": {given{qless.IfAbsent}, given{qless.JID("j"), qless.IfFinished},
		given{qless.JID("j"), qless.IfFinished}},
	"a condition": {given{qless.IfAbsent}, given{qless.JID("j")},
		given{qless.JID("j"), qless.IfAbsent}},
	"two defaults": {given{qless.Retries(1), qless.Retries(2)}, nil, given{qless.Retries(2)}},
}

func TestOptionsOfAPutReplaceDefaults(t *testing.T) {
	for name, c := range merged {
		t.Run(name, func(t *testing.T) {
			klass := qless.NewKlass[[]int]("K", c.defaults...)
			want := jsonOf(t, qless.JobSpec{Klass: "K", Data: []int{1}, Options: c.same})
			require.Equal(t, want, jsonOf(t, klass.Spec([]int{1}, c.put...)))
			require.Equal(t, want, jsonOf(t, klass.Spec([]int{1}, c.put...)), "a klass never changes")
		})
	}
}

// The options of a put take effect in an existing job as without a klass.
func TestAJobThatIsPutAgainGetsTheDefaults(t *testing.T) {
	e := newEnv(t)
	q, j := e.Queue("q"), qless.JID("j")
	klass := qless.NewKlass[any]("K", qless.Priority(4), qless.TTL(time.Hour),
		qless.Headers{"a": "1"})
	put := func(options ...qless.PutOption) *qless.Job {
		t.Helper()
		return e.Read(must(klass.Put(t.Context(), q, nil, append(options, j)...))(t))
	}
	job := put()
	require.Equal(t, 4, job.Priority)
	require.False(t, job.Options.TTL.IsZero())
	require.Equal(t, qless.Headers{"a": "1"}, job.Headers)
	e.Put("q", j, qless.Priority(5))
	job = put(qless.TTL(qless.Forever), qless.Headers(nil))
	require.Equal(t, 4, job.Priority)
	require.True(t, job.Options.TTL.IsZero())
	require.Empty(t, job.Headers)
}

func TestJobsOfAKlassRecur(t *testing.T) {
	e := newEnv(t)
	q := e.Queue("q")
	klass := qless.NewKlass[[]int]("K", qless.Retries(2), qless.Tags{"t"})
	jid := must(klass.Recur(t.Context(), q, []int{1}, time.Hour, qless.Priority(3)))(t)
	job := must(e.RecurringJob(t.Context(), jid))(t)
	require.Equal(t, []any{"K", "[1]", 2, 3, qless.Tags{"t"}, time.Hour},
		[]any{job.Klass, string(job.Data), job.Retries, job.Priority, job.Tags, job.Interval})

	limited := qless.NewKlass[any]("K", qless.Limits{"l"})
	_, err := limited.Recur(t.Context(), q, nil, time.Hour)
	requireCode(t, qless.ErrInvalid, err)
	require.ErrorContains(t, err, "recurring jobs have no qless.Limits, a default of K")
}

func TestNewKlassRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		name     string
		defaults given
		problem  string
	}{
		"an empty name":      {"", nil, "the klass is empty"},
		"a name not UTF-8":   {"\xff", nil, "is not UTF-8"},
		"a pattern":          {"Mail::*", nil, "the klass is a pattern"},
		"a nil option":       {"K", given{nil}, "nil option"},
		"an invalid option":  {"K", given{qless.Retries(-1)}, "retries -1"},
		"a jid":              {"K", given{qless.JID("j")}, "JID, At and DependsOn can't be defaults"},
		"an empty jid":       {"K", given{qless.JID("")}, "the jid is empty"},
		"a time":             {"K", given{qless.At(noon)}, "JID, At and DependsOn"},
		"dependencies":       {"K", given{qless.DependsOn{"j"}}, "JID, At and DependsOn"},
		"known dependencies": {"K", given{qless.DependsOn{}.MustExist()}, "JID, At and DependsOn"},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() { require.Contains(t, fmt.Sprint(recover()), c.problem) }()
			qless.NewFunction[any, any](c.name, c.defaults...)
		})
	}
}

func TestAPutOfAKlassIsRefused(t *testing.T) {
	e := newEnv(t)
	q := e.Queue("q")
	unique := qless.NewKlass[int]("Once", qless.IfAbsent)
	plain := qless.NewKlass[func()]("Plain", qless.Retries(1))
	for name, err := range map[string]error{
		"a condition needs a jid": errOf(unique.Put(t.Context(), q, 1)),
		"an empty jid":            errOf(unique.Put(t.Context(), q, 1, qless.JID(""))),
		"a nil option":            errOf(unique.Put(t.Context(), q, 1, qless.JID("j"), nil)),
		"data that is not JSON":   errOf(plain.Put(t.Context(), q, func() {})),
		"a zero klass":            errOf(qless.Klass[int]{}.Put(t.Context(), q, 1)),
	} {
		requireCode(t, qless.ErrInvalid, err)
		require.Empty(t, e.unfinished("q"), name)
	}
}

func TestDataOfAKlass(t *testing.T) {
	e := newEnv(t)
	numbers := qless.NewKlass[[]int]("Numbers")
	put := func(data any) *qless.Job {
		t.Helper()
		return e.Read(must(e.Queue("q").Put(t.Context(), "Numbers", data))(t))
	}
	require.Equal(t, []int{1, 2}, must(numbers.Data(put([]int{1, 2})))(t))
	requireCode(t, qless.ErrInvalid, errOf(numbers.Data(put("text"))))
	_, err := qless.NewKlass[[]int]("Others").Data(put([]int{1}))
	require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, `"Numbers", not "Others"`)
}

// One klass is put, put with others, put into a batch and called, and handled by a group.
func TestAKlassInEveryCall(t *testing.T) {
	e := newEnv(t)
	client := e.NewLiveClient(e.Redis, qless.ClientConfig{})
	defer client.Close()
	ctx, q := t.Context(), client.Queue("q")
	length := qless.NewFunction[string, int]("Length", qless.Tags{"short"}, qless.Retries(0))
	group := must(qless.NewWorkerGroup([]*qless.Client{client},
		qless.WorkerConfig{Queues: []string{"q"}, Logger: testkit.Quiet()}))(t)
	length.Handle(group, func(_ context.Context, job *qless.Job, text string) (int, error) {
		if text == "" || len(job.Tags) != 1 || job.Tags[0] != "short" {
			return 0, fmt.Errorf("%q has the tags %v", text, job.Tags)
		}
		return len(text), nil
	})
	require.NoError(t, group.Start(ctx))
	defer group.Stop(context.WithoutCancel(ctx))

	n := must(length.Call(ctx, q, "four"))(t)
	require.Equal(t, 4, n)
	requireCode(t, qless.ErrFailed, errOf(length.Call(ctx, q, "")))
	n = must(length.Call(ctx, must(shards.New(shards.ByJID, client))(t).Queue("q"), "fives"))(t)
	require.Equal(t, 5, n)

	jids := []string{"put", "many", "callback", "member"}
	put := must(length.Put(ctx, q, "a", qless.JID(jids[0])))(t)
	require.Equal(t, jids[0], put)
	require.NoError(t, errOf(q.PutMany(ctx, []qless.JobSpec{length.Spec("ab", qless.JID(jids[1]))})))
	batch := must(client.NewBatch(ctx, "q", length.Spec("abc", qless.JID(jids[2]))))(t)
	_, err := batch.Add(ctx, "q", []qless.JobSpec{length.Spec("abcd", qless.JID(jids[3]))})
	require.NoError(t, err)
	require.NoError(t, batch.Commit(ctx))
	for i, jid := range jids {
		n := must(length.Wait(ctx, client, jid))(t)
		require.Equal(t, i+1, n, jid)
	}
}
