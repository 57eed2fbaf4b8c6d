package web

import (
	"bytes"
	"cmp"
	"embed"
	"html/template"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/web/internal/actions"
	"github.com/qless/qless-go/web/internal/charts"
	"github.com/qless/qless-go/web/internal/words"
)

// functions are the functions of templates.
var functions = template.FuncMap{
	"age":       units.Age,
	"rate":      func(r float64) string { text, _ := figure(r); return text },
	"number":    words.Number,
	"ago":       words.Ago,
	"clock":     words.Clock,
	"iso":       iso,
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

// static serves the style sheet, the script and the icon.
func static(prefix string) http.Handler {
	server := http.StripPrefix(prefix, http.FileServerFS(files))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/") { // a directory would be listed
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Cache-Control", "public, max-age=3600")
		server.ServeHTTP(w, r)
	})
}

// row passes two values to a template.
func row(frame, item any) map[string]any { return map[string]any{"Frame": frame, "Item": item} }

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

// show answers a request for a page with JSON, HTML, or the changing part of the page.
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

//go:embed templates/*.html static/*
var files embed.FS
