package web

import (
	"bytes"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"github.com/qless/qless-go"
)

// A view is what a page shows.
type view struct {
	template string // the name of its template, without .html
	title    string
	section  string // the part of the navigation that it is in
	data     any    // what the template gets, and what is sent as JSON
	isStill  bool   // it is not updated while somebody looks at it
	isPart   bool   // there is more to read: it is loaded again even without JavaScript
	refresh  int    // after how many seconds it is loaded again without JavaScript, or 0
	goTo     string // another page to show in its place, if not empty
}

// A frame is what a template gets.
type frame struct {
	*view
	Site    *site
	Request *http.Request
	Outcome *outcome // what the last action has done, if this page follows it

	once string
}

// Data is what the page shows.
func (f *frame) Data() any { return f.data }

// Title is the title of the page.
func (f *frame) Title() string { return f.title }

// Refresh is after how many seconds the page is loaded again without JavaScript, or 0 for never.
func (f *frame) Refresh() int {
	if f.isPart {
		return 2
	}
	return f.refresh
}

// IsIn reports whether the page is in a part of the navigation.
func (f *frame) IsIn(section string) bool { return f.section == section }

// Live is where updates of the page come from, or empty if there are none.
func (f *frame) Live() string {
	if f.isStill {
		return ""
	}
	query := f.Request.URL.Query()
	query.Del("outcome")
	path := f.Request.URL.EscapedPath()
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return f.Site.base + "/live?page=" + url.QueryEscape(path)
}

// Here is the path and query of the page.
func (f *frame) Here() string { return hereOf(f.Request) }

func hereOf(r *http.Request) string {
	here := *r.URL
	query := here.Query()
	query.Del("outcome")
	here.RawQuery = query.Encode()
	return here.RequestURI()
}

// With is the page's own URL with one parameter changed, or removed if the value is empty. It
// begins at the first row again.
func (f *frame) With(parameter, value string) string {
	query := f.Request.URL.Query()
	query.Del("outcome")
	query.Del("from")
	query.Del("after")
	if value == "" {
		query.Del(parameter)
	} else {
		query.Set(parameter, value)
	}
	path := f.Request.URL.EscapedPath()
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// Sites are the namespaces to switch between.
func (f *frame) Sites() []*site { return f.Site.handler.sites }

// May reports whether an action is offered to the viewer.
func (f *frame) May(action Action) bool { return f.Site.may(f.Request, action) }

// Prefix is the path below which the dashboard is mounted.
func (s *site) Prefix() string { return s.handler.options.Prefix }

// Base is the path before those of the site's pages.
func (s *site) Base() string { return s.base }

// Link is the URL of something with a name.
func (s *site) Link(kind, name string) string { return s.link(kind, name) }

// Sub is the URL of a page below that of something with a name.
func (s *site) Sub(kind, name, page string) string { return s.sub(kind, name, page) }

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
		writeJSON(w, http.StatusOK, v.data)
		return
	}
	s.write(w, r, http.StatusOK, v)
}

func (s *site) write(w http.ResponseWriter, r *http.Request, status int, v *view) {
	f := &frame{view: v, Site: s, Request: r, Outcome: s.outcomeOf(r)}
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

// An errorData says what went wrong.
type errorData struct {
	Status  int        `json:"status"`
	Code    qless.Code `json:"code,omitempty"`
	Message string     `json:"error"`
}

// fail answers a request with an error.
func (s *site) fail(w http.ResponseWriter, r *http.Request, err error) {
	data := errorData{Status: statusOf(err), Code: codeOf(err), Message: err.Error()}
	if prefersJSON(r) {
		writeJSON(w, data.Status, data)
		return
	}
	s.write(w, r, data.Status, &view{
		template: "error", title: http.StatusText(data.Status), data: data, isStill: true,
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
