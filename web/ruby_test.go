package web_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/web"
)

func TestTheJSONOfRubysInterface(t *testing.T) {
	ctx := t.Context()
	d := newDesk(t, web.Options{})
	read := func(d *desk, path, want string) {
		t.Helper()
		got := d.ask(http.MethodGet, path, "")
		require.Equal(t, http.StatusOK, got.StatusCode)
		require.Equal(t, "application/json", got.Header.Get("Content-Type"))
		require.JSONEq(t, want, got.body)
	}
	read(d, "/queues.json", `[]`)
	read(d, "/failed.json", `{}`)
	d.put("a b", "Send")
	jobs, err := d.Queue("a b").Pop(ctx, 1)
	require.NoError(t, err)
	require.NoError(t, jobs[0].Fail(ctx, "boom", "it broke"))
	d.put("a b", "Send")
	d.put("a b", "Send", qless.Delay(time.Hour))
	require.NoError(t, d.Queue("a b").Pause(ctx))
	queue := `{"name":"a b","waiting":1,"running":0,"stalled":0,"scheduled":1,"depends":0,` +
		`"recurring":0,"paused":true}`
	d = d.on(web.Options{Prefix: "/q"})
	read(d, "/q/queues.json", "["+queue+"]")
	read(d, "/q/queues/a%20b.json", queue)
	read(d, "/q/failed.json", `{"boom":1}`)
	require.Contains(t, d.page("/q/queues/-?name=x.json"), "x.json")
}
