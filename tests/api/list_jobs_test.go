package api

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// fail puts a job, pops it and makes it fail.
func (e *env) fail(queue, group string, options ...qless.PutOption) string {
	e.t.Helper()
	jid := e.put(queue, append(options, qless.Priority(1000))...)
	job := e.pop(queue)
	require.Equal(e.t, jid, job.JID)
	require.NoError(e.t, job.Fail(e.t.Context(), group, "why "+jid))
	return jid
}

// lists reads a whole list of a queue, as jids.
func (e *env) lists(list qless.List, queue string) []string {
	e.t.Helper()
	page, err := e.Queue(queue).List(e.t.Context(), list, qless.Range{Limit: -1})
	require.NoError(e.t, err)
	return jidsOf(page.Items)
}

func jidsOf(items []qless.JobSummary) []string {
	all := []string{}
	for _, item := range items {
		all = append(all, item.JID)
	}
	return all
}

// rounded returns a summary without the microseconds by which the clock of the tests goes on.
func rounded(s qless.JobSummary) qless.JobSummary {
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

// summaryLists are the lists with summaries that belong to those with jids.
func summaryLists(e *env) map[string]func(context.Context, qless.Range) (qless.Page[qless.JobSummary], error) {
	all := map[string]func(context.Context, qless.Range) (qless.Page[qless.JobSummary], error){
		"completed": func(ctx context.Context, r qless.Range) (qless.Page[qless.JobSummary], error) {
			return e.ListCompleted(ctx, r)
		},
		"failed": func(ctx context.Context, r qless.Range) (qless.Page[qless.JobSummary], error) {
			return e.ListFailed(ctx, "g", r)
		},
		"tagged": func(ctx context.Context, r qless.Range) (qless.Page[qless.JobSummary], error) {
			return e.ListTagged(ctx, "t", r)
		},
		"tracked": func(ctx context.Context, r qless.Range) (qless.Page[qless.JobSummary], error) {
			return e.ListTracked(ctx, r)
		},
	}
	for _, list := range []qless.List{
		qless.ListWaiting, qless.ListRunning, qless.ListStalled, qless.ListScheduled,
		qless.ListDepends, qless.ListRecurring,
	} {
		all[string(list)] = func(ctx context.Context, r qless.Range) (qless.Page[qless.JobSummary], error) {
			return e.Queue("q").List(ctx, list, r)
		}
	}
	return all
}

func TestListsWithSummariesHaveTheOrderOfThoseWithJIDs(t *testing.T) {
	for name := range summaryLists(nil) {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				listings(e)[name].fill(e)
				e.unchanged(func() {
					for _, r := range []qless.Range{
						{}, {Limit: 1}, {Offset: 3, Limit: 2}, {Offset: 25}, {Limit: -1}, {Offset: length},
						{Offset: math.MaxInt32, Limit: -1},
					} {
						want, err := listings(e)[name].read(t.Context(), r)
						require.NoError(t, err)
						got, err := summaryLists(e)[name](t.Context(), r)
						require.NoError(t, err)
						require.Equal(t, want, qless.Page[string]{Items: jidsOf(got.Items), Total: got.Total}, "%+v", r)
					}
				})
				for _, r := range []qless.Range{{Offset: -1}, {Limit: -2}, {Limit: 100_001}} {
					requireCode(t, qless.ErrInvalid, errOf(summaryLists(e)[name](t.Context(), r)))
				}
			})
		})
	}
}

func TestWhatAListTellsOfAJob(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		queue := e.Queue("q")
		only := func(list qless.List, options ...qless.ListOption) qless.JobSummary {
			t.Helper()
			page, err := queue.List(ctx, list, qless.Range{}, options...)
			require.NoError(t, err)
			require.Len(t, page.Items, 1)
			return rounded(page.Items[0])
		}
		jid, err := queue.Put(ctx, "K", map[string]string{"text": "äöü"}, qless.JID("j"),
			qless.Tags("red", "blue"), qless.Priority(3), qless.Retries(1))
		require.NoError(t, err)
		want := qless.JobSummary{
			JID: jid, Klass: "K", Queue: "q", State: qless.StateWaiting, Priority: 3, Retries: 1,
			Remaining: 1, Tags: []string{"red", "blue"}, Since: noon, DataSize: len(`{"text":"äöü"}`),
		}
		require.Equal(t, want, only(qless.ListWaiting))
		for bytes, data := range map[int]string{
			1: `{`, 9: `{"text":"`, 10: `{"text":"`, 11: `{"text":"ä`, 100: `{"text":"äöü"}`,
		} {
			require.Equal(t, data, only(qless.ListWaiting, qless.DataBytes(bytes)).Data)
		}

		e.clock.Advance(time.Second)
		job := e.pop("q")
		want.State, want.Worker, want.Since = qless.StateRunning, "w1", noon.Add(time.Second)
		want.Expires = noon.Add(61 * time.Second)
		require.Equal(t, want, only(qless.ListRunning))

		e.clock.Advance(time.Minute)
		require.Equal(t, want, only(qless.ListStalled))

		require.NoError(t, errOf(job.Retry(ctx, qless.Delay(time.Hour), qless.Because("g", "m"))))
		want.State, want.Expires, want.Remaining = qless.StateScheduled, time.Time{}, 0
		want.Due = noon.Add(61*time.Second + time.Hour)
		want.Failure = &qless.Failure{Group: "g", Message: "m", When: noon.Add(61 * time.Second), Worker: "w1"}
		got := only(qless.ListScheduled)
		got.Worker = "w1" // it is not cleared by a retry
		require.Equal(t, want, got)

		e.clock.Advance(time.Hour)
		require.True(t, only(qless.ListScheduled).IsDue)
		require.NoError(t, e.pop("q").Fail(ctx, "g2", strings.Repeat("ä", 200)))
		failed, err := e.ListFailed(ctx, "g2", qless.Range{})
		require.NoError(t, err)
		require.Equal(t, 1, failed.Total)
		require.Equal(t, strings.Repeat("ä", 128), failed.Items[0].Failure.Message)
		require.Equal(t, noon.Add(61*time.Second+time.Hour), failed.Items[0].Since.UTC())
		require.Equal(t, qless.StateFailed, failed.Items[0].State)

		e.put("q", qless.JID("child"), qless.DependsOn("j"), qless.Delay(3*time.Hour))
		require.Equal(t, e.clock.Now().Add(3*time.Hour).Round(time.Second), only(qless.ListDepends).Due)

		require.NoError(t, errOf(queue.Recur(ctx, "R", nil, 90*time.Second, qless.JID("r"), qless.Offset(time.Minute))))
		recurring := qless.JobSummary{
			JID: "r", Klass: "R", Queue: "q", Retries: 5, Interval: 90 * time.Second, DataSize: 2,
			Due: e.clock.Now().Add(time.Minute).Round(time.Second),
		}
		require.Equal(t, recurring, only(qless.ListRecurring))
		e.clock.Advance(time.Minute)
		recurring.IsDue = true
		require.Equal(t, recurring, only(qless.ListRecurring))
	})
}

func TestAListTellsWhenAScheduledJobIsDueWhereverItIsListed(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.put("q", qless.JID("j"), qless.Tags("t"), qless.Delay(time.Minute))
		page, err := e.ListTagged(t.Context(), "t", qless.Range{})
		require.NoError(t, err)
		require.Equal(t, noon.Add(time.Minute), rounded(page.Items[0]).Due)
		require.False(t, page.Items[0].IsDue)
		e.clock.Advance(time.Minute)
		page, err = e.ListTagged(t.Context(), "t", qless.Range{})
		require.NoError(t, err)
		require.True(t, page.Items[0].IsDue)
	})
}

func TestAParkedJobTellsByWhichLimit(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.park("q", "j")
		page, err := e.Queue("q").List(t.Context(), qless.ListScheduled, qless.Range{})
		require.NoError(t, err)
		require.Equal(t, "api", page.Items[0].ParkedBy)
	})
}

func TestAJobWithoutARecordIsListed(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.put("q", qless.JID("there"))
		require.NoError(t, e.rdb.ZAdd(t.Context(), "ql:q:q-work", zmember(0, "gone")).Err())
		require.NoError(t, e.rdb.HSet(t.Context(), "ql:j:odd", "klass", "K", "tags", "no JSON", "priority", "high",
			"failure", "[", "time", "never").Err())
		require.NoError(t, e.rdb.ZAdd(t.Context(), "ql:q:q-work", zmember(-1, "odd")).Err())
		require.NoError(t, e.rdb.Set(t.Context(), "ql:j:text", "a text", 0).Err())
		require.NoError(t, e.rdb.ZAdd(t.Context(), "ql:q:q-work", zmember(-2, "text")).Err())
		page, err := e.Queue("q").List(t.Context(), qless.ListWaiting, qless.Range{}, qless.DataBytes(1))
		require.NoError(t, err)
		require.Equal(t, []string{"gone", "there", "odd", "text"}, jidsOf(page.Items))
		require.Equal(t, qless.JobSummary{JID: "gone"}, page.Items[0])
		require.Equal(t, qless.JobSummary{JID: "odd", Klass: "K"}, page.Items[2])
		require.Equal(t, qless.JobSummary{JID: "text"}, page.Items[3])
	})
}

func TestALongListIsReadInSteps(t *testing.T) {
	e := newEnv(t)
	members := make([]redis.Z, 1201)
	for i := range members {
		members[i] = zmember(float64(i), fmt.Sprintf("%04d", i))
	}
	require.NoError(t, e.rdb.ZAdd(t.Context(), "ql:q:q-depends", members...).Err())
	for _, options := range [][]qless.ListOption{nil, {qless.DataBytes(10)}} {
		page, err := e.Queue("q").List(t.Context(), qless.ListDepends, qless.Range{Limit: -1}, options...)
		require.NoError(t, err)
		require.Equal(t, 1201, page.Total)
		require.Len(t, page.Items, 1201)
		require.True(t, slices.IsSorted(jidsOf(page.Items)))
	}
	require.Contains(t, requireCode(t, qless.ErrInvalid,
		errOf(e.Run(t.Context(), "list", "", "waiting", "q", 0, 501, 0))).Message, "500")
}

func TestDataThatIsEncodedIsShownDecoded(t *testing.T) {
	e := newEnv(t, qless.WithCodec(&reversed{name: "rev", key: "k1"}))
	require.NoError(t, errOf(e.Queue("q").Put(t.Context(), "K", "secret", qless.JID("j"))))
	page, err := e.Queue("q").List(t.Context(), qless.ListWaiting, qless.Range{}, qless.DataBytes(4))
	require.NoError(t, err)
	require.Equal(t, `"sec`, page.Items[0].Data)
}

func TestVeryLargeDataIsNotShown(t *testing.T) {
	e := newEnv(t)
	for jid, size := range map[string]int{"large": 256<<10 + 1, "small": 256 << 10} {
		require.NoError(t, errOf(e.Queue("q").Put(t.Context(), "K", strings.Repeat("x", size-2), qless.JID(jid))))
	}
	page, err := e.Queue("q").List(t.Context(), qless.ListWaiting, qless.Range{}, qless.DataBytes(3))
	require.NoError(t, err)
	for _, item := range page.Items {
		require.Equal(t, map[string]string{"large": "", "small": `"xx`}[item.JID], item.Data)
	}
}

func TestListsThatThereAreNot(t *testing.T) {
	e := newEnv(t)
	ctx, r := t.Context(), qless.Range{}
	for _, list := range []qless.List{"complete", "failed", "tagged", "tracked", "recur", "", "nonsense"} {
		requireCode(t, qless.ErrInvalid, errOf(e.Queue("q").List(ctx, list, r)))
		requireCode(t, qless.ErrInvalid, errOf(e.Queue("q").Find(ctx, list, qless.Filter{}, "")))
	}
	for _, err := range []error{
		errOf(e.Queue("").List(ctx, qless.ListWaiting, r)), errOf(e.ListFailed(ctx, "", r)),
		errOf(e.ListTagged(ctx, "\xff", r)), errOf(e.ListTracked(ctx, r, nil)),
		errOf(e.ListTracked(ctx, r, qless.DataBytes(-1))), errOf(e.ListTracked(ctx, r, qless.DataBytes(65537))),
		errOf(e.Queue("").Find(ctx, qless.ListWaiting, qless.Filter{}, "")), errOf(e.FindTagged(ctx, "", qless.Filter{}, "")),
		errOf(e.FindFailed(ctx, "g", qless.Filter{Limit: -1}, "")), errOf(e.FindFailed(ctx, "g", qless.Filter{Tag: "\xff"}, "")),
		errOf(e.FindCompleted(ctx, qless.Filter{}, "", nil)), errOf(e.FindCompleted(ctx, qless.Filter{}, "nonsense")),
		errOf(e.FindCompleted(ctx, qless.Filter{}, "x y")), errOf(e.FindFailed(ctx, "g", qless.Filter{}, "-1 y")),
		errOf(e.FindCompleted(ctx, qless.Filter{}, "nan y")),
	} {
		requireCode(t, qless.ErrInvalid, err)
	}
}
