package docs

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// root is the folder of the module.
const root = "../.."

// pages returns the paths of all pages, from the root.
func pages(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/internals/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, path := range found {
			path, err = filepath.Rel(root, path)
			require.NoError(t, err)
			paths = append(paths, path)
		}
	}
	require.NotEmpty(t, paths)
	return paths
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	require.NoError(t, err)
	return string(text)
}

// maxColumns is the maximum length of a line, except in a table, which can't be wrapped.
const maxColumns = 100

func TestLinesAreNotTooLong(t *testing.T) {
	for _, page := range pages(t) {
		for i, line := range strings.Split(read(t, page), "\n") {
			if utf8.RuneCountInString(line) > maxColumns && !strings.HasPrefix(line, "|") {
				t.Errorf("%s:%d: the line has more than %d characters", page, i+1, maxColumns)
			}
		}
	}
}

// maxWords is the maximum number of words of the README, the benchmarks and the pages in docs.
const maxWords = 45_000

func TestTheDocumentationStaysShort(t *testing.T) {
	words := 0
	for _, page := range pages(t) {
		if strings.HasPrefix(page, "docs") || page == "README.md" || page == "BENCHMARKS.md" {
			words += len(strings.Fields(read(t, page)))
		}
	}
	require.LessOrEqual(t, words, maxWords)
	require.Greater(t, words, maxWords/2)
}

var (
	linkPattern    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codePattern    = regexp.MustCompile("(?ms)^```.*?^```$|<!--.*?-->|`[^`\n]*`")
	headingPattern = regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchor    = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		text := codePattern.ReplaceAllString(read(t, page), "")
		for _, match := range linkPattern.FindAllStringSubmatch(text, -1) {
			link := match[1]
			if strings.Contains(link, "://") {
				continue
			}
			path, anchor, _ := strings.Cut(link, "#")
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s: %v", page, link, err)
			} else if anchor != "" && !anchors(read(t, target))[anchor] {
				t.Errorf("%s links to %s: there is no such heading", page, link)
			}
		}
	}
}

// anchors returns the anchors of a page's headings on GitHub.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, match := range headingPattern.FindAllStringSubmatch(text, -1) {
		plain := notInAnchor.ReplaceAllString(strings.ToLower(match[1]), "")
		found[strings.ReplaceAll(plain, " ", "-")] = true
	}
	return found
}

func TestPicturesAreXML(t *testing.T) {
	pictures, err := filepath.Glob(filepath.Join(root, "docs", "*.svg"))
	require.NoError(t, err)
	require.NotEmpty(t, pictures)
	for _, picture := range pictures {
		file, err := os.Open(picture)
		require.NoError(t, err)
		decoder := xml.NewDecoder(file)
		for err == nil {
			_, err = decoder.Token()
		}
		require.True(t, errors.Is(err, io.EOF), "%s: %v", picture, err)
		require.NoError(t, file.Close())
	}
}
