package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// inAnHour is a backoff that keeps a job out of the way.
func inAnHour(*qless.Job, int, error) time.Duration { return time.Hour }

// returns returns a handler that changes its job's data and returns an error.
func returns(err error) qless.Handler {
	return func(_ context.Context, job *qless.Job) error {
		if problem := job.SetData("changed"); problem != nil {
			return problem
		}
		return err
	}
}

// dueIn returns the time that a scheduled job has to wait.
func (e *env) dueIn(queue, jid string) time.Duration {
	e.T.Helper()
	at, err := e.Redis.ZScore(e.T.Context(), "ql:q:"+queue+"-scheduled", jid).Result()
	require.NoError(e.T, err)
	return time.Until(time.UnixMicro(int64(at * 1e6)))
}

func TestNextSendsAJobOn(t *testing.T) {
	e := newLiveEnv(t)
	job, got := e.works(qless.WorkerConfig{}, returns(qless.Next("b")))
	require.Equal(t, reported{"complete", "waiting"}, got)
	require.Equal(t, "b", job.Queue)
	require.Equal(t, `"changed"`, string(job.Data))
}

func TestNextWithADelay(t *testing.T) {
	e := newLiveEnv(t)
	job, got := e.works(qless.WorkerConfig{}, returns(qless.Next("b", qless.Delay(time.Hour))))
	require.Equal(t, reported{"complete", "scheduled"}, got)
	require.InDelta(t, time.Hour, e.dueIn("b", job.JID), float64(time.Minute))
}

func TestNextWithADependency(t *testing.T) {
	e := newLiveEnv(t)
	other := e.Put("elsewhere")
	job, got := e.works(qless.WorkerConfig{}, returns(qless.Next("b", qless.DependsOn{other})))
	require.Equal(t, reported{"complete", "depends"}, got)
	require.Equal(t, []string{other}, job.Dependencies)
}

func TestANextThatCannotBeFailsTheJob(t *testing.T) {
	for _, next := range []error{
		qless.Next(""), qless.Next("\xff"), qless.Next("", qless.Delay(1)), qless.Next("b", qless.Delay(-1)),
		qless.Next("b", qless.DependsOn{""}),
	} {
		e := newLiveEnv(t)
		job, got := e.works(qless.WorkerConfig{}, returns(next))
		require.Equal(t, "fail", got.action)
		require.Equal(t, "K:next", job.Failure.Group)
		require.Equal(t, qless.StateFailed, job.State)
	}
}

// Only the server knows who waits for the job.
func TestANextThatClosesACircleFailsTheJob(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	w.Handle("K", returns(qless.Next("b", qless.DependsOn{"waits"})))
	e.Put("q", qless.JID("runs"))
	e.Put("elsewhere", qless.JID("waits"), qless.DependsOn{"runs"})
	w.start()
	until(t, "the job has failed", func() bool { return w.Stats().Failed == 1 })
	job := e.Read("runs")
	require.Equal(t, qless.StateFailed, job.State)
	require.Equal(t, "refused", job.Failure.Group)
	require.Contains(t, job.Failure.Message, "would wait for itself")
	require.Equal(t, []string{"runs"}, e.Read("waits").Dependencies)
}

// A program may keep such errors in variables that several handlers return.
func TestHandlersMayShareWhatTheyReturn(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{Concurrency: 8})
	w.Handle("K", returns(qless.Next("b", qless.DependsOn{"j1"})))
	for i := range 16 {
		e.Put("q", qless.JID(fmt.Sprint("j", i)))
	}
	require.NoError(t, w.Start(t.Context()))
	for i := range 16 {
		got := w.outcome(fmt.Sprint("j", i))
		if i == 1 {
			require.Equal(t, "fail", got.action, "it depends on itself")
		} else {
			require.Equal(t, "complete", got.action)
		}
	}
}

func TestRetryInSpendsARetryAndWaits(t *testing.T) {
	e := newLiveEnv(t)
	job, got := e.works(qless.WorkerConfig{}, returns(qless.RetryIn(time.Hour, errors.New("no luck"))))
	require.Equal(t, reported{"retry", "4"}, got)
	require.Equal(t, qless.StateScheduled, job.State)
	require.InDelta(t, time.Hour, e.dueIn("q", job.JID), float64(time.Minute))
	require.Equal(t, "no luck", job.Failure.Message)
	require.Equal(t, `"changed"`, string(job.Data))
}

func TestRetryInWithoutRetriesFailsTheJob(t *testing.T) {
	e := newLiveEnv(t)
	job, got := e.works(qless.WorkerConfig{}, returns(qless.RetryIn(-1, nil)), qless.Retries(0))
	require.Equal(t, reported{"retry", "-1"}, got)
	require.Equal(t, qless.StateFailed, job.State)
	require.Equal(t, "K:error", job.Failure.Group)
	require.Equal(t, `"changed"`, string(job.Data))
}

func TestFailWithFailsTheJobAtOnce(t *testing.T) {
	e := newLiveEnv(t)
	job, got := e.works(qless.WorkerConfig{}, returns(qless.FailWith("bad-address", errors.New("no @"))))
	require.Equal(t, "fail", got.action)
	require.Equal(t, qless.StateFailed, job.State)
	require.Equal(t, "bad-address", job.Failure.Group)
	require.Equal(t, "no @", job.Failure.Message)
	require.Equal(t, 5, job.Remaining)
	require.Equal(t, `"changed"`, string(job.Data))
}

func TestFailWithoutAGroupFailsInTheKlass(t *testing.T) {
	e := newLiveEnv(t)
	job, _ := e.works(qless.WorkerConfig{}, returns(qless.FailWith("", nil)))
	require.Equal(t, "K", job.Failure.Group)
	require.Empty(t, job.Failure.Message)
}

func TestSnoozeSpendsNoRetry(t *testing.T) {
	e := newLiveEnv(t)
	job, got := e.works(qless.WorkerConfig{}, returns(qless.Snooze(time.Hour)), qless.Retries(0))
	require.Equal(t, reported{"release", "0"}, got)
	require.Equal(t, qless.StateScheduled, job.State)
	require.Equal(t, 0, job.Remaining)
	require.Equal(t, `"changed"`, string(job.Data))
	require.InDelta(t, time.Hour, e.dueIn("q", job.JID), float64(time.Minute))
	require.Nil(t, job.Failure)
}

// A handler that computes the remaining time may get a negative one.
func TestASnoozeOfNoTimeLastsASecond(t *testing.T) {
	t.Parallel()
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	for name, delay := range map[string]time.Duration{"Zero": 0, "Negative": -time.Minute} {
		w.Handle(name, returns(qless.Snooze(delay)))
	}
	w.start()
	for _, klass := range []string{"Zero", "Negative"} {
		began := time.Now()
		jid, err := e.Queue("q").Put(t.Context(), klass, nil, qless.Retries(0))
		require.NoError(t, err)
		released := func(c tapped) bool { return c.outcomes()[jid].action == "release" }
		w.await(t, "the fourth end of "+jid, 4, released)
		require.GreaterOrEqual(t, time.Since(began), 3*time.Second)
	}
}

func TestANegativeRetryInIsAtOnce(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	w.Handle("K", returns(qless.RetryIn(-time.Hour, errors.New("no luck"))))
	w.start()
	jid := e.Put("q", qless.Retries(2))
	w.await(t, "the last run", 1, func(c tapped) bool { return c.outcomes()[jid].answer == "-1" })
	require.Equal(t, qless.StateFailed, e.Read(jid).State)
}

func TestWrappedDirectivesAreObeyed(t *testing.T) {
	for action, err := range map[string]error{
		"complete": qless.Next("b"),
		"retry":    qless.RetryIn(time.Hour, errors.New("no luck")),
		"fail":     qless.FailWith("g", errors.New("no luck")),
		"release":  qless.Snooze(time.Hour),
	} {
		e := newLiveEnv(t)
		job, got := e.works(qless.WorkerConfig{}, returns(fmt.Errorf("step 3: %w", err)))
		require.Equal(t, action, got.action)
		if job.Failure != nil {
			require.Equal(t, "step 3: no luck", job.Failure.Message, "the wrapping text is kept")
		}
	}
}

func TestAnErrorIsRetriedUntilNoRetriesAreLeft(t *testing.T) {
	e := newLiveEnv(t)
	attempts := make(chan int, 3)
	w := e.worker(qless.WorkerConfig{Backoff: func(job *qless.Job, attempt int, err error) time.Duration {
		attempts <- attempt
		return 0
	}})
	w.Handle("K", func(context.Context, *qless.Job) error { return &fs.PathError{Op: "open", Path: "x", Err: fs.ErrExist} })
	w.start()
	jid := e.Put("q", qless.Retries(2))
	for attempt := range 3 {
		require.Equal(t, attempt+1, soon(t, "an attempt", attempts))
	}
	w.await(t, "the last retry", 1, func(c tapped) bool { return c.outcomes()[jid].answer == "-1" })
	job := e.Read(jid)
	require.Equal(t, qless.StateFailed, job.State)
	require.Equal(t, "K:fs.PathError", job.Failure.Group)
	require.Equal(t, "open x: file already exists", job.Failure.Message)
	require.Equal(t, w.Name(), job.Failure.Worker)
}

func TestExponentialBackoffDoublesWithJitter(t *testing.T) {
	backoff := qless.ExponentialBackoff(time.Second, time.Minute)
	for attempt, wanted := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 6: 32 * time.Second, 7: time.Minute,
		30: time.Minute, 33: time.Minute, 64: time.Minute, 1000: time.Minute,
	} {
		different := map[time.Duration]bool{}
		for range 100 {
			wait := backoff(nil, attempt, nil)
			require.InDelta(t, wanted, wait, float64(wanted)/4, "attempt %d", attempt)
			different[wait] = true
		}
		require.Greater(t, len(different), 50)
	}
}

func TestTheBackoffIsExactWithTheClockOfATest(t *testing.T) {
	e := newEnv(t)
	job := e.Read(e.Put("q"))
	backoff := qless.ExponentialBackoff(time.Second, time.Minute)
	for range 20 {
		require.Equal(t, 4*time.Second, backoff(job, 3, nil))
	}
}

func TestTheDefaultBackoffBeginsWithASecond(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{})
	w.Handle("K", func(context.Context, *qless.Job) error { return errors.New("no") })
	w.start()
	jid := e.Put("q", qless.Retries(5))
	require.Equal(t, reported{"retry", "4"}, w.outcome(jid))
	require.InDelta(t, time.Second, e.dueIn("q", jid), float64(500*time.Millisecond))
}

func TestAKlassMayHaveItsOwnBackoff(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{Backoff: inAnHour})
	fails := func(context.Context, *qless.Job) error { return errors.New("no") }
	w.Handle("K", fails)
	w.Handle("Own", fails, qless.Backoff(func(job *qless.Job, attempt int, err error) time.Duration {
		require.EqualError(t, err, "no")
		return 2 * time.Hour
	}))
	w.start()
	own, err := e.Queue("q").Put(t.Context(), "Own", nil)
	require.NoError(t, err)
	jid := e.Put("q")
	w.outcome(jid)
	w.outcome(own)
	require.InDelta(t, time.Hour, e.dueIn("q", jid), float64(time.Minute))
	require.InDelta(t, 2*time.Hour, e.dueIn("q", own), float64(time.Minute))
}

func TestAPanicFailsTheJobWithItsStack(t *testing.T) {
	e := newLiveEnv(t)
	for i, value := range []any{"oh no", errors.New("oh no"), nil} {
		job, got := e.works(qless.WorkerConfig{}, func(context.Context, *qless.Job) error { explode(value); return nil })
		require.Equal(t, "fail", got.action)
		require.Equal(t, "K:panic", job.Failure.Group)
		require.Contains(t, job.Failure.Message, "explode", "the stack shows the place")
		if i < 2 {
			require.True(t, strings.HasPrefix(job.Failure.Message, "panic: oh no\n"))
		}
		require.Equal(t, 5, job.Remaining)
	}
}

func explode(value any) { panic(value) }

func TestAPanicOfMiddlewareOrBackoffFailsTheJob(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{Backoff: func(*qless.Job, int, error) time.Duration { panic("in the backoff") }})
	w.Handle("K", func(context.Context, *qless.Job) error { return errors.New("no") })
	w.start()
	jid := e.Put("q")
	require.Equal(t, "fail", w.outcome(jid).action)
	require.Contains(t, e.Read(jid).Failure.Message, "in the backoff")
}

func TestDataThatIsNoJSONFailsTheJob(t *testing.T) {
	for _, returned := range []error{nil, qless.Snooze(0), errors.New("no")} {
		e := newLiveEnv(t)
		job, got := e.works(qless.WorkerConfig{}, func(_ context.Context, job *qless.Job) error {
			job.Data = raw("{")
			return returned
		})
		require.Equal(t, "fail", got.action)
		require.Equal(t, "K:data", job.Failure.Group)
		require.Equal(t, "{}", string(job.Data), "the data is kept")
	}
}

func TestDefaultFailGroupNamesKlassAndError(t *testing.T) {
	job := &qless.Job{Klass: "K"}
	for group, err := range map[string]error{
		"K:error":                         nil,
		"K:fs.PathError":                  fmt.Errorf("a: %w", &fs.PathError{Op: "open", Path: "x", Err: fs.ErrExist}),
		"K:timeout":                       fmt.Errorf("a: %w", context.DeadlineExceeded),
		"K:user * has no *":               errors.New(`user 17 has no "mailbox"`),
		"K:inner":                         fmt.Errorf("order 3: %w", errors.New("inner")),
		"K:first":                         errors.New("first\nsecond"),
		"K:" + strings.Repeat("long", 20): errors.New(strings.Repeat("long", 1000)),
	} {
		require.Equal(t, group, qless.DefaultFailGroup(job, err))
	}
}

// Each message is typical of programs, with parts that must not be in the name of a group.
func TestDefaultFailGroupLeavesOutWhatVaries(t *testing.T) {
	job := &qless.Job{Klass: "Mail::Welcome"}
	for message, group := range map[string]string{
		`no such user "jane"`:                        "no such user *",
		`no such user 'jane'`:                        "no such user *",
		"no such user `jane`":                        "no such user *",
		"no such user `jane'":                        "no such user *",
		`no such user “Jane Doe”`:                    "no such user *",
		`no such user ‘Jane Doe’`:                    "no such user *",
		`no such user ‘Jane, who can’t come’, sorry`: "no such user *, sorry",
		`no such user „Jane Doe“`:                    "no such user *",
		`no such user «Jane Doe»`:                    "no such user *",
		`no such user "Jane \"JD\" Doe"`:             "no such user *",
		`no such user "Jane Doe`:                     "no such user *",
		`no such user 'Jane Doe`:                     "no such user *",
		"no such user “Jane\nDoe”":                   "no such user *",
		`can't greet 'Jane Doe', who's away`:         "can't greet *, who's away",
		`the users' mailbox 'Jane's' can't be read`:  "the users' mailbox * can't be read",
		`can’t greet Jane.Doe@example.org: bounced`:  "can’t greet *: bounced",
		`550 5.1.1 <jane.doe@example.org>: Recipient address rejected: User unknown`:               "* <*>: Recipient address rejected: User unknown",
		`mail to "jane doe"@example.org was refused`:                                               "mail to * was refused",
		`mailto:jane@example.org can't be reached`:                                                 "* can't be reached",
		`Get https://example.org/users/jane?token=abc: EOF`:                                        "Get *: EOF",
		`unexpected status 503 Service Unavailable`:                                                "unexpected status * Service Unavailable",
		`read tcp 10.0.0.7:41312->10.0.0.9:5432: i/o timeout`:                                      "read tcp *: i/o timeout",
		`dial tcp [2001:db8::1]:6379: connect: connection refused`:                                 "dial tcp [*: connect: connection refused",
		`dial tcp: lookup db.internal on 10.0.0.2:53: no such host`:                                "dial tcp: lookup db.internal on *: no such host",
		`lookup jane.example.org:5432 failed`:                                                      "lookup * failed",
		`open /home/jane/letter.pdf: no such file or directory`:                                    "open *: no such file or directory",
		`open letters/jane.pdf: permission denied`:                                                 "open *: permission denied",
		`open C:\Users\Jane\letter.pdf: Access is denied.`:                                         "open *: Access is denied.",
		`(open ~/letter.pdf) failed`:                                                               "(open *) failed",
		`order A-1007 has no items`:                                                                "order * has no items",
		`order deadbeefcafe has no items`:                                                          "order * has no items",
		`order 9f8b7c6d-aaaa-4bbb-8ccc-ddddeeeeffff has no items`:                                  "order * has no items",
		`order 17 18 19 have no items`:                                                             "order * have no items",
		`ERROR: duplicate key value violates unique constraint "users_email_key" (SQLSTATE 23505)`: "ERROR: duplicate key value violates unique constraint * (SQLSTATE *)",
		`Key (email)=(jane@example.org) already exists.`:                                           "Key (email)* already exists.",
		`Key (name, city)=(Jane Doe, Rome) already exists.`:                                        "Key (name, city)* already exists.",
		`Duplicate entry 'jane@example.org' for key 'users.email'`:                                 "Duplicate entry * for key *",
		`insert failed: user=jane id=17, retry=no`:                                                 "insert failed: user=* id=*, retry=*",
		`invalid character '<' looking for beginning of value`:                                     "invalid character * looking for beginning of value",
		`json: cannot unmarshal string into field User.age of type int`:                            "json: cannot unmarshal string into field User.age of type int",
		`at 2024-01-02 12:00:00 +0000 UTC: too late`:                                               "at * UTC: too late",
		`Überweisung an “Jörg” über 17,50 € abgelehnt`:                                             "Überweisung an * über * € abgelehnt",
		`connection reset by peer`:                                                                 "connection reset by peer",
		`...`:                                                                                      "...",
		`"`:                                                                                        "*",
	} {
		require.Equal(t, "Mail::Welcome:"+group, qless.DefaultFailGroup(job, errors.New(message)), message)
	}
}

func TestFailGroupMayBeReplaced(t *testing.T) {
	e := newLiveEnv(t)
	for _, group := range []string{"mine", ""} {
		job, _ := e.works(qless.WorkerConfig{
			FailGroup: func(job *qless.Job, err error) string { return group },
		}, returns(errors.New("no")), qless.Retries(0))
		require.Equal(t, qless.StateFailed, job.State)
		if group == "" {
			group = "K"
		}
		require.Equal(t, group, job.Failure.Group)
	}
}

func TestNextWithADependencyNamedLikeAListFails(t *testing.T) {
	e := newLiveEnv(t)
	for _, suffix := range []string{"-history", "-dependents", "-dependencies"} {
		job, got := e.works(qless.WorkerConfig{}, returns(qless.Next("q2", qless.DependsOn{"x" + suffix})))
		require.Equal(t, "fail", got.action)
		require.Equal(t, "K:next", job.Failure.Group)
		require.Contains(t, job.Failure.Message, "x"+suffix)
	}
}

func TestNextWithADelayAndCompleteDependencies(t *testing.T) {
	e := newLiveEnv(t)
	e.Put("other", qless.JID("done"))
	require.NoError(t, e.Pop("other").Complete(t.Context()))
	job, got := e.works(qless.WorkerConfig{}, returns(qless.Next("next", qless.Delay(time.Hour), qless.DependsOn{"done"})))
	require.Equal(t, "complete", got.action)
	require.Equal(t, qless.StateWaiting, job.State)
}
