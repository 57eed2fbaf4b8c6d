package web

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/web/internal/actions"
)

// A view is the content of a page.
type view struct {
	template string // the name of the template, without .html
	status   int    // of the response, or 0 for 200
	Title    string
	Section  string    // section of the navigation
	Data     any       // the data of the template, and of the JSON
	isStill  bool      // not updated while open
	isOver   bool      // no longer updated, but pages opened before are
	isPart   bool      // not read completely: reloaded even without JavaScript
	refresh  int       // the seconds until a reload without JavaScript, or 0
	goTo     string    // the page to show in its place, or ""
	search   *search   // the search partly shown, or nil
	order    order     // of the rows of the table
	Old      time.Time // when the view was read, if the server has not answered since

	runs map[string]jobRun // of the jobs in the list
}

// A frame is the argument of a template.
type frame struct {
	*view
	Site    *site
	Request *http.Request
	Outcome *actions.Outcome // the outcome of the last action, if the page follows one

	once string
}

// Refresh returns the seconds until the page is reloaded without JavaScript, or 0 for never.
func (f *frame) Refresh() int {
	if f.isPart {
		return 2
	}
	return f.refresh
}

// Run returns the run of a job, if known.
func (v *view) Run(jid string) jobRun { return v.runs[jid] }

// Now returns the time, for ages in the browser.
func (f *frame) Now() string { return iso(time.Now()) }

// Live returns the URL of the page's updates, or "" without updates.
func (f *frame) Live() string {
	if f.isStill || f.isOver {
		return ""
	}
	return f.Site.Base + "/live?page=" + url.QueryEscape(f.Here())
}

// Here returns the path and query of the page.
func (f *frame) Here() string { return f.with(nil) }

// With returns the page's own URL with one parameter changed, or removed if the value is empty. The
// URL starts at the first row.
func (f *frame) With(parameter, value string) string {
	return f.with(url.Values{
		"from": nil, "after": nil, "examined": nil, "passed": nil, "next": nil, "stop": nil,
		parameter: {value},
	})
}

// Over returns the page's own URL for an available time.
func (f *frame) Over(span string) string {
	return f.with(url.Values{"from": nil, "since": nil, "until": nil, "over": {span}})
}

// GoOn returns the URL to load next for a search that found nothing yet, or "".
func (f *frame) GoOn() string {
	s := f.search
	if s == nil || s.Next == "" || s.hasFound || f.Request.FormValue("stop") != "" {
		return ""
	}
	return f.Continue(s)
}

// Continue returns the URL for continuing a search.
func (f *frame) Continue(s *search) string {
	return f.with(url.Values{
		s.param: {s.Next}, "examined": {strconv.Itoa(s.Examined)}, "passed": {strconv.Itoa(s.Large)},
		"stop": nil,
	})
}

// Stopped returns the URL of a search that does not continue by itself.
func (f *frame) Stopped() string { return f.with(url.Values{"stop": {"1"}}) }

// with returns the page's own URL with some parameters changed, or removed if without value.
func (f *frame) with(parameters url.Values) string {
	query := f.Request.URL.Query()
	query.Del("outcome")
	for name, values := range parameters {
		if query.Del(name); len(values) > 0 && values[0] != "" {
			query[name] = values
		}
	}
	path := f.Request.URL.EscapedPath()
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// Others returns inputs for a form to keep the parameters of the URL, except for some.
func (f *frame) Others(but ...string) (inputs []actions.Hidden) {
	query := f.Request.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if name != "outcome" && !slices.Contains(but, name) {
			inputs = append(inputs, actions.Hidden{Name: name, Value: query.Get(name)})
		}
	}
	return inputs
}

// sitesShown is the number of namespaces that a page links to. The page of all namespaces links to
// the others.
const sitesShown = 20

// Sites returns the namespaces to switch between: of many, the neighbors of the page's namespace.
func (f *frame) Sites() []*site {
	all := f.Site.handler.sites()
	from := slices.Index(all, f.Site) - sitesShown/2
	return part(all, max(0, min(from, len(all)-sitesShown)), sitesShown)
}

// MoreSites returns the number of the other namespaces.
func (f *frame) MoreSites() int { return len(f.Site.handler.sites()) - len(f.Sites()) }

// Prefix returns the path at which the dashboard is mounted.
func (s *site) Prefix() string { return s.handler.options.Prefix }

// Environment and Colour return the options of these names.
func (s *site) Environment() string { return s.handler.options.Environment }
func (s *site) Colour() string      { return s.handler.options.Colour }

// isFragment is the context key for requesting only the changing part of a page. The value is the
// page's word for forms.
type isFragment struct{}

// prefersJSON reports whether a request prefers JSON to HTML, by its header or the parameter
// format.
func prefersJSON(r *http.Request) bool {
	if r.Context().Value(isFragment{}) != nil {
		return false
	}
	if r.URL.Query().Get("format") == "json" {
		return true
	}
	accept := r.Header.Get("Accept")
	at := strings.Index(accept, "application/json")
	html := strings.Index(accept, "text/html")
	return at >= 0 && (html < 0 || at < html)
}

func writeJSON(w http.ResponseWriter, status int, data any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(data)
}

// An order is the column for sorting rows, and the direction.
type order struct {
	column string
	isBack bool
}

// An errorData describes an error.
type errorData struct {
	Status  int        `json:"status"`
	Code    qless.Code `json:"code,omitempty"`
	Message string     `json:"error"`
	Hint    string     `json:"hint,omitempty"` // advice
	Back    string     `json:"-"`              // the page with the form, if the error answers a form
}

// A jobRun is a run of a job, with the usual duration.
type jobRun struct {
	*qless.Job
	Since time.Time
	usualRun
}

// A usualRun has the time within which most runs of a klass in a queue end, and that of a long run.
type usualRun struct{ Usual, long time.Duration }

type queueKlass struct{ queue, klass string }

// IsLong reports whether the run takes much longer than usual, as in [doctor.Status].
func (r jobRun) IsLong() bool { return r.long > 0 && time.Since(r.Since) >= r.long }

// unknown returns the page of a missing queue, worker or limit. Queues and limits can begin there.
func unknown(name, message string) *view {
	return &view{
		template: "unknown", status: http.StatusNotFound, Title: name,
		Data: errorData{Status: http.StatusNotFound, Code: qless.ErrNotFound, Message: message},
	}
}

func iso(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
