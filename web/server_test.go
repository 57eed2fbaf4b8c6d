package web_test

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

// asked returns the desk with a dashboard whose page about the server uses a connection.
func (d *desk) asked(rdb redis.UniversalClient) *desk {
	d.t.Helper()
	return d.at(web.New(web.Options{Logger: testkit.Quiet()},
		web.Source{Client: d.Client, Redis: rdb}))
}

// viewer returns a connection of a user who lacks some rights.
func (d *desk) viewer(lacks ...any) redis.UniversalClient {
	d.t.Helper()
	rdb := d.server.Client(d.t)
	user := []any{"ACL", "SETUSER", "viewer", "on", ">pw", "~*", "&*", "+@all"}
	d.do(rdb.Do(d.t.Context(), append(user, lacks...)...).Err())
	d.t.Cleanup(func() { rdb.Do(context.Background(), "ACL", "DELUSER", "viewer") })
	options := testkit.Options(d.server.Addr())
	options.Username, options.Password = "viewer", "pw"
	viewer := redis.NewClient(options)
	d.t.Cleanup(func() { _ = viewer.Close() })
	return viewer
}

func TestTheServerIsShown(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.do(d.server.Client(t).ConfigSet(t.Context(), "save", "3600 1").Err())
	defer d.server.Client(t).ConfigSet(t.Context(), "save", "")
	page := d.page("/server")
	require.Regexp(t, `(Redis|Valkey) [0-9]+\.[0-9]+`, page)
	contains(t, page, "primary, with 0 replicas", "noeviction", "in sync")
	require.NotContains(t, page, "Needs attention")
	data := d.read("/server")
	require.NotEmpty(t, data["info"])
	require.NotContains(t, data["info"], "executable")
}

func TestAServerThatMayLoseJobsIsPointedOut(t *testing.T) {
	d := newDesk(t, web.Options{})
	rdb := d.server.Client(t)
	d.do(rdb.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	defer rdb.ConfigSet(t.Context(), "maxmemory-policy", "noeviction")
	d.shows("/server", "Needs attention", "The server deletes jobs when its memory is full")
}

func TestWhatLosesJobsIsADangerOfTheServer(t *testing.T) {
	d := newDesk(t, web.Options{})
	rdb := d.server.Client(t)
	d.do(rdb.ConfigSet(t.Context(), "save", "").Err())
	d.shows("/server",
		`<span class="sev warning">Warning</span><p>The server keeps nothing on disk: `+
			"a restart loses all jobs.")
	d.do(rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	defer rdb.ConfigSet(t.Context(), "maxmemory", "0")
	require.Contains(t, d.asked(rdb).page("/server"), ": puts are refused. Free memory or raise maxmemory.")
}

func TestAServerThatRefusesInfo(t *testing.T) {
	d := newDesk(t, web.Options{})
	d = d.asked(d.viewer("-info", "-time"))
	page := d.shows("/server", "The server does not tell about itself: NOPERM", "+info")
	require.NotContains(t, page, "Its clock")
}

func TestServerPageWithoutAConnectionShowsTheClient(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.put("mail", "Send")
	d.pop("mail", 1)
	d = d.again(web.Options{})
	d.shows("/server", "was given no connection", "<dt>Namespace</dt><dd><code>ql:</code></dd>",
		qless.DefaultNamespace)
}

func TestSettingsHaveTheirDefaultsUntilTheyAreSet(t *testing.T) {
	d := newDesk(t, web.Options{})
	known := d.read("/settings")["known"].([]any)
	values, err := d.Config().All(t.Context())
	d.do(err)
	defaults := map[string]string{}
	for _, one := range known {
		one := one.(map[string]any)
		require.NotEmpty(t, one["meaning"], one["name"])
		if text, ok := one["default"].(string); ok {
			defaults[one["name"].(string)] = text
		}
	}
	require.Equal(t, values, defaults, "the page knows all defaults")
	require.Len(t, known, 14)

	d.do(d.Config().Set(t.Context(), "heartbeat", 90))
	d.do(d.Queue("ma/il").SetMaxConcurrency(t.Context(), 7))
	_, err = d.Client.Do(t.Context(), "config.set", "unheard-of", "<b>")
	d.do(err)
	d = d.again(web.Options{})
	page := d.shows("/settings", `value="90"`)
	require.Equal(t, 3, strings.Count(page, `formaction="/actions/config.unset"`))
	contains(t, page, `<a href="/queues/ma%2Fil">ma/il</a>`, "unheard-of",
		"The most jobs of the queue that run at once")
	require.NotContains(t, page, "<b>")

	d = d.again(web.Options{ReadOnly: true})
	page = d.shows("/settings", "<span>1m30s</span>")
	require.NotContains(t, page, "/actions/")
}

func TestTheDoctorFindsAndRepairsALostJob(t *testing.T) {
	d := newDesk(t, web.Options{})
	rdb := d.server.Client(t)
	d.shows("/doctor", "The namespace was not examined yet.")
	lost := d.put("mail", "Send")
	d.do(rdb.ZRem(t.Context(), "ql:q:mail-work", lost).Err())
	d.do(rdb.HSet(t.Context(), "ql:config", "no-such-setting", "1").Err())

	over := func() bool { return d.read("/doctor")["running"] == nil }
	require.Contains(t, d.act("doctor.examine", form()), "The exam has begun.")
	testkit.Until(t, "the exam is over", over)
	page := d.shows("/doctor", `<span class="sev broken">Broken</span>`,
		`<a href="/jobs/`+lost+`">Show job</a>`, "Repair: the record of the job decides",
		"Reset it, unless another client reads it.")
	require.Regexp(t, `(?s)Doctor\n<b class="bad">[0-9]+</b>`, page, "the navigation has a count")

	require.Contains(t, d.post("doctor.fix", url.Values{}).body, "No job is run, failed or deleted.")
	d.act("doctor.fix", form("sure", "1"))
	testkit.Until(t, "the repair is over", over)
	page = d.shows("/doctor", "1 finding repaired.")
	require.NotContains(t, page, "Broken</span>")
	d.do(rdb.ZScore(t.Context(), "ql:q:mail-work", lost).Err())
}
