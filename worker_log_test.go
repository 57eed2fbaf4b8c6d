package qless_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// An askingLogger asks the worker about itself, to add that to what it says.
type askingLogger struct {
	*journal
	worker atomic.Pointer[qless.Worker]
}

func (l *askingLogger) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *askingLogger) Handle(ctx context.Context, record slog.Record) error {
	if w := l.worker.Load(); w != nil {
		_, _ = w.Stats(), w.Healthy()
	}
	return l.journal.Handle(ctx, record)
}

// askedWorker makes a worker whose logger asks it.
func (e *env) askedWorker(config qless.WorkerConfig) *testWorker {
	e.t.Helper()
	logger := &askingLogger{journal: newJournal()}
	config.Logger = slog.New(logger)
	w := e.worker(config)
	w.log = logger.journal
	logger.worker.Store(w.Worker)
	return w
}

func TestALoggerMayAskTheWorkerAboutAnUnknownKlass(t *testing.T) {
	e := newLiveEnv(t)
	w := e.askedWorker(qless.WorkerConfig{}).start()
	w.outcome(e.put("q"))
	w.log.await(t, "no handler here takes the klass", 1)
}

func TestALoggerMayAskTheWorkerAboutALostLock(t *testing.T) {
	e := newLiveEnv(t)
	w := e.askedWorker(qless.WorkerConfig{})
	handler, running, _ := hold()
	w.Handle("K", handler)
	w.start()
	jid := e.put("q")
	soon(t, "a job", running)
	w.Pause()
	require.NoError(t, e.Timeout(t.Context(), jid))
	w.log.await(t, "a lock is lost", 1)
	w.log.await(t, "a job's result was discarded", 1)
}

func TestALoggerMayAskTheWorkerAboutADiscardedOutcome(t *testing.T) {
	e := newLiveEnv(t)
	w := e.askedWorker(qless.WorkerConfig{})
	w.Handle("K", nothing)
	w.start()
	w.instead("finish", func(send func() error) error {
		if err := e.Timeout(t.Context(), "j"); err != nil {
			return err
		}
		w.instead("finish", nil)
		return send()
	})
	e.put("q", qless.JID("j"))
	w.log.await(t, "an outcome was discarded", 1)
}

func TestALoggerMayAskTheWorkerAboutAReservationThatWasNotHeardOf(t *testing.T) {
	e := newLiveEnv(t)
	w := e.askedWorker(qless.WorkerConfig{})
	w.Handle("K", nothing)
	w.beforeItHears("j", func() error { return errOffline })
	w.start()
	e.put("q", qless.JID("j"))
	w.ends("j")
	w.log.await(t, "a job whose reservation was not heard of is given back", 1)
	w.log.await(t, "the server is back", 1)
}

func TestALoggerMayAskTheWorkerAboutRenewalsThatFail(t *testing.T) {
	e := newLiveEnv(t)
	e.set(qless.ConfigHeartbeat, "0.6")
	w := e.askedWorker(qless.WorkerConfig{})
	w.instead("renew", func(func() error) error { return errOffline })
	handler, running, _ := hold()
	w.Handle("K", handler)
	w.start()
	e.put("q")
	soon(t, "a job", running)
	w.log.await(t, "locks could not be renewed", 1)
	w.log.await(t, "a lock has ended before it could be renewed", 1)
	w.log.await(t, "a job's result was discarded", 1)
}

func TestALoggerMayAskTheWorkerAboutARefusal(t *testing.T) {
	e := newLiveEnv(t)
	w := e.askedWorker(qless.WorkerConfig{})
	w.Handle("K", nothing)
	w.start()
	w.refuseOutcome("j", damage)
	e.put("q", qless.JID("j"))
	w.log.await(t, "the server refuses an outcome", 1)
	w.log.await(t, "an outcome was given up", 1)
}
