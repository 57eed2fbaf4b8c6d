package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/scripts"
)

// stored returns the options in the one field of a job's hash, or the empty string.
func (e *env) stored(jid string) string {
	e.T.Helper()
	text, err := e.Redis.HGet(e.T.Context(), "ql:j:"+jid, "x:o").Result()
	if err != redis.Nil {
		require.NoError(e.T, err)
	}
	return text
}

// run runs a script, which must not fail.
func (e *env) run(command string, args ...any) any {
	e.T.Helper()
	return must(e.Run(e.T.Context(), command, "", args...))(e.T)
}

// putStored runs the command put for the job j in the queue q, with pairs of options.
func (e *env) putStored(pairs ...any) {
	e.T.Helper()
	e.run("put", append([]any{"w1", "q", "j", "K", "{}", "0"}, pairs...)...)
}

func TestAJobWithoutOptionsHasNoFieldOfOurs(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		jid := e.Put("q", qless.Priority(1), qless.Tags{"t"}, qless.Headers(nil))
		require.NoError(t, e.Pop("q").Next(t.Context(), "q2", qless.Headers(nil)))
		require.NoError(t, e.Pop("q2").Complete(t.Context()))
		e.Put("q", qless.JID(jid))
		e.Pop("q")
		for _, field := range must(e.Redis.HKeys(t.Context(), "ql:j:"+jid).Result())(t) {
			require.NotContains(t, field, ":")
		}
		for _, read := range []string{"get", "multiget"} {
			require.NotContains(t, e.run(read, jid), `"x"`)
		}
	})
}

func TestOptionsThatAPutSaysReplaceTheSameOnesOfAJob(t *testing.T) {
	for _, c := range []struct {
		name, before string
		pairs        []any
		after        string
	}{
		{"others stay", `h|{"h":{"a":"1"}}`, []any{"o", `l|{"l":5}`}, `hl|{"h":{"a":"1"},"l":5}`},
		{"whole values are replaced", `h|{"h":{"a":"1","b":"2"}}`,
			[]any{"o", `h|{"h":{"a":"3"}}`}, `h|{"h":{"a":"3"}}`},
		{"taken away", `hl|{"h":{"a":"1"},"l":5}`, []any{"drop", "h"}, `l|{"l":5}`},
		{"the last one taken away", `h|{"h":{"a":"1"}}`, []any{"drop", "h"}, ""},
		{"taken away and set", `hl|{"h":{"a":"1"},"l":5}`, []any{"drop", "h", "o", `k|{"k":9}`},
			`lk|{"l":5,"k":9}`},
		{"none before", "", []any{"o", `h|{"h":{"a":"1"}}`}, `h|{"h":{"a":"1"}}`},
		{"nothing to take away", "", []any{"drop", "h"}, ""},
		{"damaged before", "nonsense", []any{"o", `h|{"h":{"a":"1"}}`}, `h|{"h":{"a":"1"}}`},
		{"damaged before, and nothing said", "h|{", nil, "h|{"},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.putStored()
				if c.before != "" {
					require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:j", "x:o", c.before).Err())
				}
				e.putStored(c.pairs...)
				requireStored(t, c.after, e.stored("j"))
			})
		})
		t.Run(c.name+", in a next queue", func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.putStored()
				if c.before != "" {
					require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:j", "x:o", c.before).Err())
				}
				e.Pop("q")
				e.run("complete", append([]any{"j", "w1", "q", "{}", "next", "q2"}, c.pairs...)...)
				requireStored(t, c.after, e.stored("j"))
			})
		})
	}
}

// requireStored compares options whose JSON may have its members in any order.
func requireStored(t *testing.T, want, got string) {
	t.Helper()
	var letters, values [2]string
	for i, text := range []string{want, got} {
		var found bool
		if letters[i], values[i], found = strings.Cut(text, "|"); !found {
			require.Equal(t, want, got)
			return
		}
	}
	require.Equal(t, letters[0], letters[1])
	if want != got {
		require.JSONEq(t, values[0], values[1])
	}
}

// letters returns the letters that begin a job's stored options.
func (e *env) letters(jid string) string {
	e.T.Helper()
	letters, _, _ := strings.Cut(e.stored(jid), "|")
	return letters
}

// member is the member of a reply for a job with one header.
const member = `,"x":{"h":{"a":"1"}}`

func TestOptionsInReplies(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.putStored("o", `h|{"h":{"a":"1"}}`)
		e.Put("q", qless.JID("plain"))
		for _, command := range [][]any{
			{"get", "j"}, {"multiget", "j", "plain"}, {"peek", "q", "2"}, {"pop", "q", "w1", "2"},
		} {
			name, args := command[0].(string), command[1:]
			require.Equal(t, 1, strings.Count(e.run(name, args...).(string), member), name)
			e.putStored() // a pop has removed them
			e.Put("q", qless.JID("plain"))
			reply := must(scripts.RunDropIn(t.Context(), e.Redis,
				append([]any{name, scripts.Time(e.Clock.Now())}, args...)...))(t)
			require.Equal(t, 1, strings.Count(reply.(string), member), name)
		}
		require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:j", "x:o", "h|{").Err())
		require.NotContains(t, e.run("get", "j"), `"x"`, "it can't be read")
		require.Equal(t, "j", e.Read("j").JID)
	})
}

func TestReserveReturnsOptionsOnlyOfJobsThatHaveSome(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("plain"), qless.Priority(2))
		e.putStored("o", `h|{"h":{"a":"1"}}`)
		reply := e.run("reserve", "w1", "2", "10", "0", "q").([]any)
		names := fmt.Sprint(reply[4])
		require.Regexp(t, " x:o$", names)
		require.Len(t, strings.Split(reply[5].(string), "\x01"), 11)
		values := strings.Split(reply[6].(string), "\x01")
		require.Len(t, values, 14)
		require.Equal(t, `h|{"h":{"a":"1"}}`, values[13])
	})
}

// The times of this test are as a script writes them. They survive being read and written again.
func TestTimesAmongOptionsSurviveAMerge(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.putStored("o", `t|{"t":100.25}`)
		until := e.Read("j").Until
		require.WithinDuration(t, noon.Add(100250*time.Millisecond), until, 10*time.Microsecond)
		e.putStored("o", `h|{"h":{"a":"1"}}`)
		require.Equal(t, "th", e.letters("j"))
		require.Equal(t, until, e.Read("j").Until)
	})
}

// Damaged options, stored by an earlier version or by hand, count as not set: the job is read,
// popped, failed and notified of failures like any other.
func TestDamagedOptionsDamageNoOtherJob(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	damage := func(jid, options string) {
		require.NoError(t, e.Redis.HSet(ctx, "ql:j:"+jid, "x:o", options).Err())
	}
	e.Put("q", qless.JID("bad"))
	e.Put("q", qless.JID("sound"))
	damage("bad", `gh|{"g":{"t":"x","w":Infinity},"h":{"k":"v"}}`)
	for _, jid := range []string{"one", "two", "three"} {
		e.Put("q", qless.JID(jid), qless.DependsOn{"bad"}, qless.OnFailureRun)
	}
	damage("two", `fg|{"f":{"do":"run","of":["bad"]},"g":{"w":-Infinity}}`)
	require.Equal(t, qless.Headers{"k": "v"}, e.Read("bad").Headers)
	require.Len(t, must(e.Queue("q").Peek(ctx, 5))(t), 2)
	popped := e.Pops("q", 5)
	require.Len(t, popped, 2)
	require.NoError(t, popped[0].Fail(ctx, "g", "m"))
	require.NoError(t, popped[1].Complete(ctx))
	for _, jid := range []string{"one", "two", "three"} {
		require.Equal(t, qless.StateWaiting, e.Read(jid).State)
	}
	require.Len(t, e.Pops("q", 5), 3)
}

// The jid of a client that writes Latin-1 is returned unchanged.
func TestJIDsThatAreNotUTF8(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	const jid = "caf\xe9"
	e.run("put", "w", "q", jid, "K", `{"n":1}`, "0")
	require.Equal(t, jid, must(e.Queue("q").Peek(ctx, 5))(t)[0].JID)
	job := e.Pop("q")
	require.Equal(t, jid, job.JID)
	require.NoError(t, errOf(job.Heartbeat(ctx)))
	require.NoError(t, job.Complete(ctx))
	require.Equal(t, "complete", e.Redis.HGet(ctx, "ql:j:"+jid, "state").Val())
}
