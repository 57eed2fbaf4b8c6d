package web

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/qless/qless-go"
)

// A site has the pages of one namespace.
type site struct {
	Source
	handler *Handler
	base    string // the path before those of its pages, without a slash at the end
	mux     *http.ServeMux
	pages   *http.ServeMux // those that s.page has registered, and nothing else
	samples samples
	denials denials
	feed    feed
	tallies tallies
	groups  knownGroups
	growth  growth
	days    days
}

func newSite(h *Handler, source Source, base string) *site {
	s := &site{
		Source: source, handler: h, base: base, mux: http.NewServeMux(), pages: http.NewServeMux(),
	}
	s.samples.began = time.Now()
	s.page("/{$}", s.overview)
	s.page("/queues", s.queues)
	s.page("/queues/{queue}", s.queue)
	s.page("/queues/{queue}/why", s.why)
	s.page("/jobs/{jid}", s.job)
	s.page("/failures", s.failures)
	s.page("/failures/{group}", s.failure)
	s.page("/klasses", s.klasses)
	s.page("/klasses/{klass}", s.klass)
	s.page("/workers", s.workers)
	s.page("/workers/{worker}", s.worker)
	s.page("/recurring", s.recurring)
	s.page("/recurring/{jid}", s.recurringJob)
	s.page("/schedules", s.schedules)
	s.page("/schedules/{id}", s.schedule)
	s.page("/limits", s.limits)
	s.page("/limits/{name}", s.limit)
	s.page("/tracked", s.tracked)
	s.page("/completed", s.completed)
	s.page("/tags", s.tags)
	s.page("/tags/{tag}", s.tag)
	s.page("/activity", s.activity)
	s.page("/settings", s.settings)
	s.page("/server", s.server)
	s.page("/jobs/{jid}/graph", s.graph)
	s.page("/find", s.find)
	s.mux.HandleFunc("GET "+base+"/live", s.live)
	s.mux.HandleFunc("POST "+base+"/actions/{action}", s.act)
	s.mux.HandleFunc("GET "+base+"/actions/{action}", s.begin)
	s.page("/runs/{id}", s.runPage)
	s.mux.HandleFunc("POST "+base+"/runs/{id}/stop", s.stopRun)
	s.mux.HandleFunc("GET "+base+"/receipts/{id}", s.download)
	s.mux.HandleFunc("GET "+base+"/queues.json", s.rubyQueues)
	s.mux.HandleFunc("GET "+base+"/failed.json", s.rubyFailed)
	s.mux.HandleFunc(base+"/", s.missing)
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if name, isRuby := s.rubyName(r); isRuby {
		s.rubyQueue(w, r, name)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// page serves a page at a pattern below the base.
func (s *site) page(pattern string, read func(*http.Request) (*view, error)) {
	serve := func(w http.ResponseWriter, r *http.Request) {
		v, err := read(r)
		if to, isLive := w.(*recorder); isLive {
			to.isPage, to.isStill = true, err == nil && (v.isStill || v.goTo != "")
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		s.show(w, r, v)
	}
	s.mux.HandleFunc("GET "+s.base+pattern, serve)
	s.pages.HandleFunc("GET "+s.base+pattern, serve)
}

func (s *site) missing(w http.ResponseWriter, r *http.Request) {
	s.fail(w, r, &qless.Error{
		Code: qless.CodeNotFound, Op: "web", Message: "there is no page at " + r.URL.Path,
	})
}

// link returns the URL of something with a name: /queues/mail. Browsers take dots for directories,
// and some names end like a file or are a slash, so such a name is a parameter:
// /queues/-?name=.json
func (s *site) link(kind, name string) string {
	isDots := strings.Trim(name, ".") == ""
	if isDots || name == "-" || name == "/" || strings.HasSuffix(name, ".json") {
		return s.base + "/" + kind + "/-?name=" + url.QueryEscape(name)
	}
	return s.base + "/" + kind + "/" + segment(name)
}

// sub returns the URL of a page below that of something with a name: /queues/mail/why
func (s *site) sub(kind, name, page string) string {
	path, query, hasQuery := strings.Cut(s.link(kind, name), "?")
	if hasQuery {
		return path + "/" + page + "?" + query
	}
	return path + "/" + page
}

// nameOf returns the name that a link was made for.
func nameOf(r *http.Request, wildcard string) string {
	query := r.URL.Query()
	if name, err := url.QueryUnescape(query.Get("name" + escapedMark)); err == nil && name != "" {
		return name
	}
	if query.Has("name") {
		return query.Get("name")
	}
	return r.PathValue(wildcard)
}
