package api

import (
	"math"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

func TestHigherPriorityIsPoppedFirstThenTheOlder(t *testing.T) {
	e := newEnv(t)
	for _, job := range []struct {
		jid      string
		priority int
	}{{"a0", 0}, {"low", -1}, {"b0", 0}, {"c10", 10}, {"d1", 1}, {"c10b", 10}, {"e0", 0}} {
		e.Put("q", qless.JID(job.jid), qless.Priority(job.priority))
		e.Clock.Advance(time.Millisecond) // the higher the priority, the more coarsely ages are distinguished
	}
	want := []string{"c10", "c10b", "d1", "a0", "b0", "e0", "low"}
	require.Equal(t, want, jids(must(e.Queue("q").Peek(t.Context(), 10))(t)))
	waiting := must(e.inspect().Queue("q", inspect.Waiting).JIDs(t.Context(), inspect.Range{}))(t)
	require.Equal(t, want, waiting.Items)
	require.Equal(t, want[:3], jids(e.Pops("q", 3)))
	require.Equal(t, want[3:], jids(e.Pops("q", 10)))
	require.Empty(t, e.Pops("q", 10))
}

func TestPoppedJobIsLocked(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	e.Clock.Advance(time.Second)
	job := e.Pop("q")
	require.Equal(t, jid, job.JID)
	require.Equal(t, qless.StateRunning, job.State)
	require.Equal(t, "w1", job.Worker)
	require.WithinDuration(t, noon.Add(61*time.Second), job.Expires, time.Millisecond)
	require.Equal(t, []qless.HistoryEntry{
		{When: noon.Local(), What: "put", Queue: "q"},
		{When: noon.Add(time.Second).Local(), What: "popped", Worker: "w1"},
	}, job.History)
	require.WithinDuration(t, noon.Add(time.Second), job.PoppedAt, time.Millisecond)
	require.Equal(t, time.Second, job.Waited.Round(time.Millisecond))
	job.PoppedAt, job.Waited = time.Time{}, 0
	require.Equal(t, jsonOf(t, job), jsonOf(t, e.Read(jid)), "the reply of pop is the job as it is read")
	require.Empty(t, e.Pops("q", 5))
}

func TestPeekLocksNothing(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q", qless.Tags{"a"})
	for range 2 {
		jobs := must(e.Queue("q").Peek(t.Context(), 1))(t)
		require.Equal(t, []*qless.Job{e.Read(jid)}, jobs)
		require.Equal(t, qless.StateWaiting, jobs[0].State)
	}
}

func TestPeekShowsLostJobsFirst(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("lost"))
	e.Pop("q")
	e.Put("q", qless.JID("a"), qless.Priority(100))
	e.Put("q", qless.JID("later"), qless.Delay(30*time.Second))
	e.Clock.Advance(61 * time.Second)
	jobs := must(e.Queue("q").Peek(t.Context(), 3))(t)
	require.Equal(t, []string{"lost", "a", "later"}, jids(jobs))
	jobs = must(e.Queue("q").Peek(t.Context(), 1))(t)
	require.Equal(t, []string{"lost"}, jids(jobs))
}

func TestPeekShowsWhatPopDoesNotGive(t *testing.T) {
	peek := func(e *env) []string { return jids(must(e.Queue("q").Peek(t.Context(), 10))(t)) }
	for what, set := range map[string]func(e *env){
		"a paused queue": func(e *env) { require.NoError(t, e.Queue("q").Pause(t.Context())) },
		"more than max-concurrency allows": func(e *env) {
			e.Put("q", qless.Priority(1))
			e.Pop("q")
			e.Set("q-max-concurrency", 1)
		},
	} {
		t.Run(what, func(t *testing.T) {
			e := newEnv(t)
			e.Put("q", qless.JID("j"))
			set(e)
			require.Equal(t, []string{"j"}, peek(e))
			require.Empty(t, e.Pops("q", 10))
		})
	}
	t.Run("a lock that has ended, whose worker has its grace period", func(t *testing.T) {
		e := newEnv(t)
		e.Put("q", qless.JID("j"))
		e.Pop("q")
		e.Clock.Advance(time.Minute)
		require.Equal(t, []string{"j"}, peek(e))
		require.Empty(t, e.Pops("q", 10))
		require.Empty(t, peek(e), "that pop began the grace period")
		e.Clock.Advance(10 * time.Second)
		require.Equal(t, []string{"j"}, peek(e))
		require.Equal(t, []string{"j"}, jids(e.Pops("q", 10)))
	})
}

// The rows in the doc of Priority are checked: they are the steps of a double.
func TestHowFarApartJobsOfAPriorityKeepTheirOrder(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^//\s+(\d+)\s+([0-9.]+) (µs|ms|s)$`).FindAllStringSubmatch(readFile(t, "options.go"), -1)
	require.Len(t, rows, 4)
	for _, row := range rows {
		priority := must(strconv.Atoi(row[1]))(t)
		documented := must(time.ParseDuration(row[2] + row[3]))(t)
		for _, sign := range []int{1, -1} {
			score := math.Abs(float64(sign*priority) - float64(noon.Unix())/1e10)
			apart := (math.Nextafter(score, math.Inf(1)) - score) * 1e10
			require.LessOrEqual(t, apart, 2.2*documented.Seconds(), "%d", sign*priority)
			if sign > 0 {
				require.InEpsilon(t, documented.Seconds(), apart, 0.1, row[0])
			}
		}

		e := newEnv(t)
		var put []string
		for range 20 {
			put = append(put, e.Put("q", qless.Priority(priority)))
			e.Clock.Advance(documented + documented/10 + time.Microsecond)
		}
		require.Equal(t, put, jids(e.Pops("q", 20)), row[0])
	}
}

func TestPausedQueueGivesNothing(t *testing.T) {
	e := newEnv(t)
	e.Put("q")
	e.Put("other")
	require.NoError(t, e.Queue("q").Pause(t.Context()))
	require.NoError(t, e.Queue("q").Pause(t.Context()), "twice is fine")
	require.True(t, e.Counts("q").Paused)
	require.False(t, e.Counts("other").Paused)
	require.Empty(t, e.Pops("q", 1))
	e.Pop("other")

	require.NoError(t, e.Queue("q").Resume(t.Context()))
	require.NoError(t, e.Queue("q").Resume(t.Context()))
	require.False(t, e.Counts("q").Paused)
	e.Pop("q")
}

func TestMaxConcurrencyLimitsRunningJobs(t *testing.T) {
	e := newEnv(t)
	e.Set("q-max-concurrency", 2)
	for range 5 {
		e.Put("q")
	}
	running := e.Pops("q", 5)
	require.Len(t, running, 2)
	require.Empty(t, e.Pops("q", 5))

	require.NoError(t, running[0].Complete(t.Context()))
	require.Len(t, e.Pops("q", 5), 1)

	e.Set("q-max-concurrency", 0)
	require.Len(t, e.Pops("q", 5), 2, "0 means no limit")
}

func TestMaxConcurrencyDoesNotCountLostLocks(t *testing.T) {
	e := newEnv(t)
	e.Set("q-max-concurrency", 1)
	e.Set("grace-period", 0)
	lost := e.Put("q")
	e.Put("q")
	e.Pop("q")
	e.Clock.Advance(2 * time.Minute)
	require.Equal(t, []string{lost}, jids(e.Pops("q", 5)))
}

func TestQueueHasItsOwnHeartbeat(t *testing.T) {
	e := newEnv(t)
	e.Set("heartbeat", 30*time.Second)
	e.Set("fast-heartbeat", 1500*time.Millisecond)
	for queue, lasts := range map[string]time.Duration{"q": 30 * time.Second, "fast": 1500 * time.Millisecond} {
		e.Put(queue)
		job := e.Pop(queue)
		require.WithinDuration(t, noon.Add(lasts), job.Expires, time.Millisecond)
		require.NoError(t, errOf(job.Heartbeat(t.Context())))
		require.WithinDuration(t, noon.Add(lasts), job.Expires, time.Second)
	}
}

func TestPopTakesOnlyWhatIsWanted(t *testing.T) {
	e := newEnv(t)
	for range 3 {
		e.Put("q", qless.Delay(time.Second))
	}
	e.Put("q", qless.JID("waiting"), qless.Priority(1))
	e.Clock.Advance(time.Minute)
	require.Equal(t, "waiting", e.Pop("q").JID)
	require.Equal(t, 3, e.Counts("q").Waiting)
}

func TestServerClockIsUsedByDefault(t *testing.T) {
	e := newEnv(t)
	client := must(qless.New(e.Redis, nil))(t)
	before := time.Now().Truncate(time.Second)
	jid := must(client.Queue("q").Put(t.Context(), "K", nil, qless.Delay(time.Hour)))(t)
	put := e.Read(jid).History[0].When
	require.False(t, put.Before(before))
	require.False(t, put.After(time.Now()))
	require.Empty(t, must(client.Queue("q").Pop(t.Context(), 1))(t))
}

func TestHistoryKeepsTheFirstAndTheNewestEntries(t *testing.T) {
	e := newEnv(t)
	e.Set("max-job-history", 4)
	jid := e.Put("q")
	job := e.Read(jid)
	for _, message := range []string{"a", "b", "c", "d", "e"} {
		require.NoError(t, job.Log(t.Context(), message, nil))
	}
	require.Equal(t, []string{"put", "c", "d", "e"}, whats(e.Read(jid).History))

	e.Set("max-job-history", 0)
	require.NoError(t, job.Log(t.Context(), "f", nil))
	require.Equal(t, []string{"put", "c", "d", "e", "f"}, whats(e.Read(jid).History), "0 keeps all")
}

func TestHistoryIsCappedAt100ByDefault(t *testing.T) {
	e := newEnv(t)
	job := e.Read(e.Put("q"))
	for range 150 {
		require.NoError(t, job.Log(t.Context(), "again", nil))
	}
	require.NoError(t, job.Refresh(t.Context()))
	require.Len(t, job.History, 100)
	require.Equal(t, "put", job.History[0].What)
}
