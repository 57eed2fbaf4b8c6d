package web_test

import (
	"net/http"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

func TestAnActionThatRedisDeniesIsOffForAWhile(t *testing.T) {
	server := testkit.Start(t, "--save", "")
	root := server.Client(t)
	require.NoError(t, root.Do(t.Context(), "ACL", "SETUSER", "viewer", "on", ">pass",
		"~*", "&*", "+@all", "-sadd", "-srem", "-del").Err())
	options := testkit.Options(server.Addr())
	options.Username, options.Password = "viewer", "pass"
	rdb := redis.NewClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	client, err := qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet()})
	require.NoError(t, err)
	d := (&desk{Client: client, t: t, server: server}).on(web.Options{})
	jid := d.put("mail", "Send")
	d.shows("/queues/mail", "/actions/queue.pause")

	page := d.act("queue.pause", form("queue", "mail", "back", "/queues/mail"))
	contains(t, page, "Redis does not permit this", "<code>queue.pause</code>",
		"/actions/queue.max_concurrency")
	require.NotContains(t, page, "/actions/queue.pause")
	requireSound(t, "page", page)
	got := d.post("queue.pause", form("queue", "mail"))
	require.Equal(t, http.StatusForbidden, got.StatusCode)
	require.Contains(t, got.body, "it can be tried again")

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
	got := d.on(web.Options{ReadOnly: true}).ask(http.MethodGet, "/actions/job.put", "")
	require.Equal(t, http.StatusForbidden, got.StatusCode)
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
