package cli_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func nothing(context.Context, *qless.Job) error { return nil }

// must returns the value of a call that must not fail.
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// redis sends a command to the server.
func (e *env) redis(words string) {
	e.t.Helper()
	var args []any
	for word := range strings.FieldsSeq(words) {
		args = append(args, word)
	}
	require.NoError(e.t, e.rdb.Do(e.t.Context(), args...).Err())
}

// as returns a client with the name of a worker, if any, and a clock stopped some time ago.
func (e *env) as(worker string, ago time.Duration) *qless.Client {
	e.t.Helper()
	at := time.Now().Add(-ago)
	config := &qless.ClientConfig{WorkerName: worker, Clock: func() time.Time { return at }}
	client := must(qless.New(e.rdb, config))(e.t)
	e.t.Cleanup(func() { _ = client.Close() })
	return client
}

// pop pops a number of jobs.
func (e *env) pop(queue string, n int) []*qless.Job {
	e.t.Helper()
	jobs := must(e.Client().Queue(queue).Pop(e.t.Context(), n))(e.t)
	require.Len(e.t, jobs, n)
	return jobs
}

func (e *env) counts(queue string) qless.QueueCounts {
	e.t.Helper()
	return must(e.Client().Queue(queue).Counts(e.t.Context()))(e.t)
}

func jobOf(t *testing.T, client *qless.Client, jid string) *qless.Job {
	t.Helper()
	return must(client.Job(t.Context(), jid))(t)
}
