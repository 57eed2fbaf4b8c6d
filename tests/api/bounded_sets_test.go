package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// pipe sends many commands at once.
func (e *env) pipe(count int, add func(p redis.Pipeliner, i int)) {
	e.T.Helper()
	p := e.Redis.Pipeline()
	for i := range count {
		add(p, i)
	}
	require.NoError(e.T, errOf(p.Exec(e.T.Context())))
}

func TestManyFailureGroupsAreReadInSteps(t *testing.T) {
	e := newEnv(t)
	want := map[string]int{}
	e.pipe(3000, func(p redis.Pipeliner, i int) {
		group := fmt.Sprintf("group %04d", i)
		want[group] = 1
		p.SAdd(t.Context(), "ql:failures", group)
		p.LPush(t.Context(), "ql:f:"+group, "j")
	})
	e.requireShort(800, func() {
		groups := must(e.inspect().FailureGroups(t.Context()))(t)
		require.Equal(t, want, groups)
	})
	e.requireShort(1000+100, func() {
		o := must(e.inspect().Overview(t.Context(), inspect.OverviewQuery{}))(t)
		require.Len(t, o.FailureGroups, 1000)
	})
	// Members that are added and removed meanwhile do not hide others.
	client, _ := e.between(func() {
		e.pipe(3000, func(p redis.Pipeliner, i int) {
			p.SAdd(t.Context(), "ql:failures", fmt.Sprintf("new group %04d", i))
		})
	})
	groups := must(inspect.New(client).FailureGroups(t.Context()))(t)
	for group := range want {
		require.Equal(t, 1, groups[group], group)
	}
}

// sweepsOf sweeps a number of times, requires that each sweep is short, and returns how often each
// failure group was examined.
func (e *env) sweepsOf(times int) map[string]int {
	e.T.Helper()
	looked := map[string]int{}
	for range times {
		for _, script := range e.scriptsOf(func() { e.sweep() }) {
			require.LessOrEqual(e.T, len(script), 100*2+30)
			require.LessOrEqual(e.T, membersRead(e.T, script, 1_000_000), 500)
			for _, command := range script {
				if group, found := strings.CutPrefix(command.Words[1], "ql:f:"); found {
					looked[group]++
				}
			}
		}
	}
	return looked
}

// Groups that come and go meanwhile do not hide the others.
func TestASweepLooksAtSomeOfManyFailureGroups(t *testing.T) {
	const groups = 3000
	e, ctx := newEnv(t), t.Context()
	stay, come := numbered("stays-", groups), 0
	e.pipe(groups, func(p redis.Pipeliner, i int) {
		p.SAdd(ctx, "ql:failures", stay[i])
		p.LPush(ctx, "ql:f:"+stay[i], "j")
	})
	looked := map[string]int{}
	for range 2*groups/100 + 20 {
		e.pipe(20, func(p redis.Pipeliner, i int) {
			p.SRem(ctx, "ql:failures", fmt.Sprint("comes-", come-100))
			p.SAdd(ctx, "ql:failures", fmt.Sprint("comes-", come))
			come++
		})
		for group, times := range e.sweepsOf(1) {
			looked[group] += times
		}
	}
	for _, group := range stay {
		require.Positive(t, looked[group], group)
		require.LessOrEqual(t, looked[group], 8, "none is looked at again and again")
	}
}

// A sweep that stopped in the middle of a long group continues there.
func TestASweepContinuesInALongFailureGroup(t *testing.T) {
	e := newEnv(t)
	names := append(numbered("group-", 300), "long")
	for _, name := range names[:300] {
		e.failGroup(1, name)
	}
	e.Put("q", qless.OnFailureRun, qless.DependsOn{e.Put("base", qless.JID("long-000000"))})
	e.failGroup(250, "long") // that one is the oldest of these
	looked := e.sweepsOf(3 + 3 + 2)
	for _, name := range names {
		require.Positive(t, looked[name], name)
	}
	require.Equal(t, 1, e.Counts("q").Waiting)
}

func TestManyLimitsAreReadInSteps(t *testing.T) {
	e := newEnv(t)
	var want []inspect.LimitOverview
	e.pipe(3000, func(p redis.Pipeliner, i int) {
		name := fmt.Sprintf("limit-%04d", i)
		want = append(want, inspect.LimitOverview{Name: name, Config: qless.LimitConfig{Concurrency: i + 1}})
		p.HSet(t.Context(), "ql:x:limits", name, fmt.Sprint(i+1, " 0 0"))
	})
	for r, part := range map[inspect.Range][]inspect.LimitOverview{
		{}:                        want[:25],
		{Limit: -1}:               want,
		{Offset: 2990, Limit: 50}: want[2990:],
		{Offset: 5000}:            {},
	} {
		for _, script := range e.scriptsOf(func() {
			page := must(e.inspect().Limits(t.Context(), r))(t)
			require.Equal(t, inspect.Page[inspect.LimitOverview]{Items: part, Total: 3000}, page)
		}) {
			require.True(t, strings.EqualFold(script[0].Words[0], "hscan"))
			require.LessOrEqual(t, len(script), 1+2*600, "two for each limit of about 500")
		}
	}
	e.requireShort(100*2+40, func() {
		for range 2 {
			o := must(e.inspect().Overview(t.Context(), inspect.OverviewQuery{}))(t)
			require.Len(t, o.Limits, 100)
		}
	})
}

func TestManySettingsAreReadInSteps(t *testing.T) {
	e := newEnv(t)
	want := must(e.Config().All(t.Context()))(t)
	e.pipe(3000, func(p redis.Pipeliner, i int) {
		name := fmt.Sprintf("queue-%04d-heartbeat", i)
		want[name] = fmt.Sprint(i)
		p.HSet(t.Context(), "ql:config", name, i)
	})
	e.Set("heartbeat", 75)
	want["heartbeat"] = "75"
	for _, script := range e.scriptsOf(func() {
		all := must(e.Config().All(t.Context()))(t)
		require.Equal(t, want, all)
	}) {
		require.True(t, strings.EqualFold(script[0].Words[0], "hscan"))
	}
}

func TestTheMembersOfALargeBatchAreReadInSteps(t *testing.T) {
	e := newEnv(t)
	b := e.batch()
	var want []string
	e.pipe(3000, func(p redis.Pipeliner, i int) {
		want = append(want, fmt.Sprintf("member-%04d", i))
		p.SAdd(t.Context(), "ql:j:"+b.ID+"-dependencies", want[i])
	})
	for _, script := range e.scriptsOf(func() {
		waited := must(pending(t.Context(), b))(t)
		require.Equal(t, want, waited)
	}) {
		require.True(t, strings.EqualFold(script[len(script)-1].Words[0], "sscan"))
	}
	require.Equal(t, 3000, e.status(b).Pending)
}

func TestManySchedulesAreReadInSteps(t *testing.T) {
	e := newEnv(t)
	var want []string
	e.pipe(250, func(p redis.Pipeliner, i int) {
		id := fmt.Sprintf("schedule-%04d", i)
		want = append(want, id)
		p.ZAdd(t.Context(), "ql:x:schedule-ids", zmember(0, id))
		p.HSet(t.Context(), "ql:x:schedule:"+id, "spec", "@daily", "queue", "q", "klass", "K")
		for k := range i % 2 * 40 {
			p.HSet(t.Context(), "ql:x:follow:"+id, fmt.Sprint("w", k), fmt.Sprint(noon.Unix(), " ", noon.Unix(), " d"))
		}
	})
	scripts := e.scriptsOf(func() {
		page := must(e.inspect().Schedules(t.Context(), inspect.Range{Offset: 10, Limit: 220}))(t)
		require.Equal(t, 250, page.Total)
		var got []string
		for _, s := range page.Items {
			got = append(got, s.ID)
		}
		require.Equal(t, want[10:230], got)
		require.Len(t, page.Items[1].Followers, 40)
	})
	require.Len(t, scripts, 5) // about 50, every second of which has 40 followers
	none := must(e.inspect().Schedules(t.Context(), inspect.Range{Offset: 300}))(t)
	require.Equal(t, inspect.Page[inspect.ScheduleInfo]{Items: []inspect.ScheduleInfo{}, Total: 250}, none)
}

// Killed workers do not stay among the followers of a schedule.
func TestFollowersThatAreGoneAreForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		const key = "ql:x:follow:s"
		look := func(worker string) {
			t.Helper()
			e.run("schedule.last", "s", worker, "digest")
		}
		e.run("schedule.register", "s", "digest", "* * * * *", "skip", "q", "K", "", "{}", "")
		look("stays")
		for i := range 25 {
			look(fmt.Sprint("killed-", i))
		}
		require.EqualValues(t, 26, e.Redis.HLen(t.Context(), key).Val())
		for range 4 {
			e.Clock.Advance(time.Minute)
			look("stays")
		}
		require.Equal(t, []string{"stays"}, e.Redis.HKeys(t.Context(), key).Val())
		require.InDelta(t, 180, e.Redis.TTL(t.Context(), key).Val().Seconds(), 60)
	})
}

func TestManyTagsAreReadByRank(t *testing.T) {
	e := newEnv(t)
	var want []string
	e.pipe(6000, func(p redis.Pipeliner, i int) {
		tag := fmt.Sprintf("tag-%04d", 5999-i)
		p.ZAdd(t.Context(), "ql:tags", zmember(float64(2-i/5500), tag))
		if i < 5500 {
			want = append(want, tag)
		}
	})
	for r, part := range map[inspect.Range][]string{
		{}:                        want[:25],
		{Limit: -1}:               want,
		{Offset: 5490, Limit: 50}: want[5490:],
		{Offset: 5500}:            {},
	} {
		for _, script := range e.scriptsOf(func() {
			page := must(e.inspect().Tags(t.Context(), r))(t)
			require.Equal(t, inspect.Page[string]{Items: part, Total: 5500}, page)
		}) {
			for _, command := range script {
				require.NotEqual(t, "zrevrangebyscore", strings.ToLower(command.Words[0]))
			}
		}
	}
}
