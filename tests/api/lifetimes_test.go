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
	"github.com/qless/qless-go/shards"
	"github.com/qless/qless-go/tests/repairs"
	"github.com/qless/qless-go/tests/scripts"
)

// sweep sweeps once.
func (e *env) sweep() int {
	e.T.Helper()
	return must(e.Sweep(e.T.Context()))(e.T)
}

// gone requires that nothing is left of a job.
func (e *env) gone(jid string) {
	e.T.Helper()
	named := regexp.MustCompile(`\b` + jid + `\b`)
	for key, value := range e.Dump() {
		require.NotRegexp(e.T, named, key[len("ql:j"):])
		require.NotRegexp(e.T, named, fmt.Sprint(value), key)
	}
}

// untils returns the jids of jobs in the set of lifetimes.
func (e *env) untils() []string {
	e.T.Helper()
	return must(e.Redis.ZRange(e.T.Context(), "ql:x:until", 0, -1).Result())(e.T)
}

// foreignPut puts an existing job as another client's script does, which does not know options.
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
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Put("q", qless.JID("j"), qless.StartBy(time.Minute), qless.Tags{"red"})
				require.WithinDuration(t, noon.Add(time.Minute), e.Read("j").Until, time.Millisecond)
				e.Clock.Advance(time.Minute)
				require.Empty(t, take(e))
				e.gone("j")
				require.Equal(t, 1, e.stats("q", noon).Expired)
			})
		})
	}
}

// The cases are ways in which a job that was started in time waits again after its StartBy.
func TestAJobIsNotHandedOutAgainAfterItsStartBy(t *testing.T) {
	for what, again := range map[string]func(e *env, job *qless.Job) error{
		"retry":   func(e *env, job *qless.Job) error { return errOf(job.Retry(e.T.Context(), 0, "", "")) },
		"release": func(e *env, job *qless.Job) error { return job.Release(e.T.Context(), 0) },
		"release for some time": func(e *env, job *qless.Job) error {
			return job.Release(e.T.Context(), time.Second)
		},
		"timeout": func(e *env, job *qless.Job) error { return repairs.TimeOut(e.T.Context(), e.Client, job.JID) },
		"next":    func(e *env, job *qless.Job) error { return job.Next(e.T.Context(), "q") },
		"lost":    func(*env, *qless.Job) error { return nil },
	} {
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Set("grace-period", 0)
				e.Put("q", qless.JID("j"), qless.StartBy(30*time.Second))
				job := e.Pop("q")
				e.Clock.Advance(time.Minute)
				require.Zero(t, job.Until)
				require.Zero(t, e.sweep(), "a worker has it")
				require.NoError(t, again(e, job))
				e.Clock.Advance(time.Second)
				e.Put("q", qless.JID("behind"))
				require.Equal(t, []string{"behind"}, jids(e.Pops("q", 2)))
				require.NoError(t, e.Cancel(t.Context(), "behind"))
				e.gone("j")
				require.Equal(t, 1, e.stats("q", noon).Expired)
			})
		})
	}
}

func TestALostJobKeepsItsGracePeriodAfterItsStartBy(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"), qless.StartBy(30*time.Second))
		job := e.Pop("q")
		e.Clock.Advance(time.Minute)
		require.Empty(t, e.Pops("q", 1))
		require.NoError(t, job.Complete(t.Context()))
		require.Zero(t, e.stats("q", noon).Expired)
	})
}

// bring puts the job j, with a life of an hour, into the queue q, and brings it into a state.
var bring = map[qless.State]func(e *env, options ...qless.PutOption){
	qless.StateWaiting: func(e *env, options ...qless.PutOption) { e.Put("q", options...) },
	qless.StateScheduled: func(e *env, options ...qless.PutOption) {
		e.Put("q", append(options, qless.Delay(30*time.Minute))...)
	},
	qless.StateDepends: func(e *env, options ...qless.PutOption) {
		e.Put("p", qless.JID("other"))
		e.Put("q", append(options, qless.DependsOn{"other"})...)
	},
	qless.StateRunning: func(e *env, options ...qless.PutOption) {
		e.Put("q", options...)
		e.Pop("q")
	},
	qless.StateTimedOut: func(e *env, options ...qless.PutOption) {
		e.Put("q", options...)
		require.NoError(e.T, repairs.TimeOut(e.T.Context(), e.Client, e.Pop("q").JID))
	},
	qless.StateComplete: func(e *env, options ...qless.PutOption) {
		e.Put("q", options...)
		require.NoError(e.T, e.Pop("q").Complete(e.T.Context()))
	},
	qless.StateFailed: func(e *env, options ...qless.PutOption) {
		e.Put("q", options...)
		require.NoError(e.T, e.Pop("q").Fail(e.T.Context(), "g", "m"))
	},
}

func TestAJobIsGoneWhenItsTTLIsOverWhateverItsState(t *testing.T) {
	for state, set := range bring {
		t.Run(string(state), func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
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
				require.Empty(t, e.untils())
				stats := e.stats("q", noon)
				require.Zero(t, stats.Failed)
				ended := state == qless.StateComplete || state == qless.StateFailed
				require.Equal(t, !ended, stats.Expired == 1)
				require.Zero(t, e.sweep())
				require.NoError(t, errOf(e.Queue("q").Put(t.Context(), "K", nil, qless.Unique("key"))))
				require.NotEmpty(t, e.Pops("q", 1), "it takes no place")
			})
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

func TestTTLCountsThroughNextQueuesAndRetries(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"), qless.TTL(time.Hour))
		e.Clock.Advance(10 * time.Second)
		require.NoError(t, e.Pop("q").Next(t.Context(), "p"))
		e.Clock.Advance(10 * time.Second)
		require.NoError(t, errOf(e.Pop("p").Retry(t.Context(), 0, "", "")))
		e.Clock.Advance(10 * time.Second)
		require.NoError(t, e.Read("j").Move(t.Context(), "q"))
		require.WithinDuration(t, noon.Add(time.Hour), e.Read("j").Until, time.Millisecond)
		e.Put("q", qless.JID("j"), qless.Priority(1))
		require.WithinDuration(t, noon.Add(time.Hour), e.Read("j").Until, time.Millisecond)
		e.Clock.Advance(time.Hour)
		require.Equal(t, 1, e.sweep())
		e.gone("j")
	})
}

// A worker that still has a job whose TTL is over, but which is not swept, may end it.
func TestAnExpiredJobCanBeCompletedUntilItIsSwept(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"), qless.TTL(30*time.Second))
		job := e.Pop("q")
		e.Clock.Advance(time.Minute)
		require.NoError(t, job.Complete(t.Context()))
		require.Equal(t, 1, e.sweep())
		e.gone("j")
	})
}

func TestALostJobIsNotGivenAGracePeriodAfterItsTTL(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for i := range 3 {
			e.Put("q", qless.JID(fmt.Sprint("j", i)), qless.TTL(90*time.Second))
		}
		e.Put("q", qless.JID("live"))
		e.Pops("q", 4)
		e.Clock.Advance(90 * time.Second)
		require.Empty(t, e.Pops("q", 1), "the live one has a grace period")
		require.Equal(t, 3, e.stats("q", noon).Expired)
		e.Clock.Advance(time.Minute)
		require.Equal(t, "live", e.Pop("q").JID)
	})
}

func TestACompleteJobIsKeptForItsTime(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"), qless.KeepFor(time.Hour), qless.Tags{"red"})
		require.Zero(t, e.Read("j").Until)
		e.Clock.Advance(time.Minute)
		require.NoError(t, e.Pop("q").Complete(t.Context()))
		require.WithinDuration(t, e.Clock.Now().Add(time.Hour), e.Read("j").Until, time.Second)
		e.Clock.Advance(time.Hour - time.Second)
		require.Zero(t, e.sweep())
		e.Clock.Advance(time.Second)
		require.Equal(t, 1, e.sweep())
		e.gone("j")
		require.Empty(t, must(e.inspect().Completed().JIDs(t.Context(), inspect.Range{}))(t).Items)
		require.Zero(t, e.stats("q", noon).Expired)
	})
}

func TestKeepForOnlyShortens(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Set("jobs-history", time.Minute)
		e.Put("q", qless.JID("j"), qless.KeepFor(time.Hour))
		require.NoError(t, e.Pop("q").Complete(t.Context()))
		e.Clock.Advance(2 * time.Minute)
		e.Put("q")
		require.NoError(t, e.Pop("q").Complete(t.Context()))
		require.ErrorIs(t, errOf(e.Job(t.Context(), "j")), qless.ErrNotFound)
		e.Clock.Advance(time.Hour)
		require.Zero(t, e.sweep(), "a stale entry is not a job")
		require.Empty(t, e.untils())

		e.Put("q", qless.JID("k"), qless.KeepFor(time.Hour), qless.TTL(time.Minute))
		require.NoError(t, e.Pop("q").Complete(t.Context()))
		require.WithinDuration(t, e.Clock.Now().Add(time.Minute), e.Read("k").Until, time.Second)
		e.Clock.Advance(time.Minute)
		require.Equal(t, 1, e.sweep())
		e.gone("k")
	})
}

func TestAJobIsForgottenAsSoonAsItIsComplete(t *testing.T) {
	ends := map[string]func(e *env, job *qless.Job) error{
		"complete": func(e *env, job *qless.Job) error { return job.Complete(e.T.Context()) },
		"finish": func(e *env, job *qless.Job) error {
			e.Put("q", qless.JID("plain"))
			e.Pop("q")
			e.run("finish", "w1", "complete", "plain", "q", "", "0", "complete", job.JID, "q", "", "0")
			page, err := e.inspect().Completed().JIDs(e.T.Context(), inspect.Range{})
			require.Equal(e.T, []string{"plain"}, page.Items)
			return err
		},
		"finish alone": func(e *env, job *qless.Job) error {
			e.run("finish", "w1", "complete", job.JID, "q", "", "0")
			return nil
		},
	}
	for what, end := range ends {
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Put("q", qless.JID("j"), qless.KeepFor(0), qless.TTL(time.Hour), qless.Tags{"red"},
					qless.Unique("key"))
				e.Put("next", qless.JID("after"), qless.DependsOn{"j"})
				heard := e.Redis.Subscribe(t.Context(), "ql:log", "ql:end")
				defer func() { require.NoError(t, heard.Close()) }()
				for range 2 {
					require.NoError(t, errOf(heard.Receive(t.Context())))
				}
				require.NoError(t, end(e, e.Pop("q")))
				require.NoError(t, e.Redis.Publish(t.Context(), "ql:end", "").Err())
				require.Contains(t, until(t, heard, "ql:end"),
					`ql:log {"event":"completed","jid":"j","queue":"q"}`)
				e.gone("j")
				require.Equal(t, "after", e.Pop("next").JID)
				require.NotZero(t, e.stats("q", noon).Run.Count)
				require.Empty(t, must(e.Holder(t.Context(), "key"))(t))
			})
		})
	}
}

func TestAJobThatMovesOnIsNotForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"), qless.KeepFor(0))
		require.NoError(t, e.Pop("q").Next(t.Context(), "p"))
		require.NoError(t, e.Pop("p").Fail(t.Context(), "g", "m"))
		require.NoError(t, e.Read("j").Unfail(t.Context()))
		require.NoError(t, e.Pop("p").Complete(t.Context()))
		e.gone("j")
	})
}

// A forgotten job leaves no result behind, but clients that wait for it get the result.
func TestAWaitGetsTheResultOfAJobThatIsForgotten(t *testing.T) {
	for what, end := range map[string]func(ctx context.Context, job *qless.Job) error{
		"complete": func(ctx context.Context, job *qless.Job) error { return job.Complete(ctx) },
		"failed":   func(ctx context.Context, job *qless.Job) error { return job.Fail(ctx, "g", "m") },
	} {
		for size, data := range map[string]string{"small": "7", "large": strings.Repeat("x", 200_000)} {
			t.Run(what+" "+size, func(t *testing.T) {
				onEach(t, func(t *testing.T, e *env) {
					e.Put("q", qless.JID("j"), qless.KeepFor(0), qless.KeepFailedFor(0))
					ended := e.waits(t.Context(), "j")
					require.NoError(t, end(t.Context(), e.popWith(data)))
					got := e.soon(ended)
					require.NoError(t, got.err)
					require.JSONEq(t, `"`+data+`"`, string(got.result.Data))
					require.ErrorIs(t, errOf(e.Result(t.Context(), "j")), qless.ErrNotFound)
					e.gone("j")
				})
			})
		}
	}
}

func TestAWaitEndsWithTheLifeOfItsJob(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"), qless.StartBy(time.Minute))
		ended := e.waits(t.Context(), "j")
		e.Clock.Advance(time.Minute)
		require.Equal(t, 1, e.sweep())
		require.Contains(t, requireCode(t, qless.ErrCanceled, e.soon(ended).err).Message, "StartBy or TTL")
	})
}

// A put is not sent again if the job may be forgotten by then.
func TestPutsOfJobsThatMayBeForgottenAreSentOnce(t *testing.T) {
	for what, option := range map[string]qless.PutOption{
		"KeepFor":       qless.KeepFor(0),
		"KeepFailedFor": qless.KeepFailedFor(time.Second),
		"TTL":           qless.TTL(time.Second),
	} {
		t.Run(what, func(t *testing.T) {
			e, proxy, client := proxied(t)
			require.NoError(t, e.Redis.ScriptLoad(t.Context(), scripts.Text()).Err())
			proxy.CutBeforeReply(scripts.Sent("put"))
			requireCode(t, qless.ErrUnavailable,
				errOf(client.Queue("q").Put(t.Context(), "K", nil, option)))
			require.Equal(t, 1, seen(proxy, "put"))
			proxy.CutBeforeReply(scripts.Sent("put.many"))
			requireCode(t, qless.ErrUnavailable, errOf(client.Queue("q").PutMany(t.Context(), []qless.JobSpec{
				{Klass: "K"}, {Klass: "K", Options: []qless.PutOption{option}},
			})))
			require.Equal(t, 1, seen(proxy, "put.many"))
		})
	}
	e, proxy, client := proxied(t)
	require.NoError(t, e.Redis.ScriptLoad(t.Context(), scripts.Text()).Err())
	proxy.CutBeforeReply(scripts.Sent("put"))
	require.NoError(t, errOf(client.Queue("q").Put(t.Context(), "K", nil, qless.KeepFor(time.Hour),
		qless.TTL(time.Hour), qless.StartBy(time.Second), qless.KeepFailedFor(qless.Forever))))
	require.Equal(t, 2, seen(proxy, "put"))
	require.Equal(t, 1, e.Counts("q").Waiting)
}

func TestLifetimesThatAreRefused(t *testing.T) {
	e := newEnv(t)
	for message, options := range map[string][]qless.PutOption{
		"StartBy(0s) is less than 1ms":                      {qless.StartBy(0)},
		"StartBy(-1s) is less than 1ms":                     {qless.StartBy(-time.Second)},
		"TTL(999µs) is less than 1ms":                       {qless.TTL(999 * time.Microsecond)},
		"KeepFor(-1s) is less than 0s":                      {qless.KeepFor(-time.Second)},
		"KeepFailedFor(-2ns) is less than 0s":               {qless.KeepFailedFor(-2)},
		"MaxRunTime(0s) is less than 1ms":                   {qless.MaxRunTime(0)},
		"StartBy(1s) is over before the Delay of 2s":        {qless.StartBy(time.Second), qless.Delay(2 * time.Second)},
		"TTL(2s) is over before the Delay of 2s":            {qless.TTL(2 * time.Second), qless.Delay(2 * time.Second)},
		"Delay and At can't be used together":               {qless.Delay(0), qless.At(noon)},
		"At(0001-01-01 00:00:00 +0000 UTC) is not a time":   {qless.At(time.Time{})},
		"At(10000-01-01 00:00:00 +0000 UTC) is not a time":  {qless.At(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))},
		"StartBy is over after 60 s, but Delay or At makes": {qless.StartBy(time.Minute), qless.At(noon.Add(time.Hour))},
		"TTL is over after 60 s, but Delay or At makes":     {qless.TTL(time.Minute), qless.At(noon.Add(2 * time.Minute))},
	} {
		e.Unchanged(func() {
			err := errOf(e.Queue("q").Put(t.Context(), "K", nil, options...))
			require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, message)
			requireCode(t, qless.ErrInvalid, errOf(e.Queue("q").PutMany(t.Context(), []qless.JobSpec{
				{Klass: "K"}, {Klass: "K", Options: options},
			})))
		})
	}
	for _, text := range []string{
		`s|{}`, `s|{"s":0}`, `s|{"s":-1}`, `t|{"t":"x"}`, `t|{"t":[]}`, `k|{"k":-1}`, `K|{"K":-2}`, `s|{"s":1e999}`,
	} {
		e.Unchanged(func() {
			_, err := e.Run(t.Context(), "put", "j", "w1", "q", "j", "K", "{}", "0", "o", text, "checked", "1")
			require.ErrorIs(t, err, qless.ErrInvalid, text)
		})
	}
	for _, at := range []string{"", "x", "inf"} {
		e.Unchanged(func() {
			_, err := e.Run(t.Context(), "put", "j", "w1", "q", "j", "K", "{}", "0", "at", at)
			requireCode(t, qless.ErrInvalid, err)
		})
	}
}

func TestAnExpiredJobThatOthersDependOnFails(t *testing.T) {
	for state, set := range bring {
		if state == qless.StateComplete || state == qless.StateFailed {
			continue
		}
		t.Run(string(state), func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				set(e, qless.JID("j"), qless.TTL(time.Hour))
				worker := e.Read("j").Worker
				e.Put("next", qless.JID("runs"), qless.DependsOn{"j"}, qless.OnFailureRun)
				e.Put("next", qless.JID("fails"), qless.DependsOn{"j"}, qless.OnFailureFail)
				e.Put("next", qless.JID("waits"), qless.DependsOn{"j"})
				heard := e.Redis.PSubscribe(t.Context(), "ql:w:*", "ql:end")
				defer func() { require.NoError(t, heard.Close()) }()
				for range 2 {
					require.NoError(t, errOf(heard.Receive(t.Context())))
				}
				e.Clock.Advance(time.Hour)
				require.Equal(t, 1, e.sweep())
				require.NoError(t, e.Redis.Publish(t.Context(), "ql:end", "").Err())
				if messages := until(t, heard, "ql:end"); worker != "" {
					require.Equal(t, []string{
						`ql:w:w1 {"event":"canceled","jid":"j","queue":"q","worker":"w1"}`,
					}, messages)
				}
				job := e.Read("j")
				require.Equal(t, qless.StateFailed, job.State)
				require.Equal(t, "expired-q", job.Failure.Group)
				require.Empty(t, job.Dependencies)
				require.Equal(t, "runs", e.Pop("next").JID)
				require.Equal(t, "failed-dependency", e.Read("fails").Failure.Group)
				require.Equal(t, qless.StateDepends, e.Read("waits").State)
				require.Equal(t, 1, e.stats("q", noon).Expired)
				require.Zero(t, e.Counts("q").Running+e.Counts("q").Waiting+e.Counts("q").Scheduled)

				e.Clock.Advance(time.Hour)
				require.Zero(t, e.sweep(), "one still waits for it")
				require.NoError(t, e.Cancel(t.Context(), "waits"))
				e.Clock.Advance(time.Minute)
				require.Equal(t, 1, e.sweep(), "its TTL is still over")
				require.ErrorIs(t, errOf(e.Job(t.Context(), "j")), qless.ErrNotFound)
				require.Equal(t, 1, e.stats("q", noon).Expired)
			})
		})
	}
}

func TestAJobThatExpiredAndFailedCanBeUnfailed(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"), qless.StartBy(time.Minute))
		e.Put("next", qless.JID("waits"), qless.DependsOn{"j"})
		e.Clock.Advance(time.Minute)
		require.Empty(t, e.Pops("q", 1))
		require.Equal(t, "expired-q", e.Read("j").Failure.Group)
		e.Clock.Advance(time.Hour)
		require.Zero(t, e.sweep())
		require.NoError(t, e.Read("j").Unfail(t.Context()))
		require.NoError(t, e.Pop("q").Complete(t.Context()))
		require.Equal(t, "waits", e.Pop("next").JID)
	})
}

// bury puts n jobs whose lives have ended when it returns.
func (e *env) bury(queue string, n int) {
	e.T.Helper()
	specs := make([]qless.JobSpec, n)
	for i := range specs {
		specs[i] = qless.NewKlass[any]("K").Spec(nil,
			qless.StartBy(time.Minute), qless.Priority(1),
		)
	}
	require.NoError(e.T, errOf(e.Queue(queue).PutMany(e.T.Context(), specs)))
	e.Clock.Advance(time.Hour)
}

func TestExpiredJobsDoNotHideLiveOnes(t *testing.T) {
	for order, queues := range map[string][]any{
		"ordered":     {"q", "other"},
		"round-robin": {"q", "other"},
		"shuffled":    {"q"},
	} {
		t.Run(order, func(t *testing.T) {
			e := newEnv(t)
			e.Put("q", qless.JID("a"))
			e.Put("q", qless.JID("b"))
			e.bury("q", 50)
			reply := e.run("reserve", append([]any{"w1", "2", "10", "2", "order", order}, queues...)...).([]any)
			require.Len(t, reply, 5+2)
			require.Equal(t, 50, e.stats("q", noon).Expired)
		})
	}
	t.Run("pop", func(t *testing.T) {
		onEach(t, func(t *testing.T, e *env) {
			e.Put("q", qless.JID("a"))
			e.bury("q", 500)
			require.Equal(t, []string{"a"}, jids(e.Pops("q", 1)))
			require.Equal(t, 500, e.stats("q", noon).Expired)
		})
	})
	t.Run("peek", func(t *testing.T) {
		onEach(t, func(t *testing.T, e *env) {
			e.Put("q", qless.JID("a"))
			e.bury("q", 500)
			require.Equal(t, []string{"a"}, jids(must(e.Queue("q").Peek(t.Context(), 1))(t)))
		})
	})
}

// Go repeats a call at once if there may be more, so each call drops few. Clients in other
// languages repeat it after some time.
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
		t.Run(what, func(t *testing.T) {
			e := newEnv(t)
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
			if state == qless.StateScheduled || state == qless.StateFailed {
				continue
			}
			t.Run(fmt.Sprintf("%T %s", option, state), func(t *testing.T) {
				onEach(t, func(t *testing.T, e *env) {
					e.Put("q", qless.JID("first"))
					e.Pop("q")
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
			})
		}
	}
}

func TestALifeBeginsAgainWhenAJobIsPutAgain(t *testing.T) {
	for state, set := range bring {
		t.Run(string(state), func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				set(e, qless.JID("j"), qless.TTL(time.Hour), qless.KeepFor(time.Hour))
				e.Clock.Advance(time.Minute)
				e.Put("again", qless.JID("j"))
				ended := state == qless.StateComplete || state == qless.StateFailed
				require.Equal(t, ended, e.Read("j").Until.IsZero(), "as long as it has not ended, it lives on")
				e.Put("again", qless.JID("j"), qless.TTL(2*time.Hour))
				require.WithinDuration(t, e.Clock.Now().Add(2*time.Hour), e.Read("j").Until, time.Millisecond)
				e.Put("again", qless.JID("j"), qless.TTL(qless.Forever))
				require.Zero(t, e.Read("j").Until)
				e.Clock.Advance(3 * time.Hour)
				require.Zero(t, e.sweep())
				require.Empty(t, e.untils())
				if state == qless.StateDepends {
					require.NoError(t, e.Pop("p").Complete(t.Context()))
				}
				require.NoError(t, e.Pop("again").Complete(t.Context()))
				require.NotZero(t, e.Read("j").Until, "KeepFor stays")
			})
		})
	}
}

// Leftovers of a job whose life is over block no other job.
func TestAJobWhoseLifeIsOverBlocksNoOther(t *testing.T) {
	for state, set := range bring {
		t.Run(string(state), func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				set(e, qless.JID("j"), qless.TTL(time.Hour), qless.Unique("key"))
				e.Clock.Advance(time.Hour)
				require.Empty(t, must(e.Holder(t.Context(), "key"))(t))
				e.Put("unique", qless.Unique("key"))
				e.Put("q2", qless.JID("j"), qless.IfAbsent)
				require.Zero(t, e.Read("j").Until)
				e.sweep()
				if state == qless.StateDepends { // the job still waits for the other one
					require.NoError(t, e.Pop("p").Complete(t.Context()))
				}
				require.Equal(t, "j", e.Pop("q2").JID)
				require.NoError(t, e.Cancel(t.Context(), "j"))
				if state != qless.StateWaiting && state != qless.StateRunning {
					return
				}
				set(e, qless.JID("j"), qless.TTL(time.Hour))
				e.Clock.Advance(time.Hour)
				e.Put("q2", qless.JID("j"), qless.Priority(7))
				require.Equal(t, "j", e.Pop("q2").JID)
			})
		})
	}
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"), qless.TTL(time.Hour))
		requireCode(t, qless.ErrExists, errOf(e.Queue("q").Put(t.Context(), "K", nil, qless.JID("j"), qless.IfAbsent)))
	})
}

// A key claimed for some time is held whatever happens to the job, unless the job is canceled.
func TestAKeyForSomeTimeOutlivesItsJob(t *testing.T) {
	for what, end := range map[string]func(t *testing.T, e *env){
		"forgotten": func(t *testing.T, e *env) { require.NoError(t, e.Pop("q").Complete(t.Context())) },
		"expired": func(t *testing.T, e *env) {
			e.Clock.Advance(time.Minute)
			require.Equal(t, 1, e.sweep())
		},
	} {
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Put("q", qless.JID("j"), qless.KeepFor(0), qless.TTL(time.Minute),
					qless.Unique("key").For(time.Hour))
				end(t, e)
				require.ErrorIs(t, errOf(e.Job(t.Context(), "j")), qless.ErrNotFound)
				err := errOf(e.Queue("q").Put(t.Context(), "K", nil, qless.Unique("key")))
				require.Equal(t, "j", requireCode(t, qless.ErrExists, err).JID)
			})
		})
	}
}

func TestPutsWithLifetimesClearAwayTwoDeadJobsEach(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.bury("q", 7)
		e.Put("p")
		require.Len(t, e.untils(), 7)
		e.Put("p", qless.TTL(time.Hour))
		require.Len(t, e.untils(), 7-2+1)
		require.Equal(t, 5, e.Counts("q").Waiting)
		require.NoError(t, errOf(e.Queue("p").PutMany(t.Context(), []qless.JobSpec{
			{Klass: "K", Options: []qless.PutOption{qless.KeepFor(time.Hour)}},
			{Klass: "K", Options: []qless.PutOption{qless.StartBy(time.Hour)}}, {Klass: "K"},
		})))
		require.Equal(t, 1, e.Counts("q").Waiting)
		require.Equal(t, 6, e.stats("q", noon).Expired)
	})
}

func TestASweepEndsAtMostAHundredLives(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.bury("q", 250)
		require.NoError(t, e.Queue("q").Pause(t.Context()))
		for _, want := range []int{100, 100, 50, 0} {
			require.Equal(t, want, e.sweep())
		}
		require.Equal(t, 250, e.stats("q", noon).Expired)
	})
}

func TestCanceledJobsAreNotRemembered(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"), qless.TTL(time.Hour))
		require.NoError(t, e.Cancel(t.Context(), "j"))
		require.Empty(t, e.untils())
		e.gone("j")
	})
}

func TestUnfailTakesStartByAndTTLAway(t *testing.T) {
	for what, unfail := range map[string]func(e *env) error{
		"job":   func(e *env) error { return e.Read("j").Unfail(e.T.Context()) },
		"group": func(e *env) error { return errOf(repairs.Unfail(e.T.Context(), e.Client, "g", 5)) },
		"queue": func(e *env) error {
			return errOf(repairs.UnfailInto(e.T.Context(), e.Client, "q", "g", 5))
		},
	} {
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Put("q", qless.JID("j"), qless.TTL(time.Hour), qless.StartBy(time.Minute),
					qless.KeepFailedFor(time.Hour), qless.Headers{"a": "1"})
				require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
				require.NoError(t, unfail(e))
				requireStored(t, `hK|{"h":{"a":"1"},"K":3600}`, e.stored("j"))
				e.Clock.Advance(2 * time.Hour)
				require.Zero(t, e.sweep())
				require.Equal(t, "j", e.Pop("q").JID)
			})
		})
	}
}

func TestAFailedJobIsKeptForItsOwnTime(t *testing.T) {
	for what, fail := range failures {
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Put("q", qless.JID("j"), qless.Retries(0), qless.TTL(2*time.Hour), qless.KeepFailedFor(5*time.Hour))
				fail(t, e)
				failed := e.Read("j")
				require.WithinDuration(t, failed.Failure.When.Add(5*time.Hour), failed.Until, time.Second)
				e.Clock.Advance(3 * time.Hour)
				require.Zero(t, e.sweep(), "its TTL no longer counts")
				e.Clock.Advance(2 * time.Hour)
				require.Equal(t, 1, e.sweep())
				e.gone("j")
				require.Zero(t, e.stats("q", noon).Failed)
				require.Zero(t, e.stats("q", noon).Expired)

				e.Put("q", qless.JID("kept"), qless.Retries(0), qless.TTL(2*time.Hour), qless.KeepFailedFor(qless.Forever))
				fail(t, e)
				require.Zero(t, e.Read("kept").Until)
				require.Empty(t, e.untils())
				require.NoError(t, e.Cancel(t.Context(), "kept"))

				e.Put("q", qless.JID("forgotten"), qless.Retries(0), qless.KeepFailedFor(0), qless.Tags{"red"})
				fail(t, e)
				e.gone("forgotten")
				require.Zero(t, e.stats("q", noon).Failed)

				e.Put("q", qless.JID("needed"), qless.Retries(0), qless.KeepFailedFor(0))
				e.Put("next", qless.JID("waits"), qless.DependsOn{"needed"})
				fail(t, e)
				require.Zero(t, e.sweep())
				require.True(t, e.exists("needed"))
				require.NoError(t, e.Cancel(t.Context(), "waits"))
				e.Clock.Advance(time.Minute)
				require.Equal(t, 1, e.sweep())
				e.gone("needed")
			})
		})
	}
}

func TestAJobIsDueAtItsTime(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"), qless.At(noon.Add(time.Hour)))
		require.Equal(t, qless.StateScheduled, e.Read("j").State)
		due := must(e.Redis.ZScore(t.Context(), "ql:q:q-scheduled", "j").Result())(t)
		require.InDelta(t, float64(noon.Add(time.Hour).Unix()), due, 1e-6)
		e.Clock.Advance(time.Hour - time.Millisecond)
		require.Empty(t, e.Pops("q", 1))
		e.Clock.Advance(time.Millisecond)
		require.Equal(t, "j", e.Pop("q").JID)

		e.Put("q", qless.JID("past"), qless.At(noon.Add(-time.Hour)))
		require.Equal(t, qless.StateWaiting, e.Read("past").State)
		require.NoError(t, errOf(e.Queue("p").PutMany(t.Context(), []qless.JobSpec{
			{Klass: "K", Options: []qless.PutOption{qless.JID("one"), qless.At(e.Clock.Now().Add(time.Hour))}},
			{Klass: "K", Options: []qless.PutOption{qless.JID("two"), qless.At(time.Unix(1, 0))}},
		})))
		require.Equal(t, []string{"two"}, jids(e.Pops("p", 2)))

		e.Put("p", qless.JID("after"), qless.DependsOn{"two"}, qless.At(e.Clock.Now().Add(time.Minute)))
		require.NoError(t, e.Read("two").Complete(t.Context()))
		require.Equal(t, qless.StateScheduled, e.Read("after").State)
	})
}

// The server's clock decides, not the machine's.
func TestTheServerKnowsWhenTheTimeOfAJobHasCome(t *testing.T) {
	e := newEnv(t)
	client := e.NewLiveClient(e.Redis, qless.ClientConfig{})
	put := func(at time.Time) qless.State {
		return e.Read(must(client.Queue("q").Put(t.Context(), "K", nil, qless.At(at)))(t)).State
	}
	require.Equal(t, qless.StateWaiting, put(time.Now().Add(-time.Minute)))
	require.Equal(t, qless.StateScheduled, put(time.Now().Add(time.Minute)))
}

func TestShardsAreSweptByTheirClients(t *testing.T) {
	e := newEnv(t)
	sharded := e.sharded(shards.ByJID, 3)
	for i := range 20 {
		require.NoError(t, errOf(sharded.Queue("q").Put(t.Context(), "K", nil,
			qless.JID(fmt.Sprint("j", i)), qless.TTL(time.Minute))))
	}
	e.Clock.Advance(time.Minute)
	swept := 0
	for _, client := range sharded.Clients() {
		swept += must(inspect.New(client).Sweep(t.Context()))(t)
	}
	require.Equal(t, 20, swept)
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

// These are the costs of lifetimes in docs/extensions.md.
func TestCommandsThatLifetimesCost(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("first"))
	require.NoError(t, e.Pop("q").Complete(t.Context())) // the queue and the day are not new
	cost := func(jid string, options ...qless.PutOption) (put, pop, complete int) {
		put = len(e.Server.Commands(t, func() { e.Put("q", append(options, qless.JID(jid))...) }))
		var job *qless.Job
		pop = len(e.Server.Commands(t, func() { job = e.Pop("q") }))
		complete = len(e.Server.Commands(t, func() { require.NoError(t, job.Complete(t.Context())) }))
		return put, pop, complete
	}
	plainPut, plainPop, plainComplete := cost("1j")
	for name, c := range map[string]struct {
		options       []qless.PutOption
		put, complete int
	}{
		"StartBy":       {[]qless.PutOption{qless.StartBy(time.Hour)}, 2, 0},
		"both":          {[]qless.PutOption{qless.StartBy(time.Hour), qless.TTL(time.Hour)}, 2, 0},
		"KeepFor":       {[]qless.PutOption{qless.KeepFor(time.Hour)}, 1, 1},
		"KeepFor none":  {[]qless.PutOption{qless.KeepFor(0)}, 1, 0},
		"KeepFailedFor": {[]qless.PutOption{qless.KeepFailedFor(time.Hour)}, 1, 0},
		"MaxRunTime":    {[]qless.PutOption{qless.MaxRunTime(time.Hour)}, 0, 0},
		"At":            {[]qless.PutOption{qless.At(noon)}, 0, 0},
	} {
		put, pop, complete := cost(name+"j", c.options...)
		require.Equal(t, c.put, put-plainPut, name)
		require.Equal(t, plainPop, pop, name)
		require.Equal(t, c.complete, complete-plainComplete, name)
	}
}

// A history that is kept short lacks the last put, but has the first one.
func TestALifetimeHoldsThoughTheHistoryIsShort(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Set("max-job-history", 2)
		e.Put("q", qless.JID("j"))
		e.Clock.Advance(time.Minute)
		e.Put("q", qless.JID("j"), qless.StartBy(time.Minute), qless.TTL(time.Hour))
		require.NoError(t, errOf(e.Pop("q").Retry(t.Context(), 0, "", "")))
		e.Clock.Advance(time.Minute)
		require.Empty(t, e.Pops("q", 1))
		e.gone("j")
	})
}

func TestALostJobIsHandedOutOnceThoughAnotherHasExpired(t *testing.T) {
	for name, set := range map[string]func(e *env) []qless.PutOption{
		"its grace period is over": func(*env) []qless.PutOption { return nil },
		"without a grace period": func(e *env) []qless.PutOption {
			e.Set("grace-period", 0)
			return nil
		},
		"a lock time": func(*env) []qless.PutOption {
			return []qless.PutOption{qless.LockTime(time.Minute)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Put("q", append(set(e), qless.JID("j"), qless.Retries(5))...)
				e.Put("q", qless.JID("dead"), qless.TTL(2*time.Minute))
				e.Pops("q", 2)
				if name == "its grace period is over" {
					e.Clock.Advance(time.Minute)
					require.Empty(t, e.Pops("q", 2))
				}
				e.Clock.Advance(2 * time.Minute)
				require.Equal(t, []string{"j"}, jids(e.Pops("q", 2)))
				require.Equal(t, 4, e.Read("j").Remaining)
				e.gone("dead")
				lost := 0
				for _, entry := range e.Read("j").History {
					if entry.What == "timed-out" {
						lost++
					}
				}
				require.Equal(t, 1, lost)
			})
		})
	}
}

func TestAnExpiredJobThatFailsHasNoGracePeriodLeft(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"), qless.TTL(2*time.Minute))
		e.Put("q2", qless.JID("child"), qless.DependsOn{"j"})
		e.Pop("q")
		e.Clock.Advance(time.Minute)
		require.Empty(t, e.Pops("q", 1))
		e.Clock.Advance(time.Minute)
		require.Equal(t, 1, e.sweep())
		require.Equal(t, qless.StateFailed, e.Read("j").State)
		require.False(t, e.Redis.HExists(t.Context(), "ql:j:j", "grace").Val())
	})
}

func TestExpiredJobThatIsPutAgainHasItsKeyAgain(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"), qless.TTL(time.Minute), qless.Unique("key"))
		e.Clock.Advance(time.Minute)
		e.Put("q2", qless.JID("other"), qless.Unique("key"))
		require.NoError(t, e.Pop("q2").Complete(t.Context()))
		e.Put("q", qless.JID("j"))
		require.Equal(t, "j", must(e.Holder(t.Context(), "key"))(t))
	})
}
