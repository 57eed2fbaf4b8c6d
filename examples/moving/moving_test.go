package main

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
)

// An env has a Redis with the jobs of another queue, and a mover.
type env struct {
	*testing.T
	*mover
	redis *testkit.Server
}

func newEnv(t *testing.T) *env {
	t.Helper()
	testkit.Silence()
	server := testkit.Start(t)
	rdb := server.Client(t)
	client, err := qless.New(rdb, nil)
	require.NoError(t, err)
	return &env{t, newMover(rdb, client), server}
}

// again returns the mover for a second run.
func (e *env) again() *env { return &env{e.T, newMover(e.rdb, e.client), e.redis} }

// jobs returns the jobs of a queue by klass.
func (e *env) jobs(queue string, states ...inspect.List) map[string]*qless.Job {
	e.Helper()
	found := map[string]*qless.Job{}
	for _, state := range states {
		page, err := inspect.New(e.client).Queue(queue, state).JIDs(e.Context(), inspect.Range{Limit: -1})
		require.NoError(e, err)
		jobs, err := e.client.Jobs(e.Context(), page.Items...)
		require.NoError(e, err)
		for _, job := range jobs {
			found[job.Klass] = job
		}
	}
	return found
}

// worked completes the poppable jobs of a queue, and returns how often each klass ran.
func (e *env) worked(queue string) map[string]int {
	e.Helper()
	ran := map[string]int{}
	jobs, err := e.client.Queue(queue).Pop(e.Context(), 100)
	require.NoError(e, err)
	for _, job := range jobs {
		ran[job.Klass]++
		require.Len(e, job.History, 2, "put and popped, once")
		require.NoError(e, job.Complete(e.Context()))
	}
	return ran
}

// killed runs a mover that dies at random steps, until all jobs are moved. In between, a worker
// completes the poppable jobs.
func (e *env) killed(move func(context.Context) error) {
	e.Helper()
	seed := testkit.Seed(e)
	random := rand.New(rand.NewPCG(seed, 0))
	died := errors.New("died")
	for runs := 0; ; runs++ {
		alive := random.IntN(3)
		e.step = func() error {
			if alive--; alive < 0 {
				return died
			}
			return nil
		}
		err := move(e.Context())
		e.worked("mail")
		if err == nil {
			return
		}
		require.ErrorIs(e, err, died)
		require.Less(e, runs, 1000)
	}
}

// requireLeft requires that jobs left behind are listed: a line with each text.
func (e *env) requireLeft(texts ...string) {
	e.Helper()
	require.Len(e, e.left, len(texts), "%q", e.left)
	for _, text := range texts {
		require.True(e, slices.ContainsFunc(e.left, func(line string) bool {
			return strings.Contains(line, text) && len(line) < 300
		}), "%s: %q", text, e.left)
	}
}

func TestTheProgram(t *testing.T) {
	server := testkit.Start(t)
	url := "redis://" + server.Addr()
	s := settings{from: "asynq", old: url, to: url}
	done, err := run(t.Context(), s)
	require.NoError(t, err)
	require.Zero(t, done.moved)
	s.fromNamespace = "app"
	_, err = run(t.Context(), s)
	require.ErrorContains(t, err, "leave out -from-namespace")
	s.from = "sidekiq"
	_, err = run(t.Context(), s)
	require.ErrorContains(t, err, "no queue of Sidekiq is here")
	s.from = "celery"
	_, err = run(t.Context(), s)
	require.ErrorContains(t, err, "neither asynq nor sidekiq")
	s.old = "redis://x:secret@host:port"
	_, err = run(t.Context(), s)
	require.EqualError(t, err, "-redis is not the URL of a Redis")
}

func TestAReportNamesWhatStays(t *testing.T) {
	var out bytes.Buffer
	report{moved: 2, left: []string{"a: why"}, fields: map[string]int{"x": 1}}.print(&out)
	require.Equal(t, "moved 2 jobs\n1 of them without the field x, which qless does not have\nleft: a: why\n",
		out.String())
}

// A server that refuses every put is no reason to leave every job.
func TestAServerThatIsFullStopsTheMove(t *testing.T) {
	e := newEnv(t)
	for range 50 {
		require.NoError(t, e.rdb.LPush(t.Context(), "queue:mail", strings.Replace(
			`{"class":"K","jid":"ID","args":[]}`, "ID", cryptorand.Text(), 1)).Err())
	}
	require.NoError(t, e.rdb.SAdd(t.Context(), "queues", "mail").Err())
	require.NoError(t, e.rdb.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
	require.Error(t, e.moveSidekiq(t.Context()))
	require.NoError(t, e.rdb.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err())
	require.NoError(t, e.moveSidekiq(t.Context()))
	require.Equal(t, 50, e.moved)
	require.Empty(t, e.left)
}

// later is the due time of a moved job.
func later(d time.Duration) time.Time { return time.Now().Add(d) }
