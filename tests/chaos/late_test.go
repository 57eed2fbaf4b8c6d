package chaos

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/scripts"
)

// slow delays the first answer to a reservation.
type slow struct {
	once sync.Once
	time time.Duration
}

func (s *slow) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *slow) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *slow) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if scripts.CommandOf(cmd.Args()) == "reserve" && !redis.HasErrorPrefix(err, "NOSCRIPT") {
			s.once.Do(func() { <-time.After(s.time) })
		}
		return err
	}
}

// If a reservation is answered after a possible lock expiry, the job is not run, but released. It
// runs once taken in time.
func TestLateReservation(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const heartbeat = 3 * time.Second
	server := testkit.Start(t)
	rdb := server.Client(t)
	client, err := qless.New(rdb, nil)
	require.NoError(t, err)
	require.NoError(t, client.Config().Set(ctx, "heartbeat", heartbeat))
	jid, err := client.Queue(queueName).Put(ctx, "Late", nil)
	require.NoError(t, err)

	rdb.AddHook(&slow{time: heartbeat})
	w, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{queueName}})
	require.NoError(t, err)
	runs := make(chan error, 10)
	w.Handle("Late", func(ctx context.Context, _ *qless.Job) error {
		runs <- ctx.Err()
		return nil
	})
	require.NoError(t, w.Start(ctx))
	select {
	case err := <-runs:
		require.NoError(t, err, "the context of the run")
	case <-ctx.Done():
		require.Fail(t, "gave up waiting for the job to run")
	}
	require.NoError(t, w.Drain(ctx))

	require.Empty(t, runs)
	job, err := client.Job(ctx, jid)
	require.NoError(t, err)
	times := map[string]int{}
	for _, entry := range job.History {
		times[entry.What]++
	}
	require.Equal(t, 2, times["popped"], "how often the job was popped: %v", job.History)
	require.Equal(t, 1, times["done"], "how often it was completed: %v", job.History)
}
