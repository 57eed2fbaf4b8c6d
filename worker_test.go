package qless

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/hub"
	"github.com/qless/qless-go/internal/redisx"
)

func TestRefusalsOfAllCallsAndOfOne(t *testing.T) {
	for answer, ofAll := range map[string]bool{
		"OOM command not allowed when used memory > 'maxmemory'.":           true,
		"BUSY Redis is busy running a script.":                              true,
		"READONLY You can't write against a read only replica.":             true,
		"NOPERM this user has no permissions":                               true,
		"WRONGTYPE Operation against a key holding the wrong kind of value": false,
	} {
		require.Equal(t, ofAll, redisx.IsServerWide(serverAnswer(answer)), answer)
	}
}

// actionConstant matches the constants of actions.
var actionConstant = regexp.MustCompile(`(?m)^\tAction\w+ +Action = "(\w+)"`)

func TestEachActionHasARow(t *testing.T) {
	source, err := os.ReadFile("outcome.go")
	require.NoError(t, err)
	constants := actionConstant.FindAllStringSubmatch(string(source), -1)
	require.Len(t, constants, len(actions))
	for _, constant := range constants {
		row := actions[Action(constant[1])]
		require.NotNil(t, row.args, constant[0])
		require.NotNil(t, row.count, constant[0])
	}
}

func TestReleasesCountAsNoRuns(t *testing.T) {
	r := &run{worker: &Worker{}, queue: "q", klass: "K"} // without a reporter
	r.count(ActionRelease)
	r.count("")
}

// quietLog returns a log that is discarded.
func quietLog() *workerLog {
	return &workerLog{logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

// A registerCall is one call of a registrar.
type registerCall struct {
	info workerInfo
	age  time.Duration
}

// newTestRegistrar returns a registrar in a bubble, and a function that returns its calls. Each is
// answered by the error that another function returns.
func newTestRegistrar(
	answer func() error, paused *atomic.Bool,
) (*registrar, func() []registerCall) {
	var mu sync.Mutex
	var calls []registerCall
	r := &registrar{
		log: quietLog(), now: time.Now, again: hub.NewSignal(), inStep: hub.New(hub.Config{}).InStep,
		describe: func() workerInfo { return workerInfo{Paused: paused.Load()} },
		send: func(_ context.Context, info workerInfo, age time.Duration) error {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, registerCall{info, age})
			return answer()
		},
	}
	return r, func() []registerCall {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(calls)
	}
}

// maxRunTime runs a registrar in a bubble while a function runs.
func (r *registrar) maxRunTime(t *testing.T, during func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := closedAfter(func() { r.run(ctx) })
	synctest.Wait()
	during()
	cancel()
	<-done
}

func TestAWorkerRegistersAtItsStartAndOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, calls := newTestRegistrar(func() error { return nil }, new(atomic.Bool))
		r.maxRunTime(t, func() {
			require.Len(t, calls(), 1)
			require.Zero(t, calls()[0].age)
			time.Sleep(time.Hour) // of the bubble
			synctest.Wait()
		})
		require.InDelta(t, 63, len(calls()), 4)
		for i, call := range calls()[1:] {
			require.LessOrEqual(t, call.age-calls()[i].age, registerInterval)
		}
	})
}

func TestAWorkerThatChangesRegistersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var paused atomic.Bool
		r, calls := newTestRegistrar(func() error { return nil }, &paused)
		r.maxRunTime(t, func() {
			for range 5 {
				r.again.Notify() // nothing has changed
				synctest.Wait()
			}
			require.Len(t, calls(), 1)
			paused.Store(true)
			r.again.Notify()
			synctest.Wait()
			require.Len(t, calls(), 2)
			require.True(t, calls()[1].info.Paused)
		})
	})
}

func TestAWorkerThatCanNotRegisterTriesAgain(t *testing.T) {
	for name, c := range map[string]struct {
		err         error
		least, most int // calls in a minute
	}{
		"the server is away": {errors.New("no connection"), 55, 130},
		"the server refuses": {serverAnswer("OOM command not allowed"), 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var back atomic.Bool
				r, calls := newTestRegistrar(func() error {
					if back.Load() {
						return nil
					}
					return c.err
				}, new(atomic.Bool))
				r.maxRunTime(t, func() {
					time.Sleep(time.Minute - time.Second)
					synctest.Wait()
					require.GreaterOrEqual(t, len(calls()), c.least)
					require.LessOrEqual(t, len(calls()), c.most)
					back.Store(true)
					time.Sleep(2 * time.Second)
					synctest.Wait()
					n := len(calls())
					time.Sleep(50 * time.Second)
					synctest.Wait()
					require.Len(t, calls(), n, "it is registered")
				})
			})
		})
	}
}

// A serverAnswer is an error that a server answers.
type serverAnswer string

func (s serverAnswer) Error() string { return string(s) }
func (serverAnswer) RedisError()     {}

func TestTheEndingOfARunFollowsFromItsEvent(t *testing.T) {
	complete, retry := Outcome{Action: ActionComplete}, Outcome{Action: ActionRetry}
	for want, event := range map[string]JobEvent{
		"canceled":  {Outcome: complete, Err: ErrCanceled},
		"complete":  {Outcome: complete},
		"exhausted": {Outcome: retry, Exhausted: true},
		"fail":      {Outcome: Outcome{Action: ActionFail}},
		"lost":      {Outcome: complete, Err: ErrLockLost},
		"moved":     {},
		"next":      {Outcome: Outcome{Action: ActionComplete, Queue: "q"}},
		"release":   {Outcome: Outcome{Action: ActionRelease}},
		"retry":     {Outcome: retry},
		"stopped":   {Outcome: complete, Err: ErrStopped},
	} {
		require.Equal(t, want, event.ending())
	}
}

// times reads times such as 2024-01-02T12:00 or 2024-01-02T12:00:30, in UTC.
func times(t *testing.T, texts string) []time.Time {
	t.Helper()
	var all []time.Time
	for _, text := range strings.Fields(texts) {
		at, err := time.Parse("2006-01-02T15:04:05"[:len(text)], text)
		require.NoError(t, err)
		all = append(all, at)
	}
	return all
}

func TestASpecSaysWhenAJobIsDue(t *testing.T) {
	for _, c := range []struct{ spec, from, due string }{
		{"30 6 * * *", "2024-01-02T12:00", "2024-01-03T06:30 2024-01-04T06:30"},
		{"30 6 * * 1-5", "2024-01-05T06:29", "2024-01-05T06:30 2024-01-08T06:30"},
		{"30 6 * * 1-5", "2024-01-05T06:30", "2024-01-08T06:30 2024-01-09T06:30"},
		{"*/20 9-10 * * *", "2024-01-02T09:10",
			"2024-01-02T09:20 2024-01-02T09:40 2024-01-02T10:00 2024-01-02T10:20"},
		{"0 0 1,15 * *", "2024-01-02T00:00", "2024-01-15T00:00 2024-02-01T00:00"},
		{"0 0 29 feb *", "2023-01-01T00:00", "2024-02-29T00:00 2028-02-29T00:00"},
		{"0 0 31 * *", "2024-01-31T00:00", "2024-03-31T00:00 2024-05-31T00:00"},
		{"0 12 * * sun", "2024-01-02T12:00", "2024-01-07T12:00 2024-01-14T12:00"},
		{"@hourly", "2024-12-31T22:59:59", "2024-12-31T23:00 2025-01-01T00:00"},
		{"@daily", "2024-02-28T00:00", "2024-02-29T00:00 2024-03-01T00:00"},
		{"@weekly", "2024-01-02T00:00", "2024-01-07T00:00 2024-01-14T00:00"},
		{"@monthly", "2024-01-02T00:00", "2024-02-01T00:00 2024-03-01T00:00"},
		{"@every 90s", "2024-01-02T12:00", "2024-01-02T12:01:30 2024-01-02T12:03:00"},
		{"@every 90s", "2024-01-02T12:01", "2024-01-02T12:01:30 2024-01-02T12:03:00"},
		{"@every 24h", "2024-01-02T12:01", "2024-01-03T00:00 2024-01-04T00:00"},
		// 1970 began on a Thursday.
		{"@every 168h", "2024-01-02T12:00", "2024-01-04T00:00 2024-01-11T00:00"},

		{"CRON_TZ=Europe/Berlin 30 6 * * *", "2024-01-02T12:00", "2024-01-03T05:30 2024-01-04T05:30"},
		{"TZ=Europe/Berlin 30 6 * * *", "2024-07-02T12:00", "2024-07-03T04:30 2024-07-04T04:30"},
		{"CRON_TZ=America/New_York @daily", "2024-01-02T12:00", "2024-01-03T05:00 2024-01-04T05:00"},
		{"CRON_TZ=Asia/Kolkata 0 0 * * *", "2024-01-02T12:00", "2024-01-02T18:30 2024-01-03T18:30"},
		// The clocks are put forward from 2:00 to 3:00, and back from 3:00 to 2:00.
		{"CRON_TZ=Europe/Berlin 0 6 * * *", "2024-03-30T12:00", "2024-03-31T04:00 2024-04-01T04:00"},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2024-03-30T12:00", "2024-03-31T01:00 2024-04-01T00:30"},
		{"CRON_TZ=Europe/Berlin 0 6 * * *", "2024-10-26T12:00", "2024-10-27T05:00 2024-10-28T05:00"},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2024-10-26T12:00",
			"2024-10-27T00:30 2024-10-27T01:30 2024-10-28T01:30"},
	} {
		from, wanted := times(t, c.from)[0], times(t, c.due)
		s := scheduleOf(t, c.spec, MissedAll)
		due, next, _ := s.due(from, wanted[len(wanted)-1])
		for i := range due {
			due[i] = due[i].UTC()
		}
		require.Equal(t, wanted, due, c.spec)
		require.True(t, next.After(wanted[len(wanted)-1]), c.spec)
		none, first, _ := s.due(from, wanted[0].Add(-time.Microsecond))
		require.Empty(t, none, c.spec)
		require.True(t, wanted[0].Equal(first), "%s: %s", c.spec, first)
	}
}

func TestWhatBecomesOfMissedTimes(t *testing.T) {
	from := times(t, "2024-01-02T12:00")[0]
	for _, c := range []struct {
		missed   Missed
		now, due string
		none     int // the number of times without a job
	}{
		{MissedOnce, "2024-01-02T12:00:59", "", 0},
		{MissedOnce, "2024-01-02T12:01", "2024-01-02T12:01", 0},
		{MissedOnce, "2024-01-02T12:03:30", "2024-01-02T12:03", 2},
		{MissedAll, "2024-01-02T12:01", "2024-01-02T12:01", 0},
		{MissedAll, "2024-01-02T12:03:30", "2024-01-02T12:01 2024-01-02T12:02 2024-01-02T12:03", 0},
		{MissedSkip, "2024-01-02T12:01", "2024-01-02T12:01", 0},
		{MissedSkip, "2024-01-02T12:01:10", "2024-01-02T12:01", 0}, // only late
		{MissedSkip, "2024-01-02T12:01:11", "", 1},
		{MissedSkip, "2024-01-02T12:03:30", "", 3},
		{MissedSkip, "2024-01-02T12:03:05", "2024-01-02T12:03", 2},
	} {
		now := times(t, c.now)[0]
		due, next, none := scheduleOf(t, "* * * * *", c.missed).due(from, now)
		require.Equal(t, c.none, none, "%v at %s", c.missed, c.now)
		require.Equal(t, times(t, c.due), due, "%v at %s", c.missed, c.now)
		require.Equal(t, now.Truncate(time.Minute).Add(time.Minute), next)
	}
}

func TestRunAllPutsAHundredAtTheMost(t *testing.T) {
	noon := times(t, "2024-01-02T12:00")[0]
	now := noon.Add(30 * 24 * time.Hour)
	due, _, none := scheduleOf(t, "* * * * *", MissedAll).due(noon, now)
	require.Len(t, due, 100)
	require.Equal(t, 30*24*60-100, none)
	require.Equal(t, now.Add(-99*time.Minute), due[0])
	require.Equal(t, now, due[99])
}

// scheduleOf makes a schedule of jobs in the queue jobs.
func scheduleOf(t *testing.T, spec string, missed Missed) *schedule {
	t.Helper()
	s, err := newSchedule(Schedule{
		ID: "s", When: spec, Queue: "jobs", Job: JobSpec{Klass: "K"}, Missed: missed,
	})
	require.NoError(t, err)
	return s
}
