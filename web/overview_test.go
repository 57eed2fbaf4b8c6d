package web_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/web"
)

func TestTheFirstPageShowsOutboxes(t *testing.T) {
	d := newDesk(t, web.Options{})
	report := fmt.Sprintf(`{"time": %d, "rows": 3, "oldest": 20, "problems": {"invalid": 2}}`, time.Now().Unix())
	require.NoError(t, d.server.Client(t).HSet(t.Context(), "ql:x:outbox", "shop", report).Err())
	d.shows("/", ">Outboxes</h2>", `<th scope="row">shop</th>`, "invalid 2",
		"The outbox shop has set 2 jobs aside")
}

func TestEachQueueOfACauseIsALink(t *testing.T) {
	d := newDesk(t, web.Options{})
	for _, queue := range []string{"mail", "pay"} {
		d.put(queue, "Send")
		d.do(d.Queue(queue).Pause(t.Context()))
	}
	_, causes, found := strings.Cut(d.page("/"), `<ul class="problems">`)
	require.True(t, found)
	causes, _, _ = strings.Cut(causes, "</ul>")
	require.Contains(t, causes, `<a href="/queues/mail">mail</a> <a href="/queues/pay">pay</a></p>`)
}

func TestTheQueuesOfAWideCauseAreAList(t *testing.T) {
	d := newDesk(t, web.Options{})
	for i := range 12 {
		queue := fmt.Sprintf("q-%02d", i)
		d.put(queue, "Send")
		d.do(d.Queue(queue).Pause(t.Context()))
	}
	d.put("other", "Send")
	page := d.page(d.linkTo(d.page("/"), "/queues?only=paused"))
	require.Equal(t, 12, strings.Count(page, `<th scope="row"><a href="/queues/q-`))
	require.Contains(t, page, `aria-current="true">Paused</a>`)
	require.NotContains(t, page, `<a href="/queues/other">`)
}

func TestRetryInACauseNamesItsJob(t *testing.T) {
	d := newDesk(t, web.Options{})
	failed := d.fail("Send", "timeout", "why")
	d.put("reports", "Report", qless.DependsOn{failed})
	d.shows("/", `href="/jobs/`+failed+`" title="`+failed+`"`)
	form := url.Values{"job": {"failed:" + failed}, "back": {"/"}}
	require.Contains(t, d.act("job.unfail", form), `<a href="/jobs/`+failed+`">`+failed+`</a>`)
}

// rowsOf returns the queues that a page lists, in order.
func rowsOf(page string) (names []string) {
	for _, match := range regexp.MustCompile(`<th scope="row"><a href="/queues/([^"/]*)"`).
		FindAllStringSubmatch(page, -1) {
		names = append(names, match[1])
	}
	return names
}

func TestQueuesAreSortedByTheURL(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.putMany("few", "Send", 1)
	d.putMany("many", "Send", 3)
	d.putMany("some", "Send", 2)
	d.put("idle", "Send", qless.Delay(time.Hour))
	for path, want := range map[string][]string{
		"/queues":               {"many", "some", "few", "idle"},
		"/queues?sort=queue":    {"few", "idle", "many", "some"},
		"/queues?sort=-queue":   {"some", "many", "idle", "few"},
		"/queues?sort=-waiting": {"idle", "few", "some", "many"},
		"/queues?sort=nothing":  {"many", "some", "few", "idle"},
		"/queues?q=m":           {"many", "some"},
		"/queues?only=busy":     {"many", "some", "few"},
		"/?sort=queue&q=e":      {"few", "idle", "some"},
	} {
		require.Equal(t, want, rowsOf(d.page(path)), path)
	}
	page := d.shows("/queues?sort=queue&q=m",
		`aria-sort="ascending"><a href="/queues?q=m&amp;sort=-queue">Queue</a>`,
		`<th scope="col" class="n"><a href="/queues?q=m&amp;sort=waiting">Waiting</a>`)
	require.Contains(t, page, `<input type="hidden" name="sort" value="queue">`, "a filter keeps the order")
	require.Contains(t, page, `<td class="n z" data-l="Stalled">0</td>`, "a zero is pale")
}

func TestManyQueuesAreOnPages(t *testing.T) {
	d := newDesk(t, web.Options{})
	for i := range 50 {
		d.put(fmt.Sprintf("queue-%02d", i), "Send")
	}
	page := d.page("/queues?sort=queue")
	require.Len(t, rowsOf(page), 45)
	require.Contains(t, page, "1–45 of 50")
	require.Equal(t, []string{"queue-45", "queue-46", "queue-47", "queue-48", "queue-49"},
		rowsOf(d.page(d.linkTo(page, "/queues?from=45"))))
}

func TestTheFirstPageDrawsWhatRuns(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.complete("Send")
	page := d.again(web.Options{}).shows("/",
		"<dt>Slots busy</dt>", `aria-label="waiting each 1m, at most 0"`, "Jobs a minute",
		`<a href="/?over=15m">15 min</a>`, `<a href="/?over=24h">24 h</a>`)
	require.Contains(t, page, ">Queues\n<b>1</b></a>", "the navigation has counts")
}

func TestAListOnOnePageIsSortedByItsHeaders(t *testing.T) {
	t.Parallel()
	d := newDesk(t, web.Options{})
	d.put("q", "B", qless.Priority(1))
	d.put("q", "A", qless.Priority(2))
	d.put("q", "C", qless.Priority(3))
	klasses := func(sort string) (all []string) {
		for _, job := range d.read("/queues/q?sort=" + sort)["jobs"].(map[string]any)["items"].([]any) {
			all = append(all, job.(map[string]any)["klass"].(string))
		}
		return all
	}
	require.Equal(t, []string{"C", "A", "B"}, klasses(""), "as they are popped")
	require.Equal(t, []string{"A", "B", "C"}, klasses("klass"))
	require.Equal(t, []string{"C", "B", "A"}, klasses("-klass"))
	require.Equal(t, []string{"B", "A", "C"}, klasses("-priority"))
	d.shows("/queues/q?sort=klass", `aria-sort="ascending"><a href="/queues/q?sort=-klass">Klass`)

	page := d.page("/queues/q")
	require.Contains(t, page, `<a href="/queues/q?klass=A">A <b>1</b></a>`, "the klasses of the page")
	page = d.shows("/queues/q?klass=A", `<a href="/queues/q">All klasses</a>`)
	require.NotContains(t, page, ">B</a>")
	d.shows("/find", `href="/find?state=waiting">waiting <b>3</b></a>`)
	d.shows("/find?q=A", `href="/find?q=A&amp;state=waiting">waiting</a>`)

	for range 50 {
		d.put("long", "Send")
	}
	require.NotContains(t, d.page("/queues/long?sort=klass"), "sort=-klass", "the server has its own order")

	for _, name := range []string{"a", "b"} {
		d.do(d.Limit(name).Set(t.Context(), qless.LimitConfig{Concurrency: 1}))
	}
	limits := d.read("/limits?sort=-limit")["limits"].([]any)
	require.Equal(t, "b", limits[0].(map[string]any)["name"])
}
