package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/repairs"
)

// A witness records the events received by a worker's observer.
type witness struct {
	mu     sync.Mutex
	events []qless.JobEvent
}

func (o *witness) observe(event qless.JobEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, event)
}

// of returns the events of a job.
func (o *witness) of(jid string) []qless.JobEvent {
	o.mu.Lock()
	defer o.mu.Unlock()
	var events []qless.JobEvent
	for _, event := range o.events {
		if event.JID == jid {
			events = append(events, event)
		}
	}
	return events
}

func kinds(events []qless.JobEvent) []qless.JobEventKind {
	var all []qless.JobEventKind
	for _, event := range events {
		all = append(all, event.Kind)
	}
	return all
}

// ends waits until a job has ended, and returns that event. The earlier events must be the given
// ones.
func (o *witness) ends(t *testing.T, jid string, before ...qless.JobEventKind) qless.JobEvent {
	t.Helper()
	until(t, "the end of "+jid, func() bool {
		events := o.of(jid)
		return len(events) > 0 && events[len(events)-1].Kind == qless.JobEventEnded
	})
	events := o.of(jid)
	require.Equal(t, append(before, qless.JobEventEnded), kinds(events))
	return events[len(events)-1]
}

// watched creates a worker with an observer.
func (e *env) watched(config qless.WorkerConfig) (*testWorker, *witness) {
	e.T.Helper()
	o := &witness{}
	config.Observer = o.observe
	return e.worker(config), o
}

// answers returns a handler that returns an error.
func answers(err error) qless.Handler {
	return func(context.Context, *qless.Job) error { return err }
}

// loses returns a handler that does something to its job, and waits for the end of its context.
func loses(do func(ctx context.Context, job *qless.Job) error) qless.Handler {
	return func(ctx context.Context, job *qless.Job) error {
		if err := do(ctx, job); err != nil {
			panic(err)
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

// A runEnd is a way for a run to end, with the effects on the observer, the log and the rates.
type runEnd struct {
	handler qless.Handler
	outcome qless.Outcome
	ending  string
	log     string // the level and the error
	rates   string // the counts of completed, failed and retried jobs; empty if not a run
	also    qless.JobEventKind
	err     error // of the other event and, unless it is a panic, of the end
}

func runEnds(e *env) map[string]runEnd {
	why, retry := errors.New("why"), qless.Outcome{Action: qless.ActionRetry, Delay: time.Hour}
	complete := qless.Outcome{Action: qless.ActionComplete}
	return map[string]runEnd{
		"Complete": {
			handler: nothing, ending: "complete", log: "INFO", rates: "1 0 0", outcome: complete,
		},
		"Next": {
			handler: answers(qless.Next("b")), ending: "next", log: "INFO", rates: "1 0 0",
			outcome: qless.Outcome{Action: qless.ActionComplete, Queue: "b"},
		},
		"Snooze": {
			handler: answers(qless.Snooze(time.Hour)), ending: "release", log: "INFO",
			outcome: qless.Outcome{Action: qless.ActionRelease, Delay: time.Hour},
		},
		"Retry": {
			handler: answers(why), ending: "retry", log: "WARN why", rates: "0 0 1",
			outcome: qless.Outcome{
				Action: qless.ActionRetry, Delay: time.Hour, Group: "Retry:why", Err: why,
			},
		},
		"Exhausted": {
			handler: answers(qless.RetryIn(0, why)), ending: "exhausted", log: "ERROR why", rates: "0 1 0",
			outcome: qless.Outcome{Action: qless.ActionRetry, Group: "Exhausted:why", Err: why},
		},
		"Fail": {
			handler: answers(qless.FailWith("g", why)), ending: "fail", log: "ERROR why", rates: "0 1 0",
			outcome: qless.Outcome{Action: qless.ActionFail, Group: "g", Err: why},
		},
		"Panic": {
			handler: func(context.Context, *qless.Job) error { panic(why) },
			ending:  "fail", log: `ERROR "panic: why"`, rates: "0 1 0",
			outcome: qless.Outcome{Action: qless.ActionFail, Group: "Panic:panic"},
			also:    qless.JobEventPanicked, err: why,
		},
		"Goexit": {
			handler: func(context.Context, *qless.Job) error { runtime.Goexit(); return nil },
			ending:  "retry", log: `WARN "` + isGoexit[2:] + `"`, rates: "0 0 1", outcome: retry,
		},
		"Misfit": {
			handler: qless.Typed(func(context.Context, *qless.Job, struct{ Card int8 }) error { return nil }),
			ending:  "fail", log: `ERROR "the data does not fit: Card is not a valid int8"`, rates: "0 1 0",
			outcome: qless.Outcome{Action: qless.ActionFail, Group: "Misfit:data"},
		},
		"Unknown": {
			ending: "release", log: "INFO",
			outcome: qless.Outcome{Action: qless.ActionRelease, Delay: time.Minute},
		},
		"CompletesIt": {
			handler: func(ctx context.Context, job *qless.Job) error { return job.Complete(ctx) },
			ending:  "complete", log: "INFO", rates: "1 0 0", outcome: complete,
		},
		"FailsIt": {
			handler: func(ctx context.Context, job *qless.Job) error { return job.Fail(ctx, "g", "m") },
			ending:  "fail", log: "ERROR m", rates: "0 1 0",
			outcome: qless.Outcome{Action: qless.ActionFail, Group: "g"},
		},
		"CancelsIt": {
			handler: func(ctx context.Context, job *qless.Job) error { return job.Cancel(ctx) },
			ending:  "moved", log: "INFO",
		},
		"MovesIt": {
			handler: func(ctx context.Context, job *qless.Job) error { return job.Move(ctx, "b") },
			ending:  "moved", log: "INFO", outcome: qless.Outcome{Queue: "b"},
		},
		"Canceled": {
			handler: loses(func(_ context.Context, job *qless.Job) error {
				return e.Cancel(e.T.Context(), job.JID)
			}),
			ending: "canceled", log: `INFO "qless: the job was canceled"`, outcome: retry,
			also: qless.JobEventCanceled, err: qless.ErrCanceled,
		},
		"Lost": {
			handler: loses(func(_ context.Context, job *qless.Job) error {
				return repairs.TimeOut(e.T.Context(), e.Client, job.JID)
			}),
			ending: "lost", log: `WARN "qless: the job belongs to another worker"`, outcome: retry,
			also: qless.JobEventLockLost, err: qless.ErrLockLost,
		},
	}
}

var runTime = regexp.MustCompile(`duration=\S+`)

func TestHowARunEndsIsObservedLoggedAndCounted(t *testing.T) {
	e := newLiveEnv(t)
	for klass, c := range runEnds(e) {
		t.Run(klass, func(t *testing.T) {
			var log lines
			o, logs := &witness{}, qless.LogJobs(log.logger())
			w := e.worker(qless.WorkerConfig{
				Queues: []string{klass}, Backoff: inAnHour, UnknownKlassDelay: time.Minute,
				Observer: func(event qless.JobEvent) { o.observe(event); logs(event) },
			})
			if c.handler != nil {
				w.Handle(klass, func(ctx context.Context, job *qless.Job) error {
					w.Pause()
					return c.handler(ctx, job)
				})
			}
			w.start()
			retries := 5
			if klass == "Exhausted" {
				retries = 0
			}
			jid, err := e.Queue(klass).Put(t.Context(), klass, map[string]any{"card": 4111111111111111},
				qless.JID("j-"+klass), qless.Retries(retries), qless.Headers{"traceparent": traceText})
			require.NoError(t, err)
			before := []qless.JobEventKind{qless.JobEventStarted}
			if c.also != "" {
				before = append(before, c.also)
			}
			event := o.ends(t, jid, before...)
			until(t, "a line of the log", func() bool { return log.String() != "" })
			w.stop()

			require.Equal(t, []any{klass, klass, w.Name(), 1, c.ending, klass == "Exhausted"}, []any{
				event.Klass, event.Queue, event.Worker, event.Attempt, event.Ending, event.Exhausted,
			})
			require.Positive(t, event.Waited)
			require.Equal(t, c.handler != nil, event.Ran > 0)
			require.WithinDuration(t, time.Now(), event.Time, time.Minute)
			require.Empty(t, o.of(jid)[0].Ending)
			if c.also == qless.JobEventPanicked {
				require.NoError(t, event.Err)
			} else {
				require.ErrorIs(t, event.Err, c.err)
			}
			if c.also != "" {
				require.ErrorIs(t, o.of(jid)[1].Err, c.err)
			}
			var panicked *qless.PanicError
			if errors.As(o.of(jid)[len(before)-1].Err, &panicked) {
				require.Equal(t, c.err, panicked.Value)
				require.NotEmpty(t, panicked.Stack)
			}
			if c.outcome.Err == nil {
				event.Outcome.Err = nil
			}
			if c.outcome.Action == qless.ActionRetry && c.outcome.Group == "" {
				event.Outcome.Group = ""
			}
			require.Equal(t, c.outcome, event.Outcome)

			level, problem, failed := strings.Cut(c.log, " ")
			want := "level=" + level + ` msg="qless: a job has ended" jid=` + jid + " klass=" + klass +
				" queue=" + klass + " attempt=1 trace_id=" + traceID + " outcome=" + c.ending + " duration=D"
			if failed {
				want += " error=" + problem
			}
			require.Equal(t, want+"\n", runTime.ReplaceAllString(log.String(), "duration=D"))
			require.NotContains(t, log.String(), secret)
			require.Zero(t, w.log.count(secret))

			rates := "[0 0 0 0 0]"
			if c.rates != "" {
				rates = "[" + c.rates + " 1 1]"
			}
			require.Equal(t, rates, e.counted(inspect.RateQuery{Queue: klass, Klass: klass}))
		})
	}
	require.Equal(t, "[0 0 0 0 0]", e.counted(inspect.RateQuery{Queue: "b"}))
}

// The job is lost after the handler has returned, and the server reports that.
func TestAnObserverSeesWhatTheServerSaysToAnOutcome(t *testing.T) {
	started := qless.JobEventStarted
	for name, c := range map[string]struct {
		lose     func(e *env) error
		events   []qless.JobEventKind // before the end
		err      error
		canceled int
		log      string
		warnings int
	}{
		"it is canceled": {
			func(e *env) error { return e.Cancel(t.Context(), "j") },
			[]qless.JobEventKind{started, qless.JobEventCanceled}, qless.ErrCanceled, 1,
			"a job was canceled while it ran", 0,
		},
		"it is timed out": {
			func(e *env) error { return repairs.TimeOut(t.Context(), e.Client, "j") },
			[]qless.JobEventKind{started}, qless.ErrNotRunning, 0,
			"the server did not take an outcome", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			o := &witness{}
			w := e.working(qless.WorkerConfig{Observer: o.observe}, nothing)
			w.once("finish", func(send func() error) error {
				w.Pause() // it would take the job again
				return errors.Join(c.lose(e), send())
			})
			e.Put("q", qless.JID("j"))
			event := o.ends(t, "j", c.events...)
			require.ErrorIs(t, event.Err, c.err)
			require.Equal(t, qless.ActionComplete, event.Outcome.Action)
			w.log.await(t, c.log, 1)
			require.Equal(t, []int{c.canceled, 1 - c.canceled}, []int{w.Stats().Canceled, w.Stats().Lost})
			require.Equal(t, 1, w.log.count(c.log))
			require.Equal(t, c.warnings, w.log.count("level=WARN"))
		})
	}
}

// The server might come back while the worker waits.
func TestAnOutcomeThatIsNotDeliveredHoldsUpStopBriefly(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	for name, early := range map[string]bool{"before Stop": true, "during Stop": false} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			o := &witness{}
			w, jid, end, _ := e.holding(qless.WorkerConfig{ShutdownTimeout: timeout, Observer: o.observe})
			e.Server.Suspend()
			defer e.Server.Resume()
			if early {
				end <- nil
			}
			before := time.Now()
			done := w.stopping(w.Stop)
			if !early {
				end <- nil
			}
			err := requireCode(t, stopped, soon(t, "the end of the worker", done))
			require.GreaterOrEqual(t, time.Since(before), timeout)
			require.Equal(t, "outcomes that the server did not take: 1", err.Message)
			require.Equal(t, qless.JobEventEnded, kinds(o.of(jid))[1], "Stop returns after that")
			require.ErrorIs(t, o.ends(t, jid, qless.JobEventStarted).Err, qless.ErrStopped)
			w.log.await(t, "the worker stopped before the server took all outcomes", 1)
			e.Server.Resume()
			require.NotEqual(t, qless.StateWaiting, e.Read(jid).State)
		})
	}
}

// A worker may take a lost job again.
func TestAnObserverSeesTheEndOfEachRun(t *testing.T) {
	e := newLiveEnv(t)
	o := &witness{}
	w, jid, end, causes := e.holding(qless.WorkerConfig{Concurrency: 2, Observer: o.observe})
	require.NoError(t, repairs.TimeOut(t.Context(), e.Client, jid))
	require.ErrorIs(t, soon(t, "the end of the context", causes), qless.ErrLockLost)
	end <- nil
	require.Equal(t, reported{"complete", "complete"}, w.outcome(jid))
	w.stop()
	require.Equal(t, []int{1, 1}, []int{w.Stats().Lost, w.Stats().Completed})
	events := o.of(jid)
	require.Len(t, events, 5)
	isOther := func(kind qless.JobEventKind) bool { return kind != qless.JobEventEnded }
	require.Len(t, slices.DeleteFunc(kinds(events), isOther), 2)
}

func TestAnObserverMayAskTheWorker(t *testing.T) {
	e := newLiveEnv(t)
	var w *testWorker
	asked := make(chan qless.JobEventKind, 10)
	w = e.worker(qless.WorkerConfig{Observer: func(event qless.JobEvent) {
		_, _ = w.Stats(), w.Healthy()
		w.Pause()
		w.Resume()
		asked <- event.Kind
	}})
	handler, running, _ := hold()
	w.Handle("K", handler)
	w.start()
	jid := e.begun(running)
	require.NoError(t, e.Cancel(t.Context(), jid))
	for _, kind := range []qless.JobEventKind{qless.JobEventStarted, qless.JobEventCanceled, qless.JobEventEnded} {
		require.Equal(t, kind, soon(t, "an event", asked))
	}
}

func TestAnEventSaysWhichRunItIsAbout(t *testing.T) {
	e := newLiveEnv(t)
	w, o := e.watched(qless.WorkerConfig{})
	popped := make(chan time.Time, 1)
	w.Handle("K", func(_ context.Context, job *qless.Job) error {
		popped <- job.PoppedAt
		job.Headers["a"] = "changed"
		return nil
	})
	w.start()
	event := o.ends(t, e.Put("q", qless.Headers{"a": "1"}), qless.JobEventStarted)
	require.Equal(t, soon(t, "the job", popped), event.PoppedAt)
	require.Equal(t, map[string]string{"a": "1"}, event.Headers)
}

func TestTheObserverSeesAWorkersExchanges(t *testing.T) {
	calls := make(chan qless.Command, 1000)
	e := newLiveEnv(t)
	w := e.workerAt(e.Server.Addr(), qless.WorkerConfig{}, qless.ClientConfig{
		Observer: func(_ context.Context, call qless.Command) { calls <- call },
	})
	w.Handle("K", nothing)
	require.NoError(t, w.Start(t.Context()))
	require.Equal(t, "complete", w.outcome(e.Put("q", qless.JID("a"))).action)
	w.stop()
	reserved, finished := 0, []qless.Command{}
	for len(calls) > 0 {
		switch call := <-calls; call.Name {
		case "reserve":
			require.NoError(t, call.Err)
			reserved += call.Count
		case "finish":
			call.Duration = 0
			finished = append(finished, call)
		}
	}
	require.Equal(t, 1, reserved)
	require.Equal(t, []qless.Command{{Name: "finish", Queue: "q", JID: "a", Count: 1}}, finished)
}

// A worker whose connection is refused logs it, without the password.
func TestAWorkerLogsNoPassword(t *testing.T) {
	e := newEnv(t)
	rules := []string{"on", ">pa5sw0rd", "~*", "&*", "+@all"}
	require.NoError(t, e.Redis.ACLSetUser(t.Context(), "alice", rules...).Err())
	log := newJournal()
	client, err := qless.Dial(t.Context(), "redis://alice:pa5sw0rd@"+e.Server.Addr(), &qless.ClientConfig{
		Logger: slog.New(log),
	})
	require.NoError(t, err)
	defer client.Close()
	heard := testkit.Overhear(t)
	require.NoError(t, e.Redis.ACLDelUser(t.Context(), "alice").Err())
	w := newWorker(t, client, qless.WorkerConfig{Queues: []string{"q"}, PollInterval: time.Hour})
	w.Handle("K", nothing)
	require.NoError(t, w.Start(t.Context()))
	log.await(t, "can't listen for events", 1)
	log.await(t, "the server refuses", 1)
	require.NoError(t, w.Stop(ended()))
	require.Zero(t, log.count("pa5sw0rd"))
	require.NotContains(t, heard(), "pa5sw0rd")
}

// lines is a log without times.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

const (
	secret    = "4111111111111111"
	traceID   = "0af7651916cd43dd8448eb211c80319c"
	traceText = "00-" + traceID + "-b7ad6b7169203331-01"
)

func TestAHandlerHasALoggerForItsJob(t *testing.T) {
	e := newLiveEnv(t)
	var log lines
	logs := func(ctx context.Context, job *qless.Job) error {
		job.Klass = "changed"
		qless.Logger(ctx).Info("hello", "n", 1)
		return nil
	}
	w := e.working(qless.WorkerConfig{Logger: log.logger()}, logs)
	jid := e.Put("q", qless.JID("j"), qless.Headers{"traceparent": traceText})
	w.ends(jid)
	require.Contains(t, log.String(), "level=INFO msg=hello worker="+w.Name()+
		" jid=j klass=K queue=q attempt=1 trace_id="+traceID+" n=1\n")

	jid = e.Put("q", qless.JID("other"), qless.Headers{"traceparent": "not one"})
	w.ends(jid)
	require.Contains(t, log.String(), "jid=other klass=K queue=q attempt=1 n=1\n")
	require.Same(t, slog.Default(), qless.Logger(t.Context()))
}
