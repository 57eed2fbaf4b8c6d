package web_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

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
