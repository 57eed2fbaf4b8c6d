package cli_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// newShards returns a server with three shards of a queue, two jobs in the second, other queues
// paused in one of two, and a namespace that is not a shard.
func newShards(t *testing.T) *env {
	e, _ := newReal(t)
	e.environ = []string{"QLESS_NAMESPACE={mail-*}:ql:"}
	for _, namespace := range []string{"{mail-1}:ql:", "{mail-2}:ql:", "{mail-3}:ql:", "shop:"} {
		client := must(qless.New(e.rdb, &qless.ClientConfig{
			Namespace: namespace, Clock: func() time.Time { return time.Now().Add(-10 * time.Minute) },
		}))(t)
		jobs := make([]qless.JobSpec, 1)
		if namespace == "{mail-2}:ql:" {
			jobs = make([]qless.JobSpec, 2)
			require.NoError(t, client.Queue("bounces").Pause(t.Context()))
			must(client.Queue("bounces").Put(t.Context(), "Bounce", nil))(t)
		}
		for i := range jobs {
			jobs[i].Klass = "Welcome"
		}
		must(client.Queue("welcome").PutMany(t.Context(), jobs))(t)
	}
	e.redis("rpush {mail-3}:ql:j:gone-history x")
	return e
}

func (e *env) stableShards(text string) string {
	text = regexp.MustCompile(`in (<1s|\d+m?s)`).ReplaceAllString(text, "in 1s")
	return e.stable(regexp.MustCompile(` +10m(\ds)? `).ReplaceAllString(text, "     10m "))
}

func TestShardsAreLookedAtTogether(t *testing.T) {
	e := newShards(t)
	r := e.fields("doctor")
	require.Equal(t, 1, r.status)
	golden(t, "shards.txt", e.stableShards(
		e.ok("status")+"\n$ qless queue ls\n"+e.ok("queue", "ls")+"\n$ qless doctor\n"+r.out))
}

func TestProblemsOfEachOutboxOfShards(t *testing.T) {
	e := newShards(t)
	for _, outbox := range []string{"shop", "forum"} {
		report := fmt.Sprintf(`{"time":%d,"problems":{"invalid":2}}`, time.Now().Unix())
		e.redis("hset {mail-1}:ql:x:outbox " + outbox + " " + report)
	}
	said := e.ok("status", "--all")
	require.Contains(t, said, "the outbox shop has set 2 jobs aside")
	require.Contains(t, said, "the outbox forum has set 2 jobs aside")
}

func TestShardsAsJSON(t *testing.T) {
	e := newShards(t)
	var status struct {
		Namespaces []string
		Attention  []struct {
			Code, Queue, Namespace, Command string
			Namespaces                      []string
			Jobs                            int
		}
		Queues []struct {
			Name, Oldest string
			OldestIn     string `json:"oldest_in"`
			Namespaces   int
			Waiting      int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(e.ok("status", "--json")), &status))
	require.Equal(t, []string{"{mail-1}:ql:", "{mail-2}:ql:", "{mail-3}:ql:"}, status.Namespaces)
	first := status.Attention[0]
	require.Equal(t, "no_workers", first.Code)
	require.Equal(t, "welcome", first.Queue)
	require.Equal(t, "{mail-2}:ql:", first.Namespace, "the one with most jobs")
	require.Equal(t, status.Namespaces, first.Namespaces)
	require.Equal(t, 4, first.Jobs)
	require.Equal(t, "qless why welcome --namespace '{mail-2}:ql:'", first.Command)
	queue := status.Queues[1]
	require.Equal(t, "welcome", queue.Name)
	require.Equal(t, 3, queue.Namespaces)
	require.Equal(t, 4, queue.Waiting)
	oldest := must(time.ParseDuration(queue.Oldest))(t)
	require.Greater(t, oldest, 9*time.Minute)

	var listed []map[string]any
	require.NoError(t, json.Unmarshal([]byte(e.ok("queue", "ls", "--json")), &listed))
	require.EqualValues(t, 1, listed[0]["paused"])
	var reports []struct{ Namespace string }
	require.NoError(t, json.Unmarshal([]byte(e.run("", "doctor", "--json").out), &reports))
	require.Len(t, reports, 3)
	require.Equal(t, "{mail-3}:ql:", reports[2].Namespace)
}

func TestOnlyLooksTakeAPattern(t *testing.T) {
	e := newShards(t)
	for _, words := range []string{
		"queue pause welcome -y", "queue show welcome", "job put welcome Welcome", "doctor --fix -y",
		"why welcome", "config set heartbeat 90 -y", "config dump",
		"serve lmstfy --listen 127.0.0.1:0", "serve --workq 127.0.0.1:0 --web 127.0.0.1:0",
	} {
		require.Contains(t, e.exits(2, words), `the namespace "{mail-*}:ql:" is a pattern`, words)
	}
	require.Equal(t, `qless: no namespace with queues matches "{post-*}:ql:"; there are queues in `+
		"shop:, {mail-1}:ql:, {mail-2}:ql:, {mail-3}:ql: (--namespace)\n",
		e.exits(3, "status --namespace {post-*}:ql:"))
}

func TestServersShowShardsTogether(t *testing.T) {
	e := newShards(t)
	s := e.serving(1, "exporter", "--listen", anywhere)
	_, metrics := s.get("metrics", "/metrics")
	require.Contains(t, metrics, `qless_namespaces{state="read"} 3`)
	require.Contains(t, metrics,
		`qless_queue_jobs{namespace="{mail-2}:ql:",queue="welcome",state="waiting"} 2`)
	require.Equal(t, 0, s.end(), s.log)

	s = e.serving(1, "serve", "--web", anywhere)
	_, page := s.get("web", "/")
	for _, name := range []string{"%7Bmail-1%7D:ql:", "%7Bmail-2%7D:ql:", "%7Bmail-3%7D:ql:"} {
		require.Contains(t, page, `href="/in/`+name+`/"`)
	}
	require.NotContains(t, page, "shop:")
	_, page = s.get("web", "/in/%7Bmail-2%7D:ql:/queues")
	require.Contains(t, page, "bounces")
	require.Equal(t, 0, s.end(), s.log)
}
