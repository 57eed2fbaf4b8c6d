package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
)

// put puts a job that has been waiting for some time, and returns its jid.
func (e *env) put(queue, klass string, age time.Duration, options ...qless.PutOption) string {
	e.t.Helper()
	return must(e.as("", age).Queue(queue).Put(e.t.Context(), klass, nil, options...))(e.t)
}

// fail puts a job, fails it, and returns its jid.
func (e *env) fail(queue, klass, group, message string) string {
	e.t.Helper()
	jid := e.put(queue, klass, 0)
	require.NoError(e.t, e.pop(queue, 1)[0].Fail(e.t.Context(), group, message))
	return jid
}

// work starts a worker with one slot for a queue, and stops it with the test.
func (e *env) work(queue string, handle qless.Handler) *qless.Worker {
	e.t.Helper()
	worker := must(qless.NewWorker(e.Client(), qless.WorkerConfig{
		Name: "worker-" + queue, Queues: []string{queue}, Concurrency: 1, Logger: testkit.Quiet(),
	}))(e.t)
	worker.Handle("Welcome", handle)
	ctx, stop := context.WithCancel(e.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	e.t.Cleanup(func() {
		stop()
		if err := testkit.Soon(e.t, "the worker to stop", ended); !errors.Is(err, context.Canceled) {
			require.NoError(e.t, err)
		}
	})
	testkit.Until(e.t, "the worker to register", func() bool {
		workers := must(inspect.New(e.Client()).Workers(e.t.Context()))(e.t)
		for _, w := range workers {
			if w.Name == "worker-"+queue && w.Info != nil {
				return true
			}
		}
		return false
	})
	return worker
}

// stable replaces the parts that differ from run to run.
func (e *env) stable(text string) string {
	text = strings.ReplaceAll(text, strings.TrimPrefix(e.url, "redis://"), "localhost:6379")
	text = regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+Z| UTC)`).
		ReplaceAllString(text, "2024-01-02 12:00:00 UTC")
	text = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(Z|[-+]\d\d:\d\d)`).
		ReplaceAllString(text, "2024-01-02T12:00:00Z")
	text = regexp.MustCompile(`"oldest": [\d.]+`).ReplaceAllString(text, `"oldest": 600`)
	text = regexp.MustCompile(`\b10m\d\ds`).ReplaceAllString(text, "10m00s")
	return strings.ReplaceAll(text, "<1s", "3s ")
}

func TestStatusOfAnEmptyServer(t *testing.T) {
	e := newLiveEnv(t)
	golden(t, "status_empty.txt", e.stable(e.ok("status")))
}

// busyEnv returns a server with data of all kinds.
func busyEnv(t *testing.T) *env {
	e := newLiveEnv(t)
	ctx := t.Context()
	e.put("mail", "Welcome", 10*time.Minute)
	e.put("mail", "Welcome", 10*time.Minute)
	e.put("mail", "Welcome", 0, qless.Delay(time.Hour))
	e.put("export", "Monthly", 10*time.Minute)
	require.NoError(t, e.Client().Queue("export").Pause(ctx))
	for range 3 {
		e.fail("thumbs", "Resize", "timeout", "took too long")
	}
	e.fail("thumbs", "Resize", "no-such-file", "gone")
	api := e.Client().Limit("shopify")
	require.NoError(t, api.Set(ctx, qless.LimitConfig{
		Concurrency: 1, Rate: 1, Per: time.Hour, // so that parked jobs are not tried meanwhile
	}))
	for range 3 {
		e.put("sync", "Fetch", 0, qless.Limits{"shopify"})
	}
	jobs := must(e.Client().Queue("sync").Pop(ctx, 2))(t)
	require.Len(t, jobs, 1)
	return e
}

func TestStatusShowsWhatNeedsAttentionFirst(t *testing.T) {
	e := busyEnv(t)
	out := regexp.MustCompile(`show \w+`).ReplaceAllString(e.stable(e.ok("status")), "show 4a6c1a")
	golden(t, "status.txt", out)
}

func TestStatusAsJSON(t *testing.T) {
	e := busyEnv(t)
	var o doctor.Status
	require.NoError(t, json.Unmarshal([]byte(e.ok("status", "--json")), &o))
	require.Equal(t, "ql:", o.Namespace)
	codes := map[doctor.ReasonCode]string{}
	for _, p := range o.Attention {
		codes[p.Code] = p.Queue
	}
	require.Equal(t, map[doctor.ReasonCode]string{"old": "mail", "paused": "export", "limit_full": ""}, codes)
	require.Equal(t, []doctor.Group{{Name: "timeout", Jobs: 3}, {Name: "no-such-file", Jobs: 1}},
		o.Failures)
	require.Equal(t, "shopify", o.FullLimits[0].Name)
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(e.ok("status", "--json")), &fields))
	for _, name := range []string{
		"time", "namespace", "attention", "queues", "workers", "rates", "failures", "full_limits",
	} {
		require.Contains(t, fields, name)
	}
}

func TestStatusTellsAQueueWithoutWorkersFromAnIdleOne(t *testing.T) {
	e := newLiveEnv(t)
	e.put("mail", "Welcome", time.Minute)
	require.Contains(t, e.ok("status"), "queue mail has no workers: 1 job waits")
	release := make(chan struct{})
	e.work("mail", func(context.Context, *qless.Job) error { <-release; return nil })
	testkit.Until(t, "the job to run", func() bool {
		return strings.Contains(e.ok("status"), "1 worker, 1 of 1 slot busy")
	})
	require.Contains(t, e.ok("status"), "nothing needs attention")
	close(release)
}

func TestStatusTellsOfLostLocks(t *testing.T) {
	e := newLiveEnv(t)
	e.put("mail", "Welcome", 0, qless.LockTime(time.Millisecond))
	e.pop("mail", 1)
	testkit.Until(t, "the lock to end", func() bool {
		return strings.Contains(e.ok("status"), "queue mail has 1 job with an expired lock")
	})
}

func TestStatusShowsOutboxes(t *testing.T) {
	e := newLiveEnv(t)
	report := fmt.Sprintf(`{"time": %d, "rows": 3, "oldest": 20, "problems": {"invalid": 2}}`, time.Now().Unix())
	require.NoError(t, e.Client().Redis().HSet(t.Context(), "ql:x:outbox", "shop", report).Err())
	status := e.ok("status")
	require.Contains(t, status, "the outbox shop has set 2 jobs aside")
	require.Contains(t, status, "OUTBOXES\nshop: 3 rows, the oldest for 20s; 2 set aside; reported ")
}

func TestDamagedQueuesAreTold(t *testing.T) {
	e, _ := newReal(t)
	e.redis("set ql:queues x")
	for _, words := range []string{"status", "status --json", "queue ls", "queue ls --json"} {
		r := e.fields(words)
		require.Equal(t, 1, r.status, words)
		require.Contains(t, r.errors, "qless: ", words)
		require.NotContains(t, r.out, "nothing needs attention", words)
	}
	require.Contains(t, e.fields("status").errors, "ql:queues")
	require.Contains(t, e.fields("status").out, "the key ql:queues is damaged: it is a string")
}

func TestAnEmptyNamespaceNamesOthers(t *testing.T) {
	e := newStill(t)
	must(e.Client().Queue("mail").Put(t.Context(), "Welcome", nil))(t)
	want := "no queues here; there are queues in ql: (--namespace)\n"
	for words, want := range map[string]string{
		"queue ls": want,
		"status":   "\n\n" + want + "\nWORKERS",
	} {
		out := e.ok(strings.Fields(words + " --namespace staging:")...)
		require.Contains(t, out, want, words)
		require.NotContains(t, out, "nothing needs attention", words)
		require.NotContains(t, e.ok(strings.Fields(words)...), "no queues", words)
	}
}
