package api

import (
	"math"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

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
	read := e.Read(jid)
	require.WithinDuration(t, read.Expires, job.Expires, time.Millisecond)
	job.PoppedAt, job.Waited, job.Expires = time.Time{}, 0, read.Expires
	require.Equal(t, jsonOf(t, job), jsonOf(t, read), "the reply of pop is the job as it is read")
	require.Empty(t, e.Pops("q", 5))
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
