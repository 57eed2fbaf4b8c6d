package lease_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/tests/scripts"
	"github.com/qless/qless-go/tests/testbed"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// A passing is a hook that lets connections and pipelines pass.
type passing struct{}

func (passing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (passing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A firstFinish is a hook that holds the first script finish, and counts the jobs of each.
type firstFinish struct {
	passing
	arrived chan struct{}
	release chan struct{}
	mu      sync.Mutex
	jobs    []int
}

func (h *firstFinish) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); scripts.CommandOf(args) == "finish" {
			h.mu.Lock()
			h.jobs = append(h.jobs, completedBy(args[7:]))
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

// completedBy returns the number of jobs in arguments that list them by queue.
func completedBy(args []any) (jobs int) {
	for len(args) > 0 {
		n, _ := strconv.Atoi(args[2].(string))
		jobs, args = jobs+n, args[3+n:]
	}
	return jobs
}

// newCompletes returns a client with a worker holding jobs of the queues a and b, and with a call
// in flight that completes one more job.
func newCompletes(
	t *testing.T, config qless.ClientConfig,
) (*lease.Taker, *firstFinish, <-chan []error) {
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
	taker := lease.New(client)
	first := beginCompletes(t, taker, "a", "a0")
	testkit.Soon(t, "the first script", h.arrived)
	return taker, h, first
}

func beginCompletes(
	t *testing.T, taker *lease.Taker, queue string, jids ...string,
) <-chan []error {
	result := make(chan []error, 1)
	go func() { result <- taker.Complete(t.Context(), queue, jids...) }()
	return result
}

func joinCompletes(
	t *testing.T, taker *lease.Taker, queue string, jids ...string,
) <-chan []error {
	t.Helper()
	before := taker.WaitingCompletes()
	result := beginCompletes(t, taker, queue, jids...)
	testkit.Until(t, "the call waits", func() bool { return taker.WaitingCompletes() > before })
	return result
}

func numbered(queue string, from, to int) []string {
	var jids []string
	for i := from; i < to; i++ {
		jids = append(jids, fmt.Sprint(queue, i))
	}
	return jids
}

// Each call receives the answers about its own jobs.
func TestJobsThatGoroutinesCompleteShareAScript(t *testing.T) {
	taker, h, first := newCompletes(t, qless.ClientConfig{})
	two := joinCompletes(t, taker, "a", "a1", "missing", "a2")
	elsewhere := joinCompletes(t, taker, "a", "b1")
	other := joinCompletes(t, taker, "b", "b2")
	close(h.release)
	require.Equal(t, []error{nil}, testkit.Soon(t, "answers", first))
	errs := testkit.Soon(t, "answers", two)
	require.NoError(t, errs[0])
	require.Equal(t, "missing", testbed.RequireCode(t, qless.ErrNotFound, errs[1]).JID)
	require.NoError(t, errs[2])
	wrong := testkit.Soon(t, "answers", elsewhere)[0]
	require.Equal(t, "b1", testbed.RequireCode(t, qless.ErrWrongQueue, wrong).JID)
	require.Equal(t, []error{nil}, testkit.Soon(t, "answers", other))
	require.Equal(t, []int{1, 5}, h.jobs)
	for jid, state := range map[string]qless.State{
		"a0": qless.StateComplete, "a2": qless.StateComplete, "b1": qless.StateRunning,
		"b2": qless.StateComplete,
	} {
		job, err := taker.Client().Job(t.Context(), jid)
		require.NoError(t, err)
		require.Equal(t, state, job.State, jid)
	}
}

func TestAScriptCompletesOnlySoManyJobs(t *testing.T) {
	taker, h, first := newCompletes(t, qless.ClientConfig{})
	results := []<-chan []error{
		first,
		joinCompletes(t, taker, "a", numbered("a", 1, 121)...),
		joinCompletes(t, taker, "b", numbered("b", 0, 80)...),
		joinCompletes(t, taker, "b", "b80"),
	}
	close(h.release)
	for _, result := range results {
		for _, err := range testkit.Soon(t, "answers", result) {
			require.NoError(t, err)
		}
	}
	require.Equal(t, []int{1, 200, 1}, h.jobs)
}

func TestCompleteThatIsCanceledBeforeItIsSent(t *testing.T) {
	taker, h, first := newCompletes(t, qless.ClientConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan []error, 1)
	go func() { result <- taker.Complete(ctx, "a", "a1") }()
	testkit.Until(t, "the call waits", func() bool { return taker.WaitingCompletes() == 1 })
	cancel()
	errs := testkit.Soon(t, "answers", result)
	require.ErrorIs(t, errs[0], context.Canceled)
	require.Equal(t, "a1", testbed.RequireCode(t, qless.ErrUnavailable, errs[0]).JID)
	close(h.release)
	require.Equal(t, []error{nil}, testkit.Soon(t, "answers", first))
	job, err := taker.Client().Job(t.Context(), "a1")
	require.NoError(t, err)
	require.Equal(t, qless.StateRunning, job.State)
}

func TestWithoutBatchingJobsAreCompletedAtOnce(t *testing.T) {
	taker, h, first := newCompletes(t, qless.ClientConfig{Unbatched: true})
	require.Equal(t, []error{nil}, taker.Complete(t.Context(), "a", "a1"))
	close(h.release)
	require.Equal(t, []error{nil}, testkit.Soon(t, "answers", first))
	require.Equal(t, []int{1, 1}, h.jobs)
}

// A firstEnd is a hook that holds the first end sent alone, and records the others.
type firstEnd struct {
	passing
	arrived   chan struct{}
	release   chan struct{}
	mu        sync.Mutex
	alone     int
	pipelines []int // the number of ends in each
	refuse    error // the error of pipelines
}

func isEnd(cmd redis.Cmder) bool {
	return scripts.CommandOf(cmd.Args()) == "end"
}

func (h *firstEnd) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if isEnd(cmd) {
			h.mu.Lock()
			h.alone++
			first := h.alone == 1
			h.mu.Unlock()
			if first {
				close(h.arrived)
				<-h.release
			}
		}
		return next(ctx, cmd)
	}
}

func (h *firstEnd) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !isEnd(cmds[0]) {
			return next(ctx, cmds)
		}
		h.mu.Lock()
		h.pipelines = append(h.pipelines, len(cmds))
		h.mu.Unlock()
		if h.refuse != nil {
			for _, cmd := range cmds {
				cmd.SetErr(h.refuse)
			}
			return h.refuse
		}
		return next(ctx, cmds)
	}
}

// An endsTest has one end in flight, on hold.
type endsTest struct {
	*testing.T
	client *qless.Client
	taker  *lease.Taker
	hook   *firstEnd
	first  chan error
}

func newEndsTest(t *testing.T, config qless.ClientConfig) *endsTest {
	rdb := testkit.Start(t).Client(t)
	hook := &firstEnd{arrived: make(chan struct{}), release: make(chan struct{})}
	rdb.AddHook(hook)
	config.Logger = testkit.Quiet()
	client, err := qless.New(rdb, &config)
	require.NoError(t, err)
	e := &endsTest{t, client, lease.New(client), hook, make(chan error, 1)}
	first := e.put("first")
	go func() { e.first <- e.end(t.Context(), first) }()
	testkit.Soon(t, "the first end", hook.arrived)
	return e
}

func (e *endsTest) put(jid string) string {
	e.Helper()
	_, err := e.client.Queue("q").Put(e.Context(), "K", nil, qless.JID(jid))
	require.NoError(e, err)
	return jid
}

func (e *endsTest) end(ctx context.Context, jid string) error {
	return e.taker.End(ctx, jid, lease.End{Result: jid})
}

// begin ends jobs, each from a separate goroutine, and returns when all wait.
func (e *endsTest) begin(ctx context.Context, jids ...string) (results map[string]chan error) {
	e.Helper()
	results = map[string]chan error{}
	for _, jid := range jids {
		result := make(chan error, 1)
		results[jid] = result
		before := e.taker.WaitingEnds()
		go func() { result <- e.end(ctx, jid) }()
		testkit.Until(e, "an end that waits", func() bool {
			return e.taker.WaitingEnds() == before+1
		})
	}
	return results
}

// finish lets the first end through.
func (e *endsTest) finish() {
	e.Helper()
	close(e.hook.release)
	require.NoError(e, testkit.Soon(e, "the first end", e.first))
}

func TestEndsShareARoundTripAndHaveTheirOwnResults(t *testing.T) {
	e := newEndsTest(t, qless.ClientConfig{})
	var jids []string
	for i := range 20 {
		jids = append(jids, e.put(fmt.Sprint(i)))
	}
	results := e.begin(t.Context(), append(jids, "unknown", "first")...)
	e.finish()
	require.ErrorIs(t, testkit.Soon(t, "an end", results["unknown"]), qless.ErrNotFound)
	require.ErrorIs(t, testkit.Soon(t, "an end", results["first"]), qless.ErrFinished)
	for _, jid := range jids {
		require.NoError(t, testkit.Soon(t, "an end", results[jid]))
		result, err := e.client.Result(t.Context(), jid)
		require.NoError(t, err)
		require.JSONEq(t, `"`+jid+`"`, string(result.Data))
	}
	require.Equal(t, []int{22}, e.hook.pipelines)
	require.Equal(t, 1, e.hook.alone)
}

func TestAnEndThatIsCanceledWhileItWaitsIsNotSent(t *testing.T) {
	e := newEndsTest(t, qless.ClientConfig{})
	ctx, cancel := context.WithCancel(t.Context())
	results := e.begin(ctx, e.put("a"))
	cancel()
	require.ErrorIs(t, testkit.Soon(t, "an end", results["a"]), context.Canceled)
	e.finish()
	_, err := e.client.Result(t.Context(), "a")
	require.ErrorIs(t, err, qless.ErrUnfinished)
	require.Empty(t, e.hook.pipelines)
}

func TestEndsThatDidNotRunAreSentAgainAndOthersAreNot(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want error
	}{
		"no connection":     {&net.OpError{Op: "dial", Err: errors.New("refused")}, nil},
		"a lost connection": {errors.New("broken"), qless.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEndsTest(t, qless.ClientConfig{})
			e.hook.refuse = c.err
			results := e.begin(t.Context(), e.put("a"), e.put("b"))
			e.finish()
			for _, result := range results {
				err := testkit.Soon(t, "an end", result)
				require.ErrorIs(t, err, c.want)
			}
			require.Equal(t, []int{2}, e.hook.pipelines)
		})
	}
}

func TestTheObserverIsToldOfEachEndThatSharesARoundTrip(t *testing.T) {
	var mu sync.Mutex
	var told []string
	e := newEndsTest(t, qless.ClientConfig{Observer: func(_ context.Context, call qless.Command) {
		mu.Lock()
		defer mu.Unlock()
		if call.Name == "end" {
			told = append(told, call.JID)
		}
	}})
	results := e.begin(t.Context(), e.put("a"), e.put("b"))
	e.finish()
	for _, result := range results {
		require.NoError(t, testkit.Soon(t, "an end", result))
	}
	mu.Lock()
	defer mu.Unlock()
	require.ElementsMatch(t, []string{"first", "a", "b"}, told)
}

func TestAnEndWithALargeResultIsSentAlone(t *testing.T) {
	e := newEndsTest(t, qless.ClientConfig{})
	err := e.taker.End(t.Context(), e.put("a"), lease.End{Result: strings.Repeat("x", 1<<20)})
	require.NoError(t, err)
	e.finish()
	require.Equal(t, 2, e.hook.alone)
}

func TestWithoutBatchingEndsAreSentAlone(t *testing.T) {
	e := newEndsTest(t, qless.ClientConfig{Unbatched: true})
	require.NoError(t, e.end(t.Context(), e.put("a")))
	e.finish()
	require.Equal(t, 2, e.hook.alone)
}
