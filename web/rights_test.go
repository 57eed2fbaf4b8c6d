package web_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

func TestAnActionThatRedisDeniesIsOffForAWhile(t *testing.T) {
	d := newDesk(t, web.Options{})
	rdb := d.viewer("-sadd", "-srem", "-del")
	client, err := qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet()})
	require.NoError(t, err)
	d.Client = client
	d = d.on(web.Options{})
	jid := d.put("mail", "Send")
	d.shows("/queues/mail", "/actions/queue.pause")

	page := d.act("queue.pause", form("queue", "mail", "back", "/queues/mail"))
	contains(t, page, "Redis does not permit this", "<code>queue.pause</code>",
		"/actions/queue.max_concurrency")
	require.NotContains(t, page, "/actions/queue.pause")
	requireSound(t, "page", page)
	d.rejected(http.StatusForbidden, "queue.pause", form("queue", "mail"), "it can be tried again")

	page = d.act("job.cancel", form("job", "waiting:"+jid, "back", "/queues/mail"))
	require.Contains(t, page, "Redis does not permit this")
	require.NotContains(t, page, "/actions/job.cancel")
}

func TestButtonsAreThereForWhatIsAllowed(t *testing.T) {
	d := newDesk(t, web.Options{})
	jid := d.put("mail", "Send")
	for _, page := range []string{"/queues/mail", "/jobs/" + jid} {
		d.shows(page, "/actions/")
		d.on(web.Options{ReadOnly: true}).hides(page, "/actions/")
		some := d.on(web.Options{Allow: func(_ *http.Request, action web.Action) bool {
			return action == web.ActionJobTag
		}})
		some.shows(page, "/actions/job.tag")
		some.hides(page, "/actions/job.cancel")
	}
	d.on(web.Options{ReadOnly: true}).refused(http.StatusForbidden, "/actions/job.put")
}

func TestTheButtonsOfAJobFitItsState(t *testing.T) {
	s := newScene(t)
	for state, want := range map[string][]string{
		"waiting":   {"cancel", "move", "reschedule", "edit", "copy", "log", "track"},
		"scheduled": {"promote", "reschedule", "edit"},
		"running":   {"timeout", "cancel"},
		"failed":    {"unfail", "edit", "cancel"},
		"depends":   {"depend", "undepend"},
		"complete":  {"move", "copy"},
	} {
		page := s.page("/jobs/" + s.jids[state])
		for _, action := range want {
			require.Contains(t, page, `/actions/job.`+action+`"`, state)
		}
		unwanted := map[string][]string{
			"waiting": {"unfail", "timeout", "depend", "untrack", "promote"}, "complete": {"cancel", "edit"},
			"running": {"edit", "unfail"},
		}[state]
		for _, action := range unwanted {
			require.NotContains(t, page, `/actions/job.`+action+`"`, state)
		}
	}
}

// A function of the program that does not return shows and allows less, but spoils no page.
func TestAMisdeedOfTheProgramIsLogged(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.put("mail", "Send", qless.JID("j"))
	for _, misdeed := range []func(){func() { panic("of the program") }, runtime.Goexit} {
		for function, options := range map[string]web.Options{
			"Allow":  {Allow: func(*http.Request, web.Action) bool { misdeed(); return true }},
			"User":   {User: func(*http.Request) string { misdeed(); return "" }},
			"Links":  {Links: func(*qless.Job) []web.Link { misdeed(); return nil }},
			"Redact": {Redact: func(*qless.Job) { misdeed() }},
		} {
			var told bytes.Buffer
			options.Logger = slog.New(slog.NewTextHandler(&told, nil))
			d := d.on(options)
			page := d.shows("/jobs/j", "Send")
			require.Equal(t, function != "Allow", strings.Contains(page, "/actions/"), function)
			require.Equal(t, function != "Redact", strings.Contains(page, "&#34;n&#34;: 1"), function)
			status := d.post("queue.pause", url.Values{"queue": {"mail"}}).StatusCode
			require.Equal(t, function == "Allow", status == http.StatusForbidden, function)
			require.Contains(t, told.String(), "Options."+function+" ")
		}
	}
}

func TestAMisdeedOfALookForNamespacesIsLogged(t *testing.T) {
	d := newDesk(t, web.Options{})
	for _, misdeed := range []func(){func() { panic("of the program") }, runtime.Goexit} {
		var told bytes.Buffer
		options := web.Options{
			Logger:     slog.New(slog.NewTextHandler(&told, nil)),
			Namespaces: func(context.Context) ([]web.Source, error) { misdeed(); return nil, nil },
		}
		d := d.at(web.New(options, web.Source{Client: d.Client}))
		d.shows("/", "Namespaces")
		d.handler.(*web.Handler).Close() // waits for the look
		require.Contains(t, told.String(), "Options.Namespaces ")
	}
}
