package api

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/repairs"
)

// listen subscribes a client until the test ends.
func listen(t *testing.T, client *qless.Client) <-chan events.Event {
	t.Helper()
	return must(events.Listen(t.Context(), client))(t)
}

// next waits for an event, and returns its public fields.
func next(t *testing.T, heard <-chan events.Event) events.Event {
	t.Helper()
	select {
	case event, open := <-heard:
		require.True(t, open, "the subscription has ended")
		return events.Event{
			Kind: event.Kind, Tracked: event.Tracked, JID: event.JID, Queue: event.Queue, To: event.To,
			Worker: event.Worker, Group: event.Group, Message: event.Message, Count: event.Count,
			Option: event.Option, Value: event.Value,
		}
	case <-time.After(patience):
		t.Fatal("no event came")
		return events.Event{}
	}
}

// requireEvents requires that these events arrive next, in order.
func requireEvents(t *testing.T, heard <-chan events.Event, want ...events.Event) {
	t.Helper()
	for i, event := range want {
		require.Equal(t, event, next(t, heard), "event %d", i)
	}
}

// requireEnd requires that a subscription ends after its context.
func requireEnd(t *testing.T, heard <-chan events.Event) {
	t.Helper()
	testkit.Until(t, "the end of the subscription", func() bool {
		for {
			select {
			case _, open := <-heard:
				if !open {
					return true
				}
			default:
				return false
			}
		}
	})
}

func TestEventsOfAnyJob(t *testing.T) {
	e := newEnv(t)
	e.Set("grace-period", 0)
	heard := listen(t, e.Client)
	ctx := t.Context()

	e.Put("q", qless.JID("a"), qless.KeepFor(0))
	requireEvents(t, heard, events.Event{Kind: events.Put, JID: "a", Queue: "q"})
	job := e.Pop("q")
	require.NoError(t, errOf(job.Heartbeat(ctx)))
	require.NoError(t, errOf(job.Retry(ctx, 0, "", "")))
	job = e.Pop("q")
	require.NoError(t, job.Next(ctx, "next"))
	requireEvents(t, heard, events.Event{Kind: events.Advanced, JID: "a", Queue: "q", To: "next"})
	job = e.Pop("next")
	require.NoError(t, job.Complete(ctx))
	requireEvents(t, heard, events.Event{Kind: events.Completed, JID: "a", Queue: "next"})

	e.Put("q", qless.JID("b"), qless.Retries(0))
	require.NoError(t, repairs.TimeOut(ctx, e.Client, e.Pop("q").JID))
	job = e.Pop("q")
	require.NoError(t, job.Fail(ctx, "g", "m\n\xff"))
	requireEvents(t, heard,
		events.Event{Kind: events.Put, JID: "b", Queue: "q"},
		events.Event{Kind: events.LockLost, JID: "b", Worker: "w1"},
		events.Event{Kind: events.Failed, JID: "b", Worker: "w1", Group: "g", Message: "m\n\uFFFD"})

	require.NoError(t, errOf(repairs.UnfailInto(ctx, e.Client, "q", "g", 1)))
	e.Pop("q")
	e.Clock.Advance(2 * time.Minute)
	require.Empty(t, e.Pops("q", 1))
	requireEvents(t, heard,
		events.Event{Kind: events.Unfailed, JID: "b", Queue: "q", Group: "g", Count: 1},
		events.Event{Kind: events.LockLost, JID: "b", Worker: "w1"},
		events.Event{Kind: events.Failed, JID: "b", Worker: "w1", Group: "failed-retries-q", Message: `Job exhausted retries in queue "q"`})

	require.NoError(t, e.Cancel(ctx, "b", "unknown"))
	require.NoError(t, e.Config().Set(ctx, "heartbeat", 5))
	require.NoError(t, e.Config().Unset(ctx, "heartbeat"))
	requireEvents(t, heard,
		events.Event{Kind: events.Canceled, JID: "b", Queue: "q"},
		events.Event{Kind: events.Canceled, JID: "unknown"},
		events.Event{Kind: events.ConfigSet, Option: "heartbeat", Value: "5"},
		events.Event{Kind: events.ConfigUnset, Option: "heartbeat"})

	e.start("q", qless.JID("c"))
	require.NoError(t, e.Cancel(ctx, "c"))
	requireEvents(t, heard,
		events.Event{Kind: events.Put, JID: "c", Queue: "q"},
		events.Event{Kind: events.Canceled, JID: "c", Queue: "q", Worker: "w1"})
}

func TestEventsOfTrackedJobs(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	heard := listen(t, e.Client)
	ctx := t.Context()
	tracked := func(kinds ...events.Kind) {
		t.Helper()
		for _, kind := range kinds {
			event := next(t, heard)
			for !event.Tracked { // skip the log events of the same job
				event = next(t, heard)
			}
			require.Equal(t, events.Event{Kind: kind, Tracked: true, JID: jid}, event)
		}
	}
	require.NoError(t, e.Read(jid).Track(ctx))
	tracked(events.Tracked)
	e.Put("q", qless.JID(jid))
	tracked(events.Put)
	e.Pop("q")
	tracked(events.Popped)
	e.Clock.Advance(2 * time.Minute)
	require.Empty(t, e.Pops("q", 1))
	tracked(events.Stalled)
	require.NoError(t, e.Read(jid).Fail(ctx, "g", "m"))
	tracked(events.Failed)
	require.NoError(t, e.start("q", qless.JID(jid)).Complete(ctx))
	tracked(events.Put, events.Popped, events.Completed)
	e.Put("q", qless.JID(jid))
	require.NoError(t, e.Cancel(ctx, jid))
	tracked(events.Put, events.Canceled)
	e.Put("q", qless.JID(jid))
	require.NoError(t, e.Read(jid).Untrack(ctx))
	tracked(events.Put, events.Untracked)
}

func TestABrokenSubscriptionIsRestoredWithAGap(t *testing.T) {
	var log bytes.Buffer
	e, proxy, _ := proxied(t)
	ctx, cancel := context.WithCancel(t.Context())
	heard := must(events.Listen(ctx, e.through(proxy, qless.ClientConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})))(t)
	for _, breaks := range []func(){proxy.CutAll, proxy.CutAll, e.Server.Restart} {
		e.Put("q", qless.JID("before"))
		require.Equal(t, "before", next(t, heard).JID)
		breaks()
		require.Equal(t, events.Event{Kind: events.Gap}, next(t, heard))
	}
	e.Put("q", qless.JID("after"))
	require.Equal(t, "after", next(t, heard).JID)
	cancel()
	requireEnd(t, heard)
	require.Contains(t, log.String(), "the subscription to events broke")
}

func TestTheContextOrTheServerEndsASubscription(t *testing.T) {
	e := newEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	heard := must(events.Listen(ctx, e.Client))(t)
	for range 1000 { // nobody reads them
		e.Put("q")
	}
	cancel()
	requireEnd(t, heard)
	_, err := events.Listen(ctx, e.Client)
	requireCode(t, qless.ErrUnavailable, err)
	require.ErrorIs(t, err, context.Canceled)
	client := e.connects(once)
	e.Server.Kill()
	requireCode(t, qless.ErrUnavailable, errOf(events.Listen(t.Context(), client)))
}

func TestSubscriptionsLeaveNoGoroutines(t *testing.T) {
	server := testkit.Start(t)
	rdb := redis.NewClient(testkit.Options(server.Addr()))
	client := must(qless.New(rdb, nil))(t)
	require.NoError(t, rdb.Ping(t.Context()).Err())
	before := goleak.IgnoreCurrent()
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		one := must(events.Listen(ctx, client))(t)
		two := must(events.Listen(ctx, client))(t)
		cancel()
		requireEnd(t, two)
		requireEnd(t, one)
	}
	goleak.VerifyNone(t, before)
	require.NoError(t, rdb.Close())
}

func TestMessagesOfOthersOnTheChannels(t *testing.T) {
	e := newEnv(t)
	heard := listen(t, e.Client)
	for _, payload := range []string{"", "not JSON", "[]", "5", "null", `{"event":5,"jid":{},"queue":false}`, "\xff"} {
		require.NoError(t, e.Redis.Publish(t.Context(), "ql:log", payload).Err())
		require.NoError(t, e.Redis.Publish(t.Context(), "ql:put", payload).Err())
	}
	e.Put("q", qless.JID("a"))
	for {
		event := next(t, heard)
		if event.JID == "a" {
			require.Equal(t, events.Event{Kind: events.Put, JID: "a", Queue: "q"}, event)
			return
		}
		require.Contains(t, []events.Kind{"", "5", events.Put}, event.Kind)
	}
}

// quietChanges are changes not announced by other clients' scripts, with our events.
var quietChanges = []struct {
	what string
	set  func(e *env)
	run  func(ctx context.Context, e *env) error
	want []events.Event
}{
	{"a pause", nothing, pauses, []events.Event{{Kind: events.Paused, Queue: "q"}}},
	{"a pause of a paused queue", paused, pauses, nil},
	{"an unpause", paused, resumes, []events.Event{{Kind: events.Resumed, Queue: "q"}}},
	{"an unpause of a queue that is not paused", nothing, resumes, nil},
	{"a retry without retries", withoutRetries, retries("", ""), []events.Event{{
		Kind: events.Failed, JID: "j", Queue: "q", Worker: "w1", Group: "failed-retries-q",
		Message: `Job exhausted retries in queue "q"`,
	}}},
	{"a retry without retries that says why", withoutRetries, retries("g", "m"), []events.Event{
		{Kind: events.Failed, JID: "j", Queue: "q", Worker: "w1", Group: "g", Message: "m"},
	}},
	{"a retry without retries in the workers' own script", func(e *env) { withoutRetries(e); e.Pop("q") },
		func(_ context.Context, e *env) error {
			require.Equal(e.T, []any{"-1"}, e.run("finish", "w1", "retry", "j", "q", "", "4", "group", "g", "message", "m"))
			return nil
		}, []events.Event{{Kind: events.Failed, JID: "j", Queue: "q", Worker: "w1", Group: "g", Message: "m"}}},
	{"a failed job that is unfailed", func(e *env) { e.fails("q", "g", "j", "k") },
		func(ctx context.Context, e *env) error { return e.Read("j").Unfail(ctx) },
		[]events.Event{{Kind: events.Unfailed, JID: "j", Queue: "q", Group: "g", Count: 1}}},
	{"a group that is unfailed", func(e *env) { e.fails("q", "g", "j", "k"); e.fails("r", "g", "l") },
		func(ctx context.Context, e *env) error { return errOf(repairs.Unfail(ctx, e.Client, "g", 10)) },
		[]events.Event{
			{Kind: events.Unfailed, JID: "l", Queue: "r", Group: "g", Count: 1},
			{Kind: events.Unfailed, Queue: "q", Group: "g", Count: 2},
		}},
	{"a group that is unfailed into a queue",
		func(e *env) { e.fails("q", "g", "j"); e.fails("r", "g", "k") },
		func(ctx context.Context, e *env) error { return errOf(repairs.UnfailInto(ctx, e.Client, "s", "g", 10)) },
		[]events.Event{{Kind: events.Unfailed, Queue: "s", Group: "g", Count: 2}}},
	{"a group without jobs", nothing,
		func(ctx context.Context, e *env) error { return errOf(repairs.Unfail(ctx, e.Client, "none", 1)) },
		nil},
	{"the children of a recurring job", recurs,
		func(_ context.Context, e *env) error { e.Pop("q"); return nil },
		[]events.Event{{Kind: events.Spawned, JID: "r", Queue: "q", Count: 1}}},
	{"children that are read", recurs,
		func(ctx context.Context, e *env) error { return errOf(e.Queue("q").Peek(ctx, 10)) },
		[]events.Event{{Kind: events.Spawned, JID: "r", Queue: "q", Count: 6}}},
}

func nothing(*env)                              {}
func paused(e *env)                             { require.NoError(e.T, pauses(e.T.Context(), e)) }
func pauses(ctx context.Context, e *env) error  { return e.Queue("q").Pause(ctx) }
func resumes(ctx context.Context, e *env) error { return e.Queue("q").Resume(ctx) }
func withoutRetries(e *env)                     { e.Put("q", qless.JID("j"), qless.Retries(0)) }

func retries(group, message string) func(ctx context.Context, e *env) error {
	return func(ctx context.Context, e *env) error { return errOf(e.Pop("q").Retry(ctx, 0, group, message)) }
}

// recurs makes a recurring job miss five times.
func recurs(e *env) {
	_, err := e.Queue("q").Recur(e.T.Context(), "K", nil, time.Minute, qless.JID("r"))
	require.NoError(e.T, err)
	e.Clock.Advance(5 * time.Minute)
}

func TestEventsOfSilentChangesByOtherScripts(t *testing.T) {
	for _, s := range quietChanges {
		runOnEach(t, s.what, func(t *testing.T, e *env) {
			s.set(e)
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
	}
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

// asUser returns a client of a user with some rights.
func (e *env) asUser(rules ...string) *qless.Client {
	e.T.Helper()
	rules = append([]string{"on", ">p"}, rules...)
	require.NoError(e.T, e.Redis.ACLSetUser(e.T.Context(), "user", rules...).Err())
	return e.connects(func(o *redis.Options) { o.Username, o.Password = "user", "p" })
}

// Scripts read jobs with pcall, and pass on refusals.
func TestADenialWithinAScriptIsAnErrorOfTheServer(t *testing.T) {
	e := newEnv(t)
	job := e.start("q", qless.JID("j"))
	blind := e.asUser("~*", "&*", "+@all", "-hmget")
	requireCode(t, qless.ErrServer, errOf(blind.Do(t.Context(), "fail", "j", job.Worker, "g", "m")))
	reply := must(blind.Do(t.Context(), "renew", job.Worker, "j"))(t)
	require.Contains(t, reply.([]any)[0], "!server ")
}

// Without publish permission, a user can still make the change.
func TestChangesThatCannotBePublished(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.asUser("~*", "+@all", "resetchannels").Queue("q").Pause(t.Context()))
	require.True(t, e.Counts("q").Paused)
}

// publishes puts and completes n jobs, each with one call, and returns the number of published
// messages.
func (e *env) publishes(n int) int {
	e.T.Helper()
	jobs := specs(n)
	commands := e.Server.Commands(e.T, func() {
		jids := e.puts("q", jobs...)
		require.Len(e.T, e.run("reserve", "w1", n, "10", "0", "q"), 5+n)
		e.run("finish", append([]any{"w1", "completed", "q", n}, anys(jids)...)...)
	})
	return strings.Count(strings.Join(commands, " "), "publish")
}

func TestManyEventsAreSentOnlyIfAClientListens(t *testing.T) {
	e := newEnvOn(t, testkit.Start(t, "--repl-backlog-ttl", "3600", "--repl-diskless-sync-delay", "0"))
	ctx := t.Context()
	log, relays := e.Namespace()+"log", e.Namespace()+"x:listen"
	confirmed := func(sub *redis.PubSub) *redis.PubSub {
		require.NoError(t, errOf(sub.Receive(ctx)))
		return sub
	}
	e.publishes(1) // makes the queue known

	require.Zero(t, e.publishes(5))
	require.Equal(t, 8, e.publishes(4), "so few are sent without a question")
	relay := confirmed(e.Redis.Subscribe(ctx, log, relays))
	require.Zero(t, e.publishes(5), "relays need none of these")
	other := confirmed(e.Redis.Subscribe(ctx, log))
	require.Equal(t, 10, e.publishes(5))
	require.NoError(t, other.Close())
	require.NoError(t, relay.Close())
	testkit.Until(t, "the server notices that", func() bool { return e.publishes(5) == 0 })
	pattern := confirmed(e.Redis.PSubscribe(ctx, "*log"))
	require.Equal(t, 10, e.publishes(5))
	require.NoError(t, pattern.Close())
	testkit.Until(t, "the server notices that", func() bool { return e.publishes(5) == 0 })

	replica := testkit.Start(t, "--repl-diskless-load", "disabled").Client(t)
	host, port, err := net.SplitHostPort(e.Server.Addr())
	require.NoError(t, err)
	require.NoError(t, replica.ReplicaOf(ctx, host, port).Err())
	testkit.Until(t, "the replica is there", func() bool {
		return strings.Contains(replica.Info(ctx, "replication").Val(), "master_link_status:up")
	})
	there := confirmed(replica.Subscribe(ctx, log))
	defer func() { require.NoError(t, there.Close()) }()
	require.Equal(t, 10, e.publishes(5))
	require.Contains(t, must(there.ReceiveMessage(ctx))(t).Payload, "put")
	require.NoError(t, replica.ReplicaOf(ctx, "no", "one").Err())
}

// anys converts a list to a list of any.
func anys[T any](list []T) []any {
	all := make([]any, len(list))
	for i, element := range list {
		all[i] = element
	}
	return all
}

// waking is the beginning of a message that also wakes a worker.
const waking = `{"queue":`

// heard subscribes to a channel until the test ends, and returns a function that waits for its next
// message.
func heard(t *testing.T, rdb *redis.Client, channel string) func() string {
	t.Helper()
	subscription := rdb.Subscribe(t.Context(), channel)
	t.Cleanup(func() { _ = subscription.Close() })
	require.NoError(t, errOf(subscription.Receive(t.Context())))
	messages := subscription.Channel()
	return func() string { return testkit.Soon(t, "a message on "+channel, messages).Payload }
}

func TestMessagesOfReadyJobsShowThatTheScriptWakes(t *testing.T) {
	e := newEnv(t)
	message := heard(t, e.Redis, "ql:log")
	e.Put("q", qless.JID("j"))
	require.Equal(t, `{"queue":"q","event":"put","jid":"j"}`, message())
	require.NoError(t, e.Pop("q").Next(t.Context(), "q2"))
	require.Equal(t, `{"queue":"q","to":"q2","event":"advanced","jid":"j"}`, message())
	_, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{spec(qless.JID("k"))})
	require.NoError(t, err)
	require.Equal(t, `{"queue":"q","event":"put","jid":"k"}`, message())
}

// The messages are the same as those of other clients' scripts, unless there is a worker to wake.
func TestTheDropInMarksAMessageOnlyIfItWakesAWorker(t *testing.T) {
	e := newEnv(t)
	message, wake := heard(t, e.Redis, "ql:log"), heard(t, e.Redis, "ql:x:wake:w1")
	isUnmarked := func(want string) { // cjson determines the order, which differs between servers
		got := message()
		require.JSONEq(t, want, got)
		require.False(t, strings.HasPrefix(got, waking), got)
	}
	require.NoError(t, e.dropIn("put|w|q|j|K|{}|0"))
	isUnmarked(`{"jid":"j","event":"put","queue":"q"}`)
	require.NoError(t, e.dropIn("pop|q|w|1"))
	require.NoError(t, e.dropIn("complete|j|w|q|{}|next|q2"))
	isUnmarked(`{"jid":"j","to":"q2","event":"advanced","queue":"q"}`)

	becomeIdle := func() { e.run("reserve", "w1", 1, 10, 0, "idle") }
	becomeIdle()
	require.NoError(t, e.dropIn("put|w|idle|k|K|{}|0"))
	require.Equal(t, `{"queue":"idle","event":"put","jid":"k"}`, message())
	require.Equal(t, "idle", wake())
	require.NoError(t, e.dropIn("pop|idle|w|1"))
	becomeIdle()
	require.NoError(t, e.dropIn("complete|k|w|idle|{}|next|idle"))
	require.Equal(t, `{"queue":"idle","to":"idle","event":"advanced","jid":"k"}`, message())
	require.Equal(t, "idle", wake())
}

// A subscriber to a pattern receives only the messages of other clients' scripts about a new queue,
// unless there is a subscriber to new queues.
func TestDropInPublishesNewQueuesOnlyToListeners(t *testing.T) {
	e := newEnv(t)
	all := e.Redis.PSubscribe(t.Context(), "*")
	defer all.Close()
	require.NoError(t, errOf(all.Receive(t.Context())))
	messages := all.Channel()
	next := func() string { return testkit.Soon(t, "a message", messages).Channel }

	require.NoError(t, e.dropIn("put|w|q1|j|K|{}|0"))
	require.NoError(t, e.dropIn("put|w|q1|j|K|{}|0"))
	require.Equal(t, []string{"ql:log", "ql:log"}, []string{next(), next()})
	queue := heard(t, e.Redis, "ql:x:queues")
	require.NoError(t, e.dropIn("put|w|q2|k|K|{}|0"))
	require.Equal(t, "q2", queue())
}

// A dropped list is empty in the replies of a single command and of the drop-in.
func TestOnlyTheDropInHasObjectsForEmptyLists(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("j"))
	e.register("w", 0, `{"queues":["q"]}`)
	for line, want := range map[string]string{
		"get|j":          `"tags":[]`,
		"tag|remove|j|a": "[]",
		"tag|get|none":   `{"total":0,"jobs":[]}`,
		"tag|top":        "[]",
		"pop|none|w|1":   "[]",
		"peek|none|1":    "[]",
		"multiget|none":  "[]",
		"track":          `{"jobs":[],"expired":[]}`,
		"failed|none":    `{"total":0,"jobs":[]}`,
		"workers|none":   `{"jobs":[],"stalled":[]}`,
		"workers":        `"name":"w"`,
	} {
		command, args := arguments(line)
		reply := e.run(command, args...)
		require.Contains(t, reply, want, line)
		reply = must(e.dropInReply(line))(t)
		require.Contains(t, reply, strings.ReplaceAll(want, "[]", "{}"), line)
		require.NotContains(t, reply, "[]", line)
	}
}
