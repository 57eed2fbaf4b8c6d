package charts

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func at(seconds int64) time.Time { return time.Unix(1_700_000_000+seconds, 0) }

func TestATimelineHasWaitAndRunOfEachVisit(t *testing.T) {
	job := &qless.Job{State: qless.StateComplete, History: []qless.HistoryEntry{
		{When: at(0), What: "put", Queue: "first"}, {When: at(10), What: "popped", Worker: "w1"},
		{When: at(15), What: "a log of its own"}, {When: at(20), What: "done"},
		{When: at(20), What: "put", Queue: "second"}, {When: at(22), What: "popped", Worker: "w2"},
		{When: at(30), What: "timed-out"}, {When: at(31), What: "popped", Worker: "w3"},
		{When: at(40), What: "popped", Worker: "w3"}, {When: at(50), What: "failed", Group: "net"},
		{When: at(60), What: "put", Queue: "second"}, {When: at(61), What: "popped", Worker: "w1"},
		{When: at(65), What: "done"},
	}}
	line := timelineOf(job, at(1000))
	require.Len(t, line.visits, 3)
	require.Equal(t, at(0), line.from)
	require.Equal(t, at(65), line.to, "a job that has ended does not last until now")
	first, second := line.visits[0], line.visits[1]
	require.Equal(t, []span{
		{at(0), at(10), false, "Waits"}, {at(10), at(20), true, "Runs by w1"},
	}, first.spans)
	require.Equal(t, "•✓", signs(first))
	require.Equal(t, "!↻✕", signs(second))
	require.Equal(t, at(50), second.spans[len(second.spans)-1].to)
	chart := string(line.draw())
	requireXML(t, chart)
	require.Equal(t, 4, strings.Count(chart, `class="wait"`), "3 after a put, 1 after a lost lock")
	require.Equal(t, 5, strings.Count(chart, `class="run"`))
}

func signs(v visit) (all string) {
	for _, m := range v.marks {
		all += m.sign
	}
	return all
}

func TestATimelineGoesOnUntilNow(t *testing.T) {
	history := []qless.HistoryEntry{
		{When: at(0), What: "put", Queue: "q"}, {When: at(10), What: "popped", Worker: "w1"},
	}
	line := timelineOf(&qless.Job{State: qless.StateRunning, History: history}, at(100))
	require.Equal(t, at(100), line.visits[0].spans[1].to)

	retried := &qless.Job{
		State: qless.StateScheduled, History: history, Failure: &qless.Failure{When: at(15)},
	}
	line = timelineOf(retried, at(100))
	require.Equal(t, []span{
		{at(0), at(10), false, "Waits"}, {at(10), at(15), true, "Runs by w1"},
		{at(15), at(100), false, "Waits again"},
	}, line.visits[0].spans)
}

func TestATimelineOfAnOddHistory(t *testing.T) {
	require.Empty(t, timelineOf(&qless.Job{}, at(0)).draw())
	odd := &qless.Job{State: qless.StateFailed, History: []qless.HistoryEntry{
		{What: "<b>"}, {When: at(5), What: "done"}, {When: at(3), What: "failed"}, {What: "popped"},
		{What: strings.Repeat("日", 1000)},
	}}
	requireXML(t, string(timelineOf(odd, at(0)).draw()))
	var history []qless.HistoryEntry
	for i := range 300 {
		history = append(history, qless.HistoryEntry{When: at(int64(i)), What: "put", Queue: "q"})
	}
	line := timelineOf(&qless.Job{State: qless.StateWaiting, History: history}, at(300))
	require.Equal(t, maxVisits, strings.Count(string(line.draw()), `class="wait"`))
}
