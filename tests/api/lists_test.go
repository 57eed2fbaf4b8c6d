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
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/tests/testbed"
)

// length is the number of items in each list of the test.
const length = 30

// A listing is a list with the items that fill creates, in order.
type listing struct {
	read func(ctx context.Context, r inspect.Range) (inspect.Page[string], error)
	fill func(e *env) []string
}

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

// listings returns all lists of the API in an env.
func listings(e *env) map[string]listing {
	ctx := e.T.Context()
	of := func(list inspect.List) func(context.Context, inspect.Range) (inspect.Page[string], error) {
		return func(ctx context.Context, r inspect.Range) (inspect.Page[string], error) {
			return e.inspect().Queue("q", list).JIDs(ctx, r)
		}
	}
	taken := func(do func(*qless.Job)) []string {
		return made(func(jid string) {
			e.Put("q", qless.JID(jid))
			do(e.Pop("q"))
		})
	}
	reversed := func(jids []string) []string {
		slices.Reverse(jids)
		return jids
	}
	return map[string]listing{
		"waiting": {of(inspect.Waiting), func(e *env) []string {
			return made(func(jid string) { e.Put("q", qless.JID(jid)) })
		}},
		"running": {of(inspect.Running), func(*env) []string {
			return taken(func(*qless.Job) { e.Clock.Advance(time.Second) })
		}},
		"stalled": {of(inspect.Stalled), func(*env) []string {
			jids := taken(func(*qless.Job) {})
			e.Clock.Advance(time.Hour)
			return jids
		}},
		"scheduled": {of(inspect.Scheduled), func(*env) []string {
			return made(func(jid string) { e.Put("q", qless.JID(jid), qless.Delay(time.Hour)) })
		}},
		"depends": {of(inspect.Depends), func(*env) []string {
			e.Put("other", qless.JID("parent"))
			return made(func(jid string) { e.Put("q", qless.JID(jid), qless.DependsOn{"parent"}) })
		}},
		"recurring": {of(inspect.Recurring), func(*env) []string {
			return made(func(jid string) {
				require.NoError(e.T, errOf(e.Queue("q").Recur(ctx, "K", nil, time.Hour, qless.JID(jid))))
			})
		}},
		"completed": {e.inspect().Completed().JIDs, func(*env) []string {
			return reversed(taken(func(job *qless.Job) { require.NoError(e.T, job.Complete(ctx)) }))
		}},
		"failed": {
			func(ctx context.Context, r inspect.Range) (inspect.Page[string], error) {
				return e.inspect().Failed("g").JIDs(ctx, r)
			},
			func(*env) []string {
				return reversed(taken(func(job *qless.Job) {
					require.NoError(e.T, job.Fail(ctx, "g", "m"))
				}))
			},
		},
		"tagged": {
			func(ctx context.Context, r inspect.Range) (inspect.Page[string], error) {
				return e.inspect().Tagged("t").JIDs(ctx, r)
			},
			func(*env) []string {
				return made(func(jid string) { e.Put("q", qless.JID(jid), qless.Tags{"t"}) })
			},
		},
		"tags": {e.inspect().Tags, func(*env) []string {
			return reversed(made(func(tag string) {
				e.Put("q", qless.Tags{tag, "of one job: " + tag})
				e.Put("q", qless.Tags{tag})
			}))
		}},
		"tracked": {e.inspect().Tracked().JIDs, func(*env) []string {
			return made(func(jid string) {
				e.Put("q", qless.JID(jid))
				require.NoError(e.T, e.Read(jid).Track(ctx))
			})
		}},
	}
}

func TestAllListsHaveOneShape(t *testing.T) {
	for name := range listings(offlineEnv(t)) {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			list := listings(e)[name]
			read := func(r inspect.Range) inspect.Page[string] {
				t.Helper()
				return must(list.read(t.Context(), r))(t)
			}
			require.Equal(t, inspect.Page[string]{Items: []string{}}, read(inspect.Range{}), "empty")
			all := list.fill(e)
			for _, c := range []struct {
				r    inspect.Range
				want []string
			}{
				{inspect.Range{}, all[:25]},
				{inspect.Range{Limit: 1}, all[:1]},
				{inspect.Range{Offset: 3, Limit: 2}, all[3:5]},
				{inspect.Range{Offset: 25}, all[25:]},
				{inspect.Range{Offset: length - 1, Limit: 10}, all[length-1:]},
				{inspect.Range{Limit: -1}, all},
				{inspect.Range{Limit: 100_000}, all},
				{inspect.Range{Offset: 7, Limit: -1}, all[7:]},
				{inspect.Range{Offset: length}, []string{}},
				{inspect.Range{Offset: math.MaxInt32, Limit: -1}, []string{}},
			} {
				page := inspect.Page[string]{Items: c.want, Total: length}
				require.Equal(t, page, read(c.r), "%+v", c.r)
			}
			for _, r := range []inspect.Range{
				{Offset: -1}, {Offset: math.MaxInt32 + 1}, {Limit: -2}, {Limit: 100_001},
			} {
				requireCode(t, qless.ErrInvalid, errOf(list.read(t.Context(), r)))
			}
		})
	}
}

// offlineEnv returns an env without a server.
func offlineEnv(t *testing.T) *env {
	return &env{&testbed.Env{T: t, Client: offline(t)}}
}

func TestListsThatAQueueDoesNotHave(t *testing.T) {
	e := newEnv(t)
	for _, list := range []inspect.List{"complete", "failed", "recur", "", "nonsense"} {
		_, err := e.inspect().Queue("q", list).JIDs(t.Context(), inspect.Range{})
		requireCode(t, qless.ErrInvalid, err)
	}
}

// A due job stays in its list until a worker asks for jobs: reading changes nothing.
func TestJobsThatAreDueAreListedWhereTheyAre(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("soon"), qless.Delay(time.Minute))
	e.Put("q", qless.JID("later"), qless.Delay(time.Hour))
	e.Clock.Advance(time.Minute)
	e.Unchanged(func() {
		scheduled := must(e.inQueue(inspect.Scheduled).JIDs(t.Context(), inspect.Range{}))(t)
		require.Equal(t, inspect.Page[string]{Items: []string{"soon", "later"}, Total: 2}, scheduled)
	})
}

func TestTrackedJobsThatAreGoneAreListed(t *testing.T) {
	e := newEnv(t)
	for _, jid := range []string{"a", "b"} {
		e.Put("q", qless.JID(jid))
		require.NoError(t, e.Read(jid).Track(t.Context()))
	}
	require.NoError(t, e.Cancel(t.Context(), "a"))
	tracked := must(e.inspect().Tracked().JIDs(t.Context(), inspect.Range{}))(t)
	require.Equal(t, inspect.Page[string]{Items: []string{"a", "b"}, Total: 2}, tracked)
	require.Equal(t, []string{"b"}, jids(must(e.Jobs(t.Context(), tracked.Items...))(t)))
}

// Clients in other languages do not ask for a total, and get lists in the old form.
func TestListsWithoutTheNewArgumentsAreUnchanged(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("a"), qless.Tags{"t"})
	e.Put("q", qless.JID("b"), qless.Tags{"t"})
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
		require.Equal(t, want, must(e.Run(t.Context(), command, "", args...))(t), line)
	}
}
