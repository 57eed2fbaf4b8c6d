package api

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/shards"
)

type headers = map[string]string

func TestHeadersTravelWithAJob(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		want := headers{"traceparent": "00-1", "Käse": "\"ä\"\\\n\x00"}
		data := `{ "n": 1 }`
		_, err := e.Queue("q").Put(t.Context(), "K", raw(data), qless.JID("j"), qless.Headers(want),
			qless.Headers{"gone": "1"}, qless.Headers(nil),
			qless.Headers{"traceparent": "00-0"}, qless.Headers(want))
		require.NoError(t, err)
		see := func(job *qless.Job, what string) *qless.Job {
			t.Helper()
			require.Equal(t, qless.Headers(want), job.Headers, what)
			require.Equal(t, data, string(job.Data), what)
			return job
		}
		see(e.Read("j"), "a job that is read")
		see(must(e.Jobs(t.Context(), "j"))(t)[0], "jobs that are read")
		see(must(e.Queue("q").Peek(t.Context(), 1))(t)[0], "a peek")

		require.NoError(t, errOf(see(e.Pop("q"), "a pop").Retry(t.Context(), 0, "", "")))
		require.NoError(t, see(e.Pop("q"), "a retry").Next(t.Context(), "q2"))
		require.NoError(t, see(e.Pop("q2"), "a next queue").Fail(t.Context(), "g", "m"))
		require.NoError(t, see(e.Read("j"), "a failure").Unfail(t.Context()))
		require.NoError(t, see(e.Pop("q2"), "an unfail").Move(t.Context(), "q"))
		e.Pop("q")
		e.Clock.Advance(time.Hour)
		require.Empty(t, e.Pops("q", 1), "its worker is warned")
		e.Clock.Advance(time.Hour)
		job := see(e.Pops("q", 1)[0], "a lost lock")
		require.Equal(t, 4, job.Remaining)
		require.NoError(t, job.Refresh(t.Context()))
		require.NoError(t, see(job, "a refresh").Complete(t.Context()))
		see(e.Read("j"), "a complete job")
	})
}

// A requestKey is the key of a request's id in a context.
type requestKey struct{}

func TestHeadersOfTheContext(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		var given headers
		var asked int
		c := e.NewClient(e.Redis, qless.ClientConfig{Headers: func(ctx context.Context) map[string]string {
			asked++
			if ctx.Value(requestKey{}) != "r" {
				return nil
			}
			return given
		}})
		given = headers{"a": "1", "b": "2"}
		ctx := context.WithValue(t.Context(), requestKey{}, "r")
		put := func(options ...qless.PutOption) headers {
			return e.Read(must(c.Queue("q").Put(ctx, "K", nil, options...))(t)).Headers
		}
		require.Equal(t, given, put())
		require.Equal(t, headers{"a": "3", "b": "2", "c": "4"}, put(qless.Headers{"a": "3"}, qless.Headers{"c": "4"}))
		require.Equal(t, headers{"a": "1", "b": "2"}, given, "it is copied")
		require.Nil(t, put(qless.Headers(nil)))
		require.Equal(t, headers{"c": "4"}, put(qless.Headers(nil), qless.Headers{"c": "4"}))

		many := must(c.Queue("q").PutMany(ctx, []qless.JobSpec{
			{Klass: "K"}, spec(qless.Headers{"a": "3"}),
		}))(t)
		require.Equal(t, qless.Headers(given), e.Read(many[0]).Headers)
		require.Equal(t, qless.Headers{"a": "3", "b": "2"}, e.Read(many[1]).Headers)

		jid := must(c.Queue("other").Put(t.Context(), "K", nil))(t)
		require.Nil(t, e.Read(jid).Headers, "another context")

		before := asked
		jobs := must(c.Queue("other").Pop(ctx, 1))(t)
		require.NoError(t, jobs[0].Next(ctx, "other"))
		require.NoError(t, jobs[0].Move(ctx, "other"))
		require.NoError(t, errOf(c.Queue("q").Recur(ctx, "K", nil, time.Hour)))
		require.Equal(t, before, asked)
		require.Nil(t, e.Read(jid).Headers)

		given = headers{"a": strings.Repeat("x", 9000)}
		requireCode(t, qless.ErrInvalid, errOf(c.Queue("q").Put(ctx, "K", nil)))
		_, err := c.Queue("q").PutMany(ctx, []qless.JobSpec{{Klass: "K"}})
		require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "jobs[0]: ")
	})
}

func TestHeadersInShards(t *testing.T) {
	e := newEnv(t)
	shard := func(name string) *qless.Client {
		return e.NewClient(e.Redis, qless.ClientConfig{
			Headers:   func(context.Context) map[string]string { return headers{"shard": name} },
			Namespace: name,
		})
	}
	sharded := must(shards.New(shards.ByJID, shard("a:"), shard("b:")))(t)
	jid := must(sharded.Queue("q").Put(t.Context(), "K", nil))(t)
	for _, jid := range append(must(sharded.Queue("q").PutMany(t.Context(), specs(10)))(t), jid) {
		job := must(sharded.Job(t.Context(), jid))(t)
		require.Equal(t, sharded.Client("q", jid).Namespace(), job.Headers["shard"])
	}
}

func TestTheHeadersOfNextAreAskedFor(t *testing.T) {
	e := newEnvWith(t, qless.ClientConfig{NextHeaders: func(_ context.Context, headers map[string]string) map[string]string {
		if headers == nil {
			headers = map[string]string{}
		}
		headers["run"] = "2"
		return headers
	}})
	large := strings.Repeat("x", 8<<10-2)
	for name, test := range map[string]struct {
		options []qless.NextOption
		want    map[string]string
	}{
		"nothing":   {nil, map[string]string{"a": "1", "run": "2"}},
		"a header":  {[]qless.NextOption{qless.Headers{"b": "3"}}, map[string]string{"b": "3", "run": "2"}},
		"its own":   {[]qless.NextOption{qless.Headers{"run": "4"}}, map[string]string{"run": "4"}},
		"none":      {[]qless.NextOption{qless.Headers(nil)}, nil},
		"too large": {[]qless.NextOption{qless.Headers{"b": large}}, map[string]string{"b": large}},
	} {
		t.Run(name, func(t *testing.T) {
			jid := e.Put("q", qless.Headers{"a": "1"}, qless.Headers{"run": "1"})
			job := e.Pop("q")
			require.NoError(t, job.Next(t.Context(), "other", test.options...))
			require.Equal(t, qless.Headers(test.want), e.Read(jid).Headers)
			require.Equal(t, "1", job.Headers["run"])
		})
	}
}
