package browsertest

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A markup keeps the HTML of pages for the Nu checker.
type markup struct {
	jar   string // of the checker, or empty if it is not installed
	dir   string
	paths []string
}

func newMarkup(t *testing.T) *markup {
	t.Helper()
	jar := filepath.FromSlash(tools + "vnu-jar/build/dist/vnu.jar")
	_, err := os.Stat(jar)
	if err == nil {
		_, err = exec.LookPath("java")
	}
	if err != nil {
		t.Log("left out: the Nu checker or Java is not installed, see .ci/install browser")
		jar = ""
	}
	return &markup{jar: jar, dir: t.TempDir()}
}

// keep fetches a page.
func (m *markup) keep(b *board, path string) {
	b.t.Helper()
	if m.jar == "" {
		return
	}
	page, _ := fetch(b.t, b.url+path)
	name := filepath.Join(m.dir, fmt.Sprintf("%03d.html", len(m.paths)))
	require.NoError(b.t, os.WriteFile(name, page, 0o600))
	m.paths = append(m.paths, path)
}

// check fails the test if a page is not valid.
func (m *markup) check(t *testing.T) {
	t.Helper()
	if m.jar == "" {
		return
	}
	said, err := exec.CommandContext(t.Context(), "java", "-Xss8m", "-jar", m.jar,
		"--errors-only", "--skip-non-html", m.dir).CombinedOutput()
	if err == nil {
		return
	}
	for i, path := range m.paths {
		t.Logf("%03d.html is %s", i, path)
	}
	t.Errorf("the pages are not valid: %s", said)
}

// fetch returns a page and its response.
func fetch(t *testing.T, url string) ([]byte, *http.Response) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	request.Header.Set("Accept", "text/html")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return body, response
}
