package worker

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/repairs"
)

// A witness records the events that a worker's observer receives.
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

// ends waits until a job has ended, and returns that event. The events before it must be the given
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

func TestAnObserverSeesEveryOutcome(t *testing.T) {
	e := newLiveEnv(t)
	why := errors.New("why")
	for klass, c := range map[string]struct {
		handler qless.Handler
		options []qless.PutOption
		want    qless.Outcome
		before  []qless.JobEventKind
	}{
		"Complete": {nothing, nil, qless.Outcome{Action: qless.ActionComplete}, nil},
		"Next": {
			func(context.Context, *qless.Job) error { return qless.Next("b") }, nil,
			qless.Outcome{Action: qless.ActionComplete, Queue: "b"}, nil,
		},
		"Snooze": {
			func(context.Context, *qless.Job) error { return qless.Snooze(time.Hour) }, nil,
			qless.Outcome{Action: qless.ActionRelease, Delay: time.Hour}, nil,
		},
		"Retry": {
			func(context.Context, *qless.Job) error { return why }, nil,
			qless.Outcome{Action: qless.ActionRetry, Delay: time.Hour, Group: "Retry:why", Err: why}, nil,
		},
		"Exhausted": {
			func(context.Context, *qless.Job) error { return qless.RetryIn(0, why) },
			[]qless.PutOption{qless.Retries(0)},
			qless.Outcome{Action: qless.ActionRetry, Group: "Exhausted:why", Err: why}, nil,
		},
		"Fail": {
			func(context.Context, *qless.Job) error { return qless.FailWith("g", why) }, nil,
			qless.Outcome{Action: qless.ActionFail, Group: "g", Err: why}, nil,
		},
		"Unknown": {nil, nil, qless.Outcome{Action: qless.ActionRelease, Delay: time.Minute}, nil},
		"EndsIt": {
			func(ctx context.Context, job *qless.Job) error { return job.Complete(ctx) }, nil,
			qless.Outcome{Action: qless.ActionComplete}, nil,
		},
		"CancelsIt": {
			func(ctx context.Context, job *qless.Job) error { return job.Cancel(ctx) }, nil,
			qless.Outcome{}, nil,
		},
		"Panic": {
			func(context.Context, *qless.Job) error { panic(why) }, nil,
			qless.Outcome{Action: qless.ActionFail, Group: "Panic:panic"},
			[]qless.JobEventKind{qless.JobEventPanicked},
		},
		"Goexit": {
			func(context.Context, *qless.Job) error { runtime.Goexit(); return nil }, nil,
			qless.Outcome{Action: qless.ActionRetry, Delay: time.Hour}, nil,
		},
		"Misfit": {
			qless.Typed(func(context.Context, *qless.Job, []int) error { return nil }), nil,
			qless.Outcome{Action: qless.ActionFail, Group: "Misfit:data"}, nil,
		},
	} {
		t.Run(klass, func(t *testing.T) {
			w, o := e.watched(qless.WorkerConfig{Backoff: inAnHour, UnknownKlassDelay: time.Minute})
			if c.handler != nil {
				w.Handle(klass, c.handler)
			}
			w.start()
			jid, err := e.Queue("q").Put(t.Context(), klass, nil, c.options...)
			require.NoError(t, err)
			event := o.ends(t, jid, append([]qless.JobEventKind{qless.JobEventStarted}, c.before...)...)
			require.NoError(t, event.Err)
			require.Equal(t, klass, event.Klass)
			require.Equal(t, "q", event.Queue)
			require.Equal(t, w.Name(), event.Worker)
			require.Equal(t, 1, event.Attempt)
			require.Positive(t, event.Waited)
			require.WithinDuration(t, time.Now(), event.Time, time.Minute)
			require.Equal(t, klass == "Exhausted", event.Exhausted)
			if c.want.Err == nil {
				event.Outcome.Err = nil
			}
			if klass == "Goexit" {
				event.Outcome.Group = ""
			}
			require.Equal(t, c.want, event.Outcome)
			if klass == "Panic" {
				var panicked *qless.PanicError
				require.ErrorAs(t, o.of(jid)[1].Err, &panicked)
				require.Equal(t, why, panicked.Value)
				require.NotEmpty(t, panicked.Stack)
				require.ErrorIs(t, o.of(jid)[1].Err, why)
			}
			w.stop()
		})
	}
}

func TestAnObserverSeesALostLock(t *testing.T) {
	e := newLiveEnv(t)
	o := &witness{}
	w, jid, _, _ := e.holding(qless.WorkerConfig{Concurrency: 1, Observer: o.observe})
	w.Pause()
	require.NoError(t, repairs.TimeOut(t.Context(), e.Client, jid))
	event := o.ends(t, jid, qless.JobEventStarted, qless.JobEventLockLost)
	require.ErrorIs(t, event.Err, qless.ErrLockLost)
	require.ErrorIs(t, o.of(jid)[1].Err, qless.ErrLockLost)
	require.Equal(t, qless.ActionRetry, event.Outcome.Action, "the handler returned the cause")
	require.Positive(t, event.Ran)
}

func TestAnObserverSeesACancel(t *testing.T) {
	e := newLiveEnv(t)
	o := &witness{}
	w, jid, _, _ := e.holding(qless.WorkerConfig{Observer: o.observe})
	require.NoError(t, e.Cancel(t.Context(), jid))
	event := o.ends(t, jid, qless.JobEventStarted, qless.JobEventCanceled)
	require.ErrorIs(t, event.Err, qless.ErrCanceled)
	require.Equal(t, 1, w.Stats().Canceled)
	require.Zero(t, w.Stats().Lost)
	require.Equal(t, 1, w.log.count("level="))
}

// The job is canceled after the handler has returned, and the server reports that.
func TestACancelBeforeTheOutcomeIsOne(t *testing.T) {
	e := newLiveEnv(t)
	w, o := e.watched(qless.WorkerConfig{})
	w.Handle("K", nothing)
	w.start()
	w.instead("finish", func(send func() error) error {
		w.instead("finish", nil)
		return errors.Join(e.Cancel(t.Context(), "j"), send())
	})
	e.Put("q", qless.JID("j"))
	event := o.ends(t, "j", qless.JobEventStarted, qless.JobEventCanceled)
	require.ErrorIs(t, event.Err, qless.ErrCanceled)
	require.Equal(t, 1, w.Stats().Canceled)
	require.Zero(t, w.Stats().Lost)
	require.Equal(t, 1, w.log.count("a job was canceled while it ran"))
	require.Zero(t, w.log.count("level=WARN"))
}

func TestAnObserverSeesAnOutcomeThatTheServerRefuses(t *testing.T) {
	e := newLiveEnv(t)
	w, o := e.watched(qless.WorkerConfig{})
	w.Handle("K", nothing)
	w.start()
	w.instead("finish", func(send func() error) error {
		w.instead("finish", nil)
		w.Pause()
		return errors.Join(repairs.TimeOut(t.Context(), e.Client, "j"), send())
	})
	e.Put("q", qless.JID("j"))
	event := o.ends(t, "j", qless.JobEventStarted)
	require.ErrorIs(t, event.Err, qless.ErrNotRunning)
	require.Equal(t, qless.ActionComplete, event.Outcome.Action)
	require.Equal(t, 1, w.Stats().Lost)
}

func TestAnObserverSeesAnOutcomeThatIsGivenUp(t *testing.T) {
	t.Parallel()
	e := newLiveEnv(t)
	w, o := e.watched(qless.WorkerConfig{})
	w.Handle("K", nothing)
	w.start()
	w.refuseOutcome("j", damage)
	e.Put("q", qless.JID("j"))
	event := o.ends(t, "j", qless.JobEventStarted)
	require.ErrorIs(t, event.Err, qless.ErrServer)
}

func TestAnObserverSeesThatTheWorkerWasStopped(t *testing.T) {
	e := newLiveEnv(t)
	o := &witness{}
	w, jid, _, _ := e.holding(qless.WorkerConfig{ShutdownTimeout: -1, Observer: o.observe})
	w.stopLate(jid)
	event := o.ends(t, jid, qless.JobEventStarted)
	require.ErrorIs(t, event.Err, qless.ErrStopped)
}

func TestAnObserverSeesAnOutcomeThatIsNotDelivered(t *testing.T) {
	t.Parallel()
	e := newLiveEnv(t)
	o := &witness{}
	w, jid, end, _ := e.holding(qless.WorkerConfig{ShutdownTimeout: time.Second, Observer: o.observe})
	e.Server.Suspend()
	defer e.Server.Resume()
	end <- nil
	err := requireCode(t, stopped, w.Stop(context.Background()))
	require.Equal(t, "outcomes that the server did not take: 1", err.Message)
	require.Equal(t, qless.JobEventEnded, kinds(o.of(jid))[1], "Stop returns after that")
	require.ErrorIs(t, o.ends(t, jid, qless.JobEventStarted).Err, qless.ErrStopped)
}

// The lock ends while the server is away, and the same worker takes the job again when the server
// is back.
func TestAnObserverSeesTheEndOfEachRun(t *testing.T) {
	e := newLiveEnv(t)
	o := &witness{}
	w, jid, end, causes := e.holding(qless.WorkerConfig{Concurrency: 2, Observer: o.observe})
	require.NoError(t, repairs.TimeOut(t.Context(), e.Client, jid))
	require.ErrorIs(t, soon(t, "the end of the context", causes), qless.ErrLockLost)
	end <- nil
	w.ends(jid)
	w.stop()
	events := o.of(jid)
	require.Len(t, events, 5)
	ended := 0
	for _, event := range events {
		if event.Kind == qless.JobEventEnded {
			ended++
		}
	}
	require.Equal(t, 2, ended)
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
	jid := e.Put("q")
	soon(t, "a job", running)
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
	jid := e.Put("q", qless.Headers{"a": "1"})
	event := o.ends(t, jid, qless.JobEventStarted)
	require.Equal(t, soon(t, "the job", popped), event.PoppedAt)
	require.Equal(t, map[string]string{"a": "1"}, event.Headers)
}

func TestAnEventSaysInOneWordHowARunEnded(t *testing.T) {
	e := newLiveEnv(t)
	w, o := e.watched(qless.WorkerConfig{Backoff: func(*qless.Job, int, error) time.Duration { return time.Hour }})
	broken := errors.New("broken")
	ends := map[string]func(ctx context.Context, job *qless.Job) error{
		"complete":  func(context.Context, *qless.Job) error { return nil },
		"exhausted": func(context.Context, *qless.Job) error { return broken },
		"fail":      func(context.Context, *qless.Job) error { return qless.FailWith("g", broken) },
		"moved":     func(ctx context.Context, job *qless.Job) error { return job.Cancel(ctx) },
		"next":      func(context.Context, *qless.Job) error { return qless.Next("other") },
		"release":   func(context.Context, *qless.Job) error { return qless.Snooze(time.Hour) },
		"retry":     func(context.Context, *qless.Job) error { return broken },
		"canceled": func(ctx context.Context, job *qless.Job) error {
			assert.NoError(t, e.Cancel(context.WithoutCancel(ctx), job.JID))
			<-ctx.Done()
			return nil
		},
	}
	w.Handle("K", func(ctx context.Context, job *qless.Job) error { return ends[job.JID](ctx, job) })
	w.start()
	for ending := range ends {
		retries, before := qless.Retries(5), []qless.JobEventKind{qless.JobEventStarted}
		switch ending {
		case "canceled":
			before = append(before, qless.JobEventCanceled)
		case "exhausted":
			retries = 0
		}
		e.Put("q", qless.JID(ending), retries)
		require.Equal(t, ending, o.ends(t, ending, before...).Ending)
		require.Empty(t, o.of(ending)[0].Ending)
	}
}
