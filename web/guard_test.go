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
	"github.com/qless/qless-go/web"
)

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
