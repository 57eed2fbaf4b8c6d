package api

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// Keys written by the stock scripts are read like our own.
func TestJobsOfTheStockScriptsAreRead(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:old", map[string]any{
		"jid": "old", "klass": "Foo::Bar", "data": `{"a":{}}`, "priority": "0", "tags": "{}", "state": "waiting",
		"worker": "", "expires": "1704196860.123456", "queue": "q", "retries": "5", "remaining": "4.0000000000",
		"time": "1704196800.5", "failure": "{}",
		"history": `[{"q":"first","put":1352075209,"popped":1352075300.5,"worker":"w","done":1352076000},{"q":"q","put":1352076000}]`,
	}).Err())
	require.NoError(t, e.Redis.ZAdd(t.Context(), "ql:q:q-work", zmember(-0.17, "old")).Err())

	job := e.Pop("q")
	require.Equal(t, "Foo::Bar", job.Klass)
	require.Empty(t, job.Tags)
	require.Nil(t, job.Failure)
	require.Equal(t, 4, job.Remaining)
	require.Empty(t, job.SpawnedFrom)
	require.Equal(t, []qless.HistoryEntry{
		{When: time.Unix(1352075209, 0), What: "put", Queue: "first"},
		{When: time.Unix(1352075300, 0), What: "popped", Worker: "w"},
		{When: time.Unix(1352076000, 0), What: "done"},
		{When: time.Unix(1352076000, 0), What: "put", Queue: "q"},
		{When: noon.Local(), What: "popped", Worker: "w1"},
	}, job.History)
	require.Zero(t, e.Redis.HExists(t.Context(), "ql:j:old", "history").Val(), "it has become a list")
	require.NoError(t, job.Complete(t.Context()))
}

// Other clients may set any number as a priority.
var foreignPriorities = map[string]int{
	"2147483648": 1 << 31, "-5000000000": -5_000_000_000, "9007199254740991": 1<<53 - 1,
	"123456789012345678": 123456789012345680, "1.2345678901234568e+17": 123456789012345680,
	"9223372036854775807": math.MaxInt, "-1e300": math.MinInt, "1.9": 1, "-1.1": -2, "inf": 0, "nan": 0, "x": 0,
}

func TestPrioritiesOfOtherClientsAreReadInFull(t *testing.T) {
	ctx := t.Context()
	e := newEnv(t)
	for stored, want := range foreignPriorities {
		jid := e.Put("q")
		require.NoError(t, e.Redis.HSet(ctx, "ql:j:"+jid, "priority", stored).Err())

		require.Equal(t, want, e.Read(jid).Priority, stored)
		require.Equal(t, want, must(e.Jobs(ctx, jid))(t)[0].Priority, stored)
		require.Equal(t, want, must(e.Queue("q").Peek(ctx, 1))(t)[0].Priority, stored)
		require.Equal(t, want, e.Pop("q").Priority, stored)
	}
}

func TestForeignRecurringPrioritiesAreReadInFull(t *testing.T) {
	e := newEnv(t)
	recurring := e.recur(time.Minute)
	for stored, want := range foreignPriorities {
		require.NoError(t, e.Redis.HSet(t.Context(), "ql:r:"+recurring.JID, "priority", stored).Err())
		require.Equal(t, want, e.recurring(recurring.JID).Priority, stored)
	}
}

func TestAWorkerReadsPrioritiesOfOtherClientsInFull(t *testing.T) {
	e := newEnv(t)
	want := map[string]int{}
	for stored, priority := range foreignPriorities {
		jid := e.Put("q")
		require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:"+jid, "priority", stored).Err())
		want[jid] = priority
	}
	ran := make(chan *qless.Job, len(want))
	worker := must(qless.NewWorker(e.Client, qless.WorkerConfig{Queues: []string{"q"}}))(t)
	worker.Handle("K", func(_ context.Context, job *qless.Job) error {
		ran <- job
		return nil
	})
	require.NoError(t, worker.Start(t.Context()))
	t.Cleanup(func() { _ = worker.Stop(context.Background()) })
	for range want {
		job := testkit.Soon(t, "a job", ran)
		require.Equal(t, want[job.JID], job.Priority)
	}
}

// The scripts of reqless 1.0 call the queue of a put queue, where others call it q.
func TestTheQueueOfAPutByReqlessIsRead(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	require.NoError(t, e.Redis.RPush(t.Context(), "ql:j:"+jid+"-history", `[1704196801,"put",{"queue":"next"}]`).Err())
	history := e.Read(jid).History
	require.Equal(t, qless.HistoryEntry{When: noon.Local().Add(time.Second), What: "put", Queue: "next"}, history[1])
}
