package worker

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

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
