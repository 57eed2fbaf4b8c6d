package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A fixture is the service on an in-memory Redis, with a clock moved by the test.
type fixture struct {
	*service
	server *qlesstest.Server
	spans  *tracetest.InMemoryExporter
	mu     sync.Mutex
	mails  []string
	err    error // the result of sending
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{server: qlesstest.New(t), spans: tracetest.NewInMemoryExporter()}
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "test.db"))
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	telemetry, err := newTelemetry(trace.WithSyncer(f.spans))
	require.NoError(t, err)
	t.Cleanup(func() { _ = telemetry.provider.Shutdown(context.Background()) })
	client, err := f.server.NewClient(telemetry.clientConfig())
	require.NoError(t, err)
	f.service, err = newService(t.Context(), config{
		mail: f.send, admin: "secret",
	}, client, db, telemetry)
	require.NoError(t, err)
	return f
}

func (f *fixture) send(_ context.Context, to, text string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.mails = append(f.mails, to+": "+text)
	}
	return "id of the mail", f.err
}

// call calls the API and returns the status and the body.
func (f *fixture) call(method, path, body string) (int, string) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.SetBasicAuth("admin", "secret")
	f.api().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// signUpAs signs up an address, and returns the jid of the job put by the relay.
func (f *fixture) signUpAs(t *testing.T, email string) string {
	t.Helper()
	status, body := f.call("POST", "/signups", `{"email":"`+email+`"}`)
	require.Equal(t, http.StatusAccepted, status, body)
	var reply struct{ JID string }
	require.NoError(t, json.Unmarshal([]byte(body), &reply))
	require.NoError(t, f.relay.Pass(t.Context()).Err)
	require.Equal(t, reply.JID, qlesstest.RequirePut(t, f.client, mailQueue, welcomeKlass.Name()).JID)
	return reply.JID
}

func TestSignUp(t *testing.T) {
	f := newFixture(t)
	jid := f.signUpAs(t, "ann@example.com")
	qlesstest.Drain(t, f.worker)
	require.Equal(t, []string{"ann@example.com: Welcome!"}, f.mails)
	_, body := f.call("GET", "/jobs/"+jid, "")
	require.JSONEq(t, `{"state":"complete","data":{"message":"id of the mail"}}`, body)

	f.server.Clock().Advance(24 * time.Hour)
	qlesstest.Drain(t, f.worker)
	require.Contains(t, f.mails, "ann@example.com: How do you like it?")
	_, body = f.call("GET", "/metrics", "")
	require.Contains(t, body, "outbox_oldest_seconds 0")
	require.Contains(t, body, `klass="Welcome"`)
}

// The trace of a job's run leads back to the request, although the job was put by a relay.
func TestATraceGoesThroughTheOutbox(t *testing.T) {
	f := newFixture(t)
	f.signUpAs(t, "ann@example.com")
	qlesstest.Drain(t, f.worker)
	spans := map[string]tracetest.SpanStub{}
	for _, span := range f.spans.GetSpans() {
		spans[span.Name] = span
	}
	links := spans["process mail"].Links
	require.Len(t, links, 1)
	require.Equal(t, spans["sign up"].SpanContext.TraceID(), links[0].SpanContext.TraceID())
}

func TestNobodySignsUpTwice(t *testing.T) {
	f := newFixture(t)
	f.signUpAs(t, "ann@example.com")
	status, _ := f.call("POST", "/signups", `{"email":"ann@example.com"}`)
	require.Equal(t, http.StatusConflict, status)
	require.Zero(t, f.relay.Pass(t.Context()).Put, "the job is gone with the transaction")
	status, _ = f.call("POST", "/signups", `{"mail":"ann@example.com"}`)
	require.Equal(t, http.StatusBadRequest, status)
}

// A client may ask for the result before a relay has put the job.
func TestTheResultOfASignupThatIsOnItsWay(t *testing.T) {
	f := newFixture(t)
	status, body := f.call("POST", "/signups", `{"email":"ann@example.com"}`)
	require.Equal(t, http.StatusAccepted, status, body)
	var posted struct{ JID string }
	require.NoError(t, json.Unmarshal([]byte(body), &posted))
	status, _ = f.call("GET", "/jobs/"+posted.JID, "")
	require.Equal(t, http.StatusAccepted, status)
	require.Equal(t, 1, f.relay.Pass(t.Context()).Put)
	qlesstest.Drain(t, f.worker)
	status, _ = f.call("GET", "/jobs/"+posted.JID, "")
	require.Equal(t, http.StatusOK, status)
}

func TestReportAtNight(t *testing.T) {
	f := newFixture(t)
	qlesstest.Drain(t, f.worker)
	f.server.Clock().Advance(24 * time.Hour)
	qlesstest.Drain(t, f.worker)
	require.Equal(t, []string{"office@example.com: 0 mails yesterday"}, f.mails)
}

func TestAMailboxThatDoesNotExist(t *testing.T) {
	f := newFixture(t)
	f.err = errNoMailbox
	outcome := qlesstest.Work(t, f.worker, qlesstest.JobOf(t, welcomeKlass.Klass, signup{Email: "nobody"}))
	require.Equal(t, qless.ActionFail, outcome.Action)
	require.Equal(t, "no-mailbox", outcome.Group)
}

func TestDashboard(t *testing.T) {
	f := newFixture(t)
	f.signUpAs(t, "ann@example.com")
	status, body := f.call("GET", "/admin/", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "/admin/queues/"+mailQueue)
	f.config.admin = "another"
	status, _ = f.call("GET", "/admin/", "")
	require.Equal(t, http.StatusUnauthorized, status)
}

func TestStartAndStop(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	mailed, ended := make(chan string, 1), make(chan error, 1)
	listener, err := net.Listen("tcp", "localhost:0")
	require.NoError(t, err)
	go func() {
		ended <- run(ctx, config{database: ":memory:", listener: listener,
			mail: func(_ context.Context, to, _ string) (string, error) { mailed <- to; return "", nil }})
	}()
	response, err := http.Post("http://"+listener.Addr().String()+"/signups", "application/json",
		strings.NewReader(`{"email":"ann@example.com"}`))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, "ann@example.com", <-mailed)
	stop()
	require.NoError(t, <-ended)
}
