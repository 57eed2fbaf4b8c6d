package worker

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

const mebibyte = 1 << 20

// putLarge puts a job whose data has so many bytes of JSON.
func (e *env) putLarge(queue, jid string, size int) {
	e.t.Helper()
	client := e.client(e.rdb, qless.WithMaxData(2*size))
	_, err := client.Queue(queue).Put(e.t.Context(), "K", strings.Repeat("x", size-2), qless.JID(jid))
	require.NoError(e.t, err)
}

// A reply has a bounded number of bytes, whatever the worker has room for, and at least one job.
func TestAReserveStopsAtTwoMebibytesOfData(t *testing.T) {
	wanted := map[string][][]string{
		"ordered":     {{"j0", "j1"}, {"j2"}, {"j3"}, {"j4", "j5"}, {"r"}},
		"round-robin": {{"j0", "j1"}, {"r", "j2"}, {"j3"}, {"j4", "j5"}},
	}
	for order, want := range wanted {
		e := newEnv(t)
		for i, size := range []int{3, 5, 1, 9, 7, 1} {
			e.putLarge("q", fmt.Sprint("j", i), size*mebibyte/4)
		}
		e.putLarge("r", "r", mebibyte/4)
		var replies [][]string
		cursor := "0"
		for more := true; more; {
			r := e.reserve("w", 10, order, cursor, "", "q", "r")
			replies, more, cursor = append(replies, r.jids), r.wait == 0, r.cursor
		}
		require.Equal(t, want, replies, order)
	}
}

// Lost jobs, too, are handed out in several replies if their data is large, and so are the children of a
// recurring job.
func TestAReserveOfLargeJobsThatAreDueStopsAtTwoMebibytes(t *testing.T) {
	replies := func(e *env) (sizes []int) {
		for more := true; more; {
			r := e.reserve("w", 20, "ordered", "0", "", "q", "other")
			if more = r.wait == 0; more {
				require.NotEmpty(t, r.jids)
			}
			sizes = append(sizes, len(r.jids))
		}
		return sizes
	}
	t.Run("lost", func(t *testing.T) {
		e := newEnv(t)
		require.NoError(t, e.Config().Set(t.Context(), qless.ConfigGracePeriod, 0))
		for i := range 6 {
			e.putLarge("q", fmt.Sprint("j", i), 3*mebibyte/4)
		}
		require.Equal(t, []int{2, 2, 2}, replies(e))
		e.clock.Advance(time.Hour)
		require.Equal(t, []int{2, 2, 2}, replies(e))
	})
	t.Run("recurring", func(t *testing.T) {
		e := newEnv(t)
		data := strings.Repeat("x", mebibyte-2)
		require.NoError(t, errOf(e.Queue("q").Recur(t.Context(), "K", data, time.Minute)))
		e.clock.Advance(4 * time.Minute)
		require.Equal(t, []int{2, 2, 1}, replies(e))
	})
}

// A worker asks for the rest at once.
func TestAWorkerRunsMoreThanFitsIntoAReply(t *testing.T) {
	e := newLiveEnv(t)
	const jobs = 7
	for i := range jobs {
		e.putLarge("q", fmt.Sprint("j", i), 3*mebibyte)
	}
	w := e.worker(qless.WorkerConfig{Concurrency: jobs})
	var running atomic.Int32
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	w.Handle("K", func(ctx context.Context, _ *qless.Job) error {
		running.Add(1)
		select {
		case <-done:
		case <-ctx.Done():
		}
		return nil
	})
	require.NoError(t, w.Start(t.Context()))
	until(t, "they run side by side", func() bool { return running.Load() == jobs })
}
