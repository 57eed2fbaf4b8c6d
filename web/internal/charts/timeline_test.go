package charts

import (
	"fmt"
	"slices"
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
	require.Equal(t, []Mark{
		{from: at(0), to: at(10), Class: waits, Title: "Waits"},
		{from: at(10), to: at(20), Class: runs, Title: "Runs by w1"},
	}, plain(first.Bars))
	require.Equal(t, "•✓", signs(first))
	require.Equal(t, "!◆✕", signs(second))
	require.Equal(t, at(50), second.Bars[len(second.Bars)-1].to)
	shown := line.show("")
	require.Equal(t, 4, bars(shown, "wait"), "3 after a put, 1 after a lost lock")
	require.Equal(t, 4, bars(shown, "run"))
	require.Equal(t, 1, bars(shown, "run unsure"), "it was retried at some time")
	require.Equal(t, 10*time.Second, shown.Lanes[0].Waited)
	require.Equal(t, 10*time.Second, shown.Lanes[0].Runs)
}

// bars counts the bars of a class.
func bars(shown *Timeline, class string) (n int) {
	for _, lane := range shown.Lanes {
		for _, bar := range lane.Bars {
			if bar.Class == class {
				n++
			}
		}
	}
	return n
}

func TestATimelineShowsThePartThatIsAskedFor(t *testing.T) {
	const day = 24 * 3600
	job := &qless.Job{State: qless.StateComplete, History: []qless.HistoryEntry{
		{When: at(0), What: "put", Queue: "first"}, {When: at(10), What: "popped", Worker: "w1"},
		{When: at(20), What: "done"}, {When: at(20), What: "put", Queue: "second"},
		{When: at(3*day - 20), What: "popped", Worker: "w2"}, {When: at(3 * day), What: "done"},
	}}
	line := timelineOf(job, at(9*day))
	names := func(zoom string) (all []string) {
		for _, one := range line.show(zoom).Zooms {
			if name := one.Title; one.IsCurrent {
				all = append(all, "*"+name)
			} else {
				all = append(all, name)
			}
		}
		return all
	}
	require.Equal(t, []string{"*All", "1d", "1h", "10m", "1m"}, names(""))
	require.Equal(t, []string{"All", "1d", "1h", "10m", "*1m"}, names("1m"))
	require.Equal(t, []string{"*All", "1d", "1h", "10m", "1m"}, names("nonsense@"))

	last := line.show("1m")
	require.Len(t, last.Lanes, 1, "the first visit was long before")
	run := last.Lanes[0].Bars[1]
	require.Equal(t, []string{"66.7", "33.3", "Runs by w2 for 20s"}, []string{run.X, run.Width, run.Title})
	require.Equal(t, "second", last.Lanes[0].Queue)
	require.Equal(t, fmt.Sprintf("1m@%d", at(3*day-30).UnixMilli()), last.Earlier)
	require.Empty(t, last.Later)

	first := line.show(ZoomOn(at(0), at(20)))
	require.Len(t, first.Lanes, 2)
	done := first.Lanes[0].Marks[0]
	require.Equal(t, []string{"complete", "66.7", "Done at 2023-11-14 22:13:40.000 UTC"},
		[]string{done.Class, done.X, done.Title})
	require.NotEmpty(t, first.Later)
	require.Empty(t, line.show("1h@0").Earlier, "it begins with the job")
}

// plain returns bars without the durations in their titles.
func plain(bars []Mark) []Mark {
	bars = slices.Clone(bars)
	for i := range bars {
		bars[i].backOff = 0
		bars[i].Title = bars[i].Title[:strings.LastIndex(bars[i].Title, " for ")]
	}
	return bars
}

func signs(v Lane) (all string) {
	for _, m := range v.Marks {
		all += m.Text
	}
	return all
}

func TestATimelineGoesOnUntilNow(t *testing.T) {
	history := []qless.HistoryEntry{
		{When: at(0), What: "put", Queue: "q"}, {When: at(10), What: "popped", Worker: "w1"},
	}
	line := timelineOf(&qless.Job{State: qless.StateRunning, History: history}, at(100))
	require.Equal(t, at(100), line.visits[0].Bars[1].to)

	retried := &qless.Job{
		State: qless.StateScheduled, History: history, Failure: &qless.Failure{When: at(15)},
	}
	line = timelineOf(retried, at(100))
	require.Equal(t, []Mark{
		{from: at(0), to: at(10), Class: waits, Title: "Waits"},
		{from: at(10), to: at(15), Class: runs, Title: "Runs by w1"},
		{from: at(15), to: at(100), Class: waits, Title: "Waits again"},
	}, plain(line.visits[0].Bars))
}

// The times of a history are whole seconds, unlike those of attempts.
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
	require.Equal(t, []Mark{
		{from: at(0), to: ms(10_500), Class: waits, Title: "Waits"},
		{from: ms(10_500), to: ms(11_500), Class: runs, Title: ran},
		{from: ms(11_500), to: ms(19_500), Class: waits, Title: backOff},
		{from: ms(19_500), to: ms(30_100), Class: waits, Title: "Waits again"},
		{from: ms(30_100), to: ms(30_200), Class: runs, Title: ran},
		{from: ms(30_200), to: ms(30_300), Class: waits, Title: "Waits again"},
		{from: ms(30_300), to: ms(30_400), Class: runs, Title: ran},
		{from: ms(30_400), to: at(40), Class: waits, Title: backOff},
		{from: at(40), to: at(90), Class: runs, Title: ran},
		{from: at(90), to: ms(110_500), Class: waits, Title: "Waits after a lost lock"},
		{from: ms(110_500), to: ms(111_500), Class: runs, Title: "Ran by w2"},
	}, plain(line.visits[0].Bars))
	require.Equal(t, "◆◆◆!✕", signs(line.visits[0]))
	require.Equal(t, ms(111_500), line.to)

	job.Attempts = nil
	require.Equal(t, unsure, timelineOf(job, at(1000)).visits[0].Bars[1].Class, "another script ran it")
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
		all := line.visits[0].Bars
		require.Len(t, all, spans)
		require.Equal(t, at(now), all[spans-1].to)
		require.Equal(t, at(1), all[1].to)
	}
}

func TestATimelineOfAnOddHistory(t *testing.T) {
	require.Empty(t, timelineOf(&qless.Job{}, at(0)).show("").Lanes)
	odd := &qless.Job{State: qless.StateFailed, History: []qless.HistoryEntry{
		{What: "<b>"}, {When: at(5), What: "done"}, {When: at(3), What: "failed"}, {What: "popped"},
		{What: strings.Repeat("日", 1000)},
	}}
	require.Len(t, timelineOf(odd, at(0)).show("").Lanes, 1)
	var history []qless.HistoryEntry
	for i := range 300 {
		history = append(history, qless.HistoryEntry{When: at(int64(i)), What: "put", Queue: "q"})
	}
	line := timelineOf(&qless.Job{State: qless.StateWaiting, History: history}, at(300))
	require.Equal(t, maxVisits, bars(line.show(""), "wait"))
}
