package worker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// If the queue runs one job at a time, a reserve that overtakes an outcome finds nothing.
func TestOutcomesAreSentFirstAfterScriptsWereFlushed(t *testing.T) {
	for _, when := range []string{"before its start", "idle", "busy"} {
		t.Run(when, func(t *testing.T) {
			e := newLiveEnv(t)
			e.Set("q-max-concurrency", 1)
			forget := func(now string) {
				if now == when {
					require.NoError(t, e.Redis.ScriptFlush(t.Context()).Err())
				}
			}
			forget("before its start")
			w := e.worker(qless.WorkerConfig{Concurrency: 1})
			handler, running, end := hold()
			w.Handle("K", handler)
			w.start()
			forget("idle")
			first := e.Put("q")
			soon(t, "a job", running)
			e.Put("q")
			forget("busy")
			asked := w.count(of("reserve"))
			end <- nil
			soon(t, "the next job", running)
			require.Equal(t, reported{"complete", "complete"}, w.outcome(first))
			require.Equal(t, asked+1, w.count(of("reserve")))
		})
	}
}
