package worker

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/repairs"
)

func TestAWorkerAsksAThousandNamedQueuesAtMost(t *testing.T) {
	queues := []string{"q*", "!q1", "name0"}
	for i := range 1001 {
		queues = append(queues, fmt.Sprint("name", i))
	}
	_, err := qless.NewWorker(offline(t), qless.WorkerConfig{Queues: queues})
	require.Equal(t, "WorkerConfig.Queues names 1001 queues; a worker asks at most 1000",
		requireCode(t, qless.ErrInvalid, err).Message)

	w := newWorker(t, offline(t), qless.WorkerConfig{Queues: queues[:len(queues)-1]})
	w.Handle("K", nothing)
	require.NoError(t, w.Start(t.Context()))
	require.NoError(t, w.Stop(t.Context()))
}

func TestAWorkerLocksUnderItsName(t *testing.T) {
	e := newLiveEnv(t)
	one, two := e.worker(qless.WorkerConfig{}), e.worker(qless.WorkerConfig{})
	require.Regexp(t, `^.+-\d+-[0-9a-f]{8}$`, one.Name())
	require.NotEqual(t, one.Name(), two.Name(), "though their clients have one name")

	w, jid, _, _ := e.holding(qless.WorkerConfig{Name: "me"})
	require.Equal(t, "me", w.Name())
	require.Equal(t, "me", e.Read(jid).Worker)
	worker, err := repairs.HeldBy(t.Context(), e.Client, "me")
	require.NoError(t, err)
	require.Equal(t, []string{jid}, worker)
}
