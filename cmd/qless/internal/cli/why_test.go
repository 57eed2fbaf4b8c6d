package cli_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
)

// A why is a queue called mail with late jobs.
type why struct{ *env }

// jobs puts jobs.
func (w why) jobs(jids ...string) {
	w.t.Helper()
	for _, jid := range jids {
		w.put("mail", "Welcome", time.Minute, qless.JID(jid))
	}
}

// worker registers a worker with free slots.
func (w why) worker(info string) {
	w.t.Helper()
	must(w.as("", 0).Do(w.t.Context(), "worker.register", "w1", "0", info))(w.t)
}

// pop pops a number of jobs as that worker.
func (w why) pop(queue string, n int) []*qless.Job {
	w.t.Helper()
	jobs := must(w.as("w1", 0).Queue(queue).Pop(w.t.Context(), n))(w.t)
	require.Len(w.t, jobs, n)
	return jobs
}

// failSilently fails a waiting job like a classic client, without notifying others.
func failSilently(t *testing.T, rdb redis.UniversalClient, client *qless.Client, jid string) {
	ctx, job := t.Context(), jobOf(t, client, jid)
	pipe := rdb.TxPipeline()
	pipe.ZRem(ctx, "ql:q:"+job.Queue+"-work", jid)
	pipe.HSet(ctx, "ql:j:"+jid, "state", "failed",
		"failure", `{"group":"g","message":"m","when":1,"worker":"w"}`)
	pipe.LPush(ctx, "ql:f:g", jid)
	pipe.SAdd(ctx, "ql:failures", "g")
	must(pipe.Exec(ctx))(t)
}

func (w why) queue() *qless.Queue { return w.Client().Queue("mail") }

const free = `{"queues":["mail"],"klasses":["Welcome"],"slots":5}`

// From "jobs are late" to the cause: the output for each step. The runbook has more causes.
func TestWhyTellsTheCauseAndWhatToDo(t *testing.T) {
	for _, test := range []struct {
		code     doctor.ReasonCode
		arrange  func(w why)
		sentence string
		command  string
	}{
		{doctor.ReasonUnknown, func(why) {}, `No queue "mail" is known`, "qless queue ls"},
		{doctor.ReasonEmpty, func(w why) {
			w.jobs("a")
			require.NoError(w.t, w.pop("mail", 1)[0].Complete(w.t.Context()))
		}, "The queue has no jobs.", "qless failed ls"},
		{doctor.ReasonPaused, func(w why) {
			w.jobs("a")
			require.NoError(w.t, w.queue().Pause(w.t.Context()))
		}, "The queue is paused", "qless queue resume mail"},
		{doctor.ReasonMaxConcurrency, func(w why) {
			w.worker(free)
			w.jobs("a", "b")
			require.NoError(w.t, w.queue().SetMaxConcurrency(w.t.Context(), 1))
			w.pop("mail", 1)
		}, "No more than 1 job", "qless config set mail-max-concurrency 2"},
		{doctor.ReasonLimitFull, func(w why) {
			w.worker(free)
			ctx := w.t.Context()
			require.NoError(w.t, w.Client().Limit("shop").Set(ctx, qless.LimitConfig{
				Concurrency: 1, Rate: 1, Per: time.Hour, // so that b is not tried meanwhile
			}))
			w.put("mail", "Welcome", time.Minute, qless.JID("a"), qless.Limits{"shop"})
			w.put("mail", "Welcome", 0, qless.JID("b"), qless.Limits{"shop"})
			require.Len(w.t, must(w.queue().Pop(ctx, 2))(w.t), 1)
		}, `1 job waits for the limit "shop"`, "qless job show a"},
		{doctor.ReasonNoWorkers, func(w why) { w.jobs("a") }, "No known worker takes", "qless worker ls"},
		{doctor.ReasonScheduled, func(w why) {
			w.worker(free)
			w.put("mail", "Welcome", 0, qless.Delay(time.Hour))
		}, "1 job is scheduled, the next for", "qless job ls -q mail -s scheduled"},
		{doctor.ReasonRecurring, func(w why) {
			w.worker(free)
			must(w.queue().Recur(w.t.Context(), "Welcome", nil, time.Hour, qless.Offset(time.Hour)))(w.t)
		}, "only 1 recurring job", "qless recur ls"},
		{doctor.ReasonDepends, func(w why) {
			w.worker(free)
			w.put("slow", "Welcome", 0, qless.JID("first"))
			w.put("mail", "Welcome", 0, qless.DependsOn{"first"})
		}, "1 job waits for others to complete, such as first", "qless job graph first"},
		{doctor.ReasonNotNotified, func(w why) {
			w.worker(free)
			w.put("slow", "Welcome", time.Minute, qless.JID("first"))
			w.put("mail", "Welcome", 0, qless.DependsOn{"first"}, qless.OnFailureRun)
			failSilently(w.t, w.Redis(), w.Client(), "first")
		}, "1 job was not notified that others failed", "qless sweep"},
		{doctor.ReasonExpiredUnswept, func(w why) {
			w.worker(free)
			w.put("slow", "Welcome", time.Minute, qless.JID("first"), qless.TTL(time.Second))
			w.put("mail", "Welcome", 0, qless.DependsOn{"first"})
		}, "1 job waits for others that have ended: nothing", "qless sweep"},
		{doctor.ReasonOpenBatch, func(w why) {
			w.worker(free)
			must(w.Client().NewBatch(w.t.Context(), "mail",
				qless.NewKlass[any]("Welcome").Spec(nil, qless.JID("done"))))(w.t)
		}, "waits for a batch to be committed", "qless job show done"},
		{doctor.ReasonUnhandled, func(w why) {
			w.jobs("a")
			require.NoError(w.t, w.pop("mail", 1)[0].Fail(w.t.Context(), "mail-method-missing", "x"))
			w.worker(free)
			w.jobs("b")
		}, "workers in other languages fail jobs this way", "qless failed unfail mail-method-missing"},
		{doctor.ReasonRunning, func(w why) {
			w.worker(free)
			w.jobs("a")
			w.pop("mail", 1)
		}, "1 job runs, and none waits.", ""},
		{doctor.ReasonFlowing, func(w why) {
			w.worker(free)
			w.jobs("a")
		}, "Nothing seems to keep 1 job waiting", "qless top --queue mail"},
	} {
		t.Run(string(test.code), func(t *testing.T) {
			w := why{newLiveEnv(t)}
			test.arrange(w)
			var found struct {
				Queue  string
				Causes []struct {
					Code              doctor.ReasonCode
					Sentence, Command string
				}
			}
			require.NoError(t, json.Unmarshal([]byte(w.ok("why", "mail", "--json")), &found))
			require.Equal(t, "mail", found.Queue)
			first := found.Causes[0]
			require.Equal(t, test.code, first.Code, "%+v", found.Causes)
			require.Contains(t, first.Sentence, test.sentence)
			require.Equal(t, test.command, first.Command)
			out := w.ok("why", "mail")
			require.Contains(t, out, test.sentence)
			require.Contains(t, out, test.command)
		})
	}
}

// The grace period begins when another worker asks for jobs.
func TestWhyTellsOfAGracePeriod(t *testing.T) {
	w := why{newLiveEnv(t)}
	w.jobs("a")
	jobs := must(w.as("w2", 61*time.Second).Queue("mail").Pop(t.Context(), 1))(t)
	require.Len(t, jobs, 1)
	must(w.queue().Pop(t.Context(), 1))(t)
	require.Contains(t, w.ok("why", "mail"), "The first grace period ends at")
}

func TestWhyIsReadFromTopToBottom(t *testing.T) {
	w := why{newLiveEnv(t)}
	w.put("mail", "Welcome", 10*time.Minute)
	require.NoError(t, w.queue().Pause(t.Context()))
	golden(t, "why.txt", w.stable(w.ok("why", "mail")))
}

func TestWhyWantsAQueue(t *testing.T) {
	e := newLiveEnv(t)
	e.exits(2, "why")
	require.Equal(t, 2, e.run("", "why", "").status)
	e.exits(2, "why a b")
}
