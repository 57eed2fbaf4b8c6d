package qless_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/internal/testkit/scripts"
)

// A firstFinish is a hook that holds the first script finish, and counts the jobs of each.
type firstFinish struct {
	arrived chan struct{}
	release chan struct{}
	mu      sync.Mutex
	jobs    []int
}

func (h *firstFinish) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *firstFinish) ProcessPipelineHook(
	next redis.ProcessPipelineHook,
) redis.ProcessPipelineHook {
	return next
}

func (h *firstFinish) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); scripts.CommandOf(args) == "finish" {
			h.mu.Lock()
			h.jobs = append(h.jobs, (len(args)-7)/5)
			first := len(h.jobs) == 1
			h.mu.Unlock()
			if first {
				close(h.arrived)
				<-h.release
			}
		}
		return next(ctx, cmd)
	}
}

// newCompletes returns a client whose worker has jobs of the queues a and b, with a call in flight
// that completes one more.
func newCompletes(
	t *testing.T, config qless.ClientConfig,
) (*qless.Client, *firstFinish, <-chan []error) {
	rdb := testkit.Start(t).Client(t)
	h := &firstFinish{arrived: make(chan struct{}), release: make(chan struct{})}
	rdb.AddHook(h)
	config.Logger = testkit.Quiet()
	client, err := qless.New(rdb, &config)
	require.NoError(t, err)
	for _, queue := range []string{"a", "b"} {
		for i := range 200 {
			_, err := client.Queue(queue).Put(t.Context(), "K", nil, qless.JID(fmt.Sprint(queue, i)))
			require.NoError(t, err)
		}
		jobs, err := client.Queue(queue).Pop(t.Context(), 200)
		require.NoError(t, err)
		require.Len(t, jobs, 200)
	}
	first := beginCompletes(t, client, "a", "a0")
	testkit.Soon(t, "the first script", h.arrived)
	return client, h, first
}

func beginCompletes(
	t *testing.T, client *qless.Client, queue string, jids ...string,
) <-chan []error {
	result := make(chan []error, 1)
	go func() { result <- client.Queue(queue).CompleteMany(t.Context(), jids...) }()
	return result
}

func joinCompletes(
	t *testing.T, client *qless.Client, queue string, jids ...string,
) <-chan []error {
	t.Helper()
	before := client.WaitingCompletes()
	result := beginCompletes(t, client, queue, jids...)
	testkit.Until(t, "the call waits", func() bool { return client.WaitingCompletes() > before })
	return result
}

func numbered(queue string, from, to int) []string {
	var jids []string
	for i := from; i < to; i++ {
		jids = append(jids, fmt.Sprint(queue, i))
	}
	return jids
}

// Each call has the answers about its own jobs.
func TestJobsThatGoroutinesCompleteShareAScript(t *testing.T) {
	client, h, first := newCompletes(t, qless.ClientConfig{})
	two := joinCompletes(t, client, "a", "a1", "missing", "a2")
	elsewhere := joinCompletes(t, client, "a", "b1")
	other := joinCompletes(t, client, "b", "b2")
	close(h.release)
	require.Equal(t, []error{nil}, testkit.Soon(t, "answers", first))
	errs := testkit.Soon(t, "answers", two)
	require.NoError(t, errs[0])
	require.Equal(t, "missing", requireCode(t, qless.ErrNotFound, errs[1]).JID)
	require.NoError(t, errs[2])
	wrong := testkit.Soon(t, "answers", elsewhere)[0]
	require.Equal(t, "b1", requireCode(t, qless.ErrWrongQueue, wrong).JID)
	require.Equal(t, []error{nil}, testkit.Soon(t, "answers", other))
	require.Equal(t, []int{1, 5}, h.jobs)
	for jid, state := range map[string]qless.State{
		"a0": qless.StateComplete, "a2": qless.StateComplete, "b1": qless.StateRunning,
		"b2": qless.StateComplete,
	} {
		job, err := client.Job(t.Context(), jid)
		require.NoError(t, err)
		require.Equal(t, state, job.State, jid)
	}
}

func TestAScriptCompletesOnlySoManyJobs(t *testing.T) {
	client, h, first := newCompletes(t, qless.ClientConfig{})
	results := []<-chan []error{
		first,
		joinCompletes(t, client, "a", numbered("a", 1, 121)...),
		joinCompletes(t, client, "b", numbered("b", 0, 80)...),
		joinCompletes(t, client, "b", "b80"),
	}
	close(h.release)
	for _, result := range results {
		for _, err := range testkit.Soon(t, "answers", result) {
			require.NoError(t, err)
		}
	}
	require.Equal(t, []int{1, 200, 1}, h.jobs)
}

func TestACallThatIsCanceledBeforeItIsSentCompletesNothing(t *testing.T) {
	client, h, first := newCompletes(t, qless.ClientConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan []error, 1)
	go func() { result <- client.Queue("a").CompleteMany(ctx, "a1") }()
	testkit.Until(t, "the call waits", func() bool { return client.WaitingCompletes() == 1 })
	cancel()
	errs := testkit.Soon(t, "answers", result)
	require.ErrorIs(t, errs[0], context.Canceled)
	require.Equal(t, "a1", requireCode(t, qless.ErrUnavailable, errs[0]).JID)
	close(h.release)
	require.Equal(t, []error{nil}, testkit.Soon(t, "answers", first))
	job, err := client.Job(t.Context(), "a1")
	require.NoError(t, err)
	require.Equal(t, qless.StateRunning, job.State)
}

func TestWithoutBatchingJobsAreCompletedAtOnce(t *testing.T) {
	client, h, first := newCompletes(t, qless.ClientConfig{Unbatched: true})
	require.Equal(t, []error{nil}, client.Queue("a").CompleteMany(t.Context(), "a1"))
	close(h.release)
	require.Equal(t, []error{nil}, testkit.Soon(t, "answers", first))
	require.Equal(t, []int{1, 1}, h.jobs)
}
