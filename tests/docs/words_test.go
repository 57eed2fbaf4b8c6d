package docs

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// checked are the extensions of the checked files.
var checked = []string{".go", ".lua", ".md"}

// readers return the lines of prose in a file's text, by extension.
var readers = map[string]func(text string) []proseLine{
	".go":  goProse,
	".lua": luaProse,
	".md":  pageProse,
}

// rules are patterns of unclear sentences, with the advice for each. A paragraph is one line here.
var rules = []struct {
	pattern *regexp.Regexp
	advice  string
}{
	{regexp.MustCompile(`(?:^|[.:;] )What [^?]*?(?:[.:;]|$)`), "begin with a noun"},
	{regexp.MustCompile(`\b[Tt]hose (?:that|which|who)\b`), `name them, as in "the jobs that"`},
	{regexp.MustCompile(`\b[Ss]omebody\b`), "name the actor: a user, a worker, a caller"},
	{regexp.MustCompile(`\b(?:is|are) to be\b`), `write "must be", or "the jobs to put"`},
	{regexp.MustCompile(`\bgoes on\b`), `write "continues", "moves to" or "keeps running"`},
	{regexp.MustCompile(`\bfor good\b`), "leave it out"},
}

func TestWordsArePlain(t *testing.T) {
	for _, path := range files(t) {
		for _, problem := range wordProblems(path, read(t, path)) {
			t.Error(problem)
		}
	}
}

func TestUnclearWordsAreFound(t *testing.T) {
	for path, text := range map[string]string{
		"a.go":  "package a\n\n// A job that is to\n// be put, of those that wait. What now?\nvar x int // it goes on\n",
		"a.lua": "-- What is left.\nlocal n = 1 -- of those who ask\n--\n-- deleted for good\n",
		"a.md":  "# A\n\nHere\nsomebody waits.\n\n```go\n// somebody\n```\nWhat remains, goes on\n",
	} {
		require.Len(t, wordProblems(path, text), 3, path)
	}
	require.Empty(t, wordProblems("a.go", "package a\n\nvar s = `\n// for good\n`\n"))
}

// Relative clauses and pronouns make comments hard to read. The limits are for 10,000 words.
func TestCommentsReadPlainly(t *testing.T) {
	comments := map[string]*strings.Builder{} // by the first folder
	for _, path := range files(t) {
		text := read(t, path)
		if filepath.Ext(path) == ".md" || strings.HasSuffix(path, "_test.go") ||
			generated.MatchString(text) {
			continue
		}
		folder, _, ok := strings.Cut(filepath.ToSlash(path), "/")
		if !ok {
			folder = "."
		}
		if comments[folder] == nil {
			comments[folder] = new(strings.Builder)
		}
		for _, line := range readers[filepath.Ext(path)](text) {
			comments[folder].WriteString(line.text + "\n")
		}
	}
	require.Greater(t, len(comments), 10)
	for folder, text := range comments {
		count := func(words string) int {
			return len(regexp.MustCompile(`(?i)\b(`+words+`)\b`).FindAllString(text.String(), -1))
		}
		all := max(1000, count(`[a-z']+`))
		for words, most := range map[string]int{
			"which|that|whose": 200, "it|its|they|their|them": 220, "those|ones": 15,
		} {
			assert.LessOrEqual(t, count(words)*10_000/all, most, "%s in %s", words, folder)
		}
	}
}

func TestLinesOfCodeAreNotTooLong(t *testing.T) {
	for _, path := range files(t) {
		text := read(t, path)
		if filepath.Ext(path) == ".md" || generated.MatchString(text) {
			continue // for pages, see TestLinesAreNotTooLong
		}
		for _, number := range longLines(path, text) {
			t.Errorf("%s:%d: the line has more than %d characters", path, number, maxColumns)
		}
	}
}

// generated matches the text of a generated file.
var generated = regexp.MustCompile(`^(?://|--) Code generated .* DO NOT EDIT\.\n`)

// longLines returns the numbers of the lines of code that are too long. In a test, only comments
// count.
func longLines(path, text string) []int {
	var long []int
	if strings.HasSuffix(path, "_test.go") {
		for _, line := range goProse(text) {
			if line.columns > maxColumns {
				long = append(long, line.number)
			}
		}
		return long
	}
	for i, line := range strings.Split(text, "\n") {
		if utf8.RuneCountInString(line) > maxColumns {
			long = append(long, i+1)
		}
	}
	return long
}

// files returns the paths of all files to check, from the root.
func files(t *testing.T) []string {
	t.Helper()
	var paths []string
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "node_modules"):
			return filepath.SkipDir
		case entry.Type().IsRegular() && slices.Contains(checked, filepath.Ext(name)):
			path, err = filepath.Rel(root, path)
			paths = append(paths, path)
		}
		return err
	}))
	require.NotEmpty(t, paths)
	return paths
}

// A proseLine is a line of a page, or the comment of a line of code.
type proseLine struct {
	number  int
	text    string
	columns int // the length of the whole line, in Go; 0 if it also has code
}

// wordProblems returns the places in a file's text that match a rule, with the rule's advice.
func wordProblems(path, text string) []string {
	var problems []string
	for _, paragraph := range paragraphs(readers[filepath.Ext(path)](text)) {
		for _, rule := range rules {
			for _, found := range rule.pattern.FindAllString(paragraph.text, -1) {
				problems = append(problems,
					fmt.Sprintf("%s:%d: %q: %s", path, paragraph.number, found, rule.advice))
			}
		}
	}
	return problems
}

// paragraphs joins adjacent lines. An empty line separates paragraphs.
func paragraphs(lines []proseLine) []proseLine {
	var joined []proseLine
	last := -1 // the number of the last line of the last paragraph
	for _, line := range lines {
		line.text = strings.TrimSpace(line.text)
		switch {
		case line.text == "":
			last = -1
			continue
		case last == line.number-1 && last > 0:
			joined[len(joined)-1].text += " " + line.text
		default:
			joined = append(joined, line)
		}
		last = line.number
	}
	return joined
}

// goProse returns the comments of a Go file, without the output of examples.
func goProse(text string) []proseLine {
	var (
		found    []proseLine
		s        scanner.Scanner
		isOutput bool
		lines    = strings.Split(text, "\n")
		file     = token.NewFileSet().AddFile("", -1, len(text))
	)
	s.Init(file, []byte(text), nil, scanner.ScanComments)
	for {
		pos, kind, literal := s.Scan()
		comment, ok := strings.CutPrefix(literal, "//")
		switch {
		case kind == token.EOF:
			return found
		case kind != token.COMMENT:
			isOutput = isOutput && kind == token.SEMICOLON
		case ok:
			line := proseLine{number: file.Line(pos), text: comment}
			whole := lines[line.number-1]
			if strings.TrimSpace(whole) == literal {
				line.columns = utf8.RuneCountInString(whole)
			}
			isOutput = isOutput || strings.TrimSpace(comment) == "Output:"
			if !isOutput {
				found = append(found, line)
			}
		}
	}
}

var luaComment = regexp.MustCompile(`(?:^|\s)--(?:\s(.*))?$`)

// luaProse returns the comments of a Lua file.
func luaProse(text string) []proseLine {
	var found []proseLine
	for i, whole := range strings.Split(text, "\n") {
		if match := luaComment.FindStringSubmatch(whole); match != nil {
			found = append(found, proseLine{number: i + 1, text: match[1]})
		}
	}
	return found
}

// pageProse returns the lines of a page, without its blocks of code.
func pageProse(text string) []proseLine {
	var found []proseLine
	isCode := false
	for i, whole := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(whole), "```") {
			isCode = !isCode
			whole = ""
		}
		if !isCode {
			found = append(found, proseLine{number: i + 1, text: whole})
		}
	}
	return found
}
