package web

import (
	"embed"
	"net/http"
	"strings"
)

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
