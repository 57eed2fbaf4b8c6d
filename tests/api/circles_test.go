package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/scripts"
)

// Jobs that would wait for themselves, by way of others, would wait for ever.
func TestACircleOfDependenciesIsRefused(t *testing.T) {
	again := func(jid string, on ...string) func(t *testing.T, e *env) error {
		return func(t *testing.T, e *env) error {
			return errOf(e.Queue("q").Put(t.Context(), "K", nil, qless.JID(jid), qless.DependsOn(on)))
		}
	}
	together := func(specs ...qless.JobSpec) func(t *testing.T, e *env) error {
		return func(t *testing.T, e *env) error {
			return errOf(e.Queue("q").PutMany(t.Context(), specs))
		}
	}
	for name, call := range map[string]func(t *testing.T, e *env) error{
		"put again":         again("a", "b"),
		"put again, far":    again("a", "d"),
		"put again, of two": again("b", "other", "d"),
		"put again with a delay": func(t *testing.T, e *env) error {
			_, err := e.Queue("x").Put(t.Context(), "K", nil, qless.JID("a"), qless.DependsOn{"c"}, qless.Delay(time.Minute))
			return err
		},
		"put together, existing":  together(waiter("other", "d"), waiter("a", "other")),
		"put together, a new one": together(waiter("new", "d"), waiter("new too", "new"), waiter("a", "new too")),
		"moved": func(t *testing.T, e *env) error {
			return e.Read("a").Move(t.Context(), "x", qless.DependsOn{"c"})
		},
		"moved on": func(t *testing.T, e *env) error {
			return e.Pop("run").Next(t.Context(), "x", qless.DependsOn{"waits"})
		},
		"added": func(t *testing.T, e *env) error {
			return e.Read("b").Depend(t.Context(), "other", "d")
		},
		"member of a batch": func(t *testing.T, e *env) error {
			b := e.batch()
			after := e.Put("q", qless.JID("after"), qless.DependsOn{b.ID})
			_, err := b.Add(t.Context(), "q", []qless.JobSpec{waiter("new", after), waiter("newer", "new")})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				for _, jid := range []string{"a", "other", "another"} {
					e.Put("q", qless.JID(jid))
				}
				e.Put("q", qless.JID("b"), qless.DependsOn{"a"})
				e.Put("q", qless.JID("c"), qless.DependsOn{"b"})
				e.Put("x", qless.JID("d"), qless.DependsOn{"another", "c"})
				e.Put("run", qless.JID("runs"))
				e.Put("q", qless.JID("waits"), qless.DependsOn{"runs"})
				require.Contains(t, requireCode(t, qless.ErrInvalid, call(t, e)).Message, "would wait for")
				require.Equal(t, []string{"a"}, e.Read("b").Dependencies)
				require.Empty(t, e.Read("a").Dependencies)
				require.Empty(t, e.Read("other").Dependents)
			})
		})
	}
}

// waiter is a job that depends on others.
func waiter(jid string, on ...string) qless.JobSpec {
	return spec(qless.JID(jid), qless.DependsOn(on))
}

// Dependencies that end in the same call are no part of a circle.
func TestDependenciesThatTurnAroundAreNoCircle(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for _, jid := range []string{"a", "c"} {
			e.Put("q", qless.JID(jid))
		}
		e.Put("q", qless.JID("b"), qless.DependsOn{"a"})
		_, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{waiter("b", "c"), waiter("a", "b")})
		require.NoError(t, err)
		require.Equal(t, []string{"c"}, e.Read("b").Dependencies)
		require.Equal(t, []string{"b"}, e.Read("a").Dependencies)
	})
}

// A client in another language may close a circle, and any put may open it.
func TestACircleOfAnotherClientCanBeOpened(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("a"))
		e.Put("q", qless.JID("b"), qless.DependsOn{"a"})
		_, err := scripts.RunDropIn(t.Context(), e.Redis, "put", scripts.Time(e.Clock.Now()),
			"ruby", "q", "a", "K", "{}", 0,
			"depends", `["b"]`)
		require.NoError(t, err)
		require.Equal(t, []string{"b"}, e.Read("a").Dependencies)
		e.Put("q", qless.JID("c"))
		e.Put("q", qless.JID("a"), qless.DependsOn{"c"})
		require.Equal(t, []string{"c"}, e.Read("a").Dependencies)
		require.Empty(t, e.Read("b").Dependents)
	})
}

// A call follows no more than 1,000 dependencies.
func TestTheSearchForACircleIsBounded(t *testing.T) {
	e := newEnv(t)
	chain := e.putChain(1200)
	e.requireShort(1100, func() { e.Put("q", qless.JID(chain[0]), qless.DependsOn{chain[1199]}) })
	require.Equal(t, []string{chain[1199]}, e.Read(chain[0]).Dependencies)
}
