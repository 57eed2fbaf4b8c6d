package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/web"
)

func TestLimitsAreListedWithWhatTheyAllow(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.shows("/limits", "No limit is set")
	ctx := t.Context()
	d.do(d.Limit("api").Set(ctx, qless.LimitConfig{Concurrency: 1, Rate: 10, Per: time.Minute}))
	d.do(d.Limit("held").Set(ctx, qless.LimitConfig{Rate: 5, Per: time.Second}))
	d.do(d.Limit("held").Hold(ctx, time.Hour))
	runs := d.put("mail", "Send", qless.Limits{"api"})
	waits := d.put("mail", "Send", qless.Limits{"api"})
	for range 2 {
		d.pop("mail", 1)
	}
	d = d.again(web.Options{})

	d.shows("/limits", `<a href="/limits/api">api</a>`, "1 of 1", "10 in 1m<", "in 59m",
		`action="/actions/limit.set"`)

	page := d.shows("/limits/api", `href="/jobs/`+runs+`"`, `href="/jobs/`+waits+`"`,
		"<dt>Waiting</dt><dd class=\"bad\">1</dd>")
	for _, action := range []string{"limit.set", "limit.hold", "limit.unset"} {
		require.Contains(t, page, `formaction="/actions/`+action+`"`)
	}
	data := d.read("/limits/api")
	require.EqualValues(t, 1, data["parked"])
	jobs := data["jobs"].([]any)
	require.Len(t, jobs, 2)
	require.Equal(t, runs, jobs[0].(map[string]any)["jid"])
	require.Equal(t, waits, jobs[1].(map[string]any)["jid"])
	d.shows("/limits/held", "End the hold")
}

func TestALimitOfAFamilyAndOneThatIsNotSet(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.do(d.Limit("shop").Set(t.Context(), qless.LimitConfig{Concurrency: 2}))
	page := d.shows("/limits/shop%2F42",
		`Its definition is that of <a href="/limits/shop">shop</a>`, "0 of 2")
	require.NotContains(t, page, "limit.unset")
	d.shows("/limits/-?name=shop/43", "shop/43")
	d.refused(http.StatusNotFound, "/limits/nope", "No limit of this name is set",
		`action="/actions/limit.set"`)
	d.refused(http.StatusBadRequest, "/limits/a%20b")
}

func TestManyLimitsArePaged(t *testing.T) {
	d := newDesk(t, web.Options{})
	for i := range 25 {
		d.do(d.Limit(fmt.Sprintf("l-%02d", i)).Set(t.Context(), qless.LimitConfig{Concurrency: 2}))
	}
	page := d.page("/limits")
	require.Equal(t, 20, strings.Count(page, `href="/limits/l-`))
	require.Equal(t, 5, strings.Count(d.page(d.linkTo(page, "/limits?from=20")), `href="/limits/l-`))
}

func TestTheKeysOfAFamilyAreShown(t *testing.T) {
	d := newDesk(t, web.Options{})
	ctx := t.Context()
	d.do(d.Limit("api").Set(ctx, qless.LimitConfig{Concurrency: 1}))
	for _, key := range []string{"api/quiet", "api/1", "api/1", "other/1"} {
		d.put("mail", "Send", qless.Limits{key})
	}
	d.pop("mail", 4)
	for _, path := range []string{"/limits", "/limits/api"} {
		page := d.page(path)
		require.Contains(t, page, "2 of 2 keys", path)
		require.Regexp(t, `(?s)Keys in use.*<a href="/limits/api%2F1">.*1 of 1.*data-l="Waiting">1<.*`+
			`<a href="/limits/api%2Fquiet">`, page, path)
	}
	d.hides("/limits/api%2F1", "Keys in use")
	page := d.again(web.Options{}).page("/")
	require.Contains(t, page, `<a href="/limits/api%2F1">`, "it needs attention")
	require.Contains(t, page, "1 full")
	require.Contains(t, d.at(web.New(web.Options{}, web.Source{Client: d.Client})).page("/limits"),
		"was given no connection")
}

func TestTheHoldersOfALimitAreSummed(t *testing.T) {
	d := newDesk(t, web.Options{})
	ctx := t.Context()
	d.do(d.Limit("api").Set(ctx, qless.LimitConfig{Concurrency: 200}))
	for i := range 120 {
		d.put("mail", []string{"Send", "Receive", "Send"}[i%3], qless.Limits{"api"})
	}
	d.put("pay", "Charge", qless.Limits{"api"})
	for _, queue := range []string{"pay", "mail"} {
		d.pop(queue, 120)
	}
	page := d.shows("/limits/api", "Held by")
	require.Regexp(t, `Klasses</dt><dd><a href="/klasses/Send">Send</a> \d+, <a href="/klasses/Receive">Receive</a> \d+`, page)
	require.Regexp(t, `Queues</dt><dd><a href="/queues/mail">mail</a> (99|100)`, page)
	require.Contains(t, page, "Of 100 of the 121 jobs that run.")
}

func TestAJobSaysThatItsLimitIsNotSet(t *testing.T) {
	d := newDesk(t, web.Options{})
	jid := d.put("mail", "Send", qless.Limits{"shop"})
	page := d.shows("/jobs/"+jid, `is not set, <a href="/actions/limit.set?name=shop">set it</a>`)
	require.NotContains(t, page, `href="/limits/shop"`)
	d.shows("/actions/limit.set?name=shop", `value="shop"`)
	d.do(d.Limit("shop").Set(t.Context(), qless.LimitConfig{Concurrency: 1}))
	d.again(web.Options{}).shows("/jobs/"+jid, `<a href="/limits/shop">shop</a>`)
}
