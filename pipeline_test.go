package qless_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/internal/testkit/scripts"
)

// newClient returns a server of the test's own, and a client of it for pipelines.
func newClient(t *testing.T) (*testkit.Server, *redis.Client, *qless.Client) {
	t.Helper()
	server := testkit.Start(t)
	rdb := server.Client(t)
	return server, rdb, clientOf(t, rdb)
}

func clientOf(t *testing.T, rdb *redis.Client, options ...qless.Option) *qless.Client {
	t.Helper()
	client, err := qless.New(rdb, append(options, qless.WithWorkerName("w1"), qless.WithLogger(testkit.Quiet()))...)
	require.NoError(t, err)
	return client
}

// put puts jobs.
func put(t *testing.T, client *qless.Client, jids ...string) {
	t.Helper()
	for _, jid := range jids {
		_, err := client.Queue("q").Put(t.Context(), "K", nil, qless.JID(jid))
		require.NoError(t, err)
	}
}

// A connection that is refused leaves the commands of a pipeline without an answer: that is an
// error of each.
func TestAPipelineWhoseConnectionIsRefused(t *testing.T) {
	_, known, _ := newClient(t)
	options := *known.Options()
	options.Username, options.Password = "app", "wrong"
	rdb := redis.NewClient(&options)
	t.Cleanup(func() { _ = rdb.Close() })

	p := clientOf(t, rdb).Pipeline()
	p.Add("length", "q")
	p.Add("length", "q")
	replies, failures := p.Exec(t.Context())
	require.Equal(t, []any{nil, nil}, replies)
	for _, err := range failures {
		require.ErrorContains(t, err, "WRONGPASS")
	}

	replicated := clientOf(t, rdb, qless.WithReplicas(1, time.Second))
	_, err := replicated.Queue("q").Put(t.Context(), "K", nil)
	require.ErrorContains(t, err, "WRONGPASS")
	require.NotErrorIs(t, err, qless.ErrNotReplicated)
}

// lines are commands for a pipeline, with what each replies.
var lines = []struct {
	command string
	args    []any
	reply   any
}{
	{"put", []any{"w1", "q", "a", "K", "{}", "0"}, "a"},
	{"put", []any{"w1", "q", "b", "K", "{}", "0"}, "b"},
	{"length", []any{"q"}, int64(2)},
	{"recur.get", []any{"unknown"}, nil},
	{"put", []any{"w1", "q", "c", "K", "{}", "0"}, "c"},
	{"length", []any{"q"}, int64(3)},
	{"config.get", []any{"application"}, "qless"},
}

// TestAPipelineWhoseScriptsTheServerDoesNotKnow has the first, some or all scripts unknown.
func TestAPipelineWhoseScriptsTheServerDoesNotKnow(t *testing.T) {
	for _, known := range [][]string{
		{"put", "length", "recur.get", "config.get"}, {"length", "recur.get", "config.get"}, {"put", "recur.get"},
		{"put", "length", "recur.get"}, {"config.get"}, {},
	} {
		t.Run(fmt.Sprint(known), func(t *testing.T) {
			server, rdb, client := newClient(t)
			for _, command := range known {
				require.NoError(t, rdb.ScriptLoad(t.Context(), scripts.Text(command)).Err())
			}
			pipeline := client.Pipeline()
			for _, line := range lines {
				pipeline.Add(line.command, line.args...)
			}
			commands := server.Commands(t, func() {
				replies, errs := pipeline.Exec(t.Context())
				for i, line := range lines {
					require.NoError(t, errs[i])
					if line.command != "length" || len(known) == 4 {
						require.Equal(t, line.reply, replies[i], "the reply of call %d", i)
					}
				}
			})
			require.Equal(t, 3, count(commands, "rpush"), "each put ran once")
			require.Equal(t, 1, count(commands, "hget"), "config.get ran once")
			jobs, err := client.Queue("q").Pop(t.Context(), 5)
			require.NoError(t, err)
			require.Len(t, jobs, 3)
			for i, jid := range []string{"a", "b", "c"} {
				require.Equal(t, jid, jobs[i].JID)
			}
		})
	}
}

// count returns how often a list has an item.
func count(list []string, item string) int {
	n := 0
	for _, other := range list {
		if other == item {
			n++
		}
	}
	return n
}

func TestErrorsInAPipelineStayWithTheirCommands(t *testing.T) {
	_, _, client := newClient(t)
	pipeline := client.Pipeline()
	pipeline.Add("length")
	pipeline.Add("length", "q")
	pipeline.Add("timeout", "unknown")
	pipeline.Add("put", "w1", "q", "a", "K", "{}", "0")
	replies, errs := pipeline.Exec(t.Context())
	require.Error(t, errs[0])
	require.NoError(t, errs[1])
	require.Equal(t, int64(0), replies[1])
	require.ErrorIs(t, qless.Wrap("timeout", "", errs[2]), qless.ErrNotFound)
	require.NoError(t, errs[3])
	require.Equal(t, "a", replies[3])

	replies, errs = client.Pipeline().Exec(t.Context())
	require.Empty(t, replies)
	require.Empty(t, errs)
}

func TestAPipelineWithACommandThatIsNotRepeatableIsSentOnce(t *testing.T) {
	server, rdb, direct := newClient(t)
	proxy := testkit.NewProxy(t, server.Addr())
	proxied := redis.NewClient(testkit.Options(proxy.Addr()))
	defer proxied.Close()
	client := clientOf(t, proxied)
	put(t, direct, "a", "b", "c")
	_, err := direct.Queue("q").Pop(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, rdb.ScriptLoad(t.Context(), scripts.Text("length")).Err())
	pipeline := client.Pipeline()
	pipeline.Add("length", "q")
	pipeline.Add("pop", "q", "w1", "1")
	proxy.CutBeforeReply(scripts.SHA("pop"))
	_, errs := pipeline.Exec(t.Context())
	for _, err := range errs {
		requireCode(t, qless.ErrUnavailable, qless.Wrap("op", "", err))
	}
	require.Equal(t, 1, proxy.Seen(scripts.SHA("pop")))
	counts, err := direct.Queue("q").Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, counts.Running)
}
