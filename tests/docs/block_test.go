package docs

import (
	"strings"
	"testing"
)

// A block is a piece of code of a page.
type block struct {
	page     string
	line     int // the number of its first line of code
	language string
	code     string
	stubs    string // the declarations in the comment before it
}

// blocks returns the blocks of a page's text.
func blocks(page, text string) []block {
	var (
		all   []block
		stubs string
	)
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		switch {
		case line == "<!-- stubs":
			end := i + indexOf(lines[i:], "-->")
			stubs = strings.Join(lines[i+1:end], "\n")
			i = end
		case strings.HasPrefix(line, "```"):
			indent := lines[i][:strings.Index(lines[i], "```")]
			end := i + 1 + indexOf(lines[i+1:], "```")
			var code []string
			for _, inside := range lines[i+1 : end] {
				code = append(code, strings.TrimPrefix(inside, indent))
			}
			all = append(all, block{
				page: page, line: i + 2, language: strings.TrimPrefix(line, "```"),
				code: strings.Join(code, "\n"), stubs: stubs,
			})
			stubs, i = "", end
		case line != "":
			stubs = ""
		}
	}
	return all
}

// indexOf returns the index of the first line with a text, or the number of lines.
func indexOf(lines []string, text string) int {
	for i, line := range lines {
		if strings.TrimSpace(line) == text {
			return i
		}
	}
	return len(lines)
}

// goBlocks returns the Go code of all pages.
func goBlocks(t *testing.T) []block {
	t.Helper()
	var found []block
	for _, page := range pages(t) {
		for _, b := range blocks(page, read(t, page)) {
			if b.language == "go" {
				found = append(found, b)
			}
		}
	}
	return found
}

func (b block) isProgram() bool { return strings.HasPrefix(b.code, "package main\n") }
