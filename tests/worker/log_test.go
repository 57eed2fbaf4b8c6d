package worker

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/repairs"
)

// An askingLogger asks the worker about its state, to add that to messages.
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

// askedWorker creates a worker whose logger asks it.
func (e *env) askedWorker(config qless.WorkerConfig) *testWorker {
	e.T.Helper()
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
	w.outcome(e.Put("q"))
	w.log.await(t, "no handler for the klass", 1)
}

func TestALoggerMayAskTheWorkerAboutALostLock(t *testing.T) {
	e := newLiveEnv(t)
	w := e.askedWorker(qless.WorkerConfig{})
	handler, running, _ := hold()
	w.Handle("K", handler)
	w.start()
	jid := e.Put("q")
	soon(t, "a job", running)
	w.Pause()
	require.NoError(t, repairs.TimeOut(t.Context(), e.Client, jid))
	w.log.await(t, "lost the lock of a job", 1)
	w.log.await(t, "discarded the outcome of a job", 1)
	require.Equal(t, 1, w.log.count("level=WARN"), "one lost lock is one warning")
}

func TestALoggerMayAskTheWorkerAboutADiscardedOutcome(t *testing.T) {
	e := newLiveEnv(t)
	w := e.askedWorker(qless.WorkerConfig{})
	w.Handle("K", nothing)
	w.start()
	w.instead("finish", func(send func() error) error {
		if err := repairs.TimeOut(t.Context(), e.Client, "j"); err != nil {
			return err
		}
		w.instead("finish", nil)
		return send()
	})
	e.Put("q", qless.JID("j"))
	w.log.await(t, "the server did not take an outcome", 1)
}

func TestLoggerMayAskTheWorkerAboutALostReservation(t *testing.T) {
	e := newLiveEnv(t)
	w := e.askedWorker(qless.WorkerConfig{})
	w.Handle("K", nothing)
	w.beforeItHears("j", func() error { return errOffline })
	w.start()
	e.Put("q", qless.JID("j"))
	w.ends("j")
	w.log.await(t, "released a job whose reservation got no answer", 1)
	w.log.await(t, "the server is back", 1)
}

func TestALoggerMayAskTheWorkerAboutRenewalsThatFail(t *testing.T) {
	e := newLiveEnv(t)
	e.Set("heartbeat", "0.6")
	w := e.askedWorker(qless.WorkerConfig{})
	w.instead("renew", func(func() error) error { return errOffline })
	handler, running, _ := hold()
	w.Handle("K", handler)
	w.start()
	e.Put("q")
	soon(t, "a job", running)
	w.log.await(t, "could not renew locks", 1)
	w.log.await(t, "a lock expired before it could be renewed", 1)
	w.log.await(t, "discarded the outcome of a job", 1)
}

func TestALoggerMayAskTheWorkerAboutARefusal(t *testing.T) {
	t.Parallel()
	e := newLiveEnv(t)
	w := e.askedWorker(qless.WorkerConfig{})
	w.Handle("K", nothing)
	w.start()
	w.refuseOutcome("j", damage)
	e.Put("q", qless.JID("j"))
	w.log.await(t, "the server refuses an outcome", 1)
	w.log.await(t, "gave up an outcome", 1)
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
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, w.Stop(stopped))
	require.Zero(t, log.count("pa5sw0rd"))
	require.NotContains(t, heard(), "pa5sw0rd")
}
