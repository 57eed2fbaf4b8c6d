//go:build interop

package interop

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/internal/testkit"
)

// manyJobs is the number of jobs shared by the workers of both sides.
const manyJobs = 2000

// qless-py fails on a heartbeat that is not in whole seconds.
func TestPythonReadsHeartbeatsOfWholeSeconds(t *testing.T) {
	server := testkit.Start(t)
	queue := newClient(t, server.Client(t)).Queue("q")
	read := func() (string, error) {
		output, err := exec.Command(venv(t), "-c",
			"import qless, sys; print(qless.Client(sys.argv[1]).queues['q'].heartbeat)",
			"redis://"+server.Addr()).CombinedOutput()
		return string(output), err
	}
	require.NoError(t, queue.SetHeartbeat(t.Context(), 90*time.Second))
	output, err := read()
	require.NoError(t, err, output)
	require.Equal(t, "90\n", output)

	require.NoError(t, queue.SetHeartbeat(t.Context(), 1500*time.Millisecond))
	output, err = read()
	require.Error(t, err)
	require.Contains(t, output, "ValueError")
}

// Workers of both sides on one queue run every job once.
func TestWorkersShareAQueue(t *testing.T) {
	withOthers(t, func(t *testing.T, server *testkit.Server, them side) {
		rdb := server.Client(t)
		us := &ours{rdb: rdb}
		must(t, us, "begin", args{"worker": "ours"})
		must(t, them, "begin", args{"worker": "theirs"})
		heard, err := events.Listen(t.Context(), us.client)
		require.NoError(t, err)

		putMany(t, us, them)
		met := startTheirs(t, server, them)
		worker, err := qless.NewWorker(us.client, qless.WorkerConfig{Queues: []string{"q"}, Concurrency: 4})
		require.NoError(t, err)
		worker.Handle("work.Count", func(ctx context.Context, job *qless.Job) error {
			select {
			case <-met: // their workers get a share, too
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			return count(ctx, rdb, job.JID)
		})
		require.NoError(t, worker.Start(t.Context()))
		t.Cleanup(func() { _ = worker.Stop(context.Background()) })

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		completed := map[string]bool{}
		for len(completed) < manyJobs {
			select {
			case event := <-heard:
				require.NotEqual(t, events.Failed, event.Kind, "%+v", event)
				require.NotEqual(t, events.LockLost, event.Kind, "%+v", event)
				require.NotEqual(t, events.Gap, event.Kind)
				if event.Kind == events.Completed {
					require.False(t, completed[event.JID], "%s was completed twice", event.JID)
					completed[event.JID] = true
				}
			case <-ctx.Done():
				require.FailNow(t, "not all jobs were completed", "%d of %d", len(completed), manyJobs)
			}
		}

		runs, err := rdb.HGetAll(t.Context(), "runs").Result()
		require.NoError(t, err)
		assert.Equal(t, manyJobs, len(runs), "jobs that ran")
		for jid, times := range runs {
			assert.Equal(t, "1", times, "runs of %s", jid)
		}
		for _, s := range []side{us, them} {
			assert.Equal(t, 0.0, must(t, s, "counts", args{"queue": "q"}).(map[string]any)["running"])
			assert.Empty(t, must(t, s, "failed", nil))
		}
	})
}

// putMany puts half of the jobs on each side.
func putMany(t *testing.T, sides ...side) {
	var putting sync.WaitGroup
	for _, s := range sides {
		putting.Go(func() {
			for i := range manyJobs / len(sides) {
				jid := fmt.Sprintf("%s-%d", s, i)
				if _, err := s.do(t.Context(), "put", args{"queue": "q", "klass": "work.Count", "jid": jid}); !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	putting.Wait()
	require.False(t, t.Failed())
}

// count counts a run, like python/work.py.
func count(ctx context.Context, rdb *redis.Client, jid string) error {
	return rdb.HIncrBy(ctx, "runs", jid, 1).Err()
}

// startTheirs starts workers of the other side. The channel is closed once each of them has run a
// job.
func startTheirs(t *testing.T, server *testkit.Server, them side) <-chan struct{} {
	if s, ok := them.(*stock); ok {
		names := []string{"one", "another"}
		met := meet(t, server.Client(t), names)
		var working sync.WaitGroup
		t.Cleanup(working.Wait)
		for _, name := range names {
			own := &stock{rdb: s.rdb, script: s.script, worker: name, held: map[string]map[string]any{}}
			working.Go(func() { own.work(t) })
		}
		return met
	}
	p := them.(*peer)
	met := meet(t, server.Client(t), p.workers)
	for _, name := range p.workers {
		startWorker(t, server, p.worker, name)
	}
	return met
}

// meet returns a channel that is closed once workers with all these names have reported a run.
func meet(t *testing.T, rdb *redis.Client, names []string) <-chan struct{} {
	missing := map[string]bool{}
	for _, name := range names {
		missing[name] = true
	}
	ran := rdb.Subscribe(t.Context(), "ran")
	t.Cleanup(func() { _ = ran.Close() })
	_, err := ran.Receive(t.Context())
	require.NoError(t, err)
	met := make(chan struct{})
	go func() {
		for len(missing) > 0 {
			message, err := ran.ReceiveMessage(t.Context())
			if err != nil {
				return
			}
			delete(missing, message.Payload)
		}
		close(met)
	}()
	return met
}

// startWorker starts a worker of another client, and ends it with the test.
func startWorker(t *testing.T, server *testkit.Server, command []string, name string) {
	args := append(slices.Clone(command[1:]), name, "redis://"+server.Addr())
	process := exec.Command(command[0], args...)
	process.Dir = t.TempDir() // they create folders in their working folder
	process.Env = append(os.Environ(), "PYTHONPATH="+inFolder(t, "python"), "PYTHONDONTWRITEBYTECODE=1")
	var printed strings.Builder
	process.Stdout, process.Stderr = &printed, &printed
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, process.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-process.Process.Pid, syscall.SIGKILL) // including forked processes
		_ = process.Wait()
		if t.Failed() {
			t.Logf("%s printed:\n%s", name, printed.String())
		}
	})
}

// work runs jobs through the script until none are left.
func (s *stock) work(t *testing.T) {
	ctx := t.Context()
	for {
		jobs, err := s.do(ctx, "pop", args{"queue": "q"})
		if !assert.NoError(t, err) || isEmpty(jobs) {
			return
		}
		jid := jobs.([]any)[0].(map[string]any)["jid"].(string)
		if !assert.NoError(t, count(ctx, s.rdb, jid)) || !assert.NoError(t, s.rdb.Publish(ctx, "ran", s.worker).Err()) {
			return
		}
		if _, err = s.do(ctx, "complete", args{"jid": jid}); !assert.NoError(t, err) {
			return
		}
	}
}
