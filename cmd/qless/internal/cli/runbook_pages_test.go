package cli_test

import (
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

// A visitor uses the dashboard through its pages only.
type visitor struct {
	*wreck
	handler http.Handler
	page    string // the HTML of the current page
}

func (w *wreck) visit() *visitor {
	w.t.Helper()
	options := must(redis.ParseURL(w.url))(w.t)
	options.DialerRetries = 1
	rdb := redis.NewClient(options)
	w.t.Cleanup(func() { _ = rdb.Close() })
	client := must(qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet()}))(w.t)
	handler := must(web.New(web.Options{Logger: testkit.Quiet()},
		web.Source{Client: client, Redis: rdb}))(w.t)
	w.t.Cleanup(handler.Close)
	return &visitor{wreck: w, handler: handler}
}

// load loads the response to a request, and reports whether the response is a redirect.
func (v *visitor) load(method, target, form string) (passedOn bool) {
	r := httptest.NewRequestWithContext(v.t.Context(), method, target, strings.NewReader(form))
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	got := httptest.NewRecorder()
	v.handler.ServeHTTP(got, r)
	if to := got.Header().Get("Location"); to != "" {
		v.load(http.MethodGet, to, "")
		return true
	}
	v.page = got.Body.String()
	return false
}

// open follows a link of the page, or loads the first page.
func (v *visitor) open(path string) {
	v.t.Helper()
	if path != "/" {
		require.Contains(v.t, html.UnescapeString(v.page), `href="`+path+`"`)
	}
	v.load(http.MethodGet, path, "")
}

// text is the page without its tags.
func (v *visitor) text() string {
	text := html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(v.page, " "))
	return strings.Join(strings.Fields(text), " ")
}

var inputPattern = regexp.MustCompile(`<input[^>]* name="([^"]*)"[^>]* value="([^"]*)"`)

// press presses a button of the page with some fields filled in, and confirms the question, if any.
func (v *visitor) press(action, fields string) {
	v.t.Helper()
	filled := must(url.ParseQuery(fields))(v.t)
	target := "/actions/" + action
	for range 2 {
		at := strings.Index(v.page, `action="`+target+`"`)
		require.GreaterOrEqual(v.t, at, 0, "a button %s in %s", action, v.page)
		form, _, _ := strings.Cut(v.page[strings.LastIndex(v.page[:at], "<form"):], "</form>")
		values := url.Values{}
		for _, input := range inputPattern.FindAllStringSubmatch(form, -1) {
			if !strings.Contains(input[0], `type="checkbox"`) {
				values.Add(input[1], html.UnescapeString(input[2]))
			}
		}
		for name := range filled {
			values.Set(name, filled.Get(name))
		}
		if v.load(http.MethodPost, target, values.Encode()) {
			return
		}
	}
}

// A deed is a step of a visitor, who opens a page ("/queues"), presses a button ("press queue.pause
// value=5"), waits for a text on a page ("await /doctor"), or sends a command to the server ("redis
// config ..."). Then the visitor sees some words, with ... for any words.
type deed struct{ does, sees string }

// byPages are the situations of the runbook as shown by the dashboard, up to the solution.
var byPages = map[string][]deed{
	"A queue runs as many jobs as it may": {
		{"/", "Warning Queue sms is at its max-rate: 1 job waits"},
		{"/queues/sms/why", "No more than 1 job may start in 1h0m0s"},
		{"/queues/sms", "Rate at most 1 in 1h"},
		{"press queue.max_rate value=10&per=1", "The rate is set."},
		{"/", "Warning Queue render is at its max-concurrency of 1: 2 jobs wait"},
		{"/queues/render/why", "No more than 1 job of the queue may run at once, and 1 job runs: long."},
		{"/queues/render", "long"},
		{"press queue.max_concurrency value=2", "The concurrency is set."},
		{"/", "Nothing does."},
	},
	"All workers are paused": {
		{"/", "Warning Queue sms has only workers that are paused or stopping: 1 job waits"},
		{"/queues/sms/why", "All workers that take jobs from the queue are paused or stopping: sms-1."},
	},
	"No worker knows a klass": {
		{"/", "Urgent Queue crm has jobs of the klass Export, for which no worker has a handler"},
		{"/queues/crm/why", "No worker that takes jobs from the queue has a handler for the klass \"Export\""},
	},
	"All slots are busy": {
		{"/", "Urgent Queue thumbs is late: 1 job waits, the oldest for 10m"},
		{"/queues/thumbs/why", "1 worker takes jobs from the queue, and none has a free slot: 1 job in 1 slot."},
	},
	"Many runs fail": {
		{"/", "Urgent Queue pay fails 60 % of its jobs"},
		{"/failures", "bank"},
		{"/failures/bank", "no answer"},
	},
	"A schedule has no worker": {
		{"/", "Warning No worker follows schedule nightly, whose next job is due at"},
		{"/schedules/nightly", "nightly"},
	},
	"A recurring job has a backlog": {
		{"/", "Warning Queue feeds has a recurring job, poll, that has missed"},
		{"/queues/feeds/why", "Queue feeds has a recurring job, poll, that has missed"},
		{"/recurring/poll", "Missed jobs all put"},
	},
	"A batch stays open": {
		{"/", "Warning Queue reports has a batch that has been open for 1d02h, with the callback sum"},
		{"/jobs/sum", "depends"},
		{"press job.cancel", "1 job canceled."},
	},
	"Jobs wait for each other": {
		{"/", "Urgent Queue etl has jobs that wait for each other, and never run: load, clean"},
		{"/queues/etl/why", "Queue etl has jobs that wait for each other, and never run: load, clean."},
	},
	"Locks are gone": {
		{"/", "Urgent 1 job is running without a lock, which was deleted or evicted, such as film"},
		{"/doctor", "The namespace was not examined yet."},
		{"press doctor.examine", "Doctor"},
		{"await /doctor", "Broken"},
	},
	"Redis is nearly full": {
		{"/", "Urgent 9...% of the server's memory is used...The server deletes jobs when its memory is full"},
		{"/server", "Set its maxmemory-policy to noeviction."},
		{"redis config set maxmemory-policy noeviction", ""},
		{"redis config set maxmemory 1gb", ""},
		{"await /", "Nothing does."},
	},
	"Jobs stay in an outbox": {
		{"/", "Urgent The outbox shop is late: 3 jobs wait...The outbox shop has set 2 jobs aside"},
	},
	"A queue is paused": {
		{"/", "Warning Queue export is paused: 1 job waits"},
		{"press queue.resume", "The queue is open...Nothing does."},
	},
	"Failures grow": {
		{"/", "Warning 120 jobs have failed and wait to be retried or canceled, 120 of them in Connect"},
		{"/failures/ConnectionError", "no route to 10.0.0.9"},
		{"press job.unfail", "120 jobs retried."},
		{"/", "Nothing does."},
	},
	"Jobs are retried again and again": {
		{"/", "Urgent Queue pay retries 100 % of its runs"},
		{"/queues/pay/why", "No Go worker has completed a job of the klass \"Sync\" from this queue"},
		{"/jobs/charge", "no answer"},
		{"/queues/pay", "scheduled 1"},
		{"press queue.pause", "The queue is paused."},
	},
	"A job waits for one that has failed": {
		{"/", "Warning Queue reports has 1 job waiting for failed ones, such as page-2"},
		{"/queues/reports/why", "1 job waits for others, of which 1 has failed, in timeout"},
		{"/", "Warning"},
		{"press job.unfail", "1 job retried...Nothing does."},
	},
	"A worker died": {
		{"/", "1 gone...Urgent Queue video has 1 job with an expired lock: did workers die?"},
		{"/queues/video/why", "Start another worker: it takes over the jobs."},
		{"/", "Urgent"},
		{"/workers", "vid-1 gone...video"},
	},
	"Workers live and lose their locks": {
		{"/", "Urgent Queue thumbs has 1 job with an expired lock: did workers die?"},
		{"/queues/thumbs/why", "frozen"},
		{"/queues/thumbs", "Lock 60 s"},
		{"press queue.heartbeat value=5m", "The heartbeat is set."},
		{"/queues/thumbs?list=stalled", "frozen"},
		{"press job.timeout job=running:frozen", "1 job taken from its worker."},
	},
	"Redis is full": {
		{"/", "Urgent The server's memory is full (... puts are refused"},
		{"/server", ": puts are refused. Free memory or raise maxmemory."},
		{"redis config set maxmemory 1gb", ""},
		{"await /server", "Memory...of 1...GiB"},
	},
	"The server can't write to its disk": {
		{"/", "Urgent The server can't write to its disk: it refuses puts, and workers get no jobs"},
		{"/server", "rdb_last_bgsave_status"},
		{"redis config set stop-writes-on-bgsave-error no", ""},
		{"await /", "Nothing does."},
	},
	"The server has become a replica": {
		{"/", "Urgent The server is a replica of 127.0.0.1:1: it refuses puts"},
		{"/server", "The server is a replica"},
		{"redis replicaof no one", ""},
		{"await /", "Nothing does."},
	},
	"The user lacks a permission": {
		{"/", "NOPERM...What to do: grant the user the permissions in docs/security.md."},
	},
	"The password is wrong": {
		{"/", "What to do: give the client a user and a password that the server knows."},
	},
	"The server is away": {
		{"/", "connection refused...The server does not answer."},
	},
	"A job is due in ten years": {
		{"/", "Warning Queue crm has a job that is not due until...is that intended?"},
		{"press job.promote", "1 job made due...Nothing does."},
	},
	"A unique key is held": {
		{"/", "Warning Puts with the unique key of job old are refused until it is due at"},
		{"/unique", "acme"},
		{"/", "Puts with the unique key"},
		{"press job.promote", "1 job made due...Nothing does."},
	},
	"A limit has no room": {
		{"/", "Warning Limit shopify is full: 2 jobs wait for it, and 1 job holds its slots"},
		{"/limits/shopify", "fetch-1"},
	},
	"A queue's name is misspelt": {
		{"/", "Urgent Queue mial has no workers: 1 job waits...Did you mean mail, which has workers?"},
		{"/queues/mial/why", "Did you mean mail, which has workers?"},
	},
	"A schedule is late": {
		{"/", "Urgent Schedule nightly is overdue: it missed 2 runs, and no worker follows it"},
		{"/schedules/nightly", "nightly"},
	},
	"A job hangs": {
		{"/", "Warning Queue render has a job that has been running for 2h00m, much longer than usual: stuck"},
		{"press job.timeout", "1 job taken from its worker."},
	},
	"A job kills its workers": {
		{"/", "Warning Job poison, a Sync, has failed after its worker died or lost it at each of 2 runs"},
		{"/jobs/poison", "lost"},
	},
	"Keys are damaged": {
		{"/", "Urgent The key ql:q:mail-scheduled is damaged: it is a string"},
		{"/doctor", "The namespace was not examined yet."},
		{"press doctor.examine", "Doctor"},
		{"await /doctor", "Broken"},
	},
}

func TestTheRunbookIsTrueOfThePages(t *testing.T) {
	t.Parallel()
	require.Len(t, byPages, len(situations))
	for heading, deeds := range byPages {
		t.Run(heading, func(t *testing.T) {
			t.Parallel()
			w := newWreck(t)
			situations[heading](w)
			v := w.visit()
			for _, deed := range deeds {
				sees := inOrder([]string{deed.sees})
				verb, rest, _ := strings.Cut(deed.does, " ")
				switch verb {
				case "redis":
					w.redis(rest)
				case "press":
					action, fields, _ := strings.Cut(rest, " ")
					v.press(action, fields)
				case "await":
					testkit.Until(t, deed.sees, func() bool {
						v.load(http.MethodGet, rest, "")
						return regexp.MustCompile(sees).MatchString(v.text())
					})
				default:
					v.open(deed.does)
				}
				require.Regexp(t, sees, v.text(), deed.does)
			}
		})
	}
}
