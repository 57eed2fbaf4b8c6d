package web_test

import (
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
		`<span class="sev warning">Warning</span><p>The server`+" keeps nothing on disk: a restart loses all jobs.")
	d.do(rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	defer rdb.ConfigSet(t.Context(), "maxmemory", "0")
	require.Contains(t, d.asked(rdb).page("/server"), ": puts are refused. Free memory or raise maxmemory.")
}

func TestAServerThatRefusesInfo(t *testing.T) {
	d := newDesk(t, web.Options{})
	rdb := d.server.Client(t)
	d.do(rdb.Do(t.Context(), "ACL", "SETUSER", "viewer", "on", ">pw", "~*", "&*", "+@all",
		"-info", "-time").Err())
	defer rdb.Do(t.Context(), "ACL", "DELUSER", "viewer")
	options := testkit.Options(d.server.Addr())
	options.Username, options.Password = "viewer", "pw"
	viewer := redis.NewClient(options)
	defer viewer.Close()
	d = d.asked(viewer)
	page := d.shows("/server", "The server does not tell about itself: NOPERM", "+info")
	require.NotContains(t, page, "Its clock")
}

func TestServerPageWithoutAConnectionShowsTheClient(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.put("mail", "Send")
	_, err := d.Queue("mail").Pop(t.Context(), 1)
	d.do(err)
	d = d.again(web.Options{})
	d.shows("/server", "was given no connection", "<dt>Namespace</dt><dd><code>ql:</code></dd>",
		qless.DefaultNamespace)
}
