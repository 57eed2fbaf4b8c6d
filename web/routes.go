package web

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web/internal/actions"
)

// New returns a dashboard of one or several namespaces. With several, the first page shows their
// sum, and the pages of each are below its name. New does not connect to a server. Its errors are
// of type *qless.Error with the code ErrInvalid.
func New(options Options, sources ...Source) (*Handler, error) {
	if len(sources) == 0 {
		return nil, invalid("there is no Source")
	}
	options.setDefaults()
	if err := options.check(); err != nil {
		return nil, err
	}
	h := &Handler{options: options, history: actions.NewHistory()}
	h.streams.most = maxStreams
	h.known.Store(&known{})
	h.look = h.lookAgain
	isMany := len(sources) > 1 || options.Namespaces != nil
	for _, source := range sources {
		if err := h.add(source, isMany); err != nil {
			return nil, err
		}
	}
	h.root = h.routes()
	return h, nil
}

// add adds a namespace, the only one unless isMany is set. It is not safe for concurrent use.
func (h *Handler) add(source Source, isMany bool) error {
	if source.Client == nil {
		return invalid("a Source has no Client")
	}
	if source.Name == "" {
		source.Name = source.Client.Namespace()
	}
	base, before := h.options.Prefix, h.sites()
	if isMany {
		base += "/in/" + space(source.Name, len(before))
	}
	for _, s := range before {
		switch {
		case s.Name == source.Name:
			return invalid("two Sources are called %q", source.Name)
		case s.Base == base:
			return invalid("the Source %q has the path of another one", source.Name)
		}
	}
	now := &known{append(slices.Clone(before), newSite(h, source, base)), http.NewServeMux()}
	for _, s := range now.all {
		now.mux.Handle(s.Base+"/", s)
	}
	h.known.Store(now)
	return nil
}

// lookEvery is the time between two looks for new namespaces, and the limit of each.
const lookEvery = time.Minute

// lookAgain looks for new namespaces in the background, unless it did so a short time ago.
func (h *Handler) lookAgain() {
	l := &h.looks
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.options.Namespaces == nil || time.Since(l.last) < lookEvery {
		return
	}
	l.last = time.Now()
	ctx, end := context.WithTimeout(context.Background(), lookEvery)
	l.end = end
	h.background.Go(func() {
		defer end()
		sources, err := h.options.Namespaces(ctx)
		if err != nil {
			h.options.Logger.Warn("dashboard: no look for namespaces", "error", err)
			return
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, source := range sources {
			if err := h.add(source, true); err == nil {
				h.options.Logger.Info("dashboard: a new namespace", "namespace", source.Name)
			}
		}
	})
}

// A page is read once for all concurrent viewers.
type page struct {
	path, template string
	section        string // section of the navigation
	read           func(s *site, ctx context.Context, q query) (*view, error)
	parameters     string // the parameters of the URL that matter, besides the name
}

var pages = []page{
	{"/{$}", "overview", "overview", (*site).overview, ofQueues + " over by since until"},
	{"/queues", "queues", "queues", (*site).queues, ofQueues},
	{"/queues/{name}", "queue", "queues", (*site).queue, "list day over by with" + ofLists},
	{"/queues/{name}/why", "why", "queues", (*site).why, ""},
	{"/jobs/{name}", "job", "find", (*site).job, "zoom"},
	{"/jobs/{name}/graph", "graph", "find", (*site).graph, ""},
	{"/find", "find", "find", (*site).find, "state queue next" + ofSearches},
	{"/failures", "failures", "failures", (*site).failures, "q since until from sort over"},
	{"/failures/{name}", "failure", "failures", (*site).failure, ofLists},
	{"/klasses", "klasses", "klasses", (*site).klasses, "over since until queue from sort"},
	{"/klasses/{name}", "klass", "klasses", (*site).klass, "over since until by"},
	{"/workers", "workers", "workers", (*site).workers, "queue from sort"},
	{"/workers/{name}", "worker", "workers", (*site).worker, "from"},
	{"/recurring", "recurring", "recurring", (*site).recurring, "queue from"},
	{"/recurring/{name}", "recurringjob", "recurring", (*site).recurringJob, ""},
	{"/schedules", "schedules", "schedules", (*site).schedules, "from sort"},
	{"/schedules/{name}", "schedule", "schedules", (*site).schedule, ""},
	{"/limits", "limits", "limits", (*site).limits, "from sort"},
	{"/limits/{name}", "limit", "limits", (*site).limit, ""},
	{"/tracked", "list", "tracked", (*site).tracked, ofLists},
	{"/completed", "list", "completed", (*site).completed, ofLists},
	{"/tags", "tags", "tags", (*site).tags, "from"},
	{"/tags/{name}", "list", "tags", (*site).tag, ofLists},
	{"/settings", "settings", "settings", (*site).settings, ""},
	{"/batches", "batches", "batches", (*site).batches, "state next sort examined passed stop"},
	{"/unique", "unique", "unique", (*site).unique, "key after examined passed stop"},
	{"/doctor", "doctor", "doctor", (*site).doctor, "from"},
	{"/server", "server", "server", (*site).server, ""},
}

// ofQueues are the parameters of a page with a table of queues.
const ofQueues = "sort q only from"

func newSite(h *Handler, source Source, base string) *site {
	s := &site{
		Source: source, handler: h, in: inspect.New(source.Client), Base: base,
		mux: http.NewServeMux(), pages: http.NewServeMux(),
	}
	s.samples.began = time.Now()
	s.space = &actions.Space{
		Inspector: s.in, Base: base, Client: source.Client, History: h.history,
		Redact: s.redactAll, HidesData: s.IsRedacted(), Ended: s.ended, Examine: s.examine,
	}
	for _, page := range pages {
		s.handle(page.path, func(r *http.Request) (*view, error) { return s.sample(r, page) })
	}
	s.handle("/activity", s.activity)
	s.handle("/jobs/{name}/stack", s.stack)
	s.handle("/runs/{id}", s.runPage)
	s.mux.HandleFunc("GET "+base+"/live", s.live)
	s.mux.HandleFunc("POST "+base+"/actions/{action}", s.act)
	s.mux.HandleFunc("GET "+base+"/actions/{action}", s.act)
	s.mux.HandleFunc("POST "+base+"/runs/{id}/stop", s.stopRun)
	s.mux.HandleFunc("GET "+base+"/receipts/{id}", s.download)
	s.mux.HandleFunc(base+"/", s.missing)
	return s
}

// sample returns a recent reading of a page.
func (s *site) sample(r *http.Request, page page) (*view, error) {
	q := query{page.path, nameOf(r), url.Values{}}
	for _, parameter := range strings.Fields(page.parameters) {
		if value := r.URL.Query().Get(parameter); value != "" {
			q.Set(parameter, value)
		}
	}
	key := fmt.Sprintf("page %s %q %s", page.path, q.name, q.Encode())
	return sampled(r.Context(), &s.samples, key, func(ctx context.Context) (*view, error) {
		v, err := page.read(s, ctx, q)
		if err == nil {
			v.template, v.Section = cmp.Or(v.template, page.template), page.section
		}
		return v, err
	})
}

// page serves a page.
func (s *site) page(read func(*http.Request) (*view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := s.patiently(r, read)
		if to, isLive := w.(*recorder); isLive {
			to.isPage, to.isStill = true, err == nil && (v.isStill || v.goTo != "")
			to.isDown = err != nil && statusOf(err) == http.StatusServiceUnavailable
		}
		if err != nil {
			s.failPage(w, r, err)
			return
		}
		s.views.set(addressOf(r), v, time.Now(), viewsKept)
		s.show(w, r, v)
	}
}

// addressOf returns the path and query of a page, whatever its format.
func addressOf(r *http.Request) string {
	query := r.URL.Query()
	query.Del("format")
	return r.URL.Path + "?" + query.Encode()
}

// failPage answers a request for a page with an error, or with the last reading of the page if the
// server does not answer.
func (s *site) failPage(w http.ResponseWriter, r *http.Request, err error) {
	last := s.lastView(addressOf(r))
	if last == nil || statusOf(err) != http.StatusServiceUnavailable {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Age", strconv.Itoa(int(time.Since(last.Old).Seconds())))
	s.show(w, r, last)
}

// handle serves a page at a pattern below the base.
func (s *site) handle(pattern string, read func(*http.Request) (*view, error)) {
	serve := s.page(read)
	s.mux.HandleFunc("GET "+s.Base+pattern, serve)
	s.pages.HandleFunc("GET "+s.Base+pattern, serve)
}

func (s *site) missing(w http.ResponseWriter, r *http.Request) {
	s.fail(w, r, notFound("there is no page at %s", r.URL.Path))
}

// Close ends background work and waits for it: the subscription to events for open pages of
// activity, and actions on many jobs, which stop after their current step. The caller should call
// Close after the last request, before closing the clients.
func (h *Handler) Close() {
	h.looks.halt()
	for _, s := range h.sites() {
		s.feed.halt()
		s.exams.halt()
	}
	h.history.Close()
	h.background.Wait()
}

func (h *Handler) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+h.options.Prefix+"/static/", static(h.options.Prefix))
	if first := h.sites()[0]; first.Base != h.options.Prefix {
		all := "GET " + h.options.Prefix + "/{$}"
		mux.HandleFunc(all, first.page(h.sum))
		first.pages.HandleFunc(all, first.page(h.sum))
	}
	mux.HandleFunc(h.options.Prefix+"/", func(w http.ResponseWriter, r *http.Request) {
		h.known.Load().mux.ServeHTTP(w, r)
	})
	if h.options.Prefix != "" {
		first := http.RedirectHandler(h.options.Prefix+"/", http.StatusSeeOther)
		mux.Handle("GET "+h.options.Prefix, first)
	}
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(h.refuseForeign))
	safe := packed(protection.Handler(mux))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		if !h.isNamed(r) {
			h.refuseHost(w, r)
			return
		}
		safe.ServeHTTP(w, r)
	})
}

// policy allows a browser to load only content served by the dashboard.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// colours are the valid values of [Options].Colour.
var colours = []string{"red", "amber", "green", "blue", "violet"}

func (o *Options) check() error {
	switch {
	case o.Prefix != "" && !strings.HasPrefix(o.Prefix, "/"):
		return invalid("Options.Prefix %q does not begin with a slash", o.Prefix)
	case o.Colour != "" && !slices.Contains(colours, o.Colour):
		return invalid("Options.Colour %q is none of %s", o.Colour, strings.Join(colours, ", "))
	case o.Interval < 0:
		return invalid("Options.Interval %v is negative", o.Interval)
	case o.Late < 0:
		return invalid("Options.Late %v is negative", o.Late)
	}
	return nil
}

func (o *Options) setDefaults() {
	o.Prefix = strings.TrimRight(o.Prefix, "/")
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Late == 0 {
		o.Late = doctor.Late
	}
	if o.Interval == 0 {
		o.Interval = sampleTurn
	}
	if o.User == nil {
		o.User = userOf
	}
	o.guard()
}
