package api

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// length is how many items each list of the test has.
const length = 30

// A listing is a list with its items, which fill makes, in order.
type listing struct {
	read func(ctx context.Context, r qless.Range) (qless.Page[string], error)
	fill func(e *env) []string
}

// made returns the jids of the list's jobs, in order, after do has been called with each.
func made(do func(jid string)) []string {
	var all []string
	for i := range length {
		jid := fmt.Sprintf("job-%02d", i)
		do(jid)
		all = append(all, jid)
	}
	return all
}

// listings are all lists that the API has, of an env.
func listings(e *env) map[string]listing {
	ctx := e.t.Context()
	of := func(list qless.List) func(context.Context, qless.Range) (qless.Page[string], error) {
		return func(ctx context.Context, r qless.Range) (qless.Page[string], error) {
			return e.Queue("q").JIDs(ctx, list, r)
		}
	}
	taken := func(do func(*qless.Job)) []string {
		return made(func(jid string) {
			e.put("q", qless.JID(jid))
			do(e.pop("q"))
		})
	}
	reversed := func(jids []string) []string {
		slices.Reverse(jids)
		return jids
	}
	return map[string]listing{
		"waiting": {of(qless.ListWaiting), func(e *env) []string {
			return made(func(jid string) { e.put("q", qless.JID(jid)) })
		}},
		"running": {of(qless.ListRunning), func(*env) []string {
			return taken(func(*qless.Job) { e.clock.Advance(time.Second) })
		}},
		"stalled": {of(qless.ListStalled), func(*env) []string {
			jids := taken(func(*qless.Job) {})
			e.clock.Advance(time.Hour)
			return jids
		}},
		"scheduled": {of(qless.ListScheduled), func(*env) []string {
			return made(func(jid string) { e.put("q", qless.JID(jid), qless.Delay(time.Hour)) })
		}},
		"depends": {of(qless.ListDepends), func(*env) []string {
			e.put("other", qless.JID("parent"))
			return made(func(jid string) {
				e.put("q", qless.JID(jid), qless.DependsOn("parent"))
			})
		}},
		"recurring": {of(qless.ListRecurring), func(*env) []string {
			return made(func(jid string) {
				_, err := e.Queue("q").Recur(ctx, "K", nil, time.Hour, qless.JID(jid))
				require.NoError(e.t, err)
			})
		}},
		"completed": {e.Completed, func(*env) []string {
			return reversed(taken(func(job *qless.Job) {
				require.NoError(e.t, job.Complete(ctx))
			}))
		}},
		"failed": {
			func(ctx context.Context, r qless.Range) (qless.Page[string], error) {
				return e.FailedIn(ctx, "g", r)
			},
			func(*env) []string {
				return reversed(taken(func(job *qless.Job) {
					require.NoError(e.t, job.Fail(ctx, "g", "m"))
				}))
			},
		},
		"tagged": {
			func(ctx context.Context, r qless.Range) (qless.Page[string], error) {
				return e.Tagged(ctx, "t", r)
			},
			func(*env) []string {
				return made(func(jid string) { e.put("q", qless.JID(jid), qless.Tags("t")) })
			},
		},
		"tags": {e.Tags, func(*env) []string {
			return reversed(made(func(tag string) {
				e.put("q", qless.Tags(tag, "of one job: "+tag))
				e.put("q", qless.Tags(tag))
			}))
		}},
		"tracked": {e.Tracked, func(*env) []string {
			return made(func(jid string) {
				e.put("q", qless.JID(jid))
				require.NoError(e.t, e.job(jid).Track(ctx))
			})
		}},
	}
}

func TestAllListsHaveOneShape(t *testing.T) {
	for name := range listings(offlineEnv(t)) {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			list := listings(e)[name]
			read := func(r qless.Range) qless.Page[string] {
				t.Helper()
				page, err := list.read(t.Context(), r)
				require.NoError(t, err)
				return page
			}
			require.Equal(t, qless.Page[string]{Items: []string{}}, read(qless.Range{}), "empty")
			all := list.fill(e)
			for _, c := range []struct {
				r    qless.Range
				want []string
			}{
				{qless.Range{}, all[:25]},
				{qless.Range{Limit: 1}, all[:1]},
				{qless.Range{Offset: 3, Limit: 2}, all[3:5]},
				{qless.Range{Offset: 25}, all[25:]},
				{qless.Range{Offset: length - 1, Limit: 10}, all[length-1:]},
				{qless.Range{Limit: -1}, all},
				{qless.Range{Limit: 100_000}, all},
				{qless.Range{Offset: 7, Limit: -1}, all[7:]},
				{qless.Range{Offset: length}, []string{}},
				{qless.Range{Offset: math.MaxInt32, Limit: -1}, []string{}},
			} {
				page := qless.Page[string]{Items: c.want, Total: length}
				require.Equal(t, page, read(c.r), "%+v", c.r)
			}
			for _, r := range []qless.Range{
				{Offset: -1}, {Offset: math.MaxInt32 + 1}, {Limit: -2}, {Limit: 100_001},
			} {
				_, err := list.read(t.Context(), r)
				requireCode(t, qless.ErrInvalid, err)
			}
		})
	}
}

// offlineEnv returns an env that no server belongs to.
func offlineEnv(t *testing.T) *env {
	return &env{t: t, Client: offline(t)}
}

func TestListsThatAQueueDoesNotHave(t *testing.T) {
	e := newEnv(t)
	for _, list := range []qless.List{"complete", "failed", "recur", "", "nonsense"} {
		_, err := e.Queue("q").JIDs(t.Context(), list, qless.Range{})
		requireCode(t, qless.ErrInvalid, err)
	}
}

// What is due is moved before the list is read, so that page and total agree.
func TestJobsThatHaveFallenDueAreNotScheduled(t *testing.T) {
	e := newEnv(t)
	e.put("q", qless.JID("soon"), qless.Delay(time.Minute))
	e.put("q", qless.JID("later"), qless.Delay(time.Hour))
	e.clock.Advance(time.Minute)
	scheduled, err := e.Queue("q").JIDs(t.Context(), qless.ListScheduled, qless.Range{})
	require.NoError(t, err)
	require.Equal(t, qless.Page[string]{Items: []string{"later"}, Total: 1}, scheduled)
}

func TestTrackedJobsThatAreGoneAreListed(t *testing.T) {
	e := newEnv(t)
	for _, jid := range []string{"a", "b"} {
		e.put("q", qless.JID(jid))
		require.NoError(t, e.job(jid).Track(t.Context()))
	}
	require.NoError(t, e.Cancel(t.Context(), "a"))
	tracked, err := e.Tracked(t.Context(), qless.Range{})
	require.NoError(t, err)
	require.Equal(t, qless.Page[string]{Items: []string{"a", "b"}, Total: 2}, tracked)
	jobs, err := e.Jobs(t.Context(), tracked.Items...)
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, jids(jobs))
}

// The clients of other languages don't ask for a total, and get the lists that they know.
func TestListsWithoutTheNewArgumentsAreAsEver(t *testing.T) {
	e := newEnv(t)
	e.put("q", qless.JID("a"), qless.Tags("t"))
	e.put("q", qless.JID("b"), qless.Tags("t"))
	for line, want := range map[string]any{
		"jobs|waiting|q":     []any{"a", "b"},
		"jobs|waiting|q|1|5": []any{"b"},
		"jobs|complete":      []any{},
		"tag|top":            `["t"]`,
		"tag|top|1|5":        `[]`,
		"tag|get|t|1|5":      `{"total":2,"jobs":["b"]}`,
		"track":              `{"jobs":[],"expired":[]}`,
	} {
		command, args := arguments(line)
		reply, err := e.Run(t.Context(), command, "", args...)
		require.NoError(t, err)
		require.Equal(t, want, reply, line)
	}
}
