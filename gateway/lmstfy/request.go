package lmstfy

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// A request is an HTTP request with the state of its answer.
type request struct {
	*http.Request
	server *Server
	writer http.ResponseWriter
	id     string
	values url.Values
	status int
	failed error // why the answer could not be sent

	// settle is called before the answer is sent, to keep the count right for the token's next
	// request. It is nil unless the request was counted.
	settle func()

	// Set by the route, for metrics and the log.
	api, namespace, queue, job string
	pool                       *pool
	poolName, token            string
}

// wrap adds the headers common to all answers, and logs requests.
func (s *Server) wrap(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		r := &request{Request: hr, server: s, writer: w, id: newID(time.Now()), values: hr.URL.Query()}
		began := time.Now()
		w.Header().Set("X-Request-Id", r.id)
		if hr.ContentLength != 0 { // even if the body is not used
			setDeadline(http.NewResponseController(w).SetReadDeadline, s.config.ReadTimeout)
		}
		defer s.log(r, began)
		defer r.recover()
		handler.ServeHTTP(w, hr.WithContext(context.WithValue(hr.Context(), requestKey{}, r)))
	})
}

type requestKey struct{}

// requestOf returns the request made by wrap.
func requestOf(hr *http.Request) *request {
	r, _ := hr.Context().Value(requestKey{}).(*request)
	return r
}

// recover answers a request after its handler has panicked.
func (r *request) recover() {
	switch v := recover(); v {
	case nil:
	case http.ErrAbortHandler:
		panic(v)
	default:
		r.server.config.Logger.Error("a request panicked",
			"request", r.id, "panic", v, "stack", string(debug.Stack()))
		if r.status == 0 {
			r.fail(http.StatusInternalServerError, "internal error")
		}
	}
}

// reply answers with JSON.
func (r *request) reply(status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":"internal error"}`)
	}
	r.send(status, "application/json; charset=utf-8", text)
}

// replyIndented answers with indented JSON.
func (r *request) replyIndented(status int, v any) {
	text, err := json.MarshalIndent(v, "", "    ")
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":"internal error"}`)
	}
	r.send(status, "application/json; charset=utf-8", text)
}

// fail answers with an error.
func (r *request) fail(status int, message string) {
	r.reply(status, map[string]any{"error": message})
}

// internal answers with an internal error, and logs it.
func (r *request) internal(doing string, err error) {
	if !errors.Is(r.Context().Err(), context.Canceled) {
		r.server.config.Logger.Error("can't "+doing, "err", err, "request", r.id, "pool", r.poolName,
			"namespace", cut(r.namespace, maxName), "queue", cut(r.queue, maxName),
			"job", cut(r.job, maxName))
	}
	r.fail(http.StatusInternalServerError, "internal error")
}

// answer sends v as JSON, or no body if v is nil. After an error, it reports that doing failed.
func (r *request) answer(doing string, err error, v any) {
	switch {
	case err != nil:
		r.internal(doing, err)
	case v == nil:
		r.send(http.StatusNoContent, "", nil)
	default:
		r.reply(http.StatusOK, v)
	}
}

// send sends an answer.
func (r *request) send(status int, contentType string, body []byte) {
	r.status = status
	if r.settle != nil {
		r.settle()
	}
	if contentType != "" {
		r.writer.Header().Set("Content-Type", contentType)
		r.writer.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	controller := http.NewResponseController(r.writer)
	setDeadline(controller.SetWriteDeadline, r.server.config.WriteTimeout)
	r.writer.WriteHeader(status)
	if len(body) == 0 {
		return
	}
	_, r.failed = r.writer.Write(body)
	if r.failed == nil {
		r.failed = controller.Flush()
	}
}

// log logs a request, if access logging is on.
func (s *Server) log(r *request, began time.Time) {
	if !s.accessLog.Load() {
		return
	}
	level := slog.LevelInfo
	switch {
	case r.status >= 500:
		level = slog.LevelError
	case r.status >= 400 && r.status != http.StatusNotFound:
		level = slog.LevelWarn
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	s.config.Logger.Log(context.WithoutCancel(r.Context()), level, "request",
		"pool", r.poolName, "path", r.loggedPath(), "query", r.loggedQuery(),
		"latency", time.Since(began), "ip", host, "method", r.Method, "code", r.status, "req_id", r.id)
}

// loggedQuery returns the query without the token and without invalid parts.
func (r *request) loggedQuery() string {
	values := maps.Clone(r.values)
	if values.Has("token") {
		values.Set("token", "-")
	}
	return values.Encode()
}

// queueName returns the name of a queue in qless.
func (r *request) queueName(queue string) string { return r.namespace + "/" + queue }

// loggedPath returns the path without the token in it.
func (r *request) loggedPath() string {
	parts := strings.Split(r.URL.Path, "/")
	if len(parts) > 3 && parts[1] == "token" {
		parts[3] = "-"
	}
	return strings.Join(parts, "/")
}

// redirectToFile redirects to the same path without the trailing slash.
func redirectToFile(r *request) {
	r.status = http.StatusTemporaryRedirect
	if r.Method == http.MethodGet {
		r.status = http.StatusMovedPermanently
	}
	target := *r.URL
	target.Path, target.RawPath = strings.TrimSuffix(r.URL.Path, "/"), ""
	r.writer.Header().Del("X-Request-Id")
	http.Redirect(r.writer, r.Request, target.String(), r.status)
}

// setDeadline limits how long a client may take to read or write; 0 means no limit. Connections
// that do not support deadlines have none.
func setDeadline(set func(time.Time) error, d time.Duration) {
	deadline := time.Time{}
	if d > 0 {
		deadline = time.Now().Add(d)
	}
	_ = set(deadline)
}
