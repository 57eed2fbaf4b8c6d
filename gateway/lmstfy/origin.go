package lmstfy

import (
	"net/http"

	"github.com/qless/qless-go/internal/hosts"
)

// guard refuses requests that a browser makes for a page of another site: a browser on the
// operator's machine can reach servers that outsiders can't. If the page's own name is made to
// resolve to this server, the page could even read answers, but then the request has that name as
// its host.
func (s *Server) guard(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		r := requestOf(hr)
		switch {
		case !hosts.Allows(hr.Host, s.config.AdminHosts):
			r.fail(http.StatusForbidden, "the admin API does not answer requests to this host")
		case protection.Check(hr) != nil:
			r.fail(http.StatusForbidden, "the request comes from a page of another site")
		default:
			next.ServeHTTP(w, hr)
		}
	})
}
