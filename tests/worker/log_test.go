package worker

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

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
