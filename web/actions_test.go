package web_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

// A logged keeps the records of a log, one per line.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(l, nil)) }

// take returns the records since the last call.
func (l *logged) take(t *testing.T) []map[string]any {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var records []map[string]any
	for line := range strings.Lines(l.text.String()) {
		var record map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &record))
		records = append(records, record)
	}
	l.text.Reset()
	return records
}

// on returns a desk with other options for the same server.
func (d *desk) on(options web.Options) *desk {
	d.t.Helper()
	if options.Logger == nil {
		options.Logger = testkit.Quiet()
	}
	return d.at(web.New(options, web.Source{Client: d.Client, Redis: d.server.Client(d.t)}))
}

func (d *desk) post(action string, form url.Values, headers ...string) answer {
	d.t.Helper()
	return d.ask(http.MethodPost, "/actions/"+action, form.Encode(), headers...)
}

// rejected requires that an action is not done, and that the response has texts.
func (d *desk) rejected(status int, action string, form url.Values, texts ...string) string {
	d.t.Helper()
	got := d.post(action, form)
	require.Equal(d.t, status, got.StatusCode, form)
	contains(d.t, got.body, texts...)
	return got.body
}

// secret is a text in data, which must not be logged.
const secret = "s3cret"

// scene has jobs in all states for an action.
type scene struct {
	*desk
	rdb  *redis.Client
	jids map[string]string
	lost string // a job that is in no list
}

func (s *scene) field(jid, name string) string {
	return s.rdb.HGet(context.Background(), "ql:j:"+jid, name).Val()
}

func (s *scene) isMember(key, member string) bool {
	return s.rdb.ZScore(context.Background(), key, member).Err() == nil
}

func newScene(t *testing.T) *scene {
	ctx := t.Context()
	d := newDesk(t, web.Options{})
	s := &scene{desk: d, rdb: d.server.Client(t), jids: map[string]string{}}
	s.jids["failed"] = d.put("mail", "Send")
	pop := func(name string) *qless.Job {
		jobs := d.pop("mail", 1)
		require.Len(t, jobs, 1)
		s.jids[name] = jobs[0].JID
		return jobs[0]
	}
	require.NoError(t, pop("failed").Fail(ctx, "boom", "it broke"))
	d.put("mail", "Send")
	pop("running")
	d.put("mail", "Send")
	require.NoError(t, pop("complete").Complete(ctx))
	s.jids["waiting"] = d.put("mail", "Send", qless.Tags{"old"})
	s.jids["other"] = d.put("mail", "Send")
	s.jids["scheduled"] = d.put("mail", "Send", qless.Delay(time.Hour))
	s.jids["depends"] = d.put("mail", "Send", qless.DependsOn{s.jids["waiting"]})
	d.recur("mail", "ticks", map[string]string{"x": secret}, time.Hour)
	_, err := inspect.New(d.Client).Limit(ctx, "api")
	require.NoError(t, err)
	return s
}

// pick returns the form about one of the jobs.
func (s *scene) pick(name string, pairs ...string) url.Values {
	state := name
	if name == "other" {
		state = "waiting"
	}
	form := form(pairs...)
	form.Set("job", state+":"+s.jids[name])
	return form
}

func form(pairs ...string) url.Values {
	form := url.Values{"sure": {"1"}}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return form
}

// A trial is an action with its form and its expected effect.
type trial struct {
	form  func(s *scene) url.Values
	check func(t *testing.T, s *scene, done result)
}

// A result is the response of an action to a request for JSON.
type result struct {
	Changed   int
	Unchanged int
	Error     string
	JIDs      []string
	Receipt   string
	Recur     string `json:"recurring"`
}

func trials() map[web.Action]trial {
	ctx := context.Background()
	on := func(name string, pairs ...string) func(s *scene) url.Values {
		return func(s *scene) url.Values { return s.pick(name, pairs...) }
	}
	with := func(pairs ...string) func(s *scene) url.Values {
		return func(*scene) url.Values { return form(pairs...) }
	}
	hasField := func(job, name, value string) func(*testing.T, *scene, result) {
		return func(t *testing.T, s *scene, _ result) {
			require.Equal(t, value, s.field(s.jids[job], name))
		}
	}
	setting := func(name, value string) func(*testing.T, *scene, result) {
		return func(t *testing.T, s *scene, _ result) {
			require.Equal(t, value, s.rdb.HGet(ctx, "ql:config", name).Val())
		}
	}
	// isIn checks whether a key has a job of the scene, or another member.
	isIn := func(want bool, key, member string) func(*testing.T, *scene, result) {
		return func(t *testing.T, s *scene, _ result) {
			require.Equal(t, want, s.isMember(key, cmp.Or(s.jids[member], member)))
		}
	}
	return map[web.Action]trial{
		web.ActionJobCancel: {on("other"), func(t *testing.T, s *scene, done result) {
			require.Zero(t, s.rdb.Exists(ctx, "ql:j:"+s.jids["other"]).Val())
			require.NotEmpty(t, done.Receipt)
		}},
		web.ActionJobUnfail: {on("failed"), hasField("failed", "state", "waiting")},
		web.ActionJobTimeout: {on("running"), func(t *testing.T, s *scene, _ result) {
			require.Equal(t, "stalled", s.field(s.jids["running"], "state"))
			require.False(t, s.isMember("ql:q:mail-locks", s.jids["running"]))
		}},
		web.ActionJobMove: {on("waiting", "to", "slow", "delay", "1h"),
			isIn(true, "ql:q:slow-scheduled", "waiting")},
		web.ActionJobPromote: {on("scheduled"), isIn(true, "ql:q:mail-work", "scheduled")},
		web.ActionJobReschedule: {on("scheduled", "delay", "7d"), func(t *testing.T, s *scene, _ result) {
			due := s.rdb.ZScore(ctx, "ql:q:mail-scheduled", s.jids["scheduled"]).Val()
			require.InDelta(t, float64(time.Now().Add(7*24*time.Hour).Unix()), due, 3600)
		}},
		web.ActionJobPriority: {on("waiting", "priority", "7"), hasField("waiting", "priority", "7")},
		web.ActionJobTag: {on("waiting", "tags", "vip, eu"), func(t *testing.T, s *scene, _ result) {
			require.True(t, s.isMember("ql:t:vip", s.jids["waiting"]))
			require.True(t, s.isMember("ql:t:eu", s.jids["waiting"]))
		}},
		web.ActionJobUntag: {on("waiting", "tags", "old"), isIn(false, "ql:t:old", "waiting")},
		web.ActionJobTrack: {on("waiting"), isIn(true, "ql:tracked", "waiting")},
		web.ActionJobUntrack: {func(s *scene) url.Values {
			_, err := inspect.New(s.desk.Client).JIDs(s.jids["waiting"]).Track(ctx)
			require.NoError(s.t, err)
			return s.pick("waiting")
		}, isIn(false, "ql:tracked", "waiting")},
		web.ActionJobDepend: {func(s *scene) url.Values {
			return s.pick("depends", "jids", s.jids["other"])
		}, func(t *testing.T, s *scene, _ result) {
			key := "ql:j:" + s.jids["depends"] + "-dependencies"
			require.True(t, s.rdb.SIsMember(ctx, key, s.jids["other"]).Val())
		}},
		web.ActionJobUndepend: {on("depends"), hasField("depends", "state", "waiting")},
		web.ActionJobLog: {on("waiting", "message", secret), func(t *testing.T, s *scene, _ result) {
			last := s.rdb.LIndex(ctx, "ql:j:"+s.jids["waiting"]+"-history", -1).Val()
			require.Contains(t, last, secret)
		}},
		web.ActionJobEdit: {func(s *scene) url.Values {
			form := s.pick("waiting", "data", `{"new": "`+secret+`"}`)
			form.Set("digest", s.digest("job.edit", form))
			return form
		}, hasField("waiting", "data", `{"new":"`+secret+`"}`)},
		web.ActionJobCopy: {on("complete"), func(t *testing.T, s *scene, done result) {
			require.Len(t, done.JIDs, 1)
			require.True(t, s.isMember("ql:q:mail-work", done.JIDs[0]))
			require.Equal(t, `{"n":1}`, s.field(done.JIDs[0], "data"))
		}},
		web.ActionJobPut: {with("queue", "new", "klass", "Made", "data", `{"a": "`+secret+`"}`,
			"priority", "3", "delay", "60", "tags", "a,b", "retries", "0"),
			func(t *testing.T, s *scene, done result) {
				require.Len(t, done.JIDs, 1)
				require.True(t, s.isMember("ql:q:new-scheduled", done.JIDs[0]))
				require.Equal(t, `{"a":"`+secret+`"}`, s.field(done.JIDs[0], "data"))
				require.Equal(t, "3", s.field(done.JIDs[0], "priority"))
				require.Equal(t, "0", s.field(done.JIDs[0], "retries"))
			}},
		web.ActionJobRestore: {func(s *scene) url.Values {
			return form("receipt", s.did("job.cancel", s.pick("other")).Receipt)
		}, hasField("other", "state", "waiting")},
		web.ActionQueuePause: {with("queue", "mail"), paused(true)},
		web.ActionQueueResume: {func(s *scene) url.Values {
			require.NoError(s.t, s.Queue("mail").Pause(ctx))
			return form("queue", "mail")
		}, paused(false)},
		web.ActionQueueMaxConcurrency: {with("queue", "mail", "value", "4"),
			setting("mail-max-concurrency", "4")},
		web.ActionQueueHeartbeat: {with("queue", "mail", "value", "2m"),
			setting("mail-heartbeat", "120")},
		web.ActionQueueMaxRate: {with("queue", "mail", "value", "5", "per", "10s"),
			func(t *testing.T, s *scene, _ result) {
				settings, err := s.Queue("mail").Settings(ctx)
				require.NoError(t, err)
				require.Equal(t, 5, settings.MaxRate)
				require.Equal(t, 10*time.Second, settings.Per)
			}},
		web.ActionQueueForget: {func(s *scene) url.Values {
			require.NoError(s.t, s.Cancel(ctx, s.put("old", "Send")))
			return form("queue", "old")
		}, isIn(false, "ql:queues", "old")},
		web.ActionQueueUnfail: {with("queue", "slow", "group", "boom", "count", "10"),
			func(t *testing.T, s *scene, done result) {
				require.Equal(t, 1, done.Changed)
				require.True(t, s.isMember("ql:q:slow-work", s.jids["failed"]))
			}},
		web.ActionWorkerForget: {with("worker", "w1"), isIn(false, "ql:workers", "w1")},
		web.ActionRecurSet: {with("jid", "ticks", "interval", "2h", "priority", "9", "retries", "1",
			"klass", "Tock", "queue", "slow", "backlog", "2", "data", `{"y": "`+secret+`"}`),
			func(t *testing.T, s *scene, _ result) {
				job, err := s.RecurringJob(ctx, "ticks")
				require.NoError(t, err)
				require.Equal(t, 2*time.Hour, job.Interval)
				require.Equal(t, []any{9, 1, 2, "Tock", "slow", `{"y":"` + secret + `"}`},
					[]any{job.Priority, job.Retries, job.Backlog, job.Klass, job.Queue, string(job.Data)})
			}},
		web.ActionRecurRun: {with("jid", "ticks"), func(t *testing.T, s *scene, done result) {
			require.Len(t, done.JIDs, 1)
			require.Equal(t, "Tick", s.field(done.JIDs[0], "klass"))
		}},
		web.ActionRecurCancel: {with("jid", "ticks"), func(t *testing.T, s *scene, _ result) {
			require.Zero(t, s.rdb.Exists(ctx, "ql:r:ticks").Val())
		}},
		web.ActionRecurPut: {with("queue", "mail", "klass", "Tack", "interval", "90s", "offset", "1h",
			"data", `"`+secret+`"`, "tags", "a"),
			func(t *testing.T, s *scene, done result) {
				require.Equal(t, "Tack", s.rdb.HGet(ctx, "ql:r:"+done.Recur, "klass").Val())
				require.Equal(t, "90", s.rdb.HGet(ctx, "ql:r:"+done.Recur, "interval").Val())
			}},
		web.ActionScheduleRun: {scheduled, func(t *testing.T, s *scene, done result) {
			require.Len(t, done.JIDs, 1)
			require.True(t, s.isMember("ql:q:mail-work", done.JIDs[0]))
		}},
		web.ActionScheduleForget: {scheduled, func(t *testing.T, s *scene, _ result) {
			_, err := inspect.New(s.desk.Client).Schedule(ctx, "nightly")
			require.ErrorIs(t, err, qless.ErrNotFound)
		}},
		web.ActionLimitSet: {with("name", "api", "concurrency", "3", "rate", "5", "per", "1m"),
			func(t *testing.T, s *scene, _ result) {
				info, err := inspect.New(s.desk.Client).Limit(ctx, "api")
				require.NoError(t, err)
				require.Equal(t, qless.LimitConfig{Concurrency: 3, Rate: 5, Per: time.Minute}, info.Config)
			}},
		web.ActionLimitHold: {with("name", "api", "for", "1h"), func(t *testing.T, s *scene, _ result) {
			info, err := inspect.New(s.desk.Client).Limit(ctx, "api")
			require.NoError(t, err)
			require.False(t, info.HeldUntil.IsZero())
		}},
		web.ActionLimitUnset: {func(s *scene) url.Values {
			require.NoError(s.t, s.Limit("api").Set(ctx, qless.LimitConfig{Concurrency: 1}))
			return form("name", "api")
		}, func(t *testing.T, s *scene, _ result) {
			page, err := inspect.New(s.desk.Client).Limits(ctx, inspect.Range{})
			require.NoError(t, err)
			require.Empty(t, page.Items)
		}},
		web.ActionDoctorExamine: {func(s *scene) url.Values { return form() },
			func(t *testing.T, s *scene, _ result) {
				testkit.Until(t, "the exam is over", func() bool { return s.read("/doctor")["report"] != nil })
			}},
		web.ActionDoctorFix: {func(s *scene) url.Values {
			s.lost = s.put("lost", "Send")
			require.NoError(s.t, s.rdb.ZRem(ctx, "ql:q:lost-work", s.lost).Err())
			return form()
		}, func(t *testing.T, s *scene, _ result) {
			testkit.Until(t, "the job is where it belongs", func() bool {
				return s.rdb.ZScore(ctx, "ql:q:lost-work", s.lost).Err() == nil
			})
		}},
		web.ActionConfigSet: {with("name", "grace-period", "value", "20"), setting("grace-period", "20")},
		web.ActionConfigUnset: {func(s *scene) url.Values {
			require.NoError(s.t, s.Config().Set(ctx, "grace-period", 20))
			return form("name", "grace-period")
		}, setting("grace-period", "")},
	}
}

func paused(want bool) func(*testing.T, *scene, result) {
	return func(t *testing.T, s *scene, _ result) {
		isPaused := s.rdb.SIsMember(context.Background(), "ql:paused_queues", "mail").Val()
		require.Equal(t, want, isPaused)
	}
}

func scheduled(s *scene) url.Values {
	worker := s.follow(qless.Schedule{
		ID: "nightly", When: "@yearly", Queue: "mail", Job: qless.JobSpec{Klass: "Tick"},
		Missed: qless.MissedSkip,
	})
	s.do(worker.Stop(context.Background()))
	return form("id", "nightly")
}

// digest returns the digest of the data that the page with the question shows.
func (s *scene) digest(action string, form url.Values) string {
	asked := maps.Clone(form)
	asked.Del("sure")
	asked.Del("data")
	_, rest, found := strings.Cut(s.post(action, asked).body, `name="digest" value="`)
	require.True(s.t, found)
	digest, _, _ := strings.Cut(rest, `"`)
	return digest
}

func TestEachActionHasATrial(t *testing.T) {
	require.Equal(t, web.Actions(), slices.Sorted(maps.Keys(trials())))
}

// did does an action, and returns its result.
func (d *desk) did(action string, form url.Values) result {
	d.t.Helper()
	got := d.post(action, form, "Accept", "application/json")
	require.Equal(d.t, http.StatusOK, got.StatusCode, got.body)
	var done result
	require.NoError(d.t, json.Unmarshal([]byte(got.body), &done))
	require.Empty(d.t, done.Error)
	require.Zero(d.t, done.Unchanged, got.body)
	return done
}

func TestEachActionIsDoneLoggedAndRefused(t *testing.T) {
	for action, trial := range trials() {
		t.Run(string(action), func(t *testing.T) {
			s := newScene(t)
			form := trial.form(s)
			before := testkit.Dump(t, s.rdb, "*")
			s.isRefused(action, form)
			require.Equal(t, before, testkit.Dump(t, s.rdb, "*"))

			var log logged
			if action != web.ActionJobRestore { // its receipt belongs to the first dashboard
				s.desk = s.on(web.Options{Logger: log.logger()})
			}
			done := s.did(string(action), form)
			require.Equal(t, 1, done.Changed)
			trial.check(t, s, done)
			if action == web.ActionJobRestore {
				return
			}
			records := log.take(t)
			require.Len(t, records, 1)
			require.Equal(t, "dashboard: an action was done", records[0]["msg"])
			require.Equal(t, string(action), records[0]["action"])
			require.Equal(t, "192.0.2.1:1234", records[0]["user"])
			require.NotContains(t, records[0], "data")
			for name, value := range records[0] {
				text, _ := value.(string)
				require.NotContains(t, text, secret, name)
			}
			if job := form.Get("job"); job != "" {
				require.Equal(t, []any{job[strings.Index(job, ":")+1:]}, records[0]["jobs"])
			}
		})
	}
}

// isRefused checks that an action is refused wherever it has to be, and that the refusal is logged.
func (s *scene) isRefused(action web.Action, form url.Values) {
	s.t.Helper()
	var log logged
	var asked []web.Action
	deny := func(_ *http.Request, action web.Action) bool {
		asked = append(asked, action)
		return false
	}
	for _, refusing := range []struct {
		options web.Options
		site    string
	}{
		{web.Options{ReadOnly: true}, "same-origin"},
		{web.Options{Allow: deny}, "same-origin"},
		{web.Options{}, "cross-site"},
	} {
		refusing.options.Logger = log.logger()
		got := s.on(refusing.options).post(string(action), form, "Sec-Fetch-Site", refusing.site)
		require.Equal(s.t, http.StatusForbidden, got.StatusCode)
		records := log.take(s.t)
		require.Len(s.t, records, 1)
		require.Contains(s.t, records[0]["msg"], "was refused")
		require.Equal(s.t, "192.0.2.1:1234", records[0]["user"])
	}
	require.Equal(s.t, []web.Action{action}, asked)
}
