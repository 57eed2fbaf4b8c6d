package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web/internal/actions"
	"github.com/qless/qless-go/web/internal/rates"
	"github.com/qless/qless-go/web/internal/words"
)

// A site has the pages of one namespace.
type site struct {
	Source
	handler *Handler
	in      *inspect.Inspector
	space   *actions.Space
	Base    string // the path of its pages, without a trailing slash
	mux     *http.ServeMux
	pages   *http.ServeMux // the pages, and nothing else
	samples samples
	denials denials
	feed    feed
	tallies rates.Tallies
	groups  gradual[string, groupRow]
	growth  growth
	days    days
	runs    gradual[string, workerRun]
	exams   exams
	keys    keyScan
	views   lastViews
	last    atomic.Pointer[doctor.Status] // the last status that was read
}

// A page is read once for all of its concurrent viewers.
type page struct {
	path, template string
	section        string // its section of the navigation
	read           func(s *site, ctx context.Context, q query) (*view, error)
	parameters     string // the parameters of the URL that it depends on, besides the name
}

// ofLists are the parameters of a page with a list of jobs.
const ofLists = " from klass tag jid data after looked sort"

// ofQueues are the parameters of a page with a table of queues.
const ofQueues = "sort q only from"

var pages = []page{
	{"/{$}", "overview", "overview", (*site).overview, ofQueues + " over by"},
	{"/queues", "queues", "queues", (*site).queues, ofQueues},
	{"/queues/{name}", "queue", "queues", (*site).queue, "list day over by" + ofLists},
	{"/queues/{name}/why", "why", "queues", (*site).why, ""},
	{"/jobs/{name}", "job", "find", (*site).job, "zoom"},
	{"/jobs/{name}/graph", "graph", "find", (*site).graph, ""},
	{"/find", "find", "find", (*site).find, "q in state queue next"},
	{"/failures", "failures", "failures", (*site).failures, "q from sort over"},
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

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// handle serves a page at a pattern below the base.
func (s *site) handle(pattern string, read func(*http.Request) (*view, error)) {
	serve := s.page(read)
	s.mux.HandleFunc("GET "+s.Base+pattern, serve)
	s.pages.HandleFunc("GET "+s.Base+pattern, serve)
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
		s.views.keep(r.URL.RequestURI(), v)
		s.show(w, r, v)
	}
}

// failPage answers a request for a page with an error, or with the last reading of the page if the
// server does not answer.
func (s *site) failPage(w http.ResponseWriter, r *http.Request, err error) {
	last := s.views.get(r.URL.RequestURI())
	if last == nil || statusOf(err) != http.StatusServiceUnavailable || prefersJSON(r) {
		s.fail(w, r, err)
		return
	}
	s.show(w, r, last)
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

// A query holds the subject and the parameters of a page's URL.
type query struct {
	path string // the pattern of the page
	name string
	url.Values
}

// from returns the first requested row.
func (q query) from() int {
	from, err := strconv.Atoi(q.Get("from"))
	if err != nil {
		return 0
	}
	return max(0, from)
}

func (s *site) missing(w http.ResponseWriter, r *http.Request) {
	s.fail(w, r, notFound("there is no page at %s", r.URL.Path))
}

// Link returns the URL of something with a name: /queues/mail. Names with dots or slashes, which
// URLs treat as directories, become parameters: /queues/-?name=..
func (s *site) Link(kind, name string) string {
	isDots := strings.Trim(name, ".") == ""
	if isDots || name == "-" || name == "/" {
		return s.Base + "/" + kind + "/-?name=" + url.QueryEscape(name)
	}
	return s.Base + "/" + kind + "/" + url.PathEscape(name)
}

// Sub returns the URL of a page below that of something with a name: /queues/mail/why
func (s *site) Sub(kind, name, page string) string {
	path, query, hasQuery := strings.Cut(s.Link(kind, name), "?")
	if hasQuery {
		return path + "/" + page + "?" + query
	}
	return path + "/" + page
}

// nameOf returns the name in a URL made by Link.
func nameOf(r *http.Request) string {
	query := r.URL.Query()
	name, err := url.QueryUnescape(query.Get("name" + actions.EscapedMark))
	if err == nil && name != "" {
		return name
	}
	if query.Has("name") {
		return query.Get("name")
	}
	return r.PathValue("name")
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

// rows are the rows of a list that a page shows.
type rows struct{ From, Shown, Total, Size int }

// First and Last return the numbers of the first and last row, counted from 1.
func (r rows) First() int { return min(r.From+1, r.Total) }
func (r rows) Last() int  { return r.From + r.Shown }

// HasNext reports whether there is a next page, and Next returns its first row.
func (r rows) HasNext() bool { return r.Last() < r.Total }
func (r rows) Next() string  { return strconv.Itoa(r.From + r.Size) }

// HasPrevious reports whether there is a previous page, and Previous returns its first row.
func (r rows) HasPrevious() bool { return r.From > 0 }
func (r rows) Previous() string  { return strconv.Itoa(max(0, r.From-r.Size)) }

// part returns up to n items of a list, starting at from.
func part[T any](all []T, from, n int) []T {
	from = min(from, len(all))
	return all[from:min(from+n, len(all))]
}

func notFound(format string, args ...any) error {
	return &qless.Error{
		Code: qless.ErrNotFound, Op: "web", Message: fmt.Sprintf(format, args...),
	}
}
