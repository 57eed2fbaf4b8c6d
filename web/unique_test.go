package web_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/web"
)

func TestUniqueKeysHaveTheirHolders(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.shows("/unique", "No job holds a unique key.")
	jid := d.put("mail", "Sync", qless.Unique("sync", 7))
	other := d.put("mail", "Sweep", qless.Unique("sweep").For(time.Hour))
	d = d.on(web.Options{})
	page := d.page("/unique")
	for _, want := range []string{
		`<code>[&#34;sync&#34;,7]</code>`, `<code>[&#34;sweep&#34;]</code>`, "/jobs/" + jid, "/jobs/" + other, "in 59m",
	} {
		require.Contains(t, page, want)
	}
	page = d.shows(`/unique?key=["sync",7]`, "/jobs/"+jid)
	require.NotContains(t, page, "/jobs/"+other)
	d.shows("/unique?key=sweep", "/jobs/"+other)
	d.shows("/unique?key=free", "No job holds this key")
	d.do(d.Cancel(t.Context(), jid))
	d = d.on(web.Options{})
	d.hides("/unique", "/jobs/"+jid)
}

func TestARareUniqueKeyIsFoundAtOnce(t *testing.T) {
	d := newDesk(t, web.Options{})
	jid := d.put("mail", "Sync", qless.Unique("sync"))
	var others []any
	for i := range 20_000 {
		others = append(others, "other:"+strconv.Itoa(i), "")
	}
	d.do(d.server.Client(t).MSet(t.Context(), others...).Err())
	d.shows("/unique", "/jobs/"+jid)
}
