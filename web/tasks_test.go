package web_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

// A clicker is an engineer on call, without JavaScript. It follows only what a page offers.
type clicker struct {
	*desk
	at     string // the URL of the page
	page   string
	clicks int
}

// begin opens the first page of a new dashboard.
func begin(d *desk) *clicker {
	c := &clicker{desk: d.again(web.Options{Logger: testkit.Quiet()})}
	c.open("/")
	return c
}

func (c *clicker) open(target string) {
	c.t.Helper()
	c.at, c.page = target, c.desk.page(target)
}

// click follows the first link that begins with a text.
func (c *clicker) click(prefix string) {
	c.t.Helper()
	c.clicks++
	c.open(c.linkTo(c.page, prefix))
}

// search sends the form of the page that has all of some fields, with their values.
func (c *clicker) search(path string, pairs ...string) {
	c.t.Helper()
	c.clicks++
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		require.Contains(c.t, c.page, `name="`+pairs[i]+`"`)
		values.Set(pairs[i], pairs[i+1])
	}
	c.open(path + "?" + values.Encode())
}

// press presses a button of the page, and that of the question that may follow.
func (c *clicker) press(action string, pairs ...string) {
	c.t.Helper()
	form := url.Values{"back": {"/"}}
	for i := 0; i < len(pairs); i += 2 {
		require.Contains(c.t, html.UnescapeString(c.page), `value="`+pairs[i+1]+`"`)
		form.Add(pairs[i], pairs[i+1])
	}
	for range 2 {
		require.Contains(c.t, c.page, "/actions/"+action+`"`)
		c.clicks++
		got := c.ask(http.MethodPost, "/actions/"+action, form.Encode())
		if got.StatusCode == http.StatusSeeOther {
			c.open(got.Header.Get("Location"))
			return
		}
		require.Equal(c.t, http.StatusOK, got.StatusCode, got.body)
		c.page = got.body
		form.Set("sure", "1")
	}
	c.t.Fatalf("%s asks twice", action)
}

// The tasks and the most clicks that they may take, from the first page.
func TestTasksOfAnEngineerOnCallTakeFewClicks(t *testing.T) {
	for _, task := range []struct {
		name  string
		most  int
		solve func(d *desk, c func() *clicker) *clicker
	}{
		{"why a queue is late", 1, func(d *desk, c func() *clicker) *clicker {
			d.put("mail", "Send")
			d.do(d.Queue("mail").Pause(t.Context()))
			k := c()
			require.Contains(t, k.page, "mail is paused", "the first page says it")
			k.click("/queues/mail/why")
			return k
		}},
		{"retry one kind since a time", 4, func(d *desk, c func() *clicker) *clicker {
			d.ago(5*time.Hour).fail("Send", "timeout", "old")
			d.fail("Send", "timeout", "new")
			k := c()
			k.click("/failures")
			k.search("/failures", "since", "1h")
			since := k.page[strings.Index(k.page, `name="since" value="20`)+len(`name="since" value="`):]
			since, _, _ = strings.Cut(since, `"`)
			k.press("job.unfail", "scope", "failed", "group", "timeout", "since", since)
			groups, err := inspect.New(d.Client).FailureGroups(t.Context())
			d.do(err)
			require.Equal(t, map[string]int{"timeout": 1}, groups, "the old one stays")
			return k
		}},
		{"a job by a value in its data", 2, func(d *desk, c func() *clicker) *clicker {
			d.putMany("mail", "Send", 300)
			jid := d.putData("mail", "Send", map[string]any{"customer": map[string]int{"id": 4107}})
			k := c()
			k.search("/find", "q", "data.customer.id=4107")
			require.Equal(t, []string{jid}, found(k.page))
			k.click("/jobs/" + jid)
			return k
		}},
		{"what a stuck worker does", 2, func(d *desk, c func() *clicker) *clicker {
			jid := d.put("mail", "Import")
			jobs := d.pop("mail", 1)
			d.do(jobs[0].SetProgress(t.Context(), 3, 9, "reading"))
			k := c()
			k.click("/workers")
			require.Contains(t, k.page, "3 of 9, reading")
			k.click("/jobs/" + jid)
			return k
		}},
		{"cancel a batch", 4, func(d *desk, c func() *clicker) *clicker {
			batch := d.batch("news", qless.JobSpec{Klass: "Sum"}, "mail", "Send", 2)
			k := c()
			k.click("/batches")
			k.click("/jobs/" + batch.ID)
			k.press("job.cancel", "job", "depends:"+batch.ID)
			require.Equal(t, 0, d.count("mail", inspect.Waiting), "its members are gone, too")
			return k
		}},
		{"the failures of the last week", 0, func(d *desk, c func() *clicker) *clicker {
			d.fail("Send", "timeout", "why")
			d.do(inspect.New(d.Client).RecordHistory(t.Context()))
			k := c()
			require.Regexp(t, `<small title="in the last 7 days">7d \d+</small></span><svg.*aria-label="failed each 1h, at most`, k.page)
			k.click("/failures")
			k.search("/failures", "since", "7d")
			require.Contains(t, k.page, `aria-label="failed, each 2h"`)
			return &clicker{}
		}},
		{"share a view", 2, func(d *desk, c func() *clicker) *clicker {
			d.fail("Send", "timeout", "why")
			d.put("mail", "Send")
			k := c()
			k.click("/find")
			k.search("/find", "q", "klass:Send state:failed", "since", "2024-01-02 14:00")
			require.Equal(t, found(k.page), found(d.again(web.Options{}).page(k.at)), "its address is the view")
			return k
		}},
		{"compare the wait of two queues", 0, func(d *desk, c func() *clicker) *clicker {
			for number, counts := range []string{"1,0,0|40:1|1:1", "1,0,0|60:1|1:1"} {
				queue := []string{"mail", "sms"}[number]
				d.put(queue, "Send")
				_, err := d.Do(t.Context(), "rates.add", "run", number+1, "61", queue, "Send", counts)
				d.do(err)
			}
			k := c()
			waits := regexp.MustCompile(`data-l="Wait">([^ <]+) <small class="under" title="99 % of the last minutes`)
			all := waits.FindAllStringSubmatch(k.page, -1)
			require.Len(t, all, 2)
			require.NotEqual(t, all[0][1], all[1][1])
			beside := begin(d)
			beside.click("/queues/mail")
			beside.click("/queues/mail?list=charts")
			beside.search("/queues/mail", "with", "sms")
			require.Contains(t, beside.page, `<section aria-label="History of sms"><h2>sms</h2>`)
			return k
		}},
		{"pause everything", 3, func(d *desk, c func() *clicker) *clicker {
			for i := range 5 {
				d.put(fmt.Sprint("q", i), "Send")
			}
			k := c()
			k.press("queue.pause", "all", "1", "queue", "*")
			for i := range 5 {
				require.True(t, d.isPaused(fmt.Sprint("q", i)))
			}
			return k
		}},
		{"who hogs a limit", 1, func(d *desk, c func() *clicker) *clicker {
			d.do(d.Limit("api").Set(t.Context(), qless.LimitConfig{Concurrency: 1}))
			for range 12 {
				d.put("mail", "Sync", qless.Limits{"api/1"})
			}
			d.pop("mail", 2)
			k := c()
			k.click("/limits/api%2F1")
			require.Contains(t, k.page, `Klasses</dt><dd><a href="/klasses/Sync">Sync</a> 1`)
			return k
		}},
	} {
		t.Run(task.name, func(t *testing.T) {
			d := newDesk(t, web.Options{})
			k := task.solve(d, func() *clicker { return begin(d) })
			t.Logf("%d clicks", k.clicks)
			require.LessOrEqual(t, k.clicks, task.most)
		})
	}
}
