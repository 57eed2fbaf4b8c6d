package main

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/web"
)

// api returns the HTTP side of the service.
func (s *service) api() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /signups", s.handleSignUp)
	mux.HandleFunc("GET /jobs/{jid}", s.handleJob)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, struct{}{}, s.worker.Healthy()) // ready while this process takes jobs
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	if s.config.admin != "" {
		dashboard, err := web.New(web.Options{Prefix: "/admin"}, web.Source{Client: s.client})
		if err != nil {
			panic(err) // the options are constant
		}
		mux.Handle("/admin/", s.admin(dashboard))
	}
	return mux
}

// handleSignUp accepts a signup and replies with the jid of its job.
func (s *service) handleSignUp(w http.ResponseWriter, r *http.Request) {
	var data signup
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&data)
	if err != nil || data.Email == "" {
		http.Error(w, `want {"email": "..."}`, http.StatusBadRequest)
		return
	}
	jid, err := s.signUp(r.Context(), data)
	reply(w, http.StatusAccepted, map[string]string{"jid": jid}, err)
}

// handleJob waits briefly for the result of a job, and replies with it.
func (s *service) handleJob(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	result, err := s.client.Wait(ctx, r.PathValue("jid"), qless.AwaitPut(time.Second))
	if errors.Is(err, qless.ErrNotFound) {
		w.Header().Set("Retry-After", "1") // perhaps still in the outbox
		reply(w, http.StatusAccepted, struct{}{}, nil)
		return
	}
	reply(w, http.StatusOK, result, err)
}

// admin passes requests of the user admin to the dashboard.
func (s *service) admin(dashboard http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, given, _ := r.BasicAuth()
		if subtle.ConstantTimeCompare([]byte(given), []byte(s.config.admin)) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="admin"`)
			http.Error(w, "want the password of the user admin", http.StatusUnauthorized)
			return
		}
		dashboard.ServeHTTP(w, r)
	}
}

// reply replies with a status and JSON, or with an error.
func reply(w http.ResponseWriter, status int, body any, err error) {
	switch {
	case err == nil:
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body) // the client may be gone
		return
	case errors.Is(err, errKnown):
		status = http.StatusConflict
	case errors.Is(err, qless.ErrInvalid):
		status = http.StatusBadRequest
	case errors.Is(err, qless.ErrNotFound), errors.Is(err, qless.ErrCanceled):
		status = http.StatusNotFound
	case errors.Is(err, qless.ErrUnfinished), errors.Is(err, context.DeadlineExceeded):
		status = http.StatusAccepted // the client may ask again
	default:
		status = http.StatusServiceUnavailable
	}
	http.Error(w, err.Error(), status)
}
