package workqueue_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/compat/workqueue"
)

func TestMove(t *testing.T) {
	e := newEnv(t)
	e.add("a", "b", "c")
	e.cli("LPUSH P:queue ghost")
	e.add("d")
	var put []string
	moved, err := e.Move(t.Context(), e.rdb, func(_ context.Context, item *workqueue.Item) error {
		put = append(put, fmt.Sprintf("%s: %s", item.ID, item.Data))
		require.Equal(t, "data of "+item.ID, e.cli("GET P:item:"+item.ID), "it is not completed yet")
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, 4, moved)
	require.Equal(t, []string{"a: data of a", "b: data of b", "c: data of c", "d: data of d"}, put)
	e.light()
	require.Empty(t, e.dump())
}

func TestMoveLeavesWhatIsWorked(t *testing.T) {
	e := newEnv(t)
	e.add("a")
	e.taken("a")
	nothing := func(context.Context, *workqueue.Item) error { return nil }
	require.Zero(t, must(e.Move(t.Context(), e.rdb, nothing))(t))
	require.Equal(t, []string{"a"}, e.list("P:processing"))
}

func TestMoveSetsAsideWhatCannotBePut(t *testing.T) {
	e := newEnv(t)
	e.add("a", "b", "c", "d")
	large := errors.New("too large")
	moved, err := e.Move(t.Context(), e.rdb, func(_ context.Context, item *workqueue.Item) error {
		if item.ID < "c" {
			return large
		}
		return nil
	})
	require.ErrorIs(t, err, large)
	require.EqualError(t, err, "item \"a\": too large\nitem \"b\": too large")
	require.Equal(t, 2, moved)
	next := newEnv(t)
	next.add("a", "b")
	require.Equal(t, next.dump(), e.dump(), "they are in the queue again")

	for _, misdeed := range []func(){func() { panic("of put") }, runtime.Goexit} {
		moved, err = e.Move(t.Context(), e.rdb, func(context.Context, *workqueue.Item) error {
			misdeed()
			return nil
		})
		require.ErrorContains(t, err, "item \"b\": a function ")
		require.Zero(t, moved)
		require.Equal(t, next.dump(), e.dump())
	}

	e.server.Kill()
	require.ErrorIs(t, errOf(e.Move(t.Context(), e.rdb, nil)), workqueue.ErrUnavailable)
}

func TestMoveStopsWhereNothingCanBePut(t *testing.T) {
	e := newEnv(t)
	for id := range 12 {
		e.add(fmt.Sprint(id))
	}
	before := e.dump()
	full := errors.New("full")
	tried := 0
	moved, err := e.Move(t.Context(), e.rdb, func(context.Context, *workqueue.Item) error {
		tried++
		return full
	})
	require.ErrorIs(t, err, full)
	require.ErrorContains(t, err, "the last 10 items were not put")
	require.Zero(t, moved)
	require.Equal(t, 10, tried)
	require.Equal(t, before, e.dump())
}

// If a mover dies between the put and the completion, the item is put again. Because the job has
// the item's id, no second job appears.
func TestMoveToQlessTwice(t *testing.T) {
	e := newEnv(t)
	client := must(qless.New(e.rdb, nil))(t)
	jobs := client.Queue("jobs")
	put := func(ctx context.Context, item *workqueue.Item) error {
		_, err := jobs.Put(ctx, "Moved", string(item.Data), qless.JID(item.ID))
		return err
	}
	e.add("a", "b")
	died := errors.New("died")
	_, err := e.Move(t.Context(), e.rdb, func(ctx context.Context, item *workqueue.Item) error {
		require.NoError(t, put(ctx, item))
		return died
	})
	require.ErrorIs(t, err, died)
	require.Equal(t, 2, must(e.Move(t.Context(), e.rdb, put))(t))

	popped := must(jobs.Pop(t.Context(), 10))(t)
	require.Len(t, popped, 2)
	require.Equal(t, "a", popped[0].JID)
	require.JSONEq(t, `"data of a"`, string(popped[0].Data))
}
