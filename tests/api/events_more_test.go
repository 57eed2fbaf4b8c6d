package api

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/repairs"
)

// failIn puts jobs and fails them in the group g.
func (e *env) failIn(queue string, jids ...string) {
	e.T.Helper()
	for _, jid := range jids {
		e.Put(queue, qless.JID(jid))
		require.NoError(e.T, e.Pop(queue).Fail(e.T.Context(), "g", "m"))
	}
}

// quietChanges are changes that other clients' scripts do not announce.
var quietChanges = []struct {
	what string
	set  func(e *env)
	run  func(ctx context.Context, e *env) error
	want []events.Event
}{
	{
		what: "a pause", run: func(ctx context.Context, e *env) error { return e.Queue("q").Pause(ctx) },
		want: []events.Event{{Kind: events.Paused, Queue: "q"}},
	}, {
		what: "a pause of a paused queue",
		set:  func(e *env) { require.NoError(e.T, e.Queue("q").Pause(e.T.Context())) },
		run:  func(ctx context.Context, e *env) error { return e.Queue("q").Pause(ctx) },
	}, {
		what: "an unpause",
		set:  func(e *env) { require.NoError(e.T, e.Queue("q").Pause(e.T.Context())) },
		run:  func(ctx context.Context, e *env) error { return e.Queue("q").Resume(ctx) },
		want: []events.Event{{Kind: events.Resumed, Queue: "q"}},
	}, {
		what: "an unpause of a queue that is not paused",
		run:  func(ctx context.Context, e *env) error { return e.Queue("q").Resume(ctx) },
	}, {
		what: "a retry without retries",
		set:  func(e *env) { e.Put("q", qless.JID("j"), qless.Retries(0)) },
		run:  func(ctx context.Context, e *env) error { return errOf(e.Pop("q").Retry(ctx, 0, "", "")) },
		want: []events.Event{{
			Kind: events.Failed, JID: "j", Queue: "q", Worker: "w1", Group: "failed-retries-q",
			Message: `Job exhausted retries in queue "q"`,
		}},
	}, {
		what: "a retry without retries that says why",
		set:  func(e *env) { e.Put("q", qless.JID("j"), qless.Retries(0)) },
		run: func(ctx context.Context, e *env) error {
			return errOf(e.Pop("q").Retry(ctx, 0, "g", "m"))
		},
		want: []events.Event{{
			Kind: events.Failed, JID: "j", Queue: "q", Worker: "w1", Group: "g", Message: "m",
		}},
	}, {
		what: "a failed job that is unfailed", set: func(e *env) { e.failIn("q", "j", "k") },
		run: func(ctx context.Context, e *env) error { return e.Read("j").Unfail(ctx) },
		want: []events.Event{
			{Kind: events.Unfailed, JID: "j", Queue: "q", Group: "g", Count: 1},
		},
	}, {
		what: "a group that is unfailed", set: func(e *env) { e.failIn("q", "j", "k"); e.failIn("r", "l") },
		run: func(ctx context.Context, e *env) error {
			return errOf(repairs.Unfail(ctx, e.Client, "g", 10))
		},
		want: []events.Event{
			{Kind: events.Unfailed, JID: "l", Queue: "r", Group: "g", Count: 1},
			{Kind: events.Unfailed, Queue: "q", Group: "g", Count: 2},
		},
	}, {
		what: "a group that is unfailed into a queue", set: func(e *env) { e.failIn("q", "j"); e.failIn("r", "k") },
		run: func(ctx context.Context, e *env) error {
			return errOf(repairs.UnfailInto(ctx, e.Client, "s", "g", 10))
		},
		want: []events.Event{{Kind: events.Unfailed, Queue: "s", Group: "g", Count: 2}},
	}, {
		what: "a group without jobs",
		run: func(ctx context.Context, e *env) error {
			return errOf(repairs.Unfail(ctx, e.Client, "none", 10))
		},
	}, {
		what: "the children of a recurring job", set: recurs,
		run:  func(_ context.Context, e *env) error { e.Pop("q"); return nil },
		want: []events.Event{{Kind: events.Spawned, JID: "r", Queue: "q", Count: 1}},
	}, {
		what: "children that are read", set: recurs,
		run:  func(ctx context.Context, e *env) error { return errOf(e.Queue("q").Peek(ctx, 10)) },
		want: []events.Event{{Kind: events.Spawned, JID: "r", Queue: "q", Count: 6}},
	},
}

// recurs makes a recurring job miss five times.
func recurs(e *env) {
	_, err := e.Queue("q").Recur(e.T.Context(), "K", nil, time.Minute, qless.JID("r"))
	require.NoError(e.T, err)
	e.Clock.Advance(5 * time.Minute)
}

func TestEventsOfSilentChangesByOtherScripts(t *testing.T) {
	for _, s := range quietChanges {
		t.Run(s.what, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				if s.set != nil {
					s.set(e)
				}
				heard := listen(t, e.Client)
				require.NoError(t, s.run(t.Context(), e))
				require.NoError(t, e.Cancel(t.Context(), "the end"))
				var got []events.Event
				for {
					event := next(t, heard)
					if event.JID == "the end" {
						break
					}
					if event.Kind != events.Put {
						got = append(got, event)
					}
				}
				require.Equal(t, s.want, got)
			})
		})
	}
}

// The workers' own script announces this, too.
func TestEventsOfJobsThatFinishOutOfRetries(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"), qless.Retries(0))
		e.Pop("q")
		heard := listen(t, e.Client)
		reply := must(e.Run(t.Context(), "finish", "j", "w1",
			"retry", "j", "q", "", "4", "group", "K:error", "message", "it broke"))(t)
		require.Equal(t, []any{"-1"}, reply)
		requireEvents(t, heard, events.Event{
			Kind: events.Failed, JID: "j", Queue: "q", Worker: "w1", Group: "K:error", Message: "it broke",
		})
	})
}

// A subscriber to a pattern receives only the messages of other clients' scripts, unless there is a
// subscriber to events.
func TestTheDropInAnnouncesThemOnlyToListeners(t *testing.T) {
	e := newEnv(t)
	lines := []string{
		"pause|q", "unpause|q", "put|w|q|j|K|{}|0|retries|0", "pop|q|w|1", "retry|j|q|w",
		"unfail|q|failed-retries-q|1", "recur|q|r|K|{}|interval|60|0", "pop|q|w|5",
	}
	run := func() {
		for _, line := range lines {
			require.NoError(t, e.dropIn(line), line)
		}
		require.NoError(t, e.Redis.FlushDB(t.Context()).Err())
	}
	all := e.Redis.PSubscribe(t.Context(), "*")
	defer all.Close()
	require.NoError(t, errOf(all.Receive(t.Context())))
	messages := all.Channel()
	run()
	require.NoError(t, e.Redis.Publish(t.Context(), "the end", "").Err())
	require.Equal(t, "ql:log", testkit.Soon(t, "the put", messages).Channel)
	require.Equal(t, "the end", testkit.Soon(t, "the end", messages).Channel)

	heard := listen(t, e.Client)
	run()
	var kinds []string
	for range 6 {
		kinds = append(kinds, string(next(t, heard).Kind))
	}
	require.Equal(t, "paused resumed put failed unfailed spawned", strings.Join(kinds, " "))
}

// Scripts read jobs with pcall, and pass a refusal on.
func TestADenialWithinAScriptIsAnErrorOfTheServer(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("j"))
	job := e.Pop("q")
	require.NoError(t, e.Redis.Do(t.Context(), "ACL", "SETUSER", "blind", "on", ">p", "~*", "&*", "+@all", "-hmget").Err())
	options := testkit.Options(e.Server.Addr())
	options.Username, options.Password = "blind", "p"
	rdb := redis.NewClient(options)
	defer rdb.Close()
	blind := e.NewClient(rdb, qless.ClientConfig{})
	requireCode(t, qless.ErrServer, errOf(blind.Do(t.Context(), "fail", "j", job.Worker, "g", "m")))
	reply := must(blind.Do(t.Context(), "renew", job.Worker, "j"))(t)
	require.Contains(t, reply.([]any)[0], "!server ")
}

// A user without the right to publish can still make the change.
func TestChangesThatCannotBePublished(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.Redis.Do(t.Context(), "ACL", "SETUSER", "mute", "on", ">p", "~*", "+@all", "resetchannels").Err())
	options := testkit.Options(e.Server.Addr())
	options.Username, options.Password = "mute", "p"
	rdb := redis.NewClient(options)
	defer rdb.Close()
	require.NoError(t, e.NewClient(rdb, qless.ClientConfig{}).Queue("q").Pause(t.Context()))
	require.True(t, e.Counts("q").Paused)
}
