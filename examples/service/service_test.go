package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A postbox keeps the mails that are sent.
type postbox struct {
	mu    sync.Mutex
	mails []string
	err   error // what sending returns
}

func (p *postbox) send(_ context.Context, to, text string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.mails = append(p.mails, to+": "+text)
	}
	return p.err
}

// A fixture is the service on an in-memory Redis.
type fixture struct {
	*qlesstest.Server
	*postbox
	worker *qless.Worker
	api    http.Handler
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{Server: qlesstest.New(t), postbox: &postbox{}}
	worker, metrics, err := newWorker(f.Client(), f.send)
	require.NoError(t, err)
	f.worker, f.api = worker, newAPI(f.Client(), worker, metrics)
	return f
}

// call calls the API and returns the status and the body.
func (f *fixture) call(method, path, body string) (int, string) {
	w := httptest.NewRecorder()
	f.api.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

// signUp signs up an address and returns the jid.
func (f *fixture) signUp(t *testing.T, email string) string {
	t.Helper()
	status, body := f.call("POST", "/signups", `{"email":"`+email+`"}`)
	require.Equal(t, http.StatusAccepted, status, body)
	var reply struct{ JID string }
	require.NoError(t, json.Unmarshal([]byte(body), &reply))
	return reply.JID
}

func TestSignUp(t *testing.T) {
	f := newFixture(t)
	jid := f.signUp(t, "ann@example.com")
	job := qlesstest.RequirePut(t, f.Client(), mailQueue, "Welcome")
	require.Equal(t, jid, job.JID)

	qlesstest.Drain(t, f.worker)
	require.Equal(t, []string{"ann@example.com: Welcome!"}, f.mails)

	f.Clock().Advance(24 * time.Hour)
	qlesstest.Drain(t, f.worker)
	require.Contains(t, f.mails, "ann@example.com: How do you like it?")

	status, body := f.call("GET", "/jobs/"+jid, "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `"state":"complete"`)
	_, body = f.call("GET", "/metrics", "")
	require.Contains(t, body, `jobs_ended_total{klass="Welcome",outcome="complete"} 1`)
}

func TestReportAtNight(t *testing.T) {
	f := newFixture(t)
	qlesstest.Drain(t, f.worker)
	require.Empty(t, f.mails)
	f.Clock().Advance(24 * time.Hour)
	qlesstest.Drain(t, f.worker)
	require.Equal(t, []string{"office@example.com: 0 mails yesterday"}, f.mails)
}

func TestAMailboxThatDoesNotExist(t *testing.T) {
	f := newFixture(t)
	f.err = errNoMailbox
	job := qlesstest.Job(t, "Welcome", signup{Email: "nobody@example.com"})
	outcome := qlesstest.Work(t, f.worker, job)
	require.Equal(t, qless.ActionFail, outcome.Action)
	require.Equal(t, "no-mailbox", outcome.Group)
}

func TestCancel(t *testing.T) {
	f := newFixture(t)
	jid := f.signUp(t, "ann@example.com")
	status, _ := f.call("DELETE", "/jobs/"+jid, "")
	require.Equal(t, http.StatusNoContent, status)
	status, _ = f.call("GET", "/jobs/"+jid, "")
	require.Equal(t, http.StatusNotFound, status)
}

func TestBadRequests(t *testing.T) {
	f := newFixture(t)
	status, body := f.call("POST", "/signups", `{"mail":"ann@example.com"}`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, body, "want")
}

func TestStartAndStop(t *testing.T) {
	server, err := qlesstest.Start()
	require.NoError(t, err)
	defer server.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	addr, ended := make(chan string, 1), make(chan error, 1)
	box := &postbox{}
	go func() {
		ended <- run(ctx, config{
			redis: "redis://" + server.Addr(), addr: "localhost:0", mail: box.send,
			ready: func(at string) { addr <- at },
		})
	}()
	url := "http://" + <-addr
	require.Eventually(t, func() bool {
		response, err := http.Get(url + "/readyz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	}, 30*time.Second, 10*time.Millisecond)
	response, err := http.Post(url+"/signups", "application/json", strings.NewReader(`{"email":"ann@example.com"}`))
	require.NoError(t, err)
	response.Body.Close()
	require.Eventually(t, func() bool {
		box.mu.Lock()
		defer box.mu.Unlock()
		return len(box.mails) == 1
	}, 30*time.Second, 10*time.Millisecond)
	stop()
	require.NoError(t, <-ended)
}
