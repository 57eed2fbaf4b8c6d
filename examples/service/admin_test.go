package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheDashboardIsForTheAdminOnly(t *testing.T) {
	f := newFixture(t)
	f.signUp(t, "ann@example.com")
	admin, err := newAdmin(f.Client(), "secret")
	require.NoError(t, err)
	for password, want := range map[string]int{
		"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, "secret": http.StatusOK,
	} {
		r := httptest.NewRequest(http.MethodGet, adminPath+"/", nil)
		r.SetBasicAuth("admin", password)
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, r)
		require.Equal(t, want, w.Code)
		if want == http.StatusOK {
			require.Contains(t, w.Body.String(), adminPath+"/queues/"+mailQueue)
		}
	}
}
