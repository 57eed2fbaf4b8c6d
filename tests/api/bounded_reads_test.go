package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/repairs"
)

// fill puts jobs of klass K into a queue, and returns their jids.
func (e *env) fill(queue string, count int, options ...qless.PutOption) []string {
	e.T.Helper()
	specs := specs(count, options...)
	return e.putInOrder(queue, specs)
}

// putInOrder puts jobs in order, with one script per few hundred, each at a different time.
func (e *env) putInOrder(queue string, specs []qless.JobSpec) (all []string) {
	e.T.Helper()
	for some := range slices.Chunk(specs, 200) {
		all = append(all, e.puts(queue, some...)...)
		e.Clock.Advance(time.Millisecond)
	}
	return all
}

// between returns a client that runs a function after its first script, and the number of its
// scripts. The function may take longer than an observer may.
func (e *env) between(run func()) (client *qless.Client, scripts *int) {
	e.T.Helper()
	scripts = new(int)
	return e.hooked(hook{ignore, func(cmd redis.Cmder) {
		if isScript(cmd) && cmd.Err() == nil {
			if *scripts++; *scripts == 1 {
				run()
			}
		}
	}}), scripts
}

func TestTheJobsOfAWorkerAreReadInSteps(t *testing.T) {
	e := newEnv(t)
	for i := range 1300 {
		e.Put("q", qless.JID(fmt.Sprintf("j%04d", i)), qless.LockTime(time.Minute+time.Duration(i)*time.Second))
	}
	jobs := e.Pops("q", 1300)
	require.NoError(t, repairs.TimeOut(t.Context(), e.Client, "j0700", "j1299"))
	e.Clock.Advance(11 * time.Minute) // 600 locks have ended
	want := jids(jobs)
	want = slices.Delete(want, 1299, 1300)
	want = slices.Delete(want, 700, 701)
	e.requireShort(1000+20, func() {
		r := must(repairs.HeldBy(t.Context(), e.Client, "w1"))(t)
		require.Equal(t, want, r, "the locks that end first come first")
	})
	require.Empty(t, must(repairs.HeldBy(t.Context(), e.Client, "w2"))(t))
}

// Jobs are renewed, ended and taken while they are read. Locks renewed for a short time move ahead
// of long ones.
func TestTheJobsOfAWorkerChangeWhileTheyAreRead(t *testing.T) {
	e := newEnv(t)
	short, long := e.fill("a", 600, qless.LockTime(time.Minute)), e.fill("b", 600, qless.LockTime(time.Hour))
	e.Pops("a", 600)
	jobs := e.Pops("b", 600)
	client, calls := e.between(func() {
		e.Clock.Advance(50 * time.Second)
		for _, jid := range short {
			require.NoError(t, errOf(e.Read(jid).Heartbeat(t.Context())))
		}
		require.NoError(t, jobs[599].Complete(t.Context()))
	})
	r := must(repairs.HeldBy(t.Context(), client, "w1"))(t)
	require.Subset(t, r, jids(jobs[:599]))
	require.NotContains(t, r, jobs[599].JID)
	require.Len(t, long, 600)
	require.GreaterOrEqual(t, *calls, 2)
}

func TestAPeekOfManyGoesInSteps(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		require.NoError(t, errOf(e.Queue("other").Recur(t.Context(), "K", nil, time.Second)))
		lost := e.fill("q", 300)
		e.Pops("q", 300)
		waiting := e.fill("q", 400)
		due := e.fill("q", 700, qless.Delay(time.Minute), qless.Priority(3))
		urgent := e.fill("q", 1, qless.Delay(time.Minute), qless.Priority(5))
		e.Clock.Advance(time.Hour)
		read := func(count int) (all []string) { return jids(must(e.Queue("q").Peek(t.Context(), count))(t)) }
		// The jobs that fell due first are moved.
		require.ElementsMatch(t, lost, read(300))
		require.Equal(t, 701, e.Counts("q").Waiting-400)
		all := read(5000)
		require.Len(t, all, 1401)
		require.ElementsMatch(t, lost, all[:300])
		require.Equal(t, urgent, all[300:301])
		require.ElementsMatch(t, due, all[301:1001])
		require.ElementsMatch(t, waiting, all[1001:])
		require.Equal(t, all[:1], read(1))
		require.Equal(t, all[:1000], read(1000))
		require.Equal(t, all[:1400], read(1400))
	})
}

func TestNoStepOfAPeekIsLong(t *testing.T) {
	e := newEnv(t)
	e.fill("q", 400)
	e.Pops("q", 400)
	e.fill("q", 1000, qless.Delay(time.Minute))
	require.NoError(t, errOf(e.Queue("q").Recur(t.Context(), "K", nil, time.Second, qless.JID("r"))))
	e.fill("q", 700)
	e.Clock.Advance(20 * time.Minute)
	e.requireShort(250*(3+8+4)+30, func() {
		require.Len(t, must(e.Queue("q").Peek(t.Context(), 100_000))(t), 400+1000+1201+700)
	})
}

func TestAPeekPassesOverFewJobsInAStep(t *testing.T) {
	e := newEnv(t)
	kept := e.fill("q", 30)
	e.bury("q", 1800)
	gone := e.fill("q", 900, qless.Priority(2))
	e.lose(gone...)
	e.requireShort(500*4+30, func() { require.Equal(t, kept, jids(must(e.Queue("q").Peek(t.Context(), 40))(t))) })
	require.EqualValues(t, 1830, e.Redis.ZCard(t.Context(), "ql:q:q-work").Val())
}

// Jobs leave, move and arrive while others are read.
func TestAQueueChangesWhileItIsPeekedInto(t *testing.T) {
	e := newEnv(t)
	e.Set("grace-period", 0)
	lost := e.fill("q", 300)
	e.Pops("q", 300)
	e.Clock.Advance(time.Hour)
	waiting := e.fill("q", 700)
	client, _ := e.between(func() {
		require.NoError(t, e.Cancel(t.Context(), waiting[10]))
		require.NoError(t, e.Read(waiting[0]).SetPriority(t.Context(), -1))
		require.NoError(t, e.Read(waiting[699]).SetPriority(t.Context(), 1))
		require.Len(t, e.Pops("q", 2), 2) // two of the lost jobs
	})
	got := jids(must(client.Queue("q").Peek(t.Context(), 2000))(t))
	require.Len(t, unique(got), len(got))
	require.Subset(t, got, waiting[1:10])
	require.Subset(t, got, waiting[11:])
	require.NotContains(t, got, waiting[10])
	require.Equal(t, waiting[0], got[len(got)-1])
	require.GreaterOrEqual(t, len(got), 298+699)
	require.Subset(t, append(lost, waiting...), got)
}

// Lost jobs are popped before all others, in any number of steps.
func TestAPopOfManyLostJobsHasThemFirst(t *testing.T) {
	for _, lost := range []int{30, 80, 120} {
		e := newEnv(t)
		e.Set("grace-period", 0)
		gone := e.fill("q", lost)
		e.Pops("q", lost)
		e.Clock.Advance(time.Hour)
		waiting := e.fill("q", 50)
		got := jids(e.Pops("q", lost+20))
		require.ElementsMatch(t, gone, got[:lost], lost)
		require.Equal(t, waiting[:20], got[lost:], lost)
	}
}

// A job that was read, and then moved behind unread jobs, is returned once.
func TestAPeekHasEachJobOnce(t *testing.T) {
	e := newEnv(t)
	waiting := e.fill("q", 700)
	client, _ := e.between(func() {
		for _, jid := range waiting[:100] {
			require.NoError(t, e.Read(jid).SetPriority(t.Context(), -1))
		}
	})
	require.Equal(t, waiting, jids(must(client.Queue("q").Peek(t.Context(), 2000))(t)))
}

// textOf returns the largest numbers of bytes of JSON, and of data beside it, in a client's
// replies.
func (e *env) textOf(run func(client *qless.Client)) (text, data int) {
	e.T.Helper()
	run(e.hooked(hook{ignore, func(cmd redis.Cmder) {
		reply, ok := cmd.(*redis.Cmd)
		if !ok {
			return
		}
		parts, ok := reply.Val().([]any)
		if !ok {
			parts = []any{reply.Val()}
		}
		bytes := 0
		for i, part := range parts {
			json, _ := part.(string)
			if i == 0 {
				text = max(text, len(json))
			} else {
				bytes += len(json)
			}
		}
		data = max(data, bytes)
	}}))
	return text, data
}

// The jobs have much to read: data that is just not large, long histories, or large data of lost or
// recurring jobs.
func TestARepliesTextIsBounded(t *testing.T) {
	read := map[string]func(client *qless.Client) []*qless.Job{
		"peek": func(client *qless.Client) []*qless.Job {
			return must(client.Queue("q").Peek(t.Context(), 300))(t)
		},
		"jobs": func(client *qless.Client) []*qless.Job {
			page := must(inspect.New(client).Queue("q", inspect.Waiting).JIDs(t.Context(), inspect.Range{Limit: -1}))(t)
			return must(client.Jobs(t.Context(), page.Items...))(t)
		},
		"pop": func(client *qless.Client) []*qless.Job { return must(client.Queue("q").Pop(t.Context(), 300))(t) },
	}
	for what, run := range read {
		runEnv(t, what, func(t *testing.T, e *env) {
			specs := make([]qless.JobSpec, 250)
			for i := range specs {
				specs[i] = qless.JobSpec{Klass: "K", Data: strings.Repeat("x", 4000)}
			}
			want := e.putInOrder("q", specs)
			entries := make([]any, 90)
			for i := range entries {
				entries[i] = fmt.Sprintf(`[%d,"popped",{"worker":"one-with-a-long-name-%d"}]`, noon.Unix(), i)
			}
			for _, jid := range want[:100] {
				require.NoError(t, e.Redis.RPush(t.Context(), "ql:j:"+jid+"-history", entries...).Err())
			}
			var jobs []*qless.Job
			text, _ := e.textOf(func(client *qless.Client) { jobs = run(client) })
			require.Equal(t, want, jids(jobs))
			require.Less(t, text, 1_500_000)
			if what != "pop" {
				require.Less(t, text, 300_000)
			}
		})
	}
}

func TestAPopOfLargeJobsThatAreDueIsBounded(t *testing.T) {
	for what, prepare := range map[string]func(e *env){
		"lost": func(e *env) {
			e.Set("grace-period", 0)
			e.putLarge(20)
			e.Pops("q", 20)
		},
		"recurring": func(e *env) {
			data := raw(`"` + strings.Repeat("x", 1<<20) + `"`)
			require.NoError(t, errOf(e.Queue("q").Recur(t.Context(), "K", data, 3*time.Minute)))
		},
	} {
		runEnv(t, what, func(t *testing.T, e *env) {
			prepare(e)
			e.Clock.Advance(57 * time.Minute)
			var jobs []*qless.Job
			_, data := e.textOf(func(client *qless.Client) {
				jobs = must(client.Queue("q").Pop(t.Context(), 100))(t)
			})
			require.Len(t, jobs, 20)
			require.LessOrEqual(t, data, 3<<20)
		})
	}
}

// unique returns the texts without duplicates.
func unique(texts []string) []string {
	texts = slices.Clone(texts)
	slices.Sort(texts)
	return slices.Compact(texts)
}

// To search data, or to show its beginning, all of it is read.
func TestLargeDataIsSearchedAndShownInSteps(t *testing.T) {
	e := newEnv(t)
	var want []string
	for i := range 40 {
		jid, err := e.Queue("q").Put(t.Context(), "K", strings.Repeat("x", 200_000)+fmt.Sprint("-", i))
		require.NoError(t, err)
		want = append(want, jid)
		e.Clock.Advance(time.Millisecond)
	}
	read := func(script []testkit.Monitored) (count int) {
		for _, command := range script {
			if strings.EqualFold(command.Words[0], "hget") {
				count++
			}
		}
		return count
	}
	var found []string
	for _, script := range e.scriptsOf(func() {
		for after, more := inspect.Cursor(""), true; more; more = after != "" {
			f := must(e.inspect().Queue("q", inspect.Waiting).Where(inspect.Filter{Data: "x-"}).Find(t.Context(), after))(t)
			for _, job := range f.Items {
				found = append(found, job.JID)
			}
			after = f.Next
		}
	}) {
		require.LessOrEqual(t, read(script), 11)
	}
	require.Equal(t, want, found)
	for _, script := range e.scriptsOf(func() {
		page := must(e.inspect().Queue("q", inspect.Waiting).WithData(10).List(t.Context(), inspect.Range{}))(t)
		require.Len(t, page.Items, 25)
		require.Equal(t, want[24], page.Items[24].JID)
	}) {
		require.LessOrEqual(t, read(script), 11)
	}
}

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

// many is a number of arguments too large for a call by the server's Lua.
const many = 8_500

// newLargeEnv returns an env that gives the server time for long scripts.
func newLargeEnv(t *testing.T) *env {
	t.Helper()
	e := newEnvOn(t, testkit.Start(t, "--lua-time-limit", "60000"))
	e.Redis = e.Redis.WithTimeout(patience)
	e.Client = e.NewClient(e.Redis, qless.ClientConfig{})
	return e
}

// putMany puts many jobs into a queue, through an overdue recurring job, and returns their jids.
func (e *env) putMany(queue string) []string {
	e.T.Helper()
	_, err := e.Queue(queue).Recur(e.T.Context(), "K", nil, time.Second, qless.JID(queue))
	require.NoError(e.T, err)
	e.Clock.Advance((many - 1) * time.Second)
	e.run("peek", queue, many)
	require.Equal(e.T, many, e.Counts(queue).Waiting)
	require.NoError(e.T, e.recurring(queue).Cancel(e.T.Context()))
	all := make([]string, many)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", queue, i+1)
	}
	return all
}

// runMany pops many jobs without reading them.
func (e *env) runMany(queue string) {
	e.T.Helper()
	e.run("pop", queue, "w1", many)
	require.Equal(e.T, qless.QueueCounts{Name: queue, Running: many}, e.Counts(queue))
}

// finishAll ends many running jobs in the same way.
func (e *env) finishAll(queue, action string, jids []string, args ...any) {
	e.T.Helper()
	for part := range slices.Chunk(jids, 500) {
		line := []any{"w1"}
		for _, jid := range part {
			line = append(line, action, jid, queue, "", len(args))
			line = append(line, args...)
		}
		require.NotContains(e.T, fmt.Sprint(e.run("finish", line...)), "!")
	}
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

func TestManyTags(t *testing.T) {
	e := newLargeEnv(t)
	tags := make([]string, many)
	for i := range tags {
		tags[i] = fmt.Sprint("tag", i)
	}
	jid := e.Put("q", qless.Tags(tags))
	require.Equal(t, qless.Tags(tags), e.Read(jid).Tags)
	job := e.Pop("q")
	require.Equal(t, qless.Tags(tags), job.Tags)
	require.NoError(t, job.Untag(t.Context(), tags[1:]...))
	require.NoError(t, job.Tag(t.Context(), tags...))
	require.Equal(t, qless.Tags(tags), e.Read(jid).Tags)
	require.NoError(t, job.Next(t.Context(), "q"))
	require.NoError(t, e.Cancel(t.Context(), jid))
	require.NotContains(t, e.Dump(), "ql:tags")
}

func TestManyDependencies(t *testing.T) {
	e := newLargeEnv(t)
	all := e.putMany("deps")
	e.Put("q", qless.JID("j"), qless.DependsOn(all))
	require.Equal(t, sorted(all), sorted(e.Read("j").Dependencies))

	e.runMany("deps")
	e.finishAll("deps", "complete", all[1:])
	require.Equal(t, all[:1], e.Read("j").Dependencies)
	require.Empty(t, e.Pops("q", 1))
	e.finishAll("deps", "complete", all[:1])
	require.Equal(t, "j", e.Pop("q").JID)
}

func TestManyJobsAtOnce(t *testing.T) {
	e := newLargeEnv(t)
	e.Set("grace-period", 0)
	all := e.putMany("q")
	require.Equal(t, all, jids(e.Pops("q", many)))
	require.Equal(t, many, e.Counts("q").Running)
	require.Equal(t, many, e.stats("q", e.Clock.Now()).Wait.Count)
	read := must(e.Jobs(t.Context(), all...))(t)
	require.Equal(t, all, jids(read))
	running := must(e.inspect().Queue("q", inspect.Running).JIDs(t.Context(), inspect.Range{Limit: many}))(t)
	require.Len(t, running.Items, many)

	e.Clock.Advance(2 * time.Minute)
	require.Equal(t, many, e.Counts("q").Stalled)
	e.runMany("q")
	require.Equal(t, many, e.stats("q", e.Clock.Now()).Retries)
	for some := range slices.Chunk(all, 500) {
		require.NoError(t, repairs.TimeOut(t.Context(), e.Client, some...))
	}
	e.runMany("q")

	e.finishAll("q", "retry", all, "delay", 60)
	require.Equal(t, many, e.Counts("q").Scheduled)
	e.Clock.Advance(2 * time.Minute)
	e.runMany("q")

	e.finishAll("q", "fail", all, "group", "g", "message", "m")
	page := must(e.inspect().Failed("g").JIDs(t.Context(), inspect.Range{Limit: many}))(t)
	require.Len(t, page.Items, many)
	require.Equal(t, many, must(repairs.UnfailInto(t.Context(), e.Client, "other", "g", many))(t))
	require.Equal(t, many, e.Counts("other").Waiting)

	require.Equal(t, many, must(e.inspect().JIDs(all...).Cancel(t.Context()))(t).Changed)
	require.Zero(t, e.Counts("other").Waiting)
	for key := range e.Dump() {
		require.NotContains(t, key, "ql:j:")
	}
}
