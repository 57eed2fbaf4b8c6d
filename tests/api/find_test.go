package api

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// finder looks for jobs in a list.
type finder func(ctx context.Context, f qless.Filter, after qless.Cursor) (qless.Finding, error)

func (e *env) finder(list qless.List) finder {
	return func(ctx context.Context, f qless.Filter, after qless.Cursor) (qless.Finding, error) {
		return e.Queue("q").Find(ctx, list, f, after)
	}
}

// finders looks in the lists that the lists with jids have.
func finders(e *env) map[string]finder {
	all := map[string]finder{
		"completed": func(ctx context.Context, f qless.Filter, after qless.Cursor) (qless.Finding, error) {
			return e.FindCompleted(ctx, f, after)
		},
		"failed": func(ctx context.Context, f qless.Filter, after qless.Cursor) (qless.Finding, error) {
			return e.FindFailed(ctx, "g", f, after)
		},
		"tagged": func(ctx context.Context, f qless.Filter, after qless.Cursor) (qless.Finding, error) {
			return e.FindTagged(ctx, "t", f, after)
		},
	}
	for _, list := range []qless.List{
		qless.ListWaiting, qless.ListRunning, qless.ListStalled, qless.ListScheduled,
		qless.ListDepends, qless.ListRecurring,
	} {
		all[string(list)] = e.finder(list)
	}
	return all
}

// walk finds everything, in steps of a number of jobs, and calls between after each step.
func walk(t *testing.T, find finder, f qless.Filter, between func(found qless.Finding)) []string {
	t.Helper()
	all := []string{}
	for after, steps := qless.Cursor(""), 0; ; steps++ {
		require.Less(t, steps, 10_000)
		found, err := find(t.Context(), f, after)
		require.NoError(t, err)
		all = append(all, jidsOf(found.Items)...)
		if found.Next == "" {
			return all
		}
		require.NotEqual(t, after, found.Next)
		after = found.Next
		between(found)
	}
}

func still(qless.Finding) {}

func TestFindGoesThroughAListInItsOrder(t *testing.T) {
	for name := range finders(offlineEnv(t)) {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				want := listings(e)[name].fill(e)
				e.unchanged(func() {
					for _, limit := range []int{0, 1, 7, length, 1000} {
						require.Equal(t, want, walk(t, finders(e)[name], qless.Filter{Limit: limit}, still), limit)
					}
				})
			})
		})
	}
}

func TestWhatAFilterAsksFor(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for i, job := range []struct {
			klass string
			data  any
			tags  []string
		}{
			{"Mail", map[string]string{"to": "anna"}, []string{"red"}},
			{"Mail", map[string]string{"to": "bert"}, []string{"red", "blue"}},
			{"Call", map[string]string{"to": "anna"}, []string{"blue"}},
			{"Mailbox", nil, nil},
		} {
			_, err := e.Queue("q").Put(t.Context(), job.klass, job.data, qless.JID(fmt.Sprintf("j%d.%%d", i)),
				qless.Tags(job.tags...))
			require.NoError(t, err)
		}
		for _, c := range []struct {
			f    qless.Filter
			want []int
		}{
			{qless.Filter{}, []int{0, 1, 2, 3}},
			{qless.Filter{Klass: "Mail"}, []int{0, 1}},
			{qless.Filter{Klass: "mail"}, []int{}},
			{qless.Filter{Tag: "blue"}, []int{1, 2}},
			{qless.Filter{Tag: "blu"}, []int{}},
			{qless.Filter{JID: "j2"}, []int{2}},
			{qless.Filter{JID: ".%d"}, []int{0, 1, 2, 3}},
			{qless.Filter{Data: `"anna"`}, []int{0, 2}},
			{qless.Filter{Data: `anna`, Klass: "Mail", Tag: "red", JID: "0"}, []int{0}},
			{qless.Filter{Data: `anna`, Klass: "Mail", Tag: "blue"}, []int{}},
		} {
			got := []int{}
			for _, jid := range walk(t, e.finder(qless.ListWaiting), c.f, still) {
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
	require.NoError(t, e.rdb.ZAdd(t.Context(), "ql:q:q-depends", members...).Err())
	for _, c := range []struct {
		f      qless.Filter
		looked []int
	}{
		{qless.Filter{Klass: "K"}, []int{1000, 1000}},
		{qless.Filter{Data: "x"}, slices.Repeat([]int{100}, 24)},
		{qless.Filter{}, []int{500, 500, 500, 500}},
		{qless.Filter{Limit: 900}, []int{500, 500, 500, 500}},
	} {
		var looked []int
		walk(t, e.finder(qless.ListDepends), c.f, func(found qless.Finding) {
			looked = append(looked, found.Looked)
		})
		require.Subset(t, looked, c.looked)
		require.GreaterOrEqual(t, len(looked), len(c.looked))
	}
}

// Whatever comes and goes, also among thousands of jobs with one score, what stays is found once.
func TestFindMissesNothingThatStays(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for name, c := range map[string]struct {
		list qless.List
		key  string
	}{"rising": {qless.ListDepends, "ql:q:q-depends"}, "falling": {qless.ListWaiting, "ql:q:q-work"}} {
		for _, scores := range []int{1, 3, 1000} {
			t.Run(fmt.Sprint(name, scores), func(t *testing.T) {
				e := newEnv(t)
				dice := rand.New(rand.NewPCG(seed, 0))
				var stays []string
				member := func() redis.Z {
					return zmember(-float64(dice.IntN(scores))/7, fmt.Sprintf("%08x", dice.Uint32()))
				}
				add := func() redis.Z {
					m := member()
					require.NoError(t, e.rdb.ZAdd(t.Context(), c.key, m).Err())
					return m
				}
				var goes []redis.Z
				for range 300 {
					m, _ := add().Member.(string)
					stays = append(stays, m)
					goes = append(goes, add())
				}
				got := walk(t, e.finder(c.list), qless.Filter{Limit: 10}, func(found qless.Finding) {
					add()
					for _, gone := range []redis.Z{goes[dice.IntN(len(goes))], goes[dice.IntN(len(goes))]} {
						require.NoError(t, e.rdb.ZRem(t.Context(), c.key, gone.Member).Err())
					}
					if last := found.Items[len(found.Items)-1].JID; !slices.Contains(stays, last) {
						require.NoError(t, e.rdb.ZRem(t.Context(), c.key, last).Err()) // the cursor's own
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
		find := finders(e)["failed"]
		n := 0
		got := walk(t, find, qless.Filter{Limit: 4}, func(qless.Finding) {
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
