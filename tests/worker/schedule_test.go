package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/tests/scripts"
	"github.com/qless/qless-go/tests/testbed"
)

// schedule returns a schedule of jobs in the queue jobs.
func schedule(spec string, options ...qless.PutOption) qless.Schedule {
	return newSchedule("s", spec, "jobs", "K", map[string]int{"n": 1}, options...)
}

// newSchedule returns a schedule with an id.
func newSchedule(id, spec, queue, klass string, data any, options ...qless.PutOption) qless.Schedule {
	return qless.Schedule{
		ID: id, When: spec, Queue: queue, Job: qless.JobSpec{Klass: klass, Data: data, Options: options},
	}
}

// onMissed returns a schedule with a policy for missed times.
func onMissed(missed qless.Missed, s qless.Schedule) qless.Schedule {
	s.Missed = missed
	return s
}

// newFollower creates a worker that follows schedules by the env's clock, and takes no jobs from
// their queue.
func (e *env) newFollower(schedules ...qless.Schedule) *testWorker {
	e.T.Helper()
	return e.workerAt(e.Server.Addr(), qless.WorkerConfig{Schedules: schedules}, qless.ClientConfig{
		Clock: e.Clock.Now,
	})
}

// follower is newFollower, and starts it.
func (e *env) follower(schedules ...qless.Schedule) *testWorker {
	e.T.Helper()
	w := e.newFollower(schedules...)
	require.NoError(e.T, w.Start(e.T.Context()))
	return w
}

// puts waits until a follower has tried to put n jobs.
func (w *testWorker) puts(n int) { w.await(w.t, "a put", n, of("schedule")) }

// missed makes a schedule known through a follower, and lets time pass without a follower.
func (e *env) missed(d time.Duration, s qless.Schedule) {
	e.T.Helper()
	w := e.follower(s)
	w.await(e.T, "the last time", 1, of("schedule.last"))
	w.stop()
	e.Clock.Advance(d)
}

// scheduled returns the jids of the waiting jobs in the queue jobs.
func (e *env) scheduled() []string {
	e.T.Helper()
	jids := must(e.Queue("jobs").Peek(e.T.Context(), 100))(e.T)
	var all []string
	for _, job := range jids {
		all = append(all, job.JID)
	}
	return all
}

func TestANewScheduleBeginsWithItsNextTime(t *testing.T) {
	e := newEnv(t)
	w := e.follower(schedule("0 * * * *"), newSchedule("t", "@every 1h", "jobs", "K", nil))
	w.await(t, "the last time", 2, of("schedule.last"))
	w.stop()
	require.Empty(t, e.scheduled())
	require.Zero(t, w.count(of("schedule")))
}

func TestAScheduleContinuesWhereItWas(t *testing.T) {
	e := newEnv(t)
	e.missed(5*time.Minute, schedule("* * * * *"))
	w := e.follower(schedule("* * * * *"))
	w.puts(1)
	w.stop()
	require.Equal(t, []string{"s@2024-01-02T12:05:00Z"}, e.scheduled())

	e.missed(0, schedule("* * * * *"))
	require.Len(t, e.scheduled(), 1, "it is put once")
	e.Clock.Advance(time.Minute)
	changed := onMissed(qless.MissedAll, newSchedule("s", "*/2 * * * *", "other", "L", nil))
	e.follower(changed).puts(1)
	require.Equal(t, "L", e.Pop("other").Klass)
	require.Equal(t, "s@2024-01-02T12:05:00Z", e.Pop("jobs").JID, "a job already put stays unchanged")
}

func TestTheJobOfASchedule(t *testing.T) {
	e := newEnv(t)
	s := schedule("CRON_TZ=Europe/Berlin 15 13 * * *", qless.Priority(3), qless.Tags{"a"}, qless.Retries(2))
	e.missed(15*time.Minute, s)
	e.follower(s).puts(1)
	job := e.Pop("jobs")
	require.Equal(t, "s@2024-01-02T12:15:00Z", job.JID)
	require.Equal(t, "K", job.Klass)
	require.Equal(t, `{"n":1}`, string(job.Data))
	require.Equal(t, 3, job.Priority)
	require.Equal(t, qless.Tags{"a"}, job.Tags)
	require.Equal(t, 2, job.Retries)
}

// A job is put whether or not the previous job is done, unless both have the same jid.
func TestScheduledJobsMayOverlap(t *testing.T) {
	e := newEnv(t)
	both := []qless.Schedule{
		onMissed(qless.MissedAll, schedule("* * * * *")),
		onMissed(qless.MissedAll, newSchedule("t", "* * * * *", "single", "K", nil, qless.JID("only"))),
	}
	for _, s := range both {
		e.missed(0, s)
	}
	e.Clock.Advance(3 * time.Minute)
	e.follower(both...).puts(6)
	require.Equal(t, []string{"s@2024-01-02T12:01:00Z", "s@2024-01-02T12:02:00Z", "s@2024-01-02T12:03:00Z"}, e.scheduled())
	require.Equal(t, []string{"only"}, jids(e.Pops("single", 10)))
}

func TestEachTimeHasOneJobHoweverManyFollow(t *testing.T) {
	const workers, minutes = 10, 7
	e := newEnv(t)
	s := onMissed(qless.MissedAll, schedule("* * * * *"))
	e.missed(minutes*time.Minute, s)
	var all []*testWorker
	var begin []func()
	for range workers {
		w := e.newFollower(s)
		learned, open := w.gate("schedule.last", true)
		require.NoError(t, w.Start(t.Context()))
		soon(t, "the last time", learned)
		all, begin = append(all, w), append(begin, open)
	}
	for _, open := range begin {
		open()
	}
	put := 0
	for _, w := range all {
		w.puts(minutes)
		put += w.count(func(c tapped) bool { return c.script == "schedule" && c.reply != nil })
	}
	require.Equal(t, minutes, put)
	var wanted []string
	for i := range minutes {
		wanted = append(wanted, fmt.Sprintf("s@2024-01-02T12:%02d:00Z", i+1))
	}
	require.Equal(t, wanted, e.scheduled())
	for _, jid := range wanted {
		require.Equal(t, []string{"put"}, whats(e.Read(jid).History))
	}
}

// With the real clock, the workers put their own jobs.
func TestAScheduleTicks(t *testing.T) {
	t.Parallel()
	e := newLiveEnv(t)
	type tick struct {
		jid string
		at  time.Time
	}
	ticks := make(chan tick, 100)
	for range 3 {
		s := onMissed(qless.MissedAll, newSchedule("s", "@every 1s", "q", "K", nil))
		e.working(qless.WorkerConfig{Schedules: []qless.Schedule{s}}, func(_ context.Context, job *qless.Job) error {
			ticks <- tick{job.JID, time.Now()}
			return nil
		})
	}
	var due []time.Time
	for range 3 {
		got := soon(t, "a tick", ticks)
		at := must(time.Parse(time.RFC3339, strings.TrimPrefix(got.jid, "s@")))(t)
		require.False(t, got.at.Before(at), "it is not early")
		due = append(due, at)
	}
	slices.SortFunc(due, time.Time.Compare)
	require.Equal(t, []time.Time{due[0], due[0].Add(time.Second), due[0].Add(2 * time.Second)}, due)
}

func TestAScheduledJobIsPutWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.missed(2*time.Minute, schedule("* * * * *"))
	w := e.newFollower(onMissed(qless.MissedAll, schedule("* * * * *")))
	for _, script := range []string{"schedule.last", "schedule"} {
		w.instead(script, func(func() error) error { return errOffline })
	}
	require.NoError(t, w.Start(t.Context()))
	w.await(t, "a try", 3, unanswered("schedule.last"))
	w.instead("schedule.last", nil)
	w.await(t, "a try", 3, unanswered("schedule"))
	w.once("schedule", func(send func() error) error {
		return errors.Join(send(), errOffline) // done, but without an answer
	})
	w.puts(1) // the other put has no answer
	w.stop()
	require.Equal(t, []string{"s@2024-01-02T12:01:00Z", "s@2024-01-02T12:02:00Z"}, e.scheduled())
	require.Equal(t, 1, w.log.count("a schedule can't be followed"))
}

func TestScheduleAddsItsHeadersToTheClients(t *testing.T) {
	e := newEnv(t)
	s := schedule("* * * * *", qless.Headers{"a": "1"})
	e.missed(time.Minute, s)
	w := e.workerAt(e.Server.Addr(), qless.WorkerConfig{Schedules: []qless.Schedule{s}},
		qless.ClientConfig{
			Clock: e.Clock.Now,
			Headers: func(context.Context) map[string]string {
				return map[string]string{"a": "2", "b": "3"}
			},
		})
	w.start().puts(1)
	require.Equal(t, qless.Headers{"a": "1", "b": "3"}, e.Read("s@2024-01-02T12:01:00Z").Headers)
}

func TestAScheduleThatPutsAJobOnlyIfItIsNotThere(t *testing.T) {
	e := newEnv(t)
	s := schedule("* * * * *", qless.JID("report"), qless.IfFinished)
	e.missed(time.Minute, s)
	w := e.newFollower(s)
	w.start().puts(1)
	require.Equal(t, []string{"put"}, whats(e.Read("report").History))
	for range 2 { // the job exists, and the schedule continues
		w.stop()
		e.Clock.Advance(time.Minute)
		w = e.newFollower(s)
		w.start().puts(1)
	}
	require.Equal(t, []string{"put"}, whats(e.Read("report").History))
	require.Zero(t, w.log.count("can't"))
	w.stop()

	require.NoError(t, e.Pop("jobs").Complete(t.Context()))
	e.Clock.Advance(time.Minute)
	e.newFollower(s).start().puts(1)
	require.Equal(t, []string{"put", "popped", "done", "put"}, whats(e.Read("report").History))
}

func TestAPausedWorkerFollowsItsSchedules(t *testing.T) {
	e := newEnv(t)
	e.missed(time.Minute, schedule("* * * * *"))
	w := e.newFollower(schedule("* * * * *"))
	w.Pause()
	require.NoError(t, w.Start(t.Context()))
	w.puts(1)
	require.Len(t, e.scheduled(), 1)
}

// putAt runs the command that puts the job of the schedule s due at a time, like a process that
// considers it due.
func (e *env) putAt(due time.Time) any {
	e.T.Helper()
	jid := "s@" + due.UTC().Format(time.RFC3339)
	reply, err := e.Run(e.T.Context(), "schedule", jid, "s", scripts.Time(due), "0", "w1", "jobs", jid, "K", "{}", "0")
	require.NoError(e.T, err)
	return reply
}

func TestAProcessWhoseClockIsAheadPutsNothing(t *testing.T) {
	e := newEnv(t)
	e.missed(0, schedule("* * * * *"))
	e.Unchanged(func() {
		for _, ahead := range []time.Duration{time.Second, time.Minute, 6 * time.Hour} {
			require.EqualValues(t, 0, e.putAt(e.Clock.Now().Add(ahead)), "not yet")
		}
	})
	e.Clock.Advance(time.Minute)
	e.follower(schedule("* * * * *")).puts(1)
	require.Equal(t, []string{"s@2024-01-02T12:01:00Z"}, e.scheduled())
}

func TestAScheduleMovedIntoTheFutureContinues(t *testing.T) {
	poison := func(e *env) {
		e.missed(0, schedule("* * * * *"))
		last := scripts.Time(e.Clock.Now().Add(6 * time.Hour))
		require.NoError(t, e.Redis.HSet(t.Context(), "ql:x:schedules", "s", last).Err())
	}
	t.Run("for new followers", func(t *testing.T) {
		e := newEnv(t)
		poison(e)
		e.missed(time.Minute, schedule("* * * * *"))
		e.follower(schedule("* * * * *")).puts(1)
		require.Equal(t, []string{"s@2024-01-02T12:01:00Z"}, e.scheduled())
	})
	t.Run("for existing followers", func(t *testing.T) {
		e := newEnv(t)
		poison(e)
		e.Clock.Advance(time.Minute)
		due := noon.Add(time.Minute)
		require.Equal(t, "s@2024-01-02T12:01:00Z", e.putAt(due))
		require.Nil(t, e.putAt(due), "it is put once")
	})
}

// A replica that becomes the master may have a clock that is slightly behind.
func TestClockPutBackALittlePutsNothingTwice(t *testing.T) {
	e := newEnv(t)
	e.missed(5*time.Minute, schedule("* * * * *"))
	e.follower(schedule("* * * * *")).puts(1)
	e.Clock.Advance(-30 * time.Second)
	require.Nil(t, e.putAt(noon.Add(4*time.Minute)))
	w := e.follower(onMissed(qless.MissedAll, schedule("* * * * *")))
	w.await(t, "the last time", 1, of("schedule.last"))
	w.stop()
	require.Nil(t, e.putAt(noon.Add(4*time.Minute)))
	require.Equal(t, []string{"s@2024-01-02T12:05:00Z"}, e.scheduled())
	require.Equal(t, []string{"put"}, whats(e.Read("s@2024-01-02T12:05:00Z").History))
}

func TestAJobThatIsNotYetDueOnTheServerIsPutWhenItIs(t *testing.T) {
	e := newEnv(t)
	e.missed(time.Minute, schedule("* * * * *"))
	require.NoError(t, e.Redis.ScriptLoad(t.Context(), scripts.Text()).Err()) // one round trip, not two
	w := e.newFollower(schedule("* * * * *"))
	w.once("schedule.last", func(send func() error) error {
		defer e.Clock.Advance(-30 * time.Second)
		return send()
	})
	w.once("schedule", func(send func() error) error {
		defer e.Clock.Advance(30 * time.Second)
		return send()
	})
	require.NoError(t, w.Start(t.Context()))
	w.puts(2)
	require.EqualValues(t, 0, w.await(t, "a put", 1, of("schedule")).reply)
	require.Equal(t, "s@2024-01-02T12:01:00Z", w.await(t, "a put", 2, of("schedule")).reply)
	require.Equal(t, []string{"s@2024-01-02T12:01:00Z"}, e.scheduled())
	require.Zero(t, w.log.count("a schedule can't be followed"))
}

// The server's clock stands still, years behind the machine's.
func TestASchedulesClockIsTheServers(t *testing.T) {
	server := miniredis.RunT(t)
	server.SetTime(noon.Add(500 * time.Millisecond))
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	e := &env{testbed.NewFor(t, rdb)}
	e.Client = e.NewLiveClient(e.Redis, qless.ClientConfig{})
	w := e.workerAt(server.Addr(), qless.WorkerConfig{Schedules: []qless.Schedule{schedule("@every 1s")}}, qless.ClientConfig{})
	require.NoError(t, w.Start(t.Context()))
	w.await(t, "the last time", 1, of("schedule.last"))
	server.SetTime(noon.Add(1100 * time.Millisecond))
	w.puts(1)
	w.stop()
	require.Equal(t, []string{"s@2024-01-02T12:00:01Z"}, e.scheduled())
}

func TestAJobThatIsAlwaysRefusedIsTriedOnce(t *testing.T) {
	e := newEnv(t)
	e.missed(time.Minute, schedule("@every 1s"))
	w := e.newFollower(schedule("@every 1s"))
	refused := "ERR user_script:1: Put(): invalid 0 9  no script script: 0000000000000000000000000000000000000000, on @user_script:1."
	w.instead("schedule", func(func() error) error { return serverError(refused) })
	require.NoError(t, w.Start(t.Context()))
	w.await(t, "a look", 2, of("schedule.last"))
	w.stop()
	tries := w.count(func(c tapped) bool { return c.script == "schedule" })
	require.Equal(t, 1, tries)
	require.Equal(t, 1, w.log.count("a scheduled job can't be put"))
}

// info reads a schedule, which must be registered.
func (e *env) info(id string) *inspect.ScheduleInfo {
	e.T.Helper()
	return must(inspect.New(e.Client).Schedule(e.T.Context(), id))(e.T)
}

// registered starts a follower of schedules, and waits until they are registered.
func (e *env) registered(schedules ...qless.Schedule) *testWorker {
	e.T.Helper()
	w := e.follower(schedules...)
	w.await(e.T, "a registration", len(schedules), of("schedule.register"))
	return w
}

func TestASchedulesRegistration(t *testing.T) {
	e := newEnv(t)
	s := onMissed(qless.MissedSkip, schedule("CRON_TZ=Europe/Berlin 15 13 * * *", qless.Tags{"a"}))
	w := e.registered(s)
	first := e.info("s")
	require.Equal(t, inspect.ScheduleInfo{
		ID: "s", When: s.When, Zone: "Europe/Berlin", Queue: "jobs", Klass: "K",
		Data: json.RawMessage(`{"n":1}`), OnMissed: qless.MissedSkip,
		Next: noon.Add(15 * time.Minute).Local(), Since: first.Since, Seen: first.Seen,
		Followers: []inspect.ScheduleFollower{
			{Worker: w.Name(), Since: first.Followers[0].Since, Seen: first.Seen},
		},
	}, *first)
	for _, at := range []time.Time{first.Since, first.Seen, first.Followers[0].Since} {
		near(t, noon, at)
	}

	e.Clock.Advance(15 * time.Minute)
	w.Resume() // makes it check
	w.puts(1)
	w.stop()
	info := e.info("s")
	near(t, noon.Add(15*time.Minute), info.Last)
	require.Equal(t, "s@2024-01-02T12:15:00Z", info.LastJID)
	near(t, noon.Add(15*time.Minute+24*time.Hour), info.Next)
	require.Equal(t, first.Since, info.Since)
	near(t, noon.Add(15*time.Minute), info.Seen)
	require.Empty(t, info.Followers, "it has stopped")
	_, err := inspect.New(e.Client).Schedule(t.Context(), "unknown")
	requireCode(t, qless.ErrNotFound, err)
}

// near requires a time, or slightly later, because the clock moves with each call.
func near(t *testing.T, want, got time.Time) {
	t.Helper()
	require.WithinDuration(t, want, got, time.Second)
}

func TestScheduleInfosAsJSON(t *testing.T) {
	info := inspect.ScheduleInfo{
		ID: "s", When: "@daily", Zone: "UTC", Queue: "q", Klass: "K", Data: json.RawMessage(`[1]`),
		OnMissed: qless.MissedAll, Last: noon, LastJID: "s@noon", Next: noon.Add(time.Hour), Overdue: 1,
		Missed: 2, Since: noon, Seen: noon,
		Followers: []inspect.ScheduleFollower{{Worker: "w", Since: noon, Seen: noon, Differs: true}},
	}
	text := must(json.Marshal(info))(t)
	require.JSONEq(t, `{
		"id": "s", "when": "@daily", "zone": "UTC", "queue": "q", "klass": "K", "data": [1],
		"on_missed": "all", "last": "2024-01-02T12:00:00Z", "last_jid": "s@noon",
		"next": "2024-01-02T13:00:00Z", "overdue": 1, "missed": 2, "since": "2024-01-02T12:00:00Z",
		"seen": "2024-01-02T12:00:00Z", "followers": [{"worker": "w", "since": "2024-01-02T12:00:00Z",
		"seen": "2024-01-02T12:00:00Z", "differs": true}]
	}`, string(text))
	var read inspect.ScheduleInfo
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, info, read)
}

func TestSchedulesAreListedByID(t *testing.T) {
	e := newEnv(t)
	e.registered(newSchedule("b", "@every 90s", "q", "K", nil), newSchedule("a", "@daily", "q", "K", nil),
		newSchedule("c", "@daily", "q", "K", nil))
	for _, c := range []struct {
		r    inspect.Range
		want string
	}{
		{inspect.Range{}, "a UTC,b ,c UTC"}, {inspect.Range{Limit: -1}, "a UTC,b ,c UTC"},
		{inspect.Range{Offset: 1, Limit: 1}, "b "}, {inspect.Range{Offset: 3}, ""},
	} {
		page := must(inspect.New(e.Client).Schedules(t.Context(), c.r))(t)
		var got []string
		for _, info := range page.Items {
			got = append(got, info.ID+" "+info.Zone)
		}
		require.Equal(t, c.want, strings.Join(got, ","))
		require.Equal(t, 3, page.Total)
		require.NotNil(t, page.Items)
	}
	_, err := inspect.New(e.Client).Schedules(t.Context(), inspect.Range{Offset: -1})
	requireCode(t, qless.ErrInvalid, err)
}

func TestTimesOfASchedulesThatGetNoJob(t *testing.T) {
	for missed, c := range map[qless.Missed]struct{ puts, missed int }{
		qless.MissedOnce: {1, 4}, qless.MissedAll: {5, 0},
	} {
		t.Run(string(missed), func(t *testing.T) {
			e := newEnv(t)
			s := onMissed(missed, schedule("* * * * *"))
			e.missed(5*time.Minute+30*time.Second, s)
			require.Equal(t, 5, e.info("s").Overdue)
			w := e.follower(s)
			w.puts(c.puts)
			w.stop()
			info := e.info("s")
			require.Zero(t, info.Overdue)
			require.Equal(t, c.missed, info.Missed)
		})
	}
	t.Run("skip", func(t *testing.T) {
		e := newEnv(t)
		s := onMissed(qless.MissedSkip, schedule("* * * * *"))
		e.missed(5*time.Minute+30*time.Second, s)
		require.Equal(t, 5, e.info("s").Overdue)
		w := e.follower(s)
		w.await(t, "a look", 1, of("schedule.last"))
		require.Zero(t, e.info("s").Overdue, "they are no longer put")
		e.Clock.Advance(30 * time.Second)
		w.Resume()
		w.puts(1)
		require.Equal(t, 5, e.info("s").Missed)
	})
	t.Run("no worker has run it for long", func(t *testing.T) {
		e := newEnv(t)
		e.missed(10*24*time.Hour, schedule("* * * * *"))
		require.Equal(t, 1000, e.info("s").Overdue)
	})
}

func TestAScheduleWithoutFollowers(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	w := e.registered(schedule("0 * * * *"), newSchedule("t", "@daily", "jobs", "K", nil))
	requireCode(t, inspect.ErrFollowed, inspect.New(e.Client).ForgetSchedule(ctx, "s"))
	requireCode(t, qless.ErrNotFound, inspect.New(e.Client).ForgetSchedule(ctx, "unknown"))
	requireCode(t, qless.ErrInvalid, inspect.New(e.Client).ForgetSchedule(ctx, ""))
	w.stop()
	require.Empty(t, e.info("s").Followers)
	require.NoError(t, inspect.New(e.Client).ForgetSchedule(ctx, "s"))
	requireCode(t, qless.ErrNotFound, inspect.New(e.Client).ForgetSchedule(ctx, "s"))
	_, err := inspect.New(e.Client).Schedule(ctx, "s")
	requireCode(t, qless.ErrNotFound, err)
	require.NoError(t, inspect.New(e.Client).ForgetSchedule(ctx, "t"))
	require.Empty(t, must(e.Redis.Keys(ctx, "ql:x:*sched*").Result())(t))
	e.registered(schedule("0 * * * *")) // it is a new one now
}

// A killed worker does not unregister.
func TestAScheduleWhoseWorkerWasKilled(t *testing.T) {
	e := newEnv(t)
	w := e.newFollower(schedule("0 * * * *"))
	w.instead("schedule.leave", func(func() error) error { return errOffline })
	require.NoError(t, w.Start(t.Context()))
	w.await(t, "a registration", 1, of("schedule.register"))
	w.stopNow()
	require.Len(t, e.info("s").Followers, 1)
	requireCode(t, inspect.ErrFollowed, inspect.New(e.Client).ForgetSchedule(t.Context(), "s"))
	e.Clock.Advance(3 * time.Minute)
	require.Empty(t, e.info("s").Followers)
	near(t, noon, e.info("s").Seen)

	e.registered(schedule("30 * * * *")).stop()
	left := must(e.Redis.HLen(t.Context(), "ql:x:follow:s").Result())(t)
	require.Zero(t, left, "the next worker to register removes those gone")
	require.NoError(t, inspect.New(e.Client).ForgetSchedule(t.Context(), "s"))
}

func TestTwoSchedulesWithTheSameID(t *testing.T) {
	e := newEnv(t)
	old := e.registered(schedule("0 * * * *"))
	same := e.follower(schedule("0 * * * *"))
	same.await(t, "a look", 1, of("schedule.last"))
	recent := e.registered(schedule("30 * * * *", qless.Priority(1)))
	require.Zero(t, same.count(of("schedule.register")), "it is registered already")

	info := e.info("s")
	require.Equal(t, "30 * * * *", info.When, "the last one to start")
	differs := map[string]bool{}
	for _, f := range info.Followers {
		differs[f.Worker] = f.Differs
	}
	require.Equal(t, map[string]bool{old.Name(): true, same.Name(): true, recent.Name(): false}, differs)
	for range 2 {
		looks := old.count(of("schedule.last"))
		old.Resume()
		old.await(t, "a look", looks+1, of("schedule.last"))
	}
	until(t, "it says so", func() bool { return old.log.count("another schedule with the same ID") == 1 })
	require.Zero(t, recent.log.count("another schedule"))

	recent.stop() // its registration is removed when another worker reads it
	looks := old.count(of("schedule.register"))
	old.Resume()
	old.await(t, "a registration", looks+1, of("schedule.register"))
	require.Equal(t, "0 * * * *", e.info("s").When)
}

func TestAScheduleThatCannotBeRegisteredIsFollowed(t *testing.T) {
	e := newEnv(t)
	e.missed(time.Minute, schedule("* * * * *"))
	require.NoError(t, inspect.New(e.Client).ForgetSchedule(t.Context(), "s"))
	w := e.newFollower(schedule("* * * * *"))
	refused := errors.New("NOPERM")
	w.instead("schedule.register", func(func() error) error { return refused })
	require.NoError(t, w.Start(t.Context()))
	w.await(t, "a try", 1, func(c tapped) bool { return c.script == "schedule.register" })
	w.instead("schedule.register", nil)
	e.Clock.Advance(time.Minute)
	w.Resume()
	w.puts(1)
	w.await(t, "another try", 1, of("schedule.register"))
	require.Equal(t, "* * * * *", e.info("s").When)
}

func TestRunningAScheduleNow(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	s := schedule("0 * * * *", qless.Priority(3), qless.Tags{"a"}, qless.Delay(time.Hour),
		qless.Headers{"from": "schedule"}, qless.Retries(2))
	e.registered(s).stop()
	before := e.info("s")
	client := e.NewClient(e.Redis, qless.ClientConfig{Headers: func(context.Context) map[string]string {
		return map[string]string{"from": "client", "trace": "1"}
	}})
	jid, err := inspect.New(client).RunSchedule(ctx, "s")
	require.NoError(t, err)
	require.Regexp(t, `^s@run-[0-9a-f]{32}$`, jid)
	job := e.Pop("jobs")
	require.Equal(t, jid, job.JID, "it has no delay")
	require.Equal(t, "K", job.Klass)
	require.Equal(t, `{"n":1}`, string(job.Data))
	require.Equal(t, 3, job.Priority)
	require.Equal(t, 2, job.Retries)
	require.Equal(t, qless.Tags{"a"}, job.Tags)
	require.Equal(t, qless.Headers{"from": "schedule", "trace": "1"}, job.Headers)
	require.Equal(t, before, e.info("s"), "its times stay as they are")

	another, err := e.RunSchedule(ctx, "s")
	require.NoError(t, err)
	require.NotEqual(t, jid, another)
	require.Equal(t, qless.Headers{"from": "schedule"}, e.Read(another).Headers)
	for _, id := range []string{"unknown", "s "} {
		_, err = e.RunSchedule(ctx, id)
		requireCode(t, qless.ErrNotFound, err)
	}
	_, err = e.RunSchedule(ctx, "")
	requireCode(t, qless.ErrInvalid, err)
}

func TestRunningAScheduleThatGivesNoHeaders(t *testing.T) {
	e := newEnv(t)
	e.registered(schedule("0 * * * *", qless.Headers(nil)), newSchedule("t", "@daily", "jobs", "K", nil)).stop()
	client := e.NewClient(e.Redis, qless.ClientConfig{Headers: func(context.Context) map[string]string {
		return map[string]string{"a": "1"}
	}})
	for id, want := range map[string]map[string]string{"s": nil, "t": {"a": "1"}} {
		jid := must(inspect.New(client).RunSchedule(t.Context(), id))(t)
		require.Equal(t, qless.Headers(want), e.Read(jid).Headers)
	}
}

func TestRunningAScheduleWithAJIDOfItsOwn(t *testing.T) {
	e := newEnv(t)
	e.registered(schedule("0 * * * *", qless.JID("only"), qless.IfFinished)).stop()
	jid, err := e.RunSchedule(t.Context(), "s")
	require.NoError(t, err)
	require.Equal(t, "only", jid)
	jid, err = e.RunSchedule(t.Context(), "s")
	require.Equal(t, "only", requireCode(t, qless.ErrExists, err).JID)
	require.Equal(t, "only", jid)
}

func TestAScheduleTooLargeToBeRegisteredWhole(t *testing.T) {
	e := newEnv(t)
	e.registered(newSchedule("s", "@daily", "jobs", "K", strings.Repeat("x", 64<<10))).stop()
	require.Equal(t, "jobs", e.info("s").Queue)
	require.Empty(t, e.info("s").Data)
	_, err := e.RunSchedule(t.Context(), "s")
	require.ErrorContains(t, requireCode(t, qless.ErrInvalid, err), "64 KiB")
}

func TestTheDataOfAScheduleIsStoredAsThatOfItsJobs(t *testing.T) {
	e := newEnv(t)
	w := e.workerAt(e.Server.Addr(), qless.WorkerConfig{Schedules: []qless.Schedule{schedule("@daily")}},
		qless.ClientConfig{Clock: e.Clock.Now, Codec: &hexed{}})
	require.NoError(t, w.Start(t.Context()))
	w.await(t, "a registration", 1, of("schedule.register"))
	w.stop()
	require.NotContains(t, string(e.info("s").Data), `"n":1`)
	stored := must(e.Redis.HGet(t.Context(), "ql:x:schedule:s", "data").Result())(t)
	require.NotContains(t, stored, `"n":1`)
	knows := e.NewClient(e.Redis, qless.ClientConfig{Codec: &hexed{}})
	info := must(inspect.New(knows).Schedule(t.Context(), "s"))(t)
	require.Equal(t, `{"n":1}`, string(info.Data))
	jid, err := e.RunSchedule(t.Context(), "s") // needs no codec
	require.NoError(t, err)
	job := must(knows.Job(t.Context(), jid))(t)
	require.Equal(t, `{"n":1}`, string(job.Data))
}
