package qless_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/internal/testkit/scripts"
)

// A firstEnd is a hook that holds the first end that is sent alone, and notes the others.
type firstEnd struct {
	arrived   chan struct{}
	release   chan struct{}
	mu        sync.Mutex
	alone     int
	pipelines []int // how many ends each has
	refuse    error // what pipelines get
}

func isEnd(cmd redis.Cmder) bool {
	return scripts.CommandOf(cmd.Args()) == "end"
}

func (h *firstEnd) DialHook(next redis.DialHook) redis.DialHook { return next }

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

// An endsTest has one end in flight, which is held.
type endsTest struct {
	*testing.T
	client *qless.Client
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
	e := &endsTest{t, client, hook, make(chan error, 1)}
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
	_, err := e.client.End(ctx, jid, qless.End{Result: jid})
	return err
}

// begin ends jobs, each from a goroutine of its own, and returns when all wait.
func (e *endsTest) begin(ctx context.Context, jids ...string) (results map[string]chan error) {
	e.Helper()
	results = map[string]chan error{}
	for _, jid := range jids {
		result := make(chan error, 1)
		results[jid] = result
		before := e.client.WaitingEnds()
		go func() { result <- e.end(ctx, jid) }()
		testkit.Until(e, "an end that waits", func() bool {
			return e.client.WaitingEnds() == before+1
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

func TestEndsOfManyGoroutinesShareARoundTripAndHaveTheirOwnResults(t *testing.T) {
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
	e := newEndsTest(t, qless.ClientConfig{Observer: func(_ context.Context, call qless.Call) {
		mu.Lock()
		defer mu.Unlock()
		if call.Command == "end" {
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
	_, err := e.client.End(t.Context(), e.put("a"), qless.End{Result: strings.Repeat("x", 1<<20)})
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
