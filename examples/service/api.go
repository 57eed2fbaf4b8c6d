package main

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/qless/qless-go"
)

// api is the HTTP side of the service.
type api struct {
	client *qless.Client
	worker *qless.Worker
}

func newAPI(client *qless.Client, worker *qless.Worker, m *metrics) http.Handler {
	a := &api{client: client, worker: worker}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /signups", a.signUp)
	mux.HandleFunc("GET /jobs/{jid}", a.job)
	mux.HandleFunc("DELETE /jobs/{jid}", a.cancel)
	mux.HandleFunc("GET /readyz", a.ready)
	mux.Handle("GET /metrics", m)
	return mux
}

// signUp accepts a signup and replies with the jid of its job.
func (a *api) signUp(w http.ResponseWriter, r *http.Request) {
	var data signup
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&data)
	if err != nil || data.Email == "" {
		http.Error(w, `want {"email": "..."}`, http.StatusBadRequest)
		return
	}
	jid, err := a.client.Queue(mailQueue).Put(r.Context(), "Welcome", data)
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusAccepted, map[string]string{"jid": jid})
}

// job replies with a job as JSON.
func (a *api) job(w http.ResponseWriter, r *http.Request) {
	job, err := a.client.Job(r.Context(), r.PathValue("jid"))
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusOK, job)
}

// cancel deletes a job. If it is running, its handler's context ends.
func (a *api) cancel(w http.ResponseWriter, r *http.Request) {
	if err := a.client.Cancel(r.Context(), r.PathValue("jid")); err != nil {
		fail(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// ready reports whether this process takes jobs, for the load balancer.
func (a *api) ready(w http.ResponseWriter, r *http.Request) {
	if err := a.worker.Healthy(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}

// fail replies with an error of the queue.
func fail(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, qless.ErrInvalid):
		status = http.StatusBadRequest
	case errors.Is(err, qless.ErrNotFound):
		status = http.StatusNotFound
	case errors.Is(err, qless.ErrHasDependents):
		status = http.StatusConflict
	case errors.Is(err, qless.ErrUnavailable):
		status = http.StatusServiceUnavailable
	}
	http.Error(w, err.Error(), status)
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}
