package web

import (
	"bytes"
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
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/web/internal/actions"
	"github.com/qless/qless-go/web/internal/charts"
	"github.com/qless/qless-go/web/internal/words"
)

// A view is what a page shows.
type view struct {
	template string // the name of its template, without .html
	Title    string
	Section  string // the part of the navigation that it is in
	Data     any    // what the template gets, and what is sent as JSON
	isStill  bool   // it is not updated while it is open
	isOver   bool   // it is not updated any more, but one that was opened before is
	isPart   bool   // there is more to read: it is loaded again even without JavaScript
	refresh  int    // after how many seconds it is loaded again without JavaScript, or 0
	goTo     string // another page to show in its place, if not empty
	order    order  // of the rows of its table
}

// A frame is what a template gets.
type frame struct {
	*view
	Site    *site
	Request *http.Request
	Outcome *actions.Outcome // what the last action has done, if this page follows it

	once string
}

// Refresh is after how many seconds the page is loaded again without JavaScript, or 0 for never.
func (f *frame) Refresh() int {
	if f.isPart {
		return 2
	}
	return f.refresh
}

// Live is where updates of the page come from, or empty if there are none.
func (f *frame) Live() string {
	if f.isStill || f.isOver {
		return ""
	}
	return f.Site.Base + "/live?page=" + url.QueryEscape(f.Here())
}

// Here is the path and query of the page.
func (f *frame) Here() string { return f.with(nil) }

// With is the page's own URL with one parameter changed, or removed if the value is empty. It
// begins at the first row again.
func (f *frame) With(parameter, value string) string {
	return f.with(url.Values{"from": nil, "after": nil, parameter: {value}})
}

// with is the page's own URL with some parameters changed, or removed if they have no value.
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

// Others are the inputs of a form that keep the parameters of the URL but for some.
func (f *frame) Others(but ...string) (inputs []actions.Hidden) {
	query := f.Request.URL.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if name != "outcome" && !slices.Contains(but, name) {
			inputs = append(inputs, actions.Hidden{Name: name, Value: query.Get(name)})
		}
	}
	return inputs
}

// Sites are the namespaces to switch between.
func (f *frame) Sites() []*site { return f.Site.handler.sites }

// Prefix is the path below which the dashboard is mounted.
func (s *site) Prefix() string { return s.handler.options.Prefix }

// isFragment is the key of a context value that asks for the part of a page that is updated. The
// value is the page's word for forms.
type isFragment struct{}

// show answers a request for a page: as JSON, HTML, or the part of it that is updated.
func (s *site) show(w http.ResponseWriter, r *http.Request, v *view) {
	if v.goTo != "" {
		http.Redirect(w, r, v.goTo, http.StatusSeeOther)
		return
	}
	if prefersJSON(r) {
		writeJSON(w, http.StatusOK, v.Data)
		return
	}
	s.write(w, r, http.StatusOK, v)
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
	Back    string     `json:"-"` // the page with the form, if it is the answer to one
}

// fail answers a request with an error.
func (s *site) fail(w http.ResponseWriter, r *http.Request, err error) {
	data := errorData{Status: statusOf(err), Code: codeOf(err), Message: err.Error()}
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

// prefersJSON reports whether a request asks for JSON rather than for HTML, by its header or by the
// parameter format.
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
		if strings.HasSuffix(r.URL.Path, "/") { // a folder, which would be listed
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "public, max-age=3600")
		server.ServeHTTP(w, r)
	})
}

// functions are what templates call.
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
	"sub1":      func(n int) int { return n - 1 },
	"advice":    adviceOn,
	"process":   process,
	"program":   program,
	"took":      words.Took,
	"exact":     words.Exact,
	"columns":   columnsOf,
	"bucket":    func(b qless.Bucket) string { return units.Duration(b.From) },
	"bars":      charts.Histogram,
	"pretty":    words.JSON,
	"shortened": words.Shown,
	"cell":      func(label string, value any) template.HTML { return cell(label, value, false) },
	"alarm":     func(label string, value any) template.HTML { return cell(label, value, true) },
	"meter":     meter,
	"short":     shortID,
	"capital":   capital,
	"first":     firstLine,
	"stack":     words.Stack,
	"second":    func(t time.Time) string { return t.UTC().Format("Jan 2 15:04:05") },
	"minute":    func(t time.Time) string { return t.UTC().Format("Jan 2 15:04") },
}

// row passes two values to a template.
func row(frame, item any) map[string]any { return map[string]any{"Frame": frame, "Item": item} }
