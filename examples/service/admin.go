package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/web"
)

// adminPath is where the dashboard is mounted.
const adminPath = "/admin"

// newAdmin returns the dashboard of the queues, for the user "admin" with a password.
func newAdmin(client *qless.Client, password string) (http.Handler, error) {
	dashboard, err := web.New(web.Options{Prefix: adminPath}, web.Source{Client: client})
	if err != nil {
		return nil, err
	}
	return authenticated(dashboard, password), nil
}

// authenticated asks for the user "admin" and a password before it passes requests on.
func authenticated(next http.Handler, password string) http.Handler {
	want := sha256.Sum256([]byte(password))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, given, _ := r.BasicAuth()
		got := sha256.Sum256([]byte(given))
		if user != "admin" || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="admin"`)
			http.Error(w, "want the password of the user admin", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
