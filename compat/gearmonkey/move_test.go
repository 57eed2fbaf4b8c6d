package gearmonkey_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/compat/gearmonkey"
)

// keep returns a put function for Move, and the jobs passed to it.
func keep() (put func(context.Context, *gearmonkey.Moved) error, moved *[]gearmonkey.Moved) {
	moved = new([]gearmonkey.Moved)
	return func(_ context.Context, job *gearmonkey.Moved) error {
		*moved = append(*moved, *job)
		return nil
	}, moved
}

func TestMove(t *testing.T) {
	e := newEnv(t)
	e.run("F", "a", gearmonkey.Low)
	e.run("F", "b", gearmonkey.At(now.Add(time.Hour)))
	e.run("F", "c", gearmonkey.High)
	e.run("F", "d")
	e.run("F", "e")
	e.run("F", "f", gearmonkey.At(now))
	e.run("G", "not this")
	e.cli("DEL job:F:5") // gone
	e.cli("LPUSH queue:F:low rubbish")
	put, moved := keep()
	n := must(e.Move(t.Context(), "F", put))(t)
	require.Equal(t, 5, n)
	require.Equal(t, []gearmonkey.Moved{
		{Function: "F", ID: 6, Input: []byte("f"), At: now},
		{Function: "F", ID: 2, Input: []byte("b"), At: now.Add(time.Hour)},
		{Function: "F", ID: 3, Input: []byte("c"), Priority: gearmonkey.High},
		{Function: "F", ID: 4, Input: []byte("d"), Priority: gearmonkey.Normal},
		{Function: "F", ID: 1, Input: []byte("a"), Priority: gearmonkey.Low},
	}, *moved)
	require.Empty(t, e.cli("KEYS queue:F:*"))
	require.Empty(t, e.cli("KEYS move:*"))
	require.Equal(t, gearmonkey.StatusIdle, e.state("F", 1).Status)
	require.EqualValues(t, 1, e.cli("LLEN queue:G:normal"))
}

func TestMoveSetsAsideWhatCannotBePut(t *testing.T) {
	t.Parallel()
	large := errors.New("too large")
	for name, option := range map[string]gearmonkey.RunOption{"queued": gearmonkey.Low, "due": gearmonkey.At(now)} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			for _, input := range []string{"a", "b", "c", "d", "e"} {
				e.run("F", input, option)
			}
			e.cli("DEL job:F:4")
			e.cli("SET job:F:4 damaged")
			n, err := e.Move(t.Context(), "F", func(_ context.Context, job *gearmonkey.Moved) error {
				require.NotEmpty(t, e.cli("KEYS move:F:*"))
				if job.ID < 3 {
					return large
				}
				return nil
			})
			require.ErrorIs(t, err, large)
			require.ErrorIs(t, err, gearmonkey.ErrServer)
			require.Regexp(t, "^job 1 of F: too large\njob 2 of F: too large\njob 4 of F: .*WRONGTYPE.*$", err)
			require.Equal(t, 2, n)
			require.Empty(t, e.cli("KEYS move:*"))
			require.Empty(t, e.cli("KEYS aside:*"))
			e.cli("DEL job:F:4")

			for _, misdeed := range []func(){func() { panic("of put") }, runtime.Goexit} {
				n, err = e.Move(t.Context(), "F", func(context.Context, *gearmonkey.Moved) error {
					misdeed()
					return nil
				})
				require.ErrorContains(t, err, "job 2 of F: a function ")
				require.Zero(t, n)
			}

			put, moved := keep()
			n = must(e.Move(t.Context(), "F", put))(t)
			require.Equal(t, 2, n, "they are in their queue again")
			require.EqualValues(t, 1, (*moved)[0].ID)
			require.EqualValues(t, 2, (*moved)[1].ID)
			require.Empty(t, e.cli("KEYS queue:F:*"))
		})
	}
}

func TestMoveStopsWhereNothingCanBePut(t *testing.T) {
	e := newEnv(t)
	for range 12 {
		e.run("F", "x")
	}
	tried := 0
	n, err := e.Move(t.Context(), "F", func(context.Context, *gearmonkey.Moved) error {
		tried++
		return errors.New("full")
	})
	require.ErrorContains(t, err, "the last 10 jobs were not put")
	require.Zero(t, n)
	require.Equal(t, 10, tried)
	put, moved := keep()
	n = must(e.Move(t.Context(), "F", put))(t)
	require.Equal(t, 12, n)
	for i, job := range *moved {
		require.EqualValues(t, i+1, job.ID, "the order is kept")
	}
}

// Jobs are moved to qless in pieces, while GearMonkey clients wait, and a qless worker reports the
// outcomes.
func TestMoveToQless(t *testing.T) {
	e := newEnv(t)
	client := must(qless.New(e.rdb, &qless.ClientConfig{Clock: func() time.Time { return now }}))(t)
	queue := client.Queue("resize")
	failing := true
	put := func(ctx context.Context, job *gearmonkey.Moved) error {
		options := []qless.PutOption{qless.JID(job.Function + "-" + formatID(job.ID))}
		if delay := job.At.Sub(now); delay > 0 {
			options = append(options, qless.Delay(delay))
		}
		data := map[string]any{"id": job.ID, "input": job.Input}
		if _, err := queue.Put(ctx, job.Function, data, options...); err != nil {
			return err
		}
		if failing = !failing; failing {
			return errors.New("it was put, and the answer lost")
		}
		return nil
	}
	e.run("F", "later", gearmonkey.At(now.Add(time.Hour)))
	e.run("F", "b")
	e.run("F", "c", gearmonkey.Low)
	moved := 0
	for tries := 0; ; tries++ {
		n, err := e.Move(t.Context(), "F", put)
		moved += n
		if err == nil {
			break
		}
		require.Less(t, tries, 5)
	}
	require.Equal(t, 3, moved)

	jobs := must(queue.Pop(t.Context(), 10))(t)
	require.Len(t, jobs, 2, "the one of later is not due, and none is twice")
	for _, job := range jobs {
		var data struct {
			ID    int64  `json:"id"`
			Input []byte `json:"input"`
		}
		require.NoError(t, job.Unmarshal(&data))
		require.NoError(t, e.Finish(t.Context(), job.Klass, data.ID, append(data.Input, '!'), nil))
		require.NoError(t, job.Complete(t.Context()))
	}
	require.Equal(t, "b!", string(e.state("F", 2).Output))
	require.Equal(t, "c!", string(e.state("F", 3).Output))
	must(client.Job(t.Context(), "F-1"))(t)
}
