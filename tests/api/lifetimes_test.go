package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/tests/repairs"
)

// gone requires that nothing is left of a job.
func (e *env) gone(jid string) {
	e.T.Helper()
	named := regexp.MustCompile(`\b` + jid + `\b`)
	for key, value := range e.Dump() {
		require.NotRegexp(e.T, named, key[len("ql:j"):])
		require.NotRegexp(e.T, named, fmt.Sprint(value), key)
	}
}

// foreignPut puts an existing job like another client's script, which does not know options.
func (e *env) foreignPut(queue, jid string) {
	e.T.Helper()
	now := e.Clock.Now().Unix()
	_, err := e.Redis.TxPipelined(e.T.Context(), func(p redis.Pipeliner) error {
		for _, part := range []string{"work", "locks", "scheduled", "depends"} {
			p.ZRem(e.T.Context(), "ql:q:"+queue+"-"+part, jid)
		}
		p.ZRem(e.T.Context(), "ql:completed", jid)
		p.HSet(e.T.Context(), "ql:j:"+jid, "state", "waiting", "queue", queue, "worker", "",
			"expires", "0", "time", now)
		p.RPush(e.T.Context(), "ql:j:"+jid+"-history", fmt.Sprintf(`[%d,"put",{"q":"%s"}]`, now, queue))
		p.ZAdd(e.T.Context(), "ql:q:"+queue+"-work", zmember(-0.17, jid))
		return nil
	})
	require.NoError(e.T, err)
}

func TestAJobIsNotHandedOutAfterItsStartBy(t *testing.T) {
	takes := map[string]func(e *env) []string{
		"pop": func(e *env) []string { return jids(e.Pops("q", 2)) },
		"reserve": func(e *env) []string {
			var taken []string
			for _, part := range e.run("reserve", "w1", "2", "10", "0", "q").([]any)[4:] {
				taken = append(taken, fmt.Sprint(part))
			}
			return taken
		},
		"reserve of several": func(e *env) []string {
			var taken []string
			for _, part := range e.run("reserve", "w1", "2", "10", "2", "order", "round-robin", "p", "q").([]any)[4:] {
				taken = append(taken, fmt.Sprint(part))
			}
			return taken
		},
		"pop of the drop-in": func(e *env) []string {
			require.Equal(e.T, "{}", must(e.dropInReply("pop|q|w1|2"))(e.T))
			return nil
		},
		"popByJid": func(e *env) []string {
			require.Equal(e.T, "[{}]", e.run("popByJid", "q", "j", "w1"))
			return nil
		},
	}
	for what, take := range takes {
		runOnEach(t, what, func(t *testing.T, e *env) {
			e.Put("q", qless.JID("j"), qless.StartBy(time.Minute), qless.Tags{"red"})
			require.WithinDuration(t, noon.Add(time.Minute), e.Read("j").Until, time.Millisecond)
			e.Clock.Advance(time.Minute)
			require.Empty(t, take(e))
			e.gone("j")
			require.Equal(t, 1, e.stats("q", noon).Expired)
		})
	}
}

// lost is the state of a running job with an expired lock.
const lost qless.State = "lost"

// bring puts the job j into the queue q, and brings it into a state.
var bring = map[qless.State]func(e *env, options ...qless.PutOption){
	qless.StateWaiting: func(e *env, options ...qless.PutOption) { e.Put("q", options...) },
	qless.StateScheduled: func(e *env, options ...qless.PutOption) {
		e.Put("q", append(options, qless.Delay(30*time.Minute))...)
	},
	qless.StateDepends: func(e *env, options ...qless.PutOption) {
		e.Put("p", qless.JID("other"))
		e.Put("q", append(options, qless.DependsOn{"other"})...)
	},
	qless.StateRunning: func(e *env, options ...qless.PutOption) { e.start("q", options...) },
	lost: func(e *env, options ...qless.PutOption) {
		e.start("q", options...)
		e.Clock.Advance(time.Hour)
	},
	qless.StateTimedOut: func(e *env, options ...qless.PutOption) {
		e.Put("q", options...)
		require.NoError(e.T, repairs.TimeOut(e.T.Context(), e.Client, e.Pop("q").JID))
	},
	qless.StateComplete: func(e *env, options ...qless.PutOption) {
		require.NoError(e.T, e.start("q", options...).Complete(e.T.Context()))
	},
	qless.StateFailed: func(e *env, options ...qless.PutOption) {
		require.NoError(e.T, e.start("q", options...).Fail(e.T.Context(), "g", "m"))
	},
}

func TestAJobIsGoneWhenItsTTLIsOverWhateverItsState(t *testing.T) {
	for state, set := range bring {
		if state == lost {
			continue
		}
		runOnEach(t, string(state), func(t *testing.T, e *env) {
			e.Set("q-max-concurrency", 1)
			set(e, qless.JID("j"), qless.TTL(time.Hour), qless.Tags{"red"}, qless.Unique("key"))
			job := e.Read("j")
			require.Equal(t, state, job.State)
			require.WithinDuration(t, noon.Add(time.Hour), job.Until, time.Millisecond)
			require.NoError(t, job.Track(t.Context()))
			e.Clock.Advance(time.Hour - time.Millisecond)
			require.Zero(t, e.sweep())
			require.Equal(t, state, e.Read("j").State)
			e.Clock.Advance(time.Millisecond)

			heard := e.Redis.PSubscribe(t.Context(), "ql:*")
			defer func() { require.NoError(t, heard.Close()) }()
			require.NoError(t, errOf(heard.Receive(t.Context())))
			require.Equal(t, 1, e.sweep())
			require.NoError(t, e.Redis.Publish(t.Context(), "ql:end", "").Err())
			require.Equal(t, canceling(state), until(t, heard, "ql:end"))
			e.gone("j")
			require.Empty(t, e.Redis.ZRange(t.Context(), "ql:x:until", 0, -1).Val())
			stats := e.stats("q", noon)
			require.Zero(t, stats.Failed)
			ended := state == qless.StateComplete || state == qless.StateFailed
			require.Equal(t, !ended, stats.Expired == 1)
			require.Zero(t, e.sweep())
			require.NoError(t, errOf(e.Queue("q").Put(t.Context(), "K", nil, qless.Unique("key"))))
			require.NotEmpty(t, e.Pops("q", 1), "it takes no place")
		})
	}
}

// until returns the messages published before a message on a channel.
func until(t *testing.T, heard *redis.PubSub, channel string) []string {
	t.Helper()
	var messages []string
	for {
		message := testkit.Soon(t, "a message", heard.Channel())
		if message.Channel == channel {
			return messages
		}
		messages = append(messages, message.Channel+" "+inOrder(t, message.Payload))
	}
}

// inOrder returns a JSON object with its members sorted, and anything else unchanged.
func inOrder(t *testing.T, payload string) string {
	t.Helper()
	if !strings.HasPrefix(payload, "{") {
		return payload
	}
	var members map[string]any
	require.NoError(t, json.Unmarshal([]byte(payload), &members))
	return jsonOf(t, members)
}

// canceling returns the messages published when the job j is canceled in a state.
func canceling(state qless.State) []string {
	worker := ""
	if state == qless.StateRunning || state == qless.StateTimedOut {
		worker = "w1"
	}
	payload := `{"event":"canceled","jid":"j","queue":"q","worker":"` + worker + `"}`
	switch {
	case state == qless.StateComplete:
		return nil
	case worker == "":
		return []string{"ql:log " + payload, "ql:canceled j"}
	}
	return []string{"ql:log " + payload, "ql:w:w1 " + payload, "ql:canceled j"}
}

// A forgotten job leaves no result behind, but waiting clients receive the result.
func TestAWaitGetsTheResultOfAJobThatIsForgotten(t *testing.T) {
	for what, end := range map[string]func(ctx context.Context, job *qless.Job) error{
		"complete": func(ctx context.Context, job *qless.Job) error { return job.Complete(ctx) },
		"failed":   func(ctx context.Context, job *qless.Job) error { return job.Fail(ctx, "g", "m") },
	} {
		for size, data := range map[string]string{"small": "7", "large": strings.Repeat("x", 200_000)} {
			runOnEach(t, what+" "+size, func(t *testing.T, e *env) {
				e.Put("q", qless.JID("j"), qless.KeepFor(0), qless.KeepFailedFor(0))
				ended := e.waits(t.Context(), "j")
				require.NoError(t, end(t.Context(), e.popWith(data)))
				got := e.soon(ended)
				require.NoError(t, got.err)
				require.JSONEq(t, `"`+data+`"`, string(got.value.Data))
				require.ErrorIs(t, errOf(e.Result(t.Context(), "j")), qless.ErrNotFound)
				e.gone("j")
			})
		}
	}
}

// The methods of lifeOnEach are tests on a real server, and on miniredis.
type lifeOnEach struct{}

func TestLifetimesOnEachServer(t *testing.T) { runEach(t, lifeOnEach{}) }

func (lifeOnEach) AWaitEndsWithTheLifeOfItsJob(t *testing.T, e *env) {
	e.Put("q", qless.JID("j"), qless.StartBy(time.Minute))
	ended := e.waits(t.Context(), "j")
	e.Clock.Advance(time.Minute)
	require.Equal(t, 1, e.sweep())
	require.Contains(t, requireCode(t, qless.ErrCanceled, e.soon(ended).err).Message, "StartBy or TTL")
}

func TestTheWorkerOfAnExpiredJobThatFailsIsNotified(t *testing.T) {
	for _, state := range []qless.State{qless.StateRunning, qless.StateTimedOut} {
		runOnEach(t, string(state), func(t *testing.T, e *env) {
			bring[state](e, qless.JID("j"), qless.TTL(time.Hour))
			e.Put("next", qless.DependsOn{"j"})
			told := heard(t, e.Redis, "ql:w:w1")
			e.Clock.Advance(time.Hour)
			require.Equal(t, 1, e.sweep())
			require.JSONEq(t, `{"event":"canceled","jid":"j","queue":"q","worker":"w1"}`, told())
			require.Equal(t, "expired-q", e.Read("j").Failure.Group)
		})
	}
}

// bury puts n jobs with lives ended by its return.
func (e *env) bury(queue string, n int) {
	e.T.Helper()
	specs := make([]qless.JobSpec, n)
	for i := range specs {
		specs[i] = qless.NewKlass[any]("K").Spec(nil,
			qless.StartBy(time.Minute), qless.Priority(1),
		)
	}
	e.puts(queue, specs...)
	e.Clock.Advance(time.Hour)
}

// Go repeats a call at once if more jobs may be left, so each call drops few. Classic clients
// repeat it after some time.
func TestACallDropsOnlySoManyExpiredJobs(t *testing.T) {
	reserve := func(args ...any) func(e *env) (int, bool) {
		return func(e *env) (int, bool) {
			reply := e.run("reserve", args...).([]any)
			return max(0, len(reply)-5), reply[1] == "0"
		}
	}
	for what, call := range map[string]struct {
		most int
		take func(e *env) (jobs int, again bool)
	}{
		"pop of another language": {1000, func(e *env) (int, bool) {
			return strings.Count(e.run("pop", "q", "w1", "900").(string), `"jid":`), true
		}},
		"pop": {60, func(e *env) (int, bool) {
			reply, ok := e.run("pop", "q", "w1", "900", "timed").([]any)
			if !ok {
				return 1, false
			}
			return strings.Count(reply[0].(string), `"jid":`), reply[1] == "more"
		}},
		"reserve":         {60, reserve("w1", "900", "10", "0", "q")},
		"reserve in turn": {60, reserve("w1", "7", "10", "2", "order", "round-robin", "q", "p")},
	} {
		runEnv(t, what, func(t *testing.T, e *env) {
			e.Put("q", qless.JID("a"))
			e.bury("q", call.most*3/2)
			n, again := call.take(e)
			require.Zero(t, n)
			require.True(t, again)
			require.Equal(t, call.most, e.stats("q", noon).Expired)
			n, _ = call.take(e)
			require.Equal(t, 1, n)
			require.Equal(t, call.most*3/2, e.stats("q", noon).Expired)
		})
	}
}

func TestAJobThatAnotherScriptHasPutAgainIsNotDropped(t *testing.T) {
	for _, option := range []qless.PutOption{qless.StartBy(time.Minute), qless.TTL(time.Minute)} {
		for state, set := range bring {
			if state == qless.StateScheduled || state == qless.StateFailed || state == lost {
				continue
			}
			runOnEach(t, fmt.Sprintf("%T %s", option, state), func(t *testing.T, e *env) {
				e.start("q", qless.JID("first"))
				set(e, qless.JID("j"), option)
				e.Clock.Advance(10 * time.Second)
				e.foreignPut("q", "j")
				job := e.Read("j")
				require.True(t, job.Until.IsZero() && job.Options.StartBy.IsZero() && job.Options.TTL.IsZero())
				e.Clock.Advance(time.Hour)
				require.Zero(t, e.sweep())
				require.True(t, e.exists("j"))
				e.Set("grace-period", 0)
				require.Contains(t, jids(e.Pops("q", 2)), "j")
				require.Zero(t, e.stats("q", noon).Expired)
			})
		}
	}
}

func (lifeOnEach) ASweepEndsAtMostAHundredLives(t *testing.T, e *env) {
	e.bury("q", 250)
	require.NoError(t, e.Queue("q").Pause(t.Context()))
	for _, want := range []int{100, 100, 50, 0} {
		require.Equal(t, want, e.sweep())
	}
	require.Equal(t, 250, e.stats("q", noon).Expired)
}

func TestLifetimesOfASchedulesJobs(t *testing.T) {
	e := newEnv(t)
	_, err := qless.NewWorker(e.Client, qless.WorkerConfig{Queues: []string{"q"}, Schedules: []qless.Schedule{{
		ID: "s", When: "@hourly", Queue: "q", Job: qless.NewKlass[any]("K").Spec(nil, qless.TTL(time.Second), qless.Delay(time.Minute)),
	}}})
	var own *qless.Error
	require.True(t, errors.As(err, &own))
	require.Contains(t, own.Message, "TTL(1s) is over before the Delay of 1m0s")
}

// expiresIn requires that a lock lasts for a time from now according to the job's hash, the queue
// and the worker.
func (e *env) expiresIn(jid string, d time.Duration) {
	e.T.Helper()
	job := e.Read(jid)
	end := e.Clock.Now().Add(d)
	require.WithinDuration(e.T, end, job.Expires, 100*time.Microsecond)
	for _, key := range []string{"ql:q:" + job.Queue + "-locks", "ql:w:" + job.Worker + ":jobs"} {
		score := must(e.Redis.ZScore(e.T.Context(), key, jid).Result())(e.T)
		require.InDelta(e.T, float64(end.UnixMicro())/1e6, score, 1e-4, key)
	}
}

func (lifeOnEach) ReserveAndRenewKnowTheLockTimeOfEachJob(t *testing.T, e *env) {
	e.Put("q", qless.JID("j"), qless.LockTime(2500*time.Millisecond), qless.Priority(2))
	e.Put("q", qless.JID("headers"), qless.Headers{"a": "1"}, qless.Priority(1))
	e.Put("q", qless.JID("plain"))
	reply := e.run("reserve", "w1", "3", "10", "0", "q").([]any)
	require.InDelta(t, 2.5, number(t, strings.Split(reply[5].(string), "\x01")[10]), 1e-4)
	require.InDelta(t, 60, number(t, strings.Split(reply[6].(string), "\x01")[10]), 1e-4)
	e.Clock.Advance(time.Second)
	require.Equal(t, []any{"60", "2.5", "60"}, e.run("renew", "w1", "plain", "j", "headers"))
	e.expiresIn("j", 2500*time.Millisecond)
	e.expiresIn("plain", time.Minute)
	e.expiresIn("headers", time.Minute)
}

// number returns the value of a number in a reply.
func number(t *testing.T, part any) float64 {
	t.Helper()
	var n float64
	require.NoError(t, errOf(fmt.Sscan(part.(string), &n)))
	return n
}

func (lifeOnEach) ALockTimeOfAReceiveWinsUntilAHeartbeat(t *testing.T, e *env) {
	e.Put("q", qless.JID("own"), qless.LockTime(5*time.Second), qless.Priority(2))
	e.Put("q", qless.JID("plain"))
	defer e.Close()
	jobs := e.received(lease.Request{Queues: []string{"q"}, Count: 2, LockTime: time.Second})
	e.expiresIn("own", time.Second)
	e.expiresIn("plain", time.Second)
	for _, job := range jobs {
		require.NoError(t, errOf(job.Heartbeat(t.Context())))
	}
	e.expiresIn("own", 5*time.Second)
	e.expiresIn("plain", time.Minute)
	require.False(t, e.Redis.HExists(t.Context(), "ql:j:plain", "grace").Val())
	e.Clock.Advance(61 * time.Second)
	require.Equal(t, []string{"own"}, jids(e.Pops("q", 2)), "the other one has a grace period again")
}

func (lifeOnEach) ALockThatLastsNoTimeAtAll(t *testing.T, e *env) {
	defer e.Close()
	atOnce := lease.Request{Queues: []string{"q"}, Count: 5, LockTime: -1}
	jid := e.Put("q", qless.Retries(2))
	for remaining := 2; remaining >= 0; remaining-- {
		jobs := e.received(atOnce)
		require.Equal(t, []string{jid}, jids(jobs))
		require.Equal(t, remaining, jobs[0].Remaining)
	}
	require.Empty(t, e.received(atOnce))
	require.Equal(t, "failed-retries-q", e.Read(jid).Failure.Group)

	e.Put("q", qless.JID("ended"))
	require.NoError(t, e.received(atOnce)[0].Complete(t.Context()), "no one else has taken it")
	require.False(t, e.Redis.HExists(t.Context(), "ql:j:ended", "grace").Val())
}

func (lifeOnEach) ADamagedLockTimeIsThatOfTheQueue(t *testing.T, e *env) {
	for i, value := range []string{`0`, `-1`, `"x"`, `[]`, `null`, `1e999`, `{`} {
		jid := fmt.Sprint("j", i)
		e.Put("q", qless.JID(jid))
		require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:"+jid, "x:o", `lq|{"q":5,"l":`+value+`}`).Err())
		job := e.Pop("q")
		e.expiresIn(jid, time.Minute)
		require.Zero(t, job.Options.LockTime)
		require.NoError(t, errOf(job.Heartbeat(t.Context())))
		require.Equal(t, []any{"60"}, e.run("renew", "w1", jid))
		require.NoError(t, job.Complete(t.Context()))
	}
}

// foreignFail fails a running job like a classic client, which knows no settings and sends no
// notifications.
func (e *env) foreignFail(jid, queue, group string) {
	e.T.Helper()
	ctx, at := e.T.Context(), e.Clock.Now().Unix()
	for _, part := range []string{"work", "locks", "scheduled", "depends"} {
		require.NoError(e.T, e.Redis.ZRem(ctx, "ql:q:"+queue+"-"+part, jid).Err())
	}
	require.NoError(e.T, e.Redis.ZRem(ctx, "ql:w:w1:jobs", jid).Err())
	require.NoError(e.T, e.Redis.HSet(ctx, "ql:j:"+jid, "state", "failed", "worker", "", "expires", "", "failure",
		fmt.Sprintf(`{"group":"%s","message":"m","when":%d,"worker":"w"}`, group, at)).Err())
	require.NoError(e.T, e.Redis.LPush(ctx, "ql:f:"+group, jid).Err())
	require.NoError(e.T, e.Redis.SAdd(ctx, "ql:failures", group).Err())
}

// failed returns the jids of a failure group, newest first.
func (e *env) failed(group string) []string {
	e.T.Helper()
	return must(e.inspect().Failed(group).JIDs(e.T.Context(), inspect.Range{Limit: -1}))(e.T).Items
}

func numbered(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}

func (lifeOnEach) FailureClearsJobsThatOtherScriptsFailed(t *testing.T, e *env) {
	e.Set("jobs-failed-history", time.Hour)
	for _, jid := range []string{"a", "b"} {
		e.start("q", qless.JID(jid), qless.Tags{"red"})
		e.foreignFail(jid, "q", "g")
		e.Clock.Advance(time.Minute)
	}
	e.Clock.Advance(time.Hour - time.Minute)
	e.fails("q", "other", "x")
	require.Equal(t, []string{"b", "a"}, e.failed("g"))
	e.fails("q", "g", "y")
	require.Equal(t, []string{"y", "b"}, e.failed("g"), "the other one is not old enough")
	require.False(t, e.exists("a"))
}

// The model has the other jobs that are kept.
func (lifeOnEach) JobsToKeepAreSkipped(t *testing.T, e *env) {
	e.Set("jobs-failed-history", time.Hour)
	e.fail("q", "g", qless.JID("own"), qless.KeepFailedFor(qless.Forever))
	e.fails("q", "g", "needed")
	e.Put("q2", qless.DependsOn{"needed"})
	e.Set("jobs-failed-history-count", 1)
	e.Clock.Advance(10 * time.Hour)
	e.fails("q", "g", "last")
	require.Equal(t, []string{"needed", "own"}, e.failed("g"), "they count")
	require.Zero(t, e.sweep())
}

func (lifeOnEach) JobsLeftBehindInAGroupAreOnlyTakenOut(t *testing.T, e *env) {
	e.fails("q", "g", "unfailed", "put", "gone", "last")
	require.NoError(t, e.Read("unfailed").Unfail(t.Context()))
	require.NoError(t, e.Read("unfailed").Move(t.Context(), "q2"))
	e.Put("q2", qless.JID("put"))
	require.NoError(t, e.Redis.RPush(t.Context(), "ql:f:g", "unfailed", "nowhere").Err(), "as if left behind")
	e.Set("jobs-failed-history-count", 1)
	e.Clock.Advance(time.Hour)
	e.fails("q", "g", "new")
	require.Equal(t, []string{"new"}, e.failed("g"))
	require.Equal(t, qless.StateWaiting, e.Read("unfailed").State)
	require.Equal(t, qless.StateWaiting, e.Read("put").State)
}

func (lifeOnEach) ASweepClearsAllGroups(t *testing.T, e *env) {
	for _, group := range []string{"a", "b", "c"} {
		e.fails("q", group, numbered(group, 60)...)
	}
	e.Set("jobs-failed-history-count", 5)
	left := 180
	for left > 15 {
		n := e.sweep()
		require.Positive(t, n)
		require.LessOrEqual(t, n, 100)
		left -= n
	}
	for _, group := range []string{"a", "b", "c"} {
		require.Len(t, e.failed(group), 5)
	}
	require.Equal(t, 15, e.stats("q", noon).Failed)
	e.Set("jobs-failed-history", time.Hour)
	e.Clock.Advance(2 * time.Hour)
	require.Equal(t, 15, e.sweep())
	require.Empty(t, must(e.inspect().FailureGroups(t.Context()))(t))
	require.Zero(t, e.sweep())
}

func (lifeOnEach) ASweepAnnouncesFailuresByOtherScripts(t *testing.T, e *env) {
	e.fails("q", "a", numbered("other", 130)...)
	e.Put("q", qless.JID("bad"))
	e.Put("next", qless.JID("runs"), qless.DependsOn{"bad"}, qless.OnFailureRun)
	e.Put("next", qless.JID("fails"), qless.DependsOn{"bad"}, qless.OnFailureFail)
	e.Put("next", qless.JID("deep"), qless.DependsOn{"fails"}, qless.OnFailureRun)
	e.Put("next", qless.JID("waits"), qless.DependsOn{"bad"})
	e.Pop("q")
	e.foreignFail("bad", "q", "g")
	require.Equal(t, qless.StateDepends, e.Read("runs").State)
	require.Zero(t, e.sweep(), "it looks at a hundred")
	require.Equal(t, 3, e.sweep())
	require.Equal(t, []string{"deep", "runs"}, sorted(jids(e.Pops("next", 5))))
	require.Equal(t, "failed-dependency", e.Read("fails").Failure.Group)
	require.Equal(t, qless.StateDepends, e.Read("waits").State)
	for range 4 {
		require.Zero(t, e.sweep(), "they know")
	}
}

func (lifeOnEach) FailuresByKlass(t *testing.T, e *env) {
	fails := func(klass, jid, message string) {
		require.NoError(t, errOf(e.Queue("q").Put(t.Context(), klass, nil, qless.JID(jid))))
		require.NoError(t, e.Pop("q").Fail(t.Context(), "g", message))
		e.Clock.Advance(time.Minute)
	}
	sum := func(limit int) inspect.FailureSummary {
		t.Helper()
		var got inspect.FailureSummary
		e.Unchanged(func() { got = must(e.inspect().Failures(t.Context(), "g", limit))(t) })
		for i := range got.Klasses {
			k := &got.Klasses[i]
			k.First, k.Last = k.First.UTC(), k.Last.UTC()
		}
		return got
	}
	require.Equal(t, inspect.FailureSummary{Klasses: []inspect.KlassFailures{}}, sum(0))
	fails("Mail", "a", "first")
	fails("Call", "b", "ring")
	fails("Mail", "c", "last")
	mail := inspect.KlassFailures{
		Klass: "Mail", Count: 2, First: noon, Last: noon.Add(2 * time.Minute), Message: "last", Sample: "c",
	}
	call := inspect.KlassFailures{
		Klass: "Call", Count: 1, First: noon.Add(time.Minute), Last: noon.Add(time.Minute), Message: "ring", Sample: "b",
	}
	all := inspect.FailureSummary{Klasses: []inspect.KlassFailures{mail, call}, Examined: 3, Total: 3}
	for _, limit := range []int{0, -1, 3, 5000} {
		require.Equal(t, all, sum(limit))
	}
	mail.Count, mail.First = 1, mail.Last
	require.Equal(t, inspect.FailureSummary{Klasses: []inspect.KlassFailures{mail}, Examined: 1, Total: 3}, sum(1))
	requireCode(t, qless.ErrInvalid, errOf(e.inspect().Failures(t.Context(), "", 0)))
	requireCode(t, qless.ErrInvalid, errOf(e.inspect().Failures(t.Context(), "g", -2)))
}

func TestManyFailuresAreCountedInSteps(t *testing.T) {
	e := newEnv(t)
	for i := range 2345 {
		jid := fmt.Sprint("j", i)
		require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:"+jid, "klass", fmt.Sprint("K", i%2), "failure",
			fmt.Sprintf(`{"group":"g","message":"m%d","when":%d}`, i, i+1)).Err())
		require.NoError(t, e.Redis.LPush(t.Context(), "ql:f:g", jid).Err())
	}
	got := must(e.inspect().Failures(t.Context(), "g", -1))(t)
	require.Equal(t, 2345, got.Examined)
	require.Len(t, got.Klasses, 2)
	require.Equal(t, inspect.KlassFailures{
		Klass: "K0", Count: 1173, First: time.Unix(1, 0), Last: time.Unix(2345, 0), Message: "m2344", Sample: "j2344",
	}, got.Klasses[0])
}

func (lifeOnEach) WhatIsForgottenLeavesNothing(t *testing.T, e *env) {
	ctx, options := t.Context(), []qless.PutOption{qless.Tags{"red"}, qless.TTL(time.Hour), qless.KeepFailedFor(time.Minute)}
	e.fail("q", "g", append(options, qless.JID("first"))...)
	e.fails("q", "g", "needed", "c")
	e.Put("q", qless.JID("child"), qless.DependsOn{"needed"}, qless.Delay(time.Hour))
	require.NoError(t, e.start("q", append(options, qless.JID("whole"))...).Complete(ctx))
	require.NoError(t, errOf(e.inspect().JIDs("first", "whole").Track(ctx)))
	done := must(e.inspect().Failed("g").Forget(ctx))(t)
	require.Equal(t, 2, done.Changed)
	require.Equal(t, left{"needed": qless.ErrHasDependents}, codes(done))
	require.NoError(t, repairs.Forget(ctx, e.Client, "whole"))
	e.start("q", qless.JID("kept"))
	e.start("q", append(options, qless.JID("brief"), qless.KeepFor(0))...)
	e.run("finish", "w1", "complete", "kept", "q", "", 0, "complete", "brief", "q", "", 0)
	for _, jid := range []string{"first", "whole", "brief"} {
		e.gone(jid)
	}
}

func TestAJobThatHasNotEndedIsNotForgotten(t *testing.T) {
	for _, place := range places {
		runOnEach(t, string(place), func(t *testing.T, e *env) {
			bring[place](e, qless.JID("j"))
			want := qless.ErrUnfinished
			if place == qless.StateRunning || place == lost {
				want = qless.ErrRunning
			}
			e.Unchanged(func() { requireCode(t, want, repairs.Forget(t.Context(), e.Client, "j")) })
		})
	}
}

func TestASweepMovesWhatIsDueInQueues(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(e *env)
		after time.Duration
		moves int
		state qless.State
		left  int // retries left
	}{
		"scheduled": {func(e *env) { e.Put("q", qless.JID("j"), qless.Delay(time.Minute)) }, time.Minute, 1, qless.StateWaiting, 5},
		"not due":   {func(e *env) { e.Put("q", qless.JID("j"), qless.Delay(time.Hour)) }, time.Minute, 0, qless.StateScheduled, 5},
		"a lost lock with a grace period": {func(e *env) {
			e.start("q", qless.JID("j"))
		}, time.Minute, 1, qless.StateRunning, 5},
		"a lost lock": {func(e *env) {
			e.Set("grace-period", 0)
			e.start("q", qless.JID("j"))
		}, time.Minute, 1, qless.StateWaiting, 4},
		"a lost lock of a job that goes last": {func(e *env) {
			e.start("q", qless.JID("j"), qless.LockTime(time.Second), qless.OnLostLast)
		}, time.Second, 1, qless.StateWaiting, 4},
		"a lost lock of a job that stays in its place": {func(e *env) {
			e.start("q", qless.JID("j"), qless.LockTime(time.Second), qless.OnLostInPlace)
		}, time.Second, 1, qless.StateWaiting, 4},
		"a lost lock without retries": {func(e *env) {
			e.start("q", qless.JID("j"), qless.LockTime(time.Second), qless.Retries(0))
		}, time.Second, 1, qless.StateFailed, -1},
		"a lock that holds": {func(e *env) {
			e.start("q", qless.JID("j"))
		}, time.Second, 0, qless.StateRunning, 5},
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			c.set(e)
			e.Put("other")
			e.Clock.Advance(c.after)
			require.Zero(t, e.sweep(), "only named queues")
			require.Zero(t, e.sweep("other", "unknown"))
			require.Equal(t, c.moves, e.sweep("other", "q"))
			require.Zero(t, e.sweep("q", "q"), "all is done")
			job := e.Read("j")
			require.Equal(t, c.state, job.State)
			require.Equal(t, c.left, job.Remaining)
			require.Equal(t, c.state == qless.StateRunning, job.Worker == "w1")
		})
	}
}

func (lifeOnEach) ALostJobThatWasSweptComesFirst(t *testing.T, e *env) {
	e.Set("grace-period", 0)
	held := e.start("q", qless.JID("j"))
	e.Put("q", qless.JID("urgent"), qless.Priority(9))
	e.Clock.Advance(time.Minute)
	require.Equal(t, 1, e.sweep("q"))
	require.Equal(t, qless.QueueCounts{Name: "q", Waiting: 2}, e.Counts("q"))
	requireCode(t, qless.ErrNotRunning, held.Complete(t.Context()))
	require.Equal(t, []string{"j", "urgent"}, jids(e.Pops("q", 9)))
	require.NoError(t, e.Complete(t.Context(), "j"))
}

// Complete completes a job held by the worker.
func (e *env) Complete(ctx context.Context, jid string) error { return e.Read(jid).Complete(ctx) }

func (lifeOnEach) ASweepIsBounded(t *testing.T, e *env) {
	for i := range 250 {
		e.Put(fmt.Sprint("q", i), qless.Delay(time.Second))
	}
	for range 130 {
		e.Put("q0", qless.Delay(time.Second))
	}
	e.Clock.Advance(time.Second)
	require.Equal(t, 100, e.sweep("q0", "q1"))
	require.Equal(t, 32, e.sweep("q0", "q1"))
	var moved []int
	for range 4 {
		moved = append(moved, e.sweep("*"))
	}
	require.Equal(t, []int{98, 100, 50, 0}, moved, "100 queues a call")
	require.Empty(t, e.Redis.HGetAll(t.Context(), "ql:x:sweep").Val()["groups"])
}

func TestAQueueWithJobsIsNotForgotten(t *testing.T) {
	e := newEnv(t)
	e.Put("waiting")
	e.start("running")
	e.Put("scheduled", qless.Delay(time.Hour))
	e.Put("depends", qless.DependsOn{e.Put("waiting")})
	require.NoError(t, errOf(e.Queue("recurring").Recur(t.Context(), "K", nil, time.Hour, qless.Offset(time.Hour))))
	for _, queue := range []string{"waiting", "running", "scheduled", "depends", "recurring"} {
		e.Unchanged(func() {
			err := requireCode(t, qless.ErrInvalid, e.ForgetQueue(t.Context(), queue))
			require.Contains(t, err.Message, "Queue "+queue+" has ")
		})
		require.NoError(t, e.dropIn("queue.forget|"+queue), "other clients forget it, and keep its jobs")
	}
	require.Empty(t, must(e.Queues(t.Context()))(t))
}
