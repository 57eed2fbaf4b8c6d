//go:build interop

package interop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/repairs"
)

// features are the options of jobs unknown to the others. Within the seconds of a test, none of
// them affects the outcome of a job.
var features = map[string][]qless.PutOption{
	"headers":    {qless.Headers{"traceparent": "00-1"}},
	"if absent":  {qless.IfAbsent},
	"kept":       {qless.KeepFor(time.Hour), qless.KeepFailedFor(time.Hour), qless.MaxRunTime(time.Hour)},
	"lifetimes":  {qless.StartBy(time.Hour), qless.TTL(time.Hour)},
	"lock time":  {qless.LockTime(time.Minute), qless.OnLostLast},
	"on failure": {qless.OnFailureRun},
	"fair":       {qless.Fair("tenant")},
	"limits":     {qless.Limits{"limit", "family/key"}},
	"replaced":   {qless.Unique("account", 8)},
	"unique":     {qless.Unique("account", 7)},
}

// replacements are the options of later puts that replace the job.
var replacements = map[string][]qless.PutOption{
	"replaced": {qless.Unique("account", 8).Replace()},
}

// stages are the states of jobs as found by the others, brought about by us or by them.
var stages = map[string]func(ctx context.Context, ours *qless.Client) error{
	"waiting": func(context.Context, *qless.Client) error { return nil },
	"running": func(ctx context.Context, ours *qless.Client) error {
		_, err := ours.Queue("q").Pop(ctx, 1)
		return err
	},
	"complete": func(ctx context.Context, ours *qless.Client) error {
		jobs, err := ours.Queue("q").Pop(ctx, 1)
		if err == nil {
			err = jobs[0].Complete(ctx)
		}
		return err
	},
	"tried again": func(ctx context.Context, ours *qless.Client) error {
		_, err := ours.Queue("q").Pop(ctx, 1)
		if err == nil {
			_, err = repairs.End(ctx, ours, "j", repairs.Ending{TryAgain: 2})
		}
		return err
	},
	"ended by anyone": func(ctx context.Context, ours *qless.Client) error {
		_, err := repairs.End(ctx, ours, "j", repairs.Ending{Result: 7})
		return err
	},
	"failed": func(ctx context.Context, ours *qless.Client) error {
		jobs, err := ours.Queue("q").Pop(ctx, 1)
		if err == nil {
			err = jobs[0].Fail(ctx, "g", "m")
		}
		return err
	},
}

// actions are sequences of operations of the others on a job.
var actions = map[string][]action{
	"nothing":       nil,
	"pop":           {{"pop", args{"queue": "q"}}},
	"heartbeat":     {{"pop", args{"queue": "q"}}, {"heartbeat", args{"jid": "j"}}},
	"complete":      {{"pop", args{"queue": "q"}}, {"complete", args{"jid": "j"}}},
	"next":          {{"pop", args{"queue": "q"}}, {"complete", args{"jid": "j", "next": "q2"}}},
	"fail":          {{"pop", args{"queue": "q"}}, {"fail", args{"jid": "j", "group": "g", "message": "m"}}},
	"retry":         {{"pop", args{"queue": "q"}}, {"retry", args{"jid": "j"}}},
	"put":           {{"put", args{"queue": "q", "jid": "j"}}},
	"put elsewhere": {{"put", args{"queue": "q2", "jid": "j"}}},
	"move":          {{"move", args{"jid": "j", "queue": "q2"}}},
	"cancel":        {{"cancel", args{"jid": "j"}}},
	"timeout":       {{"timeout", args{"jid": "j"}}},
	"unfail":        {{"unfail", args{"queue": "q", "group": "g"}}},
	"depend":        {{"put", args{"queue": "q", "jid": "k"}}, {"depend", args{"jid": "j", "on": []string{"k"}}}},
	"prioritize":    {{"prioritize", args{"jid": "j", "priority": 3}}},
	"tag":           {{"tag", args{"jid": "j", "tags": []string{"t"}}}},
	"track":         {{"track", args{"jid": "j"}}},
	"look":          {{"job", args{"jid": "j"}}, {"counts", args{}}, {"peek", args{"queue": "q"}}},
}

// A course is the history of a job: the refused actions, and the job at the end.
type course struct {
	refused []bool
	job     string
}

// follow puts a job with a feature, brings it to a stage, and lets the others act on it.
func follow(
	t *testing.T, ours *qless.Client, them side, stage string, actions []action, feature string,
) course {
	t.Helper()
	must(t, them, "begin", args{"worker": "theirs"})
	_, err := ours.Queue("q").Put(t.Context(), "K", nil, append(features[feature], qless.JID("j"))...)
	require.NoError(t, err)
	puts := 1
	if options := replacements[feature]; options != nil {
		jid, err := ours.Queue("q").Put(t.Context(), "K", nil, options...)
		require.NoError(t, err)
		require.Equal(t, "j", jid)
		puts++
	}
	require.NoError(t, stages[stage](t.Context(), ours))
	var c course
	for _, a := range actions {
		_, err := them.do(t.Context(), a.op, a.args)
		c.refused = append(c.refused, err != nil)
	}
	job, err := ours.Job(t.Context(), "j")
	if err != nil {
		require.ErrorIs(t, err, qless.ErrNotFound)
		return c
	}
	c.job = fmt.Sprint(job.State, job.Queue, job.Worker, job.Priority, job.Retries, job.Remaining,
		job.Tags, job.Dependencies, job.Failure == nil, len(job.History)-puts)
	return c
}

// Whatever the others do with our job, at any stage, its course is that of a job without options.
func TestOthersTreatAJobWithOptionsAsAnyOther(t *testing.T) {
	withOthers(t, func(t *testing.T, server *testkit.Server, them side) {
		rdb := server.Client(t)
		ours, err := qless.New(rdb, &qless.ClientConfig{WorkerName: "ours"})
		require.NoError(t, err)
		for stage := range stages {
			for name, actions := range actions {
				require.NoError(t, rdb.FlushDB(t.Context()).Err())
				plain := follow(t, ours, them, stage, actions, "")
				for feature := range features {
					require.NoError(t, rdb.FlushDB(t.Context()).Err())
					require.Equal(t, plain, follow(t, ours, them, stage, actions, feature),
						"%s: a job with %s that was %s", name, feature, stage)
				}
			}
		}
	})
}

// Any client that completes the last member of a batch releases the callback, which any client can
// run.
func TestOthersEndABatch(t *testing.T) {
	withOthers(t, func(t *testing.T, server *testkit.Server, them side) {
		ours, err := qless.New(server.Client(t), &qless.ClientConfig{WorkerName: "ours"})
		require.NoError(t, err)
		must(t, them, "begin", args{"worker": "theirs"})
		batch, err := ours.NewBatch(t.Context(), "callbacks", qless.NewKlass[any]("Done").Spec(nil, qless.OnFailureRun))
		require.NoError(t, err)
		members, err := batch.Add(t.Context(), "q", []qless.JobSpec{{Klass: "K"}, {Klass: "K"}, {Klass: "K"}})
		require.NoError(t, err)
		complete := func(jid string) {
			must(t, them, "pop", args{"queue": "q"})
			must(t, them, "complete", args{"jid": jid})
		}
		state := func() qless.State {
			job, err := ours.Job(t.Context(), batch.ID)
			require.NoError(t, err)
			return job.State
		}
		complete(members[0])
		complete(members[1])
		require.NoError(t, batch.Commit(t.Context()))
		require.Equal(t, qless.StateDepends, state())
		complete(members[2])
		require.Equal(t, qless.StateWaiting, state())
		must(t, them, "pop", args{"queue": "callbacks"})
		must(t, them, "complete", args{"jid": batch.ID})
		require.Equal(t, qless.StateComplete, state())
	})
}

// Whatever the others have done with a job, we can end and forget it, and then they no longer can.
func TestJobsThatOthersHaveAreEnded(t *testing.T) {
	withOthers(t, func(t *testing.T, server *testkit.Server, them side) {
		rdb := server.Client(t)
		ours, err := qless.New(rdb, &qless.ClientConfig{WorkerName: "ours"})
		require.NoError(t, err)
		for _, name := range []string{"nothing", "pop", "heartbeat", "retry", "put", "put elsewhere", "pop, timeout"} {
			for _, end := range []repairs.Ending{{}, {State: qless.StateFailed, Group: "g"}, {TryAgain: 2}} {
				require.NoError(t, rdb.FlushDB(t.Context()).Err())
				must(t, them, "begin", args{"worker": "theirs"})
				must(t, them, "put", args{"queue": "q", "jid": "j"})
				for part := range strings.SplitSeq(name, ", ") {
					for _, d := range actions[part] {
						must(t, them, d.op, d.args)
					}
				}
				state, err := repairs.End(t.Context(), ours, "j", end)
				require.NoError(t, err, name)
				for _, op := range []string{"heartbeat", "complete", "retry"} {
					_, err := them.do(t.Context(), op, args{"jid": "j"})
					require.Error(t, err, "%s after %s", op, name)
				}
				must(t, them, "peek", args{"queue": "q"})
				if end.TryAgain == 0 {
					require.NoError(t, repairs.Forget(t.Context(), ours, "j"))
				} else if state == qless.StateWaiting && name != "put elsewhere" {
					must(t, them, "pop", args{"queue": "q"})
				}
			}
		}
	})
}
