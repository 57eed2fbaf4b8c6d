package qlesstest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

func TestClockMovesDelays(t *testing.T) {
	server := qlesstest.New(t)
	queue := server.Client().Queue("mail")
	_, err := queue.Put(t.Context(), "Welcome", nil, qless.Delay(time.Hour))
	require.NoError(t, err)

	jobs, err := queue.Pop(t.Context(), 1)
	require.NoError(t, err)
	require.Empty(t, jobs, "the delay is not over")

	server.Clock().Advance(time.Hour)
	jobs, err = queue.Pop(t.Context(), 1)
	require.NoError(t, err)
	require.Len(t, jobs, 1)
	require.Equal(t, "Welcome", jobs[0].Klass)
	require.NoError(t, jobs[0].Complete(t.Context()))
}

func TestJobsKeepTheirOrder(t *testing.T) {
	queue := qlesstest.New(t).Client().Queue("q")
	var put, popped []string
	for range 10 {
		jid, err := queue.Put(t.Context(), "K", nil)
		require.NoError(t, err)
		put = append(put, jid)
	}
	jobs, err := queue.Pop(t.Context(), 10)
	require.NoError(t, err)
	for _, job := range jobs {
		popped = append(popped, job.JID)
	}
	require.Equal(t, put, popped)
}

func TestStartForPrograms(t *testing.T) {
	server, err := qlesstest.Start()
	require.NoError(t, err)
	defer server.Close()
	require.Nil(t, server.Clock())

	client, err := qless.Dial(t.Context(), "redis://"+server.Addr(), nil)
	require.NoError(t, err)
	defer client.Close()
	jid, err := client.Queue("q").Put(t.Context(), "K", nil)
	require.NoError(t, err)
	job, err := server.Client().Job(t.Context(), jid)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), job.History[0].When, time.Minute)
}

func TestKeysExpireByTheRealTime(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	server, err := qlesstest.Start()
	require.NoError(t, err)
	defer server.Close()
	rdb := server.Redis()
	require.NoError(t, rdb.Set(t.Context(), "short", "x", 200*time.Millisecond).Err())
	require.NoError(t, rdb.Set(t.Context(), "long", "x", time.Hour).Err())
	until(t, "the key is gone", func() bool {
		return rdb.Exists(t.Context(), "short").Val() == 0
	})
	require.EqualValues(t, 1, rdb.Exists(t.Context(), "long").Val())
}

// With a clock moved by the test, keys don't expire by the real time.
func TestKeysExpireByTheClockOfATest(t *testing.T) {
	server := qlesstest.New(t)
	rdb := server.Redis()
	require.NoError(t, rdb.Set(t.Context(), "k", "x", time.Minute).Err())
	server.Clock().Advance(59 * time.Second)
	require.EqualValues(t, 1, rdb.Exists(t.Context(), "k").Val())
	server.Clock().Advance(time.Second)
	require.EqualValues(t, 0, rdb.Exists(t.Context(), "k").Val())
}

func TestAllClientsOfAServerHaveItsClock(t *testing.T) {
	server := qlesstest.New(t)
	client, err := server.NewClient(&qless.ClientConfig{Namespace: "other:"})
	require.NoError(t, err)
	worker, r := newWorker(t, client)
	put(t, client, "Later", qless.Delay(time.Hour))
	qlesstest.Drain(t, worker)
	require.Empty(t, r.klasses())
	server.Clock().Advance(time.Hour)
	qlesstest.Drain(t, worker)
	require.Equal(t, []string{"Later"}, r.klasses())

	_, err = server.NewClient(&qless.ClientConfig{MaxData: -2})
	require.ErrorIs(t, err, qless.ErrInvalid)
}
