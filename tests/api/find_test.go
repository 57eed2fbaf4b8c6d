package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// inQueue selects the jobs of a list of the queue q.
func (e *env) inQueue(list inspect.List) inspect.Selection {
	return e.inspect().Queue("q", list)
}

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

func TestWhatAFilterAsksFor(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for i, job := range []struct {
			klass string
			data  any
			tags  []string
		}{
			{"Mail", map[string]string{"to": "anna"}, []string{"red"}},
			{"Mail", map[string]string{"to": "bert"}, []string{"red", "blue"}},
			{"Call", map[string]string{"to": "anna", "of": "<a & b>"}, []string{"blue"}},
			{"Mailbox", json.RawMessage(`"a & b"`), nil},
			{"Mailbox", json.RawMessage(`"caf\u00e9 \u20AC5 a\/b \"it\" \u0041"`), nil}, // as Python and PHP write it
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
	})
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

// Whichever jobs come and go, even among thousands with one score, the others are found once.
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

func TestFindFailedMissesNothingThatStays(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		var all []string
		for i := range 40 {
			all = append(all, e.fail("q", "g", qless.JID(fmt.Sprintf("j%02d", i))))
		}
		n := 0
		got := walk(t, e.inspect().Failed("g").AtMost(4), func(inspect.Found) {
			e.fail("q", "g", qless.JID(fmt.Sprint("new", n)))
			require.NoError(t, e.Cancel(t.Context(), all[n]), "an old one")
			require.NoError(t, e.Cancel(t.Context(), all[len(all)-1-n]), "a late one")
			n++
		})
		for _, jid := range all {
			if _, err := e.Job(t.Context(), jid); err == nil {
				require.Contains(t, got, jid)
			}
		}
	})
}

// rowsOf returns the jids that a selection's iterator yields.
func rowsOf(t testing.TB, s inspect.Selection) []string {
	t.Helper()
	all := []string{}
	for row, err := range s.Each(t.Context()) {
		require.NoError(t, err)
		all = append(all, row.JID)
	}
	return all
}

func TestFiltersAddUp(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
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
	})
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

// Jobs that move to the end of the list being read are not visited again.
func TestJobsThatMoveWithinTheirListAreChangedOnce(t *testing.T) {
	e := newEnv(t)
	e.puts("q", specs(1000)...)
	moved := 0
	for job, err := range e.inQueue(inspect.Waiting).Jobs(t.Context()) {
		require.NoError(t, err)
		require.NoError(t, job.Move(t.Context(), "q", qless.Priority(-1)))
		moved++
	}
	require.Equal(t, 1000, moved)
	done := must(e.inQueue(inspect.Waiting).Move(t.Context(), "q", qless.Priority(-2)))(t)
	require.Equal(t, inspect.Repair{Changed: 1000}, done)
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

func TestApplyLeavesJobsThatCannotBeChanged(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
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
	})
}

func TestTimeoutOfASelection(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for _, jid := range []string{"a", "b", "c"} {
			e.Put("q", qless.JID(jid))
		}
		e.Pops("q", 2)
		done := must(e.inspect().JIDs("a", "b", "c", "gone").Timeout(t.Context()))(t)
		require.Equal(t, 2, done.Changed)
		require.ErrorIs(t, done.Reasons["c"], qless.ErrNotRunning)
		require.ErrorIs(t, done.Reasons["gone"], qless.ErrNotFound)
		require.Equal(t, qless.StateTimedOut, e.Read("a").State)
		held := rowsOf(t, e.inspect().HeldBy("w1"))
		require.Empty(t, held)
		require.ElementsMatch(t, []string{"a", "b"}, jids(e.Pops("q", 2)))
		require.Equal(t, []string{"a", "b"}, slices.Sorted(slices.Values(rowsOf(t, e.inspect().HeldBy("w1")))))
	})
}
