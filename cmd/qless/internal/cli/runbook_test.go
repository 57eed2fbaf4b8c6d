package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
)

// A wreck is a server in a situation of the runbook.
type wreck struct {
	*env
	*qless.Client
}

func newWreck(t *testing.T) *wreck {
	e, client := newReal(t, "--save", "")
	e.environ = []string{"COLUMNS=200"}
	return &wreck{e, client}
}

// jobs puts jobs, and pops some of them.
func (w *wreck) jobs(queue, jids string, pop int, options ...qless.PutOption) []*qless.Job {
	w.t.Helper()
	for jid := range strings.FieldsSeq(jids) {
		must(w.Queue(queue).Put(w.t.Context(), "Sync", nil,
			append([]qless.PutOption{qless.JID(jid)}, options...)...))(w.t)
	}
	if pop == 0 {
		return nil
	}
	return w.pop(queue, pop)
}

// putAt puts a job some time ago.
func (w *wreck) putAt(ago time.Duration, queue, jid string, options ...qless.PutOption) {
	w.t.Helper()
	w.put(queue, "Sync", ago, append(options, qless.JID(jid))...)
}

// popAt pops from a queue some time ago, or moves the jobs with expired locks.
func (w *wreck) popAt(ago time.Duration, queue string) {
	w.t.Helper()
	must(w.as("", ago).Queue(queue).Pop(w.t.Context(), 1))(w.t)
}

// register registers a worker some time ago.
func (w *wreck) register(name, queue string, ago time.Duration, more ...string) {
	w.t.Helper()
	info := fmt.Sprintf(`{"queues":[%q],"slots":1,"klasses":["Sync"],"language":"go","host":"h"%s}`, queue,
		strings.Join(more, ""))
	must(w.as("", ago).Do(w.t.Context(), "worker.register", name, "0", info))(w.t)
}

// lose makes a worker lose its lock on a job.
func (w *wreck) lose(queue, jid string) {
	w.jobs(queue, jid, 1, qless.LockTime(time.Millisecond))
	testkit.Until(w.t, "the lock to end", func() bool {
		counts := must(w.Queue(queue).Counts(w.t.Context()))(w.t)
		return counts.Stalled == 1
	})
}

// ended counts the outcomes of the last minutes like a worker: "completed,failed,retried".
func (w *wreck) ended(queue, each string) {
	w.t.Helper()
	for ago := range 5 {
		minute := time.Now().Add(-time.Duration(ago) * time.Minute).Truncate(time.Minute).Unix()
		w.redis(fmt.Sprintf("hset ql:x:rates:%d %d:%s:Sync %s||", minute, len(queue), queue, each))
	}
}

// follow lets a worker follow the schedule nightly, and stops the worker.
func (w *wreck) follow() {
	w.t.Helper()
	followOf(w.t, w.Client, qless.Schedule{
		ID: "nightly", When: "0 3 * * *", Queue: "reports", Job: qless.JobSpec{Klass: "Sync"},
	})()
}

// situations make the situations of the parts of the runbook.
var situations = map[string]func(w *wreck){
	"A queue runs as many jobs as it may": func(w *wreck) {
		w.ok("config", "set", "render-max-concurrency", "1", "--yes")
		w.jobs("render", "long next last", 1)
		w.ok("config", "set", "sms-max-rate", "1/3600", "--yes")
		w.jobs("sms", "now", 1)
		w.putAt(20*time.Second, "sms", "later")
	},
	"A queue is paused": func(w *wreck) {
		w.jobs("export", "a", 0)
		w.ok("queue", "pause", "export", "--yes")
	},
	"Failures grow": func(w *wreck) {
		const failures = 120
		specs := make([]qless.JobSpec, failures)
		for i := range specs {
			specs[i] = qless.JobSpec{Klass: "Sync"}
		}
		must(w.Queue("crm").PutMany(w.t.Context(), specs))(w.t)
		for _, job := range w.jobs("crm", "", failures) {
			require.NoError(w.t, job.Fail(w.t.Context(), "ConnectionError", "no route to 10.0.0.9"))
		}
	},
	"Jobs are retried again and again": func(w *wreck) {
		charge := w.jobs("pay", "charge", 1)[0]
		must(charge.Retry(w.t.Context(), time.Hour, "bank", "no answer"))(w.t)
		w.register("pay-1", "pay", 0)
		w.ended("pay", "0,0,50")
	},
	"A job waits for one that has failed": func(w *wreck) {
		page := w.jobs("pages", "page-2", 1)[0]
		require.NoError(w.t, page.Fail(w.t.Context(), "timeout", "no answer"))
		w.jobs("reports", "report", 0, qless.DependsOn{"page-2"})
	},
	"A worker died": func(w *wreck) {
		w.lose("video", "film")
		w.register("vid-1", "video", 3*time.Minute)
	},
	"Workers live and lose their locks": func(w *wreck) {
		w.lose("thumbs", "frozen")
		w.register("thumbs-1", "thumbs", 0)
	},
	"Redis is full": func(w *wreck) { w.redis("config set maxmemory 1") },
	"The server can't write to its disk": func(w *wreck) {
		w.t.Cleanup(w.real.Refuse(w.t, "MISCONF"))
	},
	"The server has become a replica": func(w *wreck) { w.redis("replicaof 127.0.0.1 1") },
	"The user lacks a permission":     func(w *wreck) { w.redis("acl setuser default -evalsha -eval") },
	"The password is wrong":           func(w *wreck) { w.url = strings.Replace(w.url, "//", "//ann:wrong@", 1) },
	"The server is away":              func(w *wreck) { w.real.Kill() },
	"A job is due in ten years":       func(w *wreck) { w.jobs("crm", "later", 0, qless.Delay(87600*time.Hour)) },
	"A unique key is held": func(w *wreck) {
		w.jobs("sync", "old", 0, qless.Unique("acme"), qless.Delay(time.Hour))
		_, err := w.Queue("sync").Put(w.t.Context(), "Sync", nil, qless.Unique("acme"))
		require.ErrorIs(w.t, err, qless.ErrExists)
	},
	"A limit has no room": func(w *wreck) {
		require.NoError(w.t, w.Limit("shopify").Set(w.t.Context(), qless.LimitConfig{
			Concurrency: 1, Rate: 1, Per: time.Hour, // so that parked jobs are not tried meanwhile
		}))
		w.jobs("sync", "fetch-1 fetch-2 fetch-3", 0, qless.Limits{"shopify"})
		must(w.Queue("sync").Pop(w.t.Context(), 2))(w.t)
	},
	"A queue's name is misspelt": func(w *wreck) {
		w.register("mail-1", "mail", 0)
		w.putAt(2*time.Minute, "mial", "letter")
	},
	"A schedule has no worker": func(w *wreck) { w.follow() },
	"A schedule is late": func(w *wreck) {
		w.follow()
		w.redis(fmt.Sprint("hset ql:x:schedules nightly ", time.Now().Add(-48*time.Hour).Unix()))
	},
	"A job hangs": func(w *wreck) {
		w.putAt(2*time.Hour, "render", "stuck", qless.LockTime(24*time.Hour))
		w.popAt(2*time.Hour, "render")
	},
	"A job kills its workers": func(w *wreck) {
		w.putAt(10*time.Minute, "pay", "poison", qless.Retries(1))
		for _, ago := range []time.Duration{600, 530, 510, 440, 420} { // taken, lost, taken, lost, failed
			w.popAt(ago*time.Second, "pay")
		}
	},
	"A batch stays open": func(w *wreck) {
		must(w.as("", 26*time.Hour).NewBatch(w.t.Context(), "reports",
			qless.JobSpec{Klass: "Sync", Options: []qless.PutOption{qless.JID("sum")}}))(w.t)
	},
	"Jobs wait for each other": func(w *wreck) {
		w.jobs("other", "start", 1)
		w.jobs("etl", "load", 0, qless.DependsOn{"start"})
		w.jobs("etl", "clean", 0, qless.DependsOn{"load"})
		w.redis("sadd ql:j:load-dependencies clean")
		w.redis("sadd ql:j:clean-dependents load")
	},
	"Locks are gone": func(w *wreck) {
		w.jobs("video", "film", 1)
		w.redis("del ql:q:video-locks")
	},
	"All workers are paused": func(w *wreck) {
		w.register("sms-1", "sms", 0, `,"paused":true`)
		w.putAt(2*time.Minute, "sms", "late")
	},
	"No worker knows a klass": func(w *wreck) {
		w.register("crm-1", "crm", 0, `,"unhandled":[{"queue":"crm","klass":"Export"}]`)
		must(w.Queue("crm").Put(w.t.Context(), "Export", nil, qless.JID("export")))(w.t)
	},
	"All slots are busy": func(w *wreck) {
		w.putAt(10*time.Minute, "thumbs", "first")
		w.putAt(10*time.Minute, "thumbs", "second")
		w.popAt(0, "thumbs")
		jobs, err := inspect.New(w.Client).Queue("thumbs", inspect.Running).List(w.t.Context(), inspect.Range{})
		require.NoError(w.t, err)
		w.register(jobs.Items[0].Worker, "thumbs", 0)
	},
	"Many runs fail": func(w *wreck) {
		w.ended("pay", "4,6,0")
		for _, job := range w.jobs("pay", "charge refund", 2) {
			require.NoError(w.t, job.Fail(w.t.Context(), "bank", "no answer"))
		}
	},
	"Jobs stay in an outbox": func(w *wreck) {
		w.redis(fmt.Sprintf(`hset ql:x:outbox shop {"time":%d,"rows":3,"oldest":400,"problems":{"invalid":2}}`,
			time.Now().Unix()))
	},
	"Redis is nearly full": func(w *wreck) {
		w.redis("setrange elsewhere 30000000 x")
		used := must(strconv.Atoi(w.info("used_memory")))(w.t)
		w.redis(fmt.Sprint("config set maxmemory ", used*10/9))
		w.redis("config set maxmemory-policy volatile-lru")
	},
	"A recurring job has a backlog": func(w *wreck) {
		_, err := w.as("", 4*time.Minute).Queue("feeds").Recur(w.t.Context(), "Sync", nil, time.Second,
			qless.JID("poll"))
		require.NoError(w.t, err)
		w.register("feeds-1", "feeds", 0)
	},
	"Keys are damaged": func(w *wreck) {
		w.jobs("mail", "deleted kept", 0)
		w.jobs("mail", "due-later", 0, qless.Delay(time.Hour))
		w.redis("del ql:j:deleted")
		w.redis("del ql:q:mail-scheduled")
		w.redis("set ql:q:mail-scheduled boom")
	},
}

// A step of the runbook is a command with its status and words of its output.
type step struct {
	command string
	status  int
	prints  []string
}

var statusPattern = regexp.MustCompile(`\s+# status (\d)$`)

// runbook returns the steps of the page on operations, by their headings.
func runbook(t *testing.T) map[string][]step {
	t.Helper()
	page := must(os.ReadFile("../../../../docs/operations.md"))(t)
	_, text, found := strings.Cut(string(page), "\n## Runbook\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "\n## ")
	book := map[string][]step{}
	for _, part := range strings.Split(text, "\n### ")[1:] {
		heading, rest, _ := strings.Cut(part, "\n")
		_, block, _ := strings.Cut(rest, "```console\n")
		block, _, found = strings.Cut(block, "```")
		require.True(t, found, heading)
		for line := range strings.Lines(block) {
			line = strings.TrimRight(line, "\n")
			command, isCommand := strings.CutPrefix(line, "$ ")
			steps := book[heading]
			if !isCommand {
				last := &steps[len(steps)-1]
				last.prints = append(last.prints, line)
				continue
			}
			one := step{command: statusPattern.ReplaceAllString(command, "")}
			if status := statusPattern.FindStringSubmatch(command); status != nil {
				one.status = int(status[1][0] - '0')
			}
			book[heading] = append(steps, one)
		}
	}
	return book
}

// inOrder returns a pattern for lines with these words, with ... for any words.
func inOrder(lines []string) string {
	var parts []string
	for _, line := range lines {
		line = strings.Join(strings.Fields(line), " ")
		parts = append(parts, strings.ReplaceAll(regexp.QuoteMeta(line), `\.\.\.`, `[^\n]*`))
	}
	return "(?s)" + strings.Join(parts, `[^\n]*\n.*`)
}

// runbookIndex returns the codes of reasons by heading, from the index of the runbook.
func runbookIndex(t *testing.T) map[string][]doctor.ReasonCode {
	t.Helper()
	page := must(os.ReadFile("../../../../docs/operations.md"))(t)
	_, text, _ := strings.Cut(string(page), "\n| code | situation |\n")
	text, _, _ = strings.Cut(text, "\n\n")
	index := map[string][]doctor.ReasonCode{}
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		for _, heading := range regexp.MustCompile(`\[(.*?)\]`).FindAllStringSubmatch(cells[2], -1) {
			for _, code := range regexp.MustCompile("`(.*?)`").FindAllStringSubmatch(cells[1], -1) {
				name := strings.ToUpper(heading[1][:1]) + heading[1][1:]
				index[name] = append(index[name], doctor.ReasonCode(code[1]))
			}
		}
	}
	return index
}

func TestEachReasonHasItsSituationInTheRunbook(t *testing.T) {
	var codes []doctor.ReasonCode
	for heading, some := range runbookIndex(t) {
		require.Contains(t, situations, heading)
		codes = append(codes, some...)
	}
	slices.Sort(codes)
	require.ElementsMatch(t, doctor.ProblemCodes(), slices.Compact(codes))
}

// advised returns the reasons found by status, or the first reason found by why.
func (w *wreck) advised(command string) (reasons []doctor.Reason) {
	w.t.Helper()
	var found struct{ Attention, Causes []doctor.Reason }
	if r := w.fields(strings.TrimPrefix(command, "qless ") + " --json"); r.out != "" {
		require.NoError(w.t, json.Unmarshal([]byte(r.out), &found))
	}
	return append(found.Attention, found.Causes[:min(1, len(found.Causes))]...)
}

// requirePlayed requires that each command printed by status and why is a step, word for word.
func requirePlayed(t *testing.T, reasons []doctor.Reason, steps []step) {
	t.Helper()
	for _, r := range reasons {
		isIt := func(s step) bool { return strings.HasPrefix(s.command, r.Command) }
		require.True(t, slices.ContainsFunc(steps, isIt), "no step plays %s", r.Command)
	}
}

func TestTheRunbookIsTrue(t *testing.T) {
	t.Parallel()
	book, index := runbook(t), runbookIndex(t)
	require.Len(t, book, len(situations))
	for heading, steps := range book {
		t.Run(heading, func(t *testing.T) {
			t.Parallel()
			w := newWreck(t)
			situations[heading](w)
			found := w.advised("qless status")
			slices.SortFunc(found, func(a, b doctor.Reason) int { return strings.Compare(string(a.Code), string(b.Code)) })
			var codes []doctor.ReasonCode
			for _, r := range found {
				codes = append(codes, r.Code)
			}
			require.ElementsMatch(t, index[heading], slices.Compact(codes))
			requirePlayed(t, found, steps)
			for _, step := range steps {
				if strings.HasPrefix(step.command, "qless why ") {
					requirePlayed(t, w.advised(step.command), steps)
				}
				if words, isRedis := strings.CutPrefix(step.command, "redis-cli "); isRedis {
					w.redis(words)
					continue
				}
				r := w.fields(strings.TrimPrefix(step.command, "qless "))
				require.Equal(t, step.status, r.status, "%s\n%s%s", step.command, r.out, r.errors)
				said := regexp.MustCompile(` +`).ReplaceAllString(r.out+r.errors, " ")
				require.Regexp(t, inOrder(step.prints), said, step.command)
			}
		})
	}
}
