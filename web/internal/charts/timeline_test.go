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
		{from: at(0), to: at(10), title: "Waits"},
		{from: at(10), to: at(20), isRun: true, title: "Runs by w1"},
	}, first.spans)
	require.Equal(t, "•✓", signs(first))
	require.Equal(t, "!↻✕", signs(second))
	require.Equal(t, at(50), second.spans[len(second.spans)-1].to)
	chart := string(line.draw())
	requireXML(t, chart)
	require.Equal(t, 4, strings.Count(chart, `class="wait"`), "3 after a put, 1 after a lost lock")
	require.Equal(t, 4, strings.Count(chart, `class="run"`))
	require.Equal(t, 1, strings.Count(chart, `class="run unsure"`), "it was retried at some time")
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
		{from: at(0), to: at(10), title: "Waits"},
		{from: at(10), to: at(15), isRun: true, title: "Runs by w1"},
		{from: at(15), to: at(100), title: "Waits again"},
	}, line.visits[0].spans)
}

// The times of a history are whole seconds, those of attempts are not.
func TestARunEndsWhenItsAttemptDoes(t *testing.T) {
	ms := func(n int64) time.Time { return at(0).Add(time.Duration(n) * time.Millisecond) }
	history := []qless.HistoryEntry{
		{When: at(0), What: "put", Queue: "q"}, {When: at(10), What: "popped", Worker: "w1"},
		{When: at(30), What: "popped", Worker: "w1"}, {When: at(30), What: "popped", Worker: "w1"},
		{When: at(40), What: "popped", Worker: "w1"}, {When: at(100), What: "timed-out"},
		{When: at(110), What: "popped", Worker: "w2"}, {When: at(111), What: "failed", Group: "io"},
	}
	attempts := []qless.Attempt{
		{What: "retried", Began: at(1), Worker: "w1", Delay: time.Hour}, // its entry was trimmed
		{What: "retried", Began: ms(10_500), Ran: time.Second, Delay: 8 * time.Second, Worker: "w1"},
		{What: "retried", Began: ms(30_100), Ran: 100 * time.Millisecond, Worker: "w1"},
		{What: "released", Began: ms(30_300), Ran: 100 * time.Millisecond, Worker: "w1",
			Delay: time.Minute},
		{What: "lost", Began: at(40), Ran: 50 * time.Second, Worker: "w1"},
		{What: "failed", Began: ms(110_500), Ran: time.Second, Worker: "w2", Group: "io"},
	}
	job := &qless.Job{State: qless.StateFailed, History: history, Attempts: attempts}
	line := timelineOf(job, at(1000))
	const ran, backOff = "Ran by w1", "Waits for its back-off"
	require.Equal(t, []span{
		{from: at(0), to: ms(10_500), title: "Waits"},
		{from: ms(10_500), to: ms(11_500), isRun: true, title: ran},
		{from: ms(11_500), to: ms(19_500), title: backOff, backOff: 8 * time.Second},
		{from: ms(19_500), to: ms(30_100), title: "Waits again"},
		{from: ms(30_100), to: ms(30_200), isRun: true, title: ran},
		{from: ms(30_200), to: ms(30_300), title: "Waits again"},
		{from: ms(30_300), to: ms(30_400), isRun: true, title: ran},
		{from: ms(30_400), to: at(40), title: backOff, backOff: time.Minute},
		{from: at(40), to: at(90), isRun: true, title: ran},
		{from: at(90), to: ms(110_500), title: "Waits after a lost lock"},
		{from: ms(110_500), to: ms(111_500), isRun: true, title: "Ran by w2"},
	}, line.visits[0].spans)
	require.Equal(t, "↻↻↻!✕", signs(line.visits[0]))
	require.Equal(t, ms(111_500), line.to)
	requireXML(t, string(line.draw()))

	job.Attempts = nil
	require.True(t, timelineOf(job, at(1000)).visits[0].spans[1].isUnsure, "another script ran it")
}

// A job that was retried waits until now.
func TestABackOffLastsUntilNow(t *testing.T) {
	job := &qless.Job{
		State: qless.StateScheduled,
		History: []qless.HistoryEntry{
			{When: at(0), What: "put", Queue: "q"}, {When: at(0), What: "popped", Worker: "w1"},
		},
		Attempts: []qless.Attempt{
			{What: "retried", Began: at(0), Ran: time.Second, Delay: time.Minute, Worker: "w1"},
		},
	}
	for now, spans := range map[int64]int{5: 3, 100: 4} {
		line := timelineOf(job, at(now))
		all := line.visits[0].spans
		require.Len(t, all, spans)
		require.Equal(t, at(now), all[spans-1].to)
		require.Equal(t, at(1), all[1].to)
	}
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
