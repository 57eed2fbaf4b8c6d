package worker

import (
	"cmp"
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

// inAnHour is a backoff to keep a job out of the way.
func inAnHour(*qless.Job, int, error) time.Duration { return time.Hour }

// returns returns a handler that changes its job's data, sets a result and returns an error.
func returns(err error) qless.Handler {
	return func(_ context.Context, job *qless.Job) error {
		return cmp.Or(job.SetData("changed"), job.SetResult("done"), err)
	}
}

// spoils returns a handler that leaves invalid JSON as data, and returns an error.
func spoils(err error) qless.Handler {
	return func(_ context.Context, job *qless.Job) error {
		job.Data = raw("{")
		return err
	}
}

// late is a handler that ends after its time.
func late(ctx context.Context, _ *qless.Job) error {
	<-ctx.Done()
	return nil
}

// dueIn returns the remaining wait of a scheduled job.
func (e *env) dueIn(queue, jid string) time.Duration {
	e.T.Helper()
	at := must(e.Redis.ZScore(e.T.Context(), "ql:q:"+queue+"-scheduled", jid).Result())(e.T)
	return time.Until(time.UnixMicro(int64(at * 1e6)))
}

// became describes the state of a job of the queue q.
func (e *env) became(job *qless.Job) string {
	e.T.Helper()
	text := fmt.Sprintf("%s %s, %d/%d left, %s", job.State, job.Queue, job.Remaining, job.Retries, job.Data)
	if job.State == qless.StateScheduled {
		text += fmt.Sprint(", due in ", e.dueIn(job.Queue, job.JID).Round(time.Minute))
	}
	if f := job.Failure; f != nil {
		message, _, _ := strings.Cut(f.Message, "\n")
		text += fmt.Sprintf(", %s: %s", f.Group, message)
	}
	if result := e.Redis.HGet(e.T.Context(), "ql:j:"+job.JID, "x:result").Val(); result != "" {
		text += ", result " + result[strings.LastIndex(result, "|")+1:]
	}
	if job.Priority != 0 || len(job.Tags) > 0 {
		text += fmt.Sprint(", priority ", job.Priority, ", tags ", job.Tags)
	}
	for _, others := range []any{job.Dependencies, job.Headers} {
		if list := fmt.Sprint(others); len(list) > len("map[]") {
			text += ", " + list
		}
	}
	return text
}

func TestWhatBecomesOfAJob(t *testing.T) {
	// with returns a function that runs a job at a worker with a config, and checks the worker's
	// report, the server's answer, and the state of the job.
	with := func(config qless.WorkerConfig) func(string, qless.Handler, string, string, ...qless.PutOption) {
		return func(name string, handler qless.Handler, reported, became string, options ...qless.PutOption) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				e := newLiveEnv(t)
				e.Put("elsewhere", qless.JID("other"))
				e.Put("done", qless.JID("done"))
				require.NoError(t, e.Pop("done").Complete(t.Context()))
				job, got := e.works(config, handler, append(options, qless.JID("j"))...)
				require.Equal(t, reported, got.action+" "+got.answer)
				require.Equal(t, became, e.became(job))
			})
		}
	}
	row, no := with(qless.WorkerConfig{}), errors.New("no @")
	wrapped := func(err error) qless.Handler { return returns(fmt.Errorf("step 3: %w", err)) }
	inGroup := func(group string) qless.WorkerConfig {
		return qless.WorkerConfig{FailGroup: func(*qless.Job, error) string { return group }}
	}
	header := qless.Headers{"a": "1"}

	row("nil", returns(nil),
		"complete complete", `complete , 5/5 left, "changed", result "done"`)
	with(qless.WorkerConfig{MaxRunTime: time.Millisecond})("nil, after its time", late,
		"complete complete", `complete , 5/5 left, {}`)
	row("Next", returns(qless.Next("b")),
		"complete waiting", `waiting b, 5/5 left, "changed", result "done"`)
	row("Next with a delay", returns(qless.Next("b", qless.Delay(time.Hour))),
		"complete scheduled", `scheduled b, 5/5 left, "changed", due in 1h0m0s, result "done"`)
	row("Next with a dependency", returns(qless.Next("b", qless.DependsOn{"other"})),
		"complete depends", `depends b, 5/5 left, "changed", result "done", [other]`)
	row("Next with a complete dependency", returns(qless.Next("b", qless.Delay(time.Hour), qless.DependsOn{"done"})),
		"complete waiting", `waiting b, 5/5 left, "changed", result "done"`)
	row("Next with changes", returns(qless.Next("b", qless.Priority(7), qless.Retries(9), qless.Tags{"b"})),
		"complete waiting", `waiting b, 9/9 left, "changed", result "done", priority 7, tags [b]`)
	row("Next keeps headers", returns(qless.Next("b")),
		"complete waiting", `waiting b, 5/5 left, "changed", result "done", map[a:1]`, header)
	row("Next replaces headers", returns(qless.Next("b", qless.Headers{"b": "2"})),
		"complete waiting", `waiting b, 5/5 left, "changed", result "done", map[b:2]`, header)
	row("Next removes headers", returns(qless.Next("b", qless.Headers(nil))),
		"complete waiting", `waiting b, 5/5 left, "changed", result "done"`, header)
	row("Next, wrapped", wrapped(qless.Next("b")),
		"complete waiting", `waiting b, 5/5 left, "changed", result "done"`)

	badNext := func(problem string, next error) {
		row(problem, returns(next), "fail 5",
			`failed q, 5/5 left, "changed", K:next: qless: complete: `+problem+`, result "done"`)
	}
	badNext(`the next queue is empty`, qless.Next(""))
	badNext(`the next queue is empty`, qless.Next("", qless.Delay(1)))
	badNext(`the next queue "\xff" is not UTF-8`, qless.Next("\xff"))
	badNext(`the delay -1ns is negative`, qless.Next("b", qless.Delay(-1)))
	badNext(`options[0] is nil`, qless.Next("b", nil))
	badNext(`the jid of a dependency is empty`, qless.Next("b", qless.DependsOn{""}))
	for _, suffix := range []string{"-history", "-dependents", "-dependencies"} {
		badNext(`the jid "x`+suffix+`" ends in `+suffix+`: no job can have it`,
			qless.Next("b", qless.DependsOn{"x" + suffix}))
	}

	row("RetryIn", returns(qless.RetryIn(time.Hour, no)),
		"retry 4", `scheduled q, 4/5 left, "changed", due in 1h0m0s, K:no *: no @`)
	row("RetryIn, wrapped", wrapped(qless.RetryIn(time.Hour, no)),
		"retry 4", `scheduled q, 4/5 left, "changed", due in 1h0m0s, K:no *: step 3: no @`)
	row("RetryIn without retries", returns(qless.RetryIn(-1, nil)),
		"retry -1", `failed q, -1/0 left, "changed", K:error: , result "done"`, qless.Retries(0))
	with(inGroup("mine"))("a FailGroup", returns(no),
		"retry -1", `failed q, -1/0 left, "changed", mine: no @, result "done"`, qless.Retries(0))
	with(inGroup(""))("an empty FailGroup", returns(no),
		"retry -1", `failed q, -1/0 left, "changed", K: no @, result "done"`, qless.Retries(0))
	with(qless.WorkerConfig{MaxRunTime: time.Hour})("a timeout of its own", answers(context.DeadlineExceeded),
		"retry -1", `failed q, -1/0 left, {}, K:timeout: context deadline exceeded`, qless.Retries(0))
	row("FailWith", returns(qless.FailWith("bad-address", no)),
		"fail 5", `failed q, 5/5 left, "changed", bad-address: no @, result "done"`)
	row("FailWith, wrapped", wrapped(qless.FailWith("g", no)),
		"fail 5", `failed q, 5/5 left, "changed", g: step 3: no @, result "done"`)
	row("FailWith without a group", returns(qless.FailWith("", nil)),
		"fail 5", `failed q, 5/5 left, "changed", K: , result "done"`)
	row("Snooze", returns(qless.Snooze(time.Hour)),
		"release 0", `scheduled q, 0/0 left, "changed", due in 1h0m0s`, qless.Retries(0))
	row("Snooze, wrapped", wrapped(qless.Snooze(time.Hour)),
		"release 5", `scheduled q, 5/5 left, "changed", due in 1h0m0s`)

	row("an Outcome that completes", returns(&qless.Outcome{Action: qless.ActionComplete}),
		"complete complete", `complete , 5/5 left, "changed", result "done"`)
	row("an Outcome with headers", returns(&qless.Outcome{
		Action: qless.ActionComplete, Queue: "b", Headers: map[string]string{"c": "3"},
	}), "complete waiting", `waiting b, 5/5 left, "changed", result "done", map[c:3]`, header)
	row("an Outcome that retries", returns(&qless.Outcome{Action: qless.ActionRetry, Delay: time.Hour}),
		"retry 4", `scheduled q, 4/5 left, "changed", due in 1h0m0s, K:error: `)
	row("an Outcome that releases", returns(&qless.Outcome{Action: qless.ActionRelease, Delay: time.Hour}),
		"release 5", `scheduled q, 5/5 left, "changed", due in 1h0m0s`)
	row("an Outcome that fails", returns(&qless.Outcome{Action: qless.ActionFail}),
		"fail 5", `failed q, 5/5 left, "changed", K: , result "done"`)
	row("an Outcome with an unknown Action", returns(&qless.Outcome{Action: "bury"}), "fail 5",
		`failed q, 5/5 left, "changed", K:outcome: qless: work j: unknown Action "bury" of an Outcome, result "done"`)

	for _, err := range []error{nil, qless.Snooze(0), no} {
		row(fmt.Sprint("data that is no JSON, and ", err), spoils(err),
			"fail 5", `failed q, 5/5 left, {}, K:data: qless: complete j: the data is not JSON: "{"`)
	}
	row("data that does not fit",
		qless.Typed(func(context.Context, *qless.Job, []int) error { panic("it is not called") }), "fail 5",
		`failed q, 5/5 left, {}, K:data: qless: unmarshal j: json: cannot unmarshal object into Go value of type []int`)
}

// Only the server knows who waits for the job.
func TestANextThatClosesACircleFailsTheJob(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{}, returns(qless.Next("b", qless.DependsOn{"waits"})))
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

// A program may keep such errors in variables, returned by several handlers.
func TestHandlersMayShareWhatTheyReturn(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{Concurrency: 8})
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

// A handler that computes the remaining time may arrive at a negative time.
func TestASnoozeOfNoTimeLastsASecond(t *testing.T) {
	t.Parallel()
	e, w := workerEnv(t, qless.WorkerConfig{})
	for name, delay := range map[string]time.Duration{"Zero": 0, "Negative": -time.Minute} {
		w.Handle(name, returns(qless.Snooze(delay)))
	}
	w.start()
	for _, klass := range []string{"Zero", "Negative"} {
		began := time.Now()
		jid := e.putKlass("q", klass, qless.Retries(0))
		released := func(c tapped) bool { return c.outcomes()[jid].action == "release" }
		w.await(t, "the fourth end of "+jid, 4, released)
		require.GreaterOrEqual(t, time.Since(began), 3*time.Second)
	}
}

func TestANegativeRetryInIsAtOnce(t *testing.T) {
	e := newLiveEnv(t)
	w := e.working(qless.WorkerConfig{}, returns(qless.RetryIn(-time.Hour, errors.New("no luck"))))
	jid := e.Put("q", qless.Retries(2))
	w.await(t, "the last run", 1, func(c tapped) bool { return c.outcomes()[jid].answer == "-1" })
	require.Equal(t, qless.StateFailed, e.Read(jid).State)
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
	w := e.working(qless.WorkerConfig{}, func(context.Context, *qless.Job) error { return errors.New("no") })
	jid := e.Put("q", qless.Retries(5))
	require.Equal(t, reported{"retry", "4"}, w.outcome(jid))
	require.InDelta(t, time.Second, e.dueIn("q", jid), float64(500*time.Millisecond))
}

func TestAKlassMayHaveItsOwnBackoff(t *testing.T) {
	fails := answers(errors.New("no"))
	e, w := workerEnv(t, qless.WorkerConfig{Backoff: inAnHour}, fails)
	w.Handle("Own", fails, qless.Backoff(func(_ *qless.Job, _ int, err error) time.Duration {
		require.EqualError(t, err, "no")
		return 2 * time.Hour
	}))
	w.start()
	own, jid := e.putKlass("q", "Own"), e.Put("q")
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
	w := e.working(qless.WorkerConfig{Backoff: func(*qless.Job, int, error) time.Duration { panic("in the backoff") }}, func(context.Context, *qless.Job) error { return errors.New("no") })
	jid := e.Put("q")
	require.Equal(t, "fail", w.outcome(jid).action)
	require.Contains(t, e.Read(jid).Failure.Message, "in the backoff")
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
