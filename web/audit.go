package web

import (
	"log/slog"
	"net/http"
	"net/url"
)

// How many jids a record of the log has, and how long a text in it is.
const (
	loggedJobs = 20
	loggedText = 200
)

// An audit is what the log says about an action.
type audit struct {
	log  *slog.Logger
	jids []string
	jobs int
}

// auditOf returns a record of an action, with what it is about, but never with data.
func (s *site) auditOf(r *http.Request, q *request) *audit {
	log := s.auditLog(r, q.action)
	for _, field := range q.deed.Fields {
		if value := q.form.Get(field.Name); value != "" && !field.IsSecret {
			log = log.With(field.Name, short(value))
		}
	}
	for _, name := range scopeFields {
		isData := name == "data" || name == "q" && q.form.Get("in") == "data"
		if value := q.form.Get(name); value != "" && q.form.Has("scope") && !isData {
			log = log.With("scope."+name, short(value))
		}
	}
	return &audit{log: log}
}

func (s *site) auditLog(r *http.Request, action Action) *slog.Logger {
	return s.handler.options.Logger.With("action", string(action),
		"user", s.handler.options.User(r), "namespace", s.Name)
}

func short(text string) string {
	if len(text) > loggedText {
		return text[:loggedText] + "…"
	}
	return text
}

// add notes jobs that an action is about.
func (a *audit) add(jids []string) {
	a.jobs += len(jids)
	if room := loggedJobs - len(a.jids); room > 0 {
		for _, jid := range jids[:min(room, len(jids))] {
			a.jids = append(a.jids, short(jid))
		}
	}
}

// begun logs that an action has begun that takes long.
func (a *audit) begun() { a.log.Info("dashboard: an action has begun") }

// ended logs what has become of an action.
func (a *audit) ended(done *outcome) {
	log := a.log.With("changed", done.Count, "left", done.Left)
	if a.jobs > 0 {
		log = log.With("jobs", a.jids, "selected", a.jobs)
	}
	if done.Err != nil {
		log.Error("dashboard: an action failed", "error", done.Err)
		return
	}
	log.Info("dashboard: an action was done")
}

// auditRefusal logs that somebody may not do something.
func (s *site) auditRefusal(r *http.Request, action Action, err error) {
	s.auditLog(r, action).Warn("dashboard: an action was refused", "error", err)
}

// refuseForeign answers a request that another site has made a browser send.
func (h *Handler) refuseForeign(w http.ResponseWriter, r *http.Request) {
	path, _ := url.PathUnescape(short(r.URL.EscapedPath()))
	h.options.Logger.Warn("dashboard: a request from another site was refused",
		"user", h.options.User(r), "path", path)
	http.Error(w, "requests from other sites are refused", http.StatusForbidden)
}

// refuseHost answers a request that names another host, which may be that of a page whose name
// leads here.
func (h *Handler) refuseHost(w http.ResponseWriter, r *http.Request) {
	h.options.Logger.Warn("dashboard: a request for an unknown host was refused",
		"user", h.options.User(r), "host", short(r.Host))
	http.Error(w, "the dashboard has another name: Options.Hosts, or qless serve --web-host, "+
		"says under which it is reached", http.StatusForbidden)
}
