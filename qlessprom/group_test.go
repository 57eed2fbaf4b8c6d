package qlessprom_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/qlessprom"
)

// shards makes namespaces with a job in the queue mail, waiting for an hour.
func (e *env) shards(count int) {
	e.t.Helper()
	for i := range count {
		client, err := qless.New(e.rdb, &qless.ClientConfig{
			Namespace: fmt.Sprintf("{mail-%d}:ql:", i), Logger: testkit.Quiet(),
			Clock: func() time.Time { return time.Now().Add(-time.Hour) },
		})
		require.NoError(e.t, err)
		_, err = client.Queue("mail").Put(e.t.Context(), "K", nil)
		require.NoError(e.t, err)
	}
}

// group returns a group that reads at each scrape.
func (e *env) group(options qlessprom.Options) *qlessprom.Group {
	options.MaxAge = -1
	return qlessprom.NewGroup(e.rdb, "{mail-*}:ql:", options)
}

func TestAGroupLabelsEachNamespace(t *testing.T) {
	e := newEnv(t)
	e.put("other")
	e.shards(2)
	g := e.group(qlessprom.Options{})
	gather(t, g)
	text := gather(t, g)
	for i := range 2 {
		at := fmt.Sprintf(`namespace="{mail-%d}:ql:"`, i)
		require.Contains(t, text, "qless_queue_jobs{"+at+`,queue="mail",state="waiting"} 1`)
		require.Contains(t, text, "qless_queue_wait_seconds_count{"+at+`,queue="mail"} 0`)
		require.Contains(t, text, "qless_problem{code=\"no_workers\","+at+"} 2")
	}
	require.Contains(t, text, `qless_namespaces{state="read"} 2`)
	require.NotContains(t, text, `queue="other"`)
	require.NotContains(t, text, `code="damaged"`, "problems that there are not")
}

func TestAGroupIsBounded(t *testing.T) {
	e := newEnv(t)
	e.shards(5)
	text := gather(t, e.group(qlessprom.Options{MaxNamespaces: 3}))
	require.Contains(t, text, `qless_namespaces{state="read"} 3`)
	require.Contains(t, text, `qless_namespaces{state="left_out"} 2`)
	require.Equal(t, 3, strings.Count(text, `state="waiting"`))

	g := e.group(qlessprom.Options{MaxQueues: 4})
	for scrape, want := range []int{2, 4, 5, 5} { // of a quarter of the namespaces in each
		text = gather(t, g)
		require.Equal(t, want, strings.Count(text, `qless_problem{code="no_workers"`), scrape)
		require.NotContains(t, text, "qless_queue_wait_seconds", "more queues than MaxQueues")
	}
}

func TestAGroupNoticesNewNamespaces(t *testing.T) {
	e := newEnv(t)
	g := e.group(qlessprom.Options{NamespacesEvery: -1})
	require.Contains(t, gather(t, g), `qless_namespaces{state="read"} 0`)
	e.shards(1)
	testkit.Until(t, "the namespace to be there", func() bool {
		return strings.Contains(gather(t, g), `namespace="{mail-0}:ql:"`)
	})
	require.NoError(t, e.rdb.FlushAll(context.Background()).Err())
	testkit.Until(t, "the namespace to be gone", func() bool {
		return !strings.Contains(gather(t, g), `namespace="{mail-0}:ql:"`)
	})
}

// A slowSearch has searches for namespaces that wait for go, except for the first search.
type slowSearch struct {
	redis.Hook
	begun atomic.Int32
	more  chan struct{}
}

func (s *slowSearch) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *slowSearch) ProcessPipelineHook(
	next redis.ProcessPipelineHook,
) redis.ProcessPipelineHook {
	return next
}

func (s *slowSearch) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "scan" && s.begun.Add(1) > 1 {
			<-s.more
		}
		return next(ctx, cmd)
	}
}

func TestAGroupSearchesOnceAtATime(t *testing.T) {
	e := newEnv(t)
	e.shards(1)
	s := &slowSearch{more: make(chan struct{})}
	e.rdb.AddHook(s)
	g := e.group(qlessprom.Options{NamespacesEvery: -1})
	for range 5 {
		gather(t, g)
	}
	testkit.Until(t, "a search in the background has begun", func() bool { return s.begun.Load() > 1 })
	require.EqualValues(t, 2, s.begun.Load())
	e.shards(2)
	close(s.more)
	testkit.Until(t, "the group has the new namespace", func() bool {
		return strings.Contains(gather(t, g), `qless_namespaces{state="read"} 2`)
	})
}

func TestAGroupReportsFewErrors(t *testing.T) {
	e := newEnv(t)
	e.shards(20)
	var reported atomic.Int32
	g := e.group(qlessprom.Options{OnError: func(error) { reported.Add(1) }, ProblemsEvery: -1})
	gather(t, g)
	require.Zero(t, reported.Load())
	for i := range 20 {
		key := fmt.Sprintf("{mail-%d}:ql:failures", i)
		require.NoError(t, e.rdb.Set(t.Context(), key, "damaged", 0).Err())
	}
	text := gather(t, g)
	require.EqualValues(t, 5, reported.Load())
	require.Equal(t, 20, strings.Count(text, "\nqless_scrape_errors_total{"))
}

func TestAGroupMayBeRegistered(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, prometheus.NewPedanticRegistry().Register(e.group(qlessprom.Options{})))
}
