package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// length is the number of items in each list of the test.
const length = 30

// made calls do with each jid of a list, and returns the jids in order.
func made(do func(jid string)) []string {
	var all []string
	for i := range length {
		jid := fmt.Sprintf("job-%02d", i)
		do(jid)
		all = append(all, jid)
	}
	return all
}

// fills put the items of each list, in order.
var fills = map[string]func(e *env) []string{
	"waiting": func(e *env) []string { return made(func(jid string) { e.Put("q", qless.JID(jid)) }) },
	"running": func(e *env) []string {
		return e.taken(func(*qless.Job) error { e.Clock.Advance(time.Second); return nil })
	},
	"stalled": func(e *env) []string {
		jids := e.taken(func(*qless.Job) error { return nil })
		e.Clock.Advance(time.Hour)
		return jids
	},
	"scheduled": func(e *env) []string {
		return made(func(jid string) { e.Put("q", qless.JID(jid), qless.Delay(time.Hour)) })
	},
	"depends": func(e *env) []string {
		e.Put("other", qless.JID("parent"))
		return made(func(jid string) { e.Put("q", qless.JID(jid), qless.DependsOn{"parent"}) })
	},
	"recurring": func(e *env) []string {
		return made(func(jid string) {
			_, err := e.Queue("q").Recur(e.T.Context(), "K", nil, time.Hour, qless.JID(jid))
			require.NoError(e.T, err)
		})
	},
	"completed": func(e *env) []string {
		return lastFirst(e.taken(func(job *qless.Job) error { return job.Complete(e.T.Context()) }))
	},
	"failed": func(e *env) []string {
		return lastFirst(e.taken(func(job *qless.Job) error { return job.Fail(e.T.Context(), "g", "m") }))
	},
	"tagged": func(e *env) []string {
		return made(func(jid string) { e.Put("q", qless.JID(jid), qless.Tags{"t"}) })
	},
	"tags": func(e *env) []string {
		return lastFirst(made(func(tag string) {
			e.Put("q", qless.Tags{tag, "of one job: " + tag})
			e.Put("q", qless.Tags{tag})
		}))
	},
	"tracked": func(e *env) []string {
		return made(func(jid string) {
			require.NoError(e.T, e.Read(e.Put("q", qless.JID(jid))).Track(e.T.Context()))
		})
	},
}

// taken puts and pops each job of a list, and does something with it.
func (e *env) taken(do func(job *qless.Job) error) []string {
	return made(func(jid string) {
		e.Put("q", qless.JID(jid))
		require.NoError(e.T, do(e.Pop("q")))
	})
}

func lastFirst(list []string) []string {
	slices.Reverse(list)
	return list
}

func TestAllListsHaveOneShape(t *testing.T) {
	for name, fill := range fills {
		runOnEach(t, name, func(t *testing.T, e *env) {
			ctx, read := t.Context(), e.inspect().Tags
			all, isSelection := selections(e)[name]
			if isSelection {
				read = all.JIDs
			}
			// shows requires that a range has these items, also with summaries.
			shows := func(r inspect.Range, want inspect.Page[string]) {
				t.Helper()
				require.Equal(t, want, must(read(ctx, r))(t), "%+v", r)
				if isSelection {
					page := must(all.List(ctx, r))(t)
					require.Equal(t, want.Items, jidsOf(page.Items), "%+v", r)
					require.Equal(t, want.Total, page.Total, "%+v", r)
				}
			}
			shows(inspect.Range{}, inspect.Page[string]{Items: []string{}})
			items := fill(e)
			e.Unchanged(func() {
				for _, c := range []struct {
					r    inspect.Range
					want []string
				}{
					{inspect.Range{}, items[:25]},
					{inspect.Range{Limit: 1}, items[:1]},
					{inspect.Range{Offset: 3, Limit: 2}, items[3:5]},
					{inspect.Range{Offset: 25}, items[25:]},
					{inspect.Range{Offset: length - 1, Limit: 10}, items[length-1:]},
					{inspect.Range{Limit: -1}, items},
					{inspect.Range{Limit: 100_000}, items},
					{inspect.Range{Offset: 7, Limit: -1}, items[7:]},
					{inspect.Range{Offset: length}, []string{}},
					{inspect.Range{Offset: math.MaxInt32, Limit: -1}, []string{}},
				} {
					shows(c.r, inspect.Page[string]{Items: c.want, Total: length})
				}
				for _, r := range []inspect.Range{
					{Offset: -1}, {Offset: math.MaxInt32 + 1}, {Limit: -2}, {Limit: 100_001},
				} {
					requireCode(t, qless.ErrInvalid, errOf(read(ctx, r)))
					if isSelection {
						requireCode(t, qless.ErrInvalid, errOf(all.List(ctx, r)))
					}
				}
				if isSelection {
					require.Equal(t, items, walk(t, all, still))
					for _, limit := range []int{1, 7, length, 1000} {
						require.Equal(t, items, walk(t, all.AtMost(limit), still), limit)
					}
					require.Equal(t, items, rowsOf(t, all))
				}
			})
		})
	}
}

// fail puts a job, pops it and makes it fail.
func (e *env) fail(queue, group string, options ...qless.PutOption) string {
	e.T.Helper()
	jid := e.Put(queue, append(options, qless.Priority(1000))...)
	job := e.Pop(queue)
	require.Equal(e.T, jid, job.JID)
	require.NoError(e.T, job.Fail(e.T.Context(), group, "why "+jid))
	return jid
}

// fails does so with several jobs, one after another.
func (e *env) fails(queue, group string, jids ...string) {
	e.T.Helper()
	for _, jid := range jids {
		e.fail(queue, group, qless.JID(jid))
	}
}

func jidsOf(items []inspect.Row) []string {
	all := []string{}
	for _, item := range items {
		all = append(all, item.JID)
	}
	return all
}

// rounded returns a summary without the microseconds by which the tests' clock advances.
func rounded(s inspect.Row) inspect.Row {
	for _, at := range []*time.Time{&s.Since, &s.Due, &s.Expires} {
		if !at.IsZero() {
			*at = at.Round(time.Second).UTC()
		}
	}
	if s.Failure != nil {
		s.Failure.When = s.Failure.When.UTC()
	}
	return s
}

// The methods of listOnEach are tests on a real server, and on miniredis.
type listOnEach struct{}

func TestListsOnEachServer(t *testing.T) { runEach(t, listOnEach{}) }

func (listOnEach) WhatAListShowsOfAJob(t *testing.T, e *env) {
	ctx := t.Context()
	queue := e.Queue("q")
	shown := 0 // bytes of data shown
	only := func(list inspect.List) inspect.Row {
		t.Helper()
		page := must(e.inspect().Queue("q", list).WithData(shown).List(ctx, inspect.Range{}))(t)
		require.Len(t, page.Items, 1)
		return rounded(page.Items[0])
	}
	jid := must(queue.Put(ctx, "K", map[string]string{"text": "äöü"}, qless.JID("j"),
		qless.Tags{"red", "blue"}, qless.Priority(3), qless.Retries(1)))(t)
	want := inspect.Row{
		JID: jid, Klass: "K", Queue: "q", State: qless.StateWaiting, Priority: 3, Retries: 1,
		Remaining: 1, Tags: []string{"red", "blue"}, Since: noon, DataSize: len(`{"text":"äöü"}`),
	}
	require.Equal(t, want, only(inspect.Waiting))
	for bytes, data := range map[int]string{
		1: `{`, 9: `{"text":"`, 10: `{"text":"`, 11: `{"text":"ä`, 100: `{"text":"äöü"}`,
	} {
		shown = bytes
		require.Equal(t, data, only(inspect.Waiting).Data)
	}
	shown = 0

	e.Clock.Advance(time.Second)
	job := e.Pop("q")
	want.State, want.Worker, want.Since = qless.StateRunning, "w1", noon.Add(time.Second)
	want.Expires = noon.Add(61 * time.Second)
	require.Equal(t, want, only(inspect.Running))

	e.Clock.Advance(time.Minute)
	require.Equal(t, want, only(inspect.Stalled))

	require.NoError(t, errOf(job.Retry(ctx, time.Hour, "g", "m")))
	want.State, want.Worker, want.Expires, want.Remaining = qless.StateScheduled, "", time.Time{}, 0
	want.Due = noon.Add(61*time.Second + time.Hour)
	want.Failure = &qless.Failure{Group: "g", Message: "m", When: noon.Add(61 * time.Second), Worker: "w1"}
	require.Equal(t, want, only(inspect.Scheduled))
	tagged := must(e.inspect().Tagged("red").List(ctx, inspect.Range{}))(t)
	require.Equal(t, want, rounded(tagged.Items[0]), "every list shows when it is due")

	e.Clock.Advance(time.Hour)
	require.True(t, only(inspect.Scheduled).IsDue)
	require.NoError(t, e.Pop("q").Fail(ctx, "g2", strings.Repeat("ä", 200)))
	failed := must(e.inspect().Failed("g2").List(ctx, inspect.Range{}))(t)
	require.Equal(t, 1, failed.Total)
	require.Equal(t, strings.Repeat("ä", 128), failed.Items[0].Failure.Message)
	require.Equal(t, noon.Add(61*time.Second+time.Hour), failed.Items[0].Since.UTC())
	require.Equal(t, qless.StateFailed, failed.Items[0].State)

	e.Put("q", qless.JID("child"), qless.DependsOn{"j"}, qless.Delay(3*time.Hour))
	require.Equal(t, e.Clock.Now().Add(3*time.Hour).Round(time.Second), only(inspect.Depends).Due)

	require.NoError(t, errOf(queue.Recur(ctx, "R", nil, 90*time.Second, qless.JID("r"), qless.Offset(time.Minute))))
	recurring := inspect.Row{
		JID: "r", Klass: "R", Queue: "q", Retries: 5, Interval: 90 * time.Second, DataSize: 2,
		Due: e.Clock.Now().Add(time.Minute).Round(time.Second),
	}
	require.Equal(t, recurring, only(inspect.Recurring))
	e.Clock.Advance(time.Minute)
	recurring.IsDue = true
	require.Equal(t, recurring, only(inspect.Recurring))
}

func (listOnEach) AJobWithoutARecordIsListed(t *testing.T, e *env) {
	e.Put("q", qless.JID("there"))
	require.NoError(t, e.Redis.ZAdd(t.Context(), "ql:q:q-work", zmember(0, "gone")).Err())
	require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:odd", "klass", "K", "tags", "no JSON", "priority", "high",
		"failure", "[", "time", "never").Err())
	require.NoError(t, e.Redis.ZAdd(t.Context(), "ql:q:q-work", zmember(-1, "odd")).Err())
	require.NoError(t, e.Redis.Set(t.Context(), "ql:j:text", "a text", 0).Err())
	require.NoError(t, e.Redis.ZAdd(t.Context(), "ql:q:q-work", zmember(-2, "text")).Err())
	page := must(e.inspect().Queue("q", inspect.Waiting).WithData(1).List(t.Context(), inspect.Range{}))(t)
	require.Equal(t, []string{"gone", "there", "odd", "text"}, jidsOf(page.Items))
	require.Equal(t, inspect.Row{JID: "gone"}, page.Items[0])
	require.Equal(t, inspect.Row{JID: "odd", Klass: "K"}, page.Items[2])
	require.Equal(t, inspect.Row{JID: "text"}, page.Items[3])
}

func TestDataIsShownDecodedUnlessItIsVeryLarge(t *testing.T) {
	e := newEnvWith(t, qless.ClientConfig{Codec: &reversed{name: "rev", key: "k1"}})
	large, small := strings.Repeat("x", 256<<10-1), strings.Repeat("x", 256<<10-2)
	for jid, job := range map[string]qless.JobSpec{
		"coded": {Klass: "K", Data: "secret"}, "large": {Klass: "Plain", Data: large}, "small": {Klass: "Plain", Data: small},
	} {
		require.NoError(t, errOf(e.Queue("q").Put(t.Context(), job.Klass, job.Data, qless.JID(jid))))
	}
	page := must(e.inspect().Queue("q", inspect.Waiting).WithData(4).List(t.Context(), inspect.Range{}))(t)
	for _, item := range page.Items {
		require.Equal(t, map[string]string{"coded": `"sec`, "large": "", "small": `"xxx`}[item.JID], item.Data, item.JID)
	}
}

func TestListsThatThereAreNot(t *testing.T) {
	e := newEnv(t)
	ctx, r := t.Context(), inspect.Range{}
	for _, list := range []inspect.List{"complete", "failed", "tagged", "tracked", "recur", "", "nonsense"} {
		requireCode(t, qless.ErrInvalid, errOf(e.inspect().Queue("q", list).List(ctx, r)))
		requireCode(t, qless.ErrInvalid, errOf(e.inspect().Queue("q", list).JIDs(ctx, r)))
		requireCode(t, qless.ErrInvalid, errOf(e.inspect().Queue("q", list).Find(ctx, "")))
	}
	in := e.inspect()
	for _, err := range []error{
		errOf(in.Queue("", inspect.Waiting).List(ctx, r)), errOf(in.Failed("").List(ctx, r)),
		errOf(in.Tagged("\xff").List(ctx, r)), errOf(in.Tracked().WithData(-1).List(ctx, r)),
		errOf(in.Tracked().WithData(65537).List(ctx, r)), errOf(in.JIDs().List(ctx, r)),
		errOf(in.Queue("", inspect.Waiting).Find(ctx, "")), errOf(in.Tagged("").Find(ctx, "")),
		errOf(in.Failed("g").AtMost(0).Find(ctx, "")), errOf(in.Failed("g").Where(inspect.Filter{}).Find(ctx, "")),
		errOf(in.Failed("g").Where(inspect.Filter{Large: true}).Find(ctx, "")),
		errOf(in.Failed("g").Where(inspect.Filter{Tag: "\xff"}).Find(ctx, "")),
		errOf(in.Completed().Where(inspect.Filter{Klass: "K"}).List(ctx, r)),
		errOf(in.Completed().Find(ctx, "nonsense")), errOf(in.Completed().Find(ctx, "x y")),
		errOf(in.Failed("g").Find(ctx, "-1 y")), errOf(in.Completed().Find(ctx, "nan y")),
		errOf(in.JIDs("j").Find(ctx, "1")), errOf(in.JIDs("j").Find(ctx, "-1")),
		errOf(in.Sweep(ctx, "")), errOf(in.Sweep(ctx, "\xff")), errOf(in.Sweep(ctx, "q", "*")),
		errOf(in.Sweep(ctx, make([]string, 1001)...)), errOf(inspect.Selection{}.Count(ctx)), errOf(inspect.Selection{}.Cancel(ctx)),
	} {
		requireCode(t, qless.ErrInvalid, err)
	}
}

// inQueue selects the jobs of a list of the queue q.
func (e *env) inQueue(list inspect.List) inspect.Selection { return e.inspect().Queue("q", list) }

// selections returns a selection of each list.
func selections(e *env) map[string]inspect.Selection {
	in := e.inspect()
	all := map[string]inspect.Selection{
		"completed": in.Completed(), "failed": in.Failed("g"), "tagged": in.Tagged("t"), "tracked": in.Tracked(),
	}
	for _, list := range []inspect.List{
		inspect.Waiting, inspect.Running, inspect.Stalled, inspect.Scheduled,
		inspect.Depends, inspect.Recurring,
	} {
		all[string(list)] = e.inQueue(list)
	}
	return all
}

// where returns the jobs of a selection that match a filter, or all if the filter is empty.
func where(s inspect.Selection, f inspect.Filter) inspect.Selection {
	if f == (inspect.Filter{}) {
		return s
	}
	return s.Where(f)
}

// walk finds all matches, in steps of a number of jobs, and calls between after each step.
func walk(t *testing.T, s inspect.Selection, between func(found inspect.Found)) []string {
	t.Helper()
	all := []string{}
	for after, steps := inspect.Cursor(""), 0; ; steps++ {
		require.Less(t, steps, 10_000)
		found := must(s.Find(t.Context(), after))(t)
		all = append(all, jidsOf(found.Items)...)
		if found.Next == "" {
			return all
		}
		require.NotEqual(t, after, found.Next)
		after = found.Next
		between(found)
	}
}

func still(inspect.Found) {}

func (listOnEach) WhatAFilterAsksFor(t *testing.T, e *env) {
	for i, job := range []struct {
		klass string
		data  any
		tags  []string
	}{
		{"Mail", map[string]string{"to": "anna"}, []string{"red"}},
		{"Mail", map[string]string{"to": "bert"}, []string{"red", "blue"}},
		{"Call", map[string]string{"to": "anna", "of": "<a & b>"}, []string{"blue"}},
		{"Mailbox", json.RawMessage(`"a & b"`), nil},
		{"Mailbox", json.RawMessage(`"caf\u00e9 \u20AC5 a\/b \"it\" \u0041"`), nil}, // as in Python and PHP
	} {
		_, err := e.Queue("q").Put(t.Context(), job.klass, job.data, qless.JID(fmt.Sprintf("j%d.%%d", i)),
			qless.Tags(job.tags))
		require.NoError(t, err)
	}
	for _, c := range []struct {
		f    inspect.Filter
		want []int
	}{
		{inspect.Filter{}, []int{0, 1, 2, 3, 4}},
		{inspect.Filter{Klass: "Mail"}, []int{0, 1}},
		{inspect.Filter{Klass: "mail"}, []int{}},
		{inspect.Filter{Tag: "blue"}, []int{1, 2}},
		{inspect.Filter{Tag: "blu"}, []int{}},
		{inspect.Filter{JID: "j2"}, []int{2}},
		{inspect.Filter{JID: ".%d"}, []int{0, 1, 2, 3, 4}},
		{inspect.Filter{Data: `"anna"`}, []int{0, 2}},
		{inspect.Filter{Data: `anna`, Klass: "Mail", Tag: "red", JID: "0"}, []int{0}},
		{inspect.Filter{Data: `anna`, Klass: "Mail", Tag: "blue"}, []int{}},
		{inspect.Filter{Data: "a & b"}, []int{2, 3}},
		{inspect.Filter{Data: `"<a &`}, []int{2}},
		{inspect.Filter{Data: `\u0026`}, []int{2}},
		{inspect.Filter{Data: `café €5 a/b "it" A`}, []int{4}},
		{inspect.Filter{Data: `f\u00e9`}, []int{4}},
		{inspect.Filter{Data: `cafe`}, []int{}},
	} {
		got := []int{}
		for _, jid := range walk(t, where(e.inQueue(inspect.Waiting), c.f), still) {
			got = append(got, int(jid[1]-'0'))
		}
		require.Equal(t, c.want, got, "%+v", c.f)
	}
}

func TestFindLooksAtABoundedNumberOfJobs(t *testing.T) {
	e := newEnv(t)
	members := make([]redis.Z, 2500)
	for i := range members {
		members[i] = zmember(0, fmt.Sprintf("%04d", i))
	}
	require.NoError(t, e.Redis.ZAdd(t.Context(), "ql:q:q-depends", members...).Err())
	for _, c := range []struct {
		f      inspect.Filter
		looked []int
	}{
		{inspect.Filter{Klass: "K"}, []int{1000, 1000}},
		{inspect.Filter{Data: "x"}, slices.Repeat([]int{100}, 24)},
		{inspect.Filter{}, []int{500, 500, 500, 500}},
	} {
		var looked []int
		walk(t, where(e.inQueue(inspect.Depends), c.f), func(found inspect.Found) {
			looked = append(looked, found.Examined)
		})
		require.Subset(t, looked, c.looked)
		require.GreaterOrEqual(t, len(looked), len(c.looked))
	}
}

// Whichever jobs come and go, even among thousands with the same score, the others are found once.
func TestFindMissesNothingThatStays(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for name, c := range map[string]struct {
		list inspect.List
		key  string
	}{"rising": {inspect.Depends, "ql:q:q-depends"}, "falling": {inspect.Waiting, "ql:q:q-work"}} {
		for _, scores := range []int{1, 3, 1000} {
			runEnv(t, fmt.Sprint(name, scores), func(t *testing.T, e *env) {
				dice := rand.New(rand.NewPCG(seed, 0))
				var stays []string
				member := func() redis.Z {
					return zmember(-float64(dice.IntN(scores))/7, fmt.Sprintf("%08x", dice.Uint32()))
				}
				add := func() redis.Z {
					m := member()
					require.NoError(t, e.Redis.ZAdd(t.Context(), c.key, m).Err())
					return m
				}
				var goes []redis.Z
				for range 300 {
					m, _ := add().Member.(string)
					stays = append(stays, m)
					goes = append(goes, add())
				}
				got := walk(t, e.inQueue(c.list).AtMost(10), func(found inspect.Found) {
					add()
					for _, gone := range []redis.Z{goes[dice.IntN(len(goes))], goes[dice.IntN(len(goes))]} {
						require.NoError(t, e.Redis.ZRem(t.Context(), c.key, gone.Member).Err())
					}
					if last := found.Items[len(found.Items)-1].JID; !slices.Contains(stays, last) {
						require.NoError(t, e.Redis.ZRem(t.Context(), c.key, last).Err()) // the cursor's job
					}
				})
				require.Subset(t, got, stays)
				sorted := slices.Sorted(slices.Values(got))
				require.Equal(t, slices.Compact(slices.Clone(sorted)), sorted, "none twice")
			})
		}
	}
}

// rowsOf returns the jids from a selection's iterator.
func rowsOf(t testing.TB, s inspect.Selection) []string {
	t.Helper()
	all := []string{}
	for row, err := range s.Each(t.Context()) {
		require.NoError(t, err)
		all = append(all, row.JID)
	}
	return all
}

func (listOnEach) FiltersAddUp(t *testing.T, e *env) {
	for i := range 6 {
		e.Put("q", qless.JID(fmt.Sprint("j", i)), qless.Tags{fmt.Sprint("even", i%2 == 0), fmt.Sprint("third", i%3 == 0)})
	}
	both := e.inQueue(inspect.Waiting).Where(inspect.Filter{Tag: "eventrue"}).Where(inspect.Filter{Tag: "thirdtrue"})
	require.Equal(t, []string{"j0"}, rowsOf(t, both))
	require.Equal(t, 1, must(both.Count(t.Context()))(t))
	named := e.inspect().JIDs("j4", "gone", "j1", "j0", "j4").Where(inspect.Filter{Tag: "eventrue"})
	require.Equal(t, []string{"j4", "j0"}, rowsOf(t, named))
	require.Equal(t, inspect.Repair{Changed: 2}, must(named.Untag(t.Context(), "eventrue"))(t))
	require.Empty(t, rowsOf(t, named))
}

func TestASelectionIsAValue(t *testing.T) {
	e := newEnv(t)
	for i := range 4 {
		e.Put("q", qless.JID(fmt.Sprint("j", i)), qless.Tags{fmt.Sprint("t", i)})
	}
	all := e.inQueue(inspect.Waiting)
	one, two := all.Where(inspect.Filter{Tag: "t1"}), all.Where(inspect.Filter{Tag: "t2"})
	require.Equal(t, []string{"j1"}, rowsOf(t, one))
	require.Equal(t, []string{"j2"}, rowsOf(t, two))
	require.Len(t, rowsOf(t, all), 4)
	require.Len(t, rowsOf(t, all.AtMost(3).AtMost(5)), 3)
	for _, s := range []inspect.Selection{all.AtMost(2), e.inspect().JIDs("j0", "j1", "j2").AtMost(2)} {
		require.Equal(t, 2, must(s.Count(t.Context()))(t))
		page := must(s.JIDs(t.Context(), inspect.Range{Offset: 1}))(t)
		require.Equal(t, inspect.Page[string]{Items: []string{"j1"}, Total: 2}, page)
		rows := must(s.List(t.Context(), inspect.Range{Offset: 1}))(t)
		require.Equal(t, []string{"j1"}, jidsOf(rows.Items))
	}
}

// Dependencies in a different step from their dependents are canceled after them.
func TestCancelTakesDependenciesLast(t *testing.T) {
	e := newEnv(t)
	const length = 600
	for i := range length {
		var options []qless.PutOption
		if i > 0 {
			options = append(options, qless.DependsOn{fmt.Sprintf("j%03d", i-1)})
		}
		e.Put("q", append(options, qless.JID(fmt.Sprintf("j%03d", i)), qless.Tags{"chain"})...)
	}
	e.Put("other", qless.JID("outside"), qless.DependsOn{"j100"})
	done := must(e.inspect().Tagged("chain").Cancel(t.Context()))(t)
	require.Equal(t, length-101, done.Changed)
	require.Equal(t, 101, done.Unchanged)
	require.ErrorIs(t, done.Reasons["j100"], qless.ErrHasDependents)
	require.NoError(t, e.Cancel(t.Context(), "outside"))
	done = must(e.inspect().Tagged("chain").AtMost(100).Cancel(t.Context()))(t)
	require.Equal(t, 100, done.Changed)
}

func TestARepairIsStopped(t *testing.T) {
	e := newEnv(t)
	e.puts("q", specs(1000)...)
	stop, steps := errors.New("enough"), 0
	s := e.inQueue(inspect.Waiting).OnStep(func(soFar inspect.Repair) error {
		if steps++; steps == 2 {
			require.Equal(t, 200, soFar.Changed)
			return stop
		}
		return nil
	})
	done, err := s.Tag(t.Context(), "red")
	require.ErrorIs(t, err, stop)
	require.Equal(t, 200, done.Changed)
	ctx, cancel := context.WithCancel(t.Context())
	done, err = e.inQueue(inspect.Waiting).OnStep(func(inspect.Repair) error { cancel(); return nil }).Tag(ctx, "red")
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 100, done.Changed)
	var failed error
	for _, failed = range s.Each(ctx) {
	}
	require.ErrorIs(t, failed, context.Canceled)
}

func (listOnEach) ApplyLeavesJobsThatCannotBeChanged(t *testing.T, e *env) {
	for _, jid := range []string{"a", "b", "c"} {
		e.Put("q", qless.JID(jid))
	}
	require.Equal(t, "a", e.Pop("q").JID)
	var steps []int
	s := e.inspect().JIDs("a", "b", "gone", "c").OnStep(func(soFar inspect.Repair) error {
		steps = append(steps, soFar.Changed+soFar.Unchanged)
		return nil
	})
	later := func(ctx context.Context, job *qless.Job) error { return job.Reschedule(ctx, time.Hour) }
	done := must(s.Apply(t.Context(), later))(t)
	require.Equal(t, 2, done.Changed)
	require.ErrorIs(t, done.Reasons["a"], qless.ErrRunning)
	require.Equal(t, []int{1, 2, 3}, steps)
	broken := errors.New("broken")
	_, err := s.Apply(t.Context(), func(context.Context, *qless.Job) error { return broken })
	require.ErrorIs(t, err, broken)
}
