package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/repairs"
)

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

var runTime = regexp.MustCompile(`duration=\S+`)

func TestARunIsOneLineOfTheLogHoweverItEnds(t *testing.T) {
	e := newLiveEnv(t)
	for klass, c := range map[string]struct {
		handler qless.Handler
		retries int
		want    string // level, outcome and error
	}{
		"Complete": {nothing, 5, "INFO complete"},
		"Next":     {answers(qless.Next("b")), 5, "INFO next"},
		"Snooze":   {answers(qless.Snooze(time.Hour)), 5, "INFO release"},
		"Retry":    {answers(errors.New("why")), 5, "WARN retry why"},
		"Exhausted": {
			answers(qless.RetryIn(0, errors.New("why"))), 0, "ERROR exhausted why",
		},
		"Fail": {answers(qless.FailWith("g", errors.New("why"))), 5, "ERROR fail why"},
		"Panic": {
			func(context.Context, *qless.Job) error { panic("why") }, 5, `ERROR fail "panic: why"`,
		},
		"Misfit": {
			qless.Typed(func(context.Context, *qless.Job, struct{ Card int8 }) error { return nil }), 5,
			`ERROR fail "the data does not fit: Card is not a valid int8"`,
		},
		"Unknown": {nil, 5, "INFO release"},
		"EndsIt": {
			func(ctx context.Context, job *qless.Job) error { return job.Complete(ctx) }, 5,
			"INFO complete",
		},
		"Moves": {
			func(ctx context.Context, job *qless.Job) error { return job.Move(ctx, "b") }, 5, "INFO moved",
		},
		"Canceled": {
			func(ctx context.Context, job *qless.Job) error {
				_ = e.Cancel(ctx, job.JID)
				<-ctx.Done()
				return ctx.Err()
			}, 5, `INFO canceled "qless: the job was canceled"`,
		},
		"Lost": {
			func(ctx context.Context, job *qless.Job) error {
				_ = repairs.TimeOut(ctx, e.Client, job.JID)
				<-ctx.Done()
				return ctx.Err()
			}, 5, `WARN lost "qless: the job belongs to another worker"`,
		},
	} {
		t.Run(klass, func(t *testing.T) {
			var log lines
			w := e.worker(qless.WorkerConfig{
				Queues: []string{klass}, Observer: qless.LogJobs(log.logger()), Backoff: inAnHour,
				UnknownKlassDelay: time.Minute,
			})
			if c.handler != nil {
				w.Handle(klass, func(ctx context.Context, job *qless.Job) error {
					w.Pause()
					return c.handler(ctx, job)
				})
			}
			w.start()
			data := map[string]any{"card": 4111111111111111}
			_, err := e.Queue(klass).Put(t.Context(), klass, data, qless.JID("j-"+klass),
				qless.Retries(c.retries), qless.Headers{"traceparent": traceText})
			require.NoError(t, err)
			until(t, "a line", func() bool { return log.String() != "" })
			w.stop()
			words := strings.SplitN(c.want, " ", 3)
			want := "level=" + words[0] + ` msg="qless: a job has ended" jid=j-` + klass +
				" klass=" + klass + " queue=" + klass + " attempt=1 trace_id=" + traceID + " outcome=" + words[1] +
				" duration=D"
			if len(words) > 2 {
				want += " error=" + words[2]
			}
			require.Equal(t, want+"\n", runTime.ReplaceAllString(log.String(), "duration=D"))
			require.NotContains(t, log.String(), secret)
			require.Zero(t, w.log.count(secret))
		})
	}
}

// answers returns a handler that returns an error.
func answers(err error) qless.Handler {
	return func(context.Context, *qless.Job) error { return err }
}

func TestARunThatTheWorkerStoppedIsALine(t *testing.T) {
	e := newLiveEnv(t)
	var log lines
	w, jid, _, _ := e.holding(qless.WorkerConfig{
		ShutdownTimeout: -1, Observer: qless.LogJobs(log.logger()),
	})
	w.stopLate(jid)
	until(t, "a line", func() bool { return log.String() != "" })
	require.Contains(t, log.String(), "level=INFO")
	require.Contains(t, log.String(), "outcome=stopped")
	require.NotContains(t, log.String(), "trace_id")
}

func TestAHandlerHasALoggerForItsJob(t *testing.T) {
	e := newLiveEnv(t)
	var log lines
	w := e.worker(qless.WorkerConfig{Logger: log.logger()})
	logs := func(ctx context.Context, job *qless.Job) error {
		job.Klass = "changed"
		qless.Logger(ctx).Info("hello", "n", 1)
		return nil
	}
	w.Handle("K", logs)
	w.start()
	jid := e.Put("q", qless.JID("j"), qless.Headers{"traceparent": traceText})
	w.ends(jid)
	require.Contains(t, log.String(), "level=INFO msg=hello worker="+w.Name()+
		" jid=j klass=K queue=q attempt=1 trace_id="+traceID+" n=1\n")

	jid = e.Put("q", qless.JID("other"), qless.Headers{"traceparent": "not one"})
	w.ends(jid)
	require.Contains(t, log.String(), "jid=other klass=K queue=q attempt=1 n=1\n")
	require.Same(t, slog.Default(), qless.Logger(t.Context()))
}
