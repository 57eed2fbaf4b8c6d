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
	"github.com/qless/qless-go/web/internal/words"
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
	names, bases := map[string]bool{}, map[string]bool{}
	for i, source := range sources {
		if source.Client == nil {
			return nil, invalid("a Source has no Client")
		}
		if source.Name == "" {
			source.Name = source.Client.Namespace()
		}
		if names[source.Name] {
			return nil, invalid("two Sources are called %q", source.Name)
		}
		names[source.Name] = true
		base := options.Prefix
		if len(sources) > 1 {
			base += "/in/" + space(source.Name, i)
		}
		if bases[base] {
			return nil, invalid("the Source %q has the path of another one", source.Name)
		}
		bases[base] = true
		h.sites = append(h.sites, newSite(h, source, base))
	}
	h.root = h.routes()
	return h, nil
}

// A page is read once for all of its concurrent viewers.
type page struct {
	path, template string
	section        string // its section of the navigation
	read           func(s *site, ctx context.Context, q query) (*view, error)
	parameters     string // the parameters of the URL that it depends on, besides the name
}

var pages = []page{
	{"/{$}", "overview", "overview", (*site).overview, ofQueues + " over by"},
	{"/queues", "queues", "queues", (*site).queues, ofQueues},
	{"/queues/{name}", "queue", "queues", (*site).queue, "list day over by" + ofLists},
	{"/queues/{name}/why", "why", "queues", (*site).why, ""},
	{"/jobs/{name}", "job", "find", (*site).job, "zoom"},
	{"/jobs/{name}/graph", "graph", "find", (*site).graph, ""},
	{"/find", "find", "find", (*site).find, "q in state queue since until next"},
	{"/failures", "failures", "failures", (*site).failures, "q since until from sort over"},
	{"/failures/{name}", "failure", "failures", (*site).failure, ofLists},
	{"/klasses", "klasses", "klasses", (*site).klasses, "over queue from sort"},
	{"/klasses/{name}", "klass", "klasses", (*site).klass, "over by"},
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
	{"/batches", "batches", "batches", (*site).batches, "state next sort"},
	{"/unique", "unique", "unique", (*site).unique, "key after"},
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
		s.views.keep(addressOf(r), v)
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
	last := s.views.get(addressOf(r))
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
// activity, and actions on many jobs, which stop after their current step. Call it after the last
// request, before closing the clients.
func (h *Handler) Close() {
	for _, s := range h.sites {
		s.feed.halt()
		s.exams.halt()
	}
	h.history.Close()
	h.background.Wait()
}

func (h *Handler) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+h.options.Prefix+"/static/", static(h.options.Prefix))
	for _, s := range h.sites {
		mux.Handle(s.Base+"/", s)
	}
	if len(h.sites) > 1 {
		first, all := h.sites[0], "GET "+h.options.Prefix+"/{$}"
		mux.HandleFunc(all, first.page(h.sum))
		first.pages.HandleFunc(all, first.page(h.sum))
	}
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

// policy allows a browser to load only content that the dashboard itself serves.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// colours are those of [Options].
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

// A section is an entry of the navigation. Key is the letter that leads to it after a g.
type section struct {
	Name, Title, Path, Key string
	Icon                   string // a path in a square of 16
	Count                  string // a count for it, if known
	Bad                    bool   // it needs attention
}

// A group is a part of the navigation.
type group struct {
	Title    string
	Sections []section
}

// sections are the entries of the navigation.
var sections = []group{
	{"", []section{
		{"overview", "Overview", "", "o", "M2 2h5v5H2zM9 2h5v5H9zM2 9h5v5H2zM9 9h5v5H9z", "", false},
		{"queues", "Queues", "queues", "q", "M2 4h12M2 8h12M2 12h8", "", false},
	}},
	{"Jobs", []section{
		{"find", "Find", "find", "n", "M7 2a5 5 0 1 0 0 10A5 5 0 0 0 7 2zM11 11l3 3", "", false},
		{"failures", "Failures", "failures", "f", "M8 2l6.5 12h-13zM8 6.5V10M8 11.7v1", "", false},
		{"completed", "Completed", "completed", "c", "M2.5 8.5L6 12l7.5-8", "", false},
		{"batches", "Batches", "batches", "b", "M2 2h8v8H2zM6 12.5v1.5h8V6h-1.5", "", false},
		{"unique", "Unique keys", "unique", "u",
			"M5.5 5.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zM8 8h6v2.5M11.5 8v2", "", false},
		{"klasses", "Klasses", "klasses", "k", "M6 3L2 8l4 5M10 3l4 5-4 5", "", false},
		{"tags", "Tags", "tags", "e", "M2 2h6l6 6-6 6-6-6zM5 5h.5", "", false},
		{"tracked", "Tracked", "tracked", "t", "M4 2h8v12l-4-3-4 3z", "", false},
	}},
	{"Work", []section{
		{"workers", "Workers", "workers", "w", "M2 3h12v8H2zM5 14h6M8 11v3", "", false},
		{"recurring", "Recurring", "recurring", "r", "M13 6A5.5 5.5 0 1 0 13.5 9M13 2v4H9", "", false},
		{"schedules", "Schedules", "schedules", "d",
			"M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 4.5V8l2.5 1.5", "", false},
		{"limits", "Limits", "limits", "l", "M2 12a6 6 0 1 1 12 0M8 12l3-4", "", false},
	}},
	{"System", []section{
		{"activity", "Activity", "activity", "a", "M1 8h3l2-5 4 10 2-5h3", "", false},
		{"doctor", "Doctor", "doctor", "h", "M6 2h4v4h4v4h-4v4H6v-4H2V6h4z", "", false},
		{"server", "Server", "server", "v", "M2 3h12v4H2zM2 9h12v4H2zM4 5h1M4 11h1", "", false},
		{"settings", "Settings", "settings", "s",
			"M2 4h6M11 4h3M9.5 2.5v3M2 8h1M6 8h8M4.5 6.5v3M2 12h7M12 12h2M10.5 10.5v3", "", false},
	}},
}

// Navigation returns the sections with the counts of the last status.
func (f *frame) Navigation() []group {
	all := make([]group, len(sections))
	for i, one := range sections {
		all[i] = group{one.Title, slices.Clone(one.Sections)}
		for j := range all[i].Sections {
			f.Site.count(&all[i].Sections[j])
		}
	}
	return all
}

// count adds a count to a section.
func (s *site) count(section *section) {
	if n := s.exams.serious(); section.Name == "doctor" && n > 0 {
		section.Count, section.Bad = words.Number(n), true
	}
	status := s.last.Load()
	if status == nil {
		return
	}
	n := 0
	switch section.Name {
	case "queues":
		n = status.Total
	case "workers":
		n = status.Workers.Registered
	case "failures":
		n, section.Bad = status.Failed(), true
	case "limits":
		if full := len(status.FullLimits); full > 0 {
			section.Count, section.Bad = words.Number(full)+" full", true
		}
	}
	if n > 0 {
		section.Count = words.Number(n)
	}
}

// IsThumb reports whether the section is one of the four at the bottom of a phone.
func (s section) IsThumb() bool {
	return slices.Contains([]string{"overview", "queues", "failures", "workers"}, s.Name)
}
