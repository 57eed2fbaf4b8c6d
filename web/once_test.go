package web_test

import (
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

// filled returns the form of a page that leads to an action, filled in.
func (d *desk) filled(page, action string, pairs ...string) url.Values {
	d.t.Helper()
	for _, sheet := range sheetsOf(requireSound(d.t, page, d.page(page))) {
		for _, leads := range sheet.actions {
			if leads == "/actions/"+action {
				form := url.Values(sheet.values)
				for i := 0; i+1 < len(pairs); i += 2 {
					form.Set(pairs[i], pairs[i+1])
				}
				require.NotEmpty(d.t, form.Get("once"))
				return form
			}
		}
	}
	d.t.Fatalf("%s has no form for %s", page, action)
	return nil
}

// send sends a form twice at the same time and once more, and returns the URL that it leads to.
func (d *desk) send(action string, form url.Values) string {
	d.t.Helper()
	var both [2]answer
	var sent sync.WaitGroup
	for i := range both {
		sent.Go(func() { both[i] = d.ask(http.MethodPost, "/actions/"+action, form.Encode()) })
	}
	sent.Wait()
	for _, got := range append(both[:], d.ask(http.MethodPost, "/actions/"+action, form.Encode())) {
		require.Equal(d.t, http.StatusSeeOther, got.StatusCode, got.body)
		require.Equal(d.t, both[0].Header.Get("Location"), got.Header.Get("Location"))
	}
	return both[0].Header.Get("Location")
}

func TestAFormThatIsSentTwiceIsDoneOnce(t *testing.T) {
	s := newScene(t)
	job := "?job=waiting:" + s.jids["waiting"]
	jobs := func() int { return s.count("mail", inspect.Waiting) }
	for _, c := range []struct {
		page, action string
		pairs        []string
		count        func() int
	}{
		{"/actions/job.put?queue=mail", "job.put", []string{"klass", "Send"}, jobs},
		{"/actions/job.copy" + job, "job.copy", nil, jobs},
		{"/recurring/ticks", "recur.run", nil, jobs},
		{"/actions/recur.put?queue=mail", "recur.put", []string{"klass", "Send", "interval", "1h"}, func() int {
			return s.count("mail", inspect.Recurring)
		}},
		{"/actions/job.log" + job, "job.log", []string{"message", "seen"}, func() int {
			job, err := s.Job(t.Context(), s.jids["waiting"])
			require.NoError(t, err)
			return len(job.History)
		}},
	} {
		before := c.count()
		form := s.filled(c.page, c.action, c.pairs...)
		s.page(s.send(c.action, form))
		require.Equal(t, before+1, c.count(), c.action)
		s.send(c.action, s.filled(c.page, c.action, c.pairs...))
		require.Equal(t, before+2, c.count(), "another form like it: %s", c.action)
	}
}

func TestAJobIsPutOnceByTwoProcesses(t *testing.T) {
	d := newDesk(t, web.Options{})
	form := d.filled("/actions/job.put?queue=mail", "job.put", "klass", "Send")
	other := d.at(web.New(web.Options{Logger: testkit.Quiet()}, web.Source{Client: d.Client}))
	d.send("job.put", form)
	other.shows(other.send("job.put", form), "The job was put.")
	require.Equal(t, 1, d.count("mail", inspect.Waiting))
}

func TestAFormThatHasDoneNothingIsSentAgain(t *testing.T) {
	s := newScene(t)
	form := s.filled("/recurring/ticks", "recur.run")
	before := s.count("mail", inspect.Waiting)
	kept := s.rdb.Dump(t.Context(), "ql:r:ticks").Val()
	require.NoError(t, s.rdb.Del(t.Context(), "ql:r:ticks").Err())
	got := s.ask(http.MethodPost, "/actions/recur.run", form.Encode(), "Accept", "application/json")
	require.Equal(t, http.StatusNotFound, got.StatusCode, got.body)
	require.NoError(t, s.rdb.Restore(t.Context(), "ql:r:ticks", 0, kept).Err())
	s.send("recur.run", form)
	require.Equal(t, before+1, s.count("mail", inspect.Waiting))
}
