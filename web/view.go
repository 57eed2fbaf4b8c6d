package web

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/web/internal/actions"
	"github.com/qless/qless-go/web/internal/charts"
	"github.com/qless/qless-go/web/internal/words"
)

// A view is the content of a page.
type view struct {
	template string // the name of its template, without .html
	status   int    // of the response, or 0 for 200
	Title    string
	Section  string    // its section of the navigation
	Data     any       // the data of the template, and of the JSON
	isStill  bool      // it is not updated while it is open
	isOver   bool      // it is no longer updated, but pages opened before are
	isPart   bool      // there is more to read: it is reloaded even without JavaScript
	refresh  int       // the seconds after which it is reloaded without JavaScript, or 0
	goTo     string    // the page to show in its place, or ""
	order    order     // of the rows of its table
	Old      time.Time // when it was read, if the server has not answered since
}

// A frame is the argument of a template.
type frame struct {
	*view
	Site    *site
	Request *http.Request
	Outcome *actions.Outcome // the outcome of the last action, if this page follows it

	once string
}

// Refresh returns the seconds after which the page is reloaded without JavaScript, or 0 for never.
func (f *frame) Refresh() int {
	if f.isPart {
		return 2
	}
	return f.refresh
}

// Live returns the URL of the page's updates, or "" if there are none.
func (f *frame) Live() string {
	if f.isStill || f.isOver {
		return ""
	}
	return f.Site.Base + "/live?page=" + url.QueryEscape(f.Here())
}

// Here returns the path and query of the page.
func (f *frame) Here() string { return f.with(nil) }

// With returns the page's own URL with one parameter changed, or removed if the value is empty. It
// starts at the first row.
func (f *frame) With(parameter, value string) string {
	return f.with(url.Values{
		"from": nil, "after": nil, "examined": nil, "next": nil, parameter: {value},
	})
}

// with returns the page's own URL with some parameters changed, or removed if they have no value.
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

// Others returns the inputs of a form that keep the parameters of the URL, except for some.
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

// Sites returns the namespaces to switch between. If there are many, they are the ones around that
// of the page.
func (f *frame) Sites() []*site {
	all := f.Site.handler.sites
	from := slices.Index(all, f.Site) - sitesShown/2
	return part(all, max(0, min(from, len(all)-sitesShown)), sitesShown)
}

// MoreSites returns the number of the other namespaces.
func (f *frame) MoreSites() int { return len(f.Site.handler.sites) - len(f.Sites()) }

// Prefix returns the path at which the dashboard is mounted.
func (s *site) Prefix() string { return s.handler.options.Prefix }

// isFragment is the key of a context value that requests only the part of a page that is updated.
// The value is the page's word for forms.
type isFragment struct{}

// show answers a request for a page with JSON, HTML, or the part of it that is updated.
func (s *site) show(w http.ResponseWriter, r *http.Request, v *view) {
	if v.goTo != "" {
		http.Redirect(w, r, v.goTo, http.StatusSeeOther)
		return
	}
	status := cmp.Or(v.status, http.StatusOK)
	if prefersJSON(r) {
		writeJSON(w, status, v.Data)
		return
	}
	s.write(w, r, status, v)
}

func (s *site) write(w http.ResponseWriter, r *http.Request, status int, v *view) {
	f := &frame{view: v, Site: s, Request: r}
	f.Outcome = s.space.History.Outcome(s.space, r.URL.Query().Get("outcome"))
	part := "layout"
	if r.Context().Value(isFragment{}) != nil {
		part = "content"
	}
	var page bytes.Buffer
	if err := templates[v.template].ExecuteTemplate(&page, part, f); err != nil {
		s.handler.options.Logger.Error("a page can't be shown", "page", v.template, "error", err)
		http.Error(w, "the page can't be shown", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(bytes.ToValidUTF8(page.Bytes(), []byte("\ufffd")))
}

// An errorData describes an error.
type errorData struct {
	Status  int        `json:"status"`
	Code    qless.Code `json:"code,omitempty"`
	Message string     `json:"error"`
	Hint    string     `json:"hint,omitempty"` // advice
	Back    string     `json:"-"`              // the page with the form, if it answers one
}

// fail answers a request with an error.
func (s *site) fail(w http.ResponseWriter, r *http.Request, err error) {
	data := errorData{
		Status: statusOf(err), Code: codeOf(err), Message: err.Error(), Hint: redisx.Hint(err),
	}
	if back := r.PostForm.Get("back"); back != "" {
		data.Back = s.ownPage(back).RequestURI()
	}
	if prefersJSON(r) {
		writeJSON(w, data.Status, data)
		return
	}
	s.write(w, r, data.Status, &view{
		template: "error", Title: http.StatusText(data.Status), Data: data, isStill: true,
	})
}

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

// A page's template is the layout with the page's "content".
var templates = parseTemplates()

func parseTemplates() map[string]*template.Template {
	all := map[string]*template.Template{}
	shared := template.Must(template.New("").Funcs(functions).ParseFS(files,
		"templates/layout.html", "templates/parts.html", "templates/actions.html"))
	names, err := files.ReadDir("templates")
	if err != nil {
		panic(err)
	}
	for _, file := range names {
		name := strings.TrimSuffix(file.Name(), ".html")
		if name == "layout" || name == "parts" || name == "actions" {
			continue
		}
		page := template.Must(shared.Clone())
		all[name] = template.Must(page.ParseFS(files, "templates/"+file.Name()))
	}
	return all
}

//go:embed templates/*.html static/*
var files embed.FS

// static serves the style sheet, the script and the icon.
func static(prefix string) http.Handler {
	server := http.StripPrefix(prefix, http.FileServerFS(files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/") { // a directory, which would be listed
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "public, max-age=3600")
		server.ServeHTTP(w, r)
	})
}

// functions are the functions of templates.
var functions = template.FuncMap{
	"age":       units.Age,
	"rate":      func(r float64) string { text, _ := figure(r); return text },
	"number":    words.Number,
	"ago":       words.Ago,
	"clock":     words.Clock,
	"iso":       func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") },
	"plural":    words.Plural,
	"join":      strings.Join,
	"seconds":   func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'g', 4, 64) },
	"row":       row,
	"hidden":    actions.Hide,
	"pick":      actions.Pick,
	"inwords":   words.Schedule,
	"percent":   words.Percent,
	"few":       few,
	"sub":       func(a, b int) int { return a - b },
	"advice":    adviceOn,
	"process":   process,
	"program":   program,
	"took":      words.Took,
	"columns":   columnsOf,
	"bars":      charts.Histogram,
	"pretty":    words.JSON,
	"shortened": words.Shown,
	"cell":      func(label string, value any) template.HTML { return cell(label, value, false) },
	"alarm":     func(label string, value any) template.HTML { return cell(label, value, true) },
	"meter":     meter,
	"short":     words.ID,
	"capital":   capital,
	"first":     firstLine,
	"stack":     words.Stack,
	"second":    func(t time.Time) string { return t.UTC().Format("Jan 2 15:04:05") },
}

// row passes two values to a template.
func row(frame, item any) map[string]any { return map[string]any{"Frame": frame, "Item": item} }
