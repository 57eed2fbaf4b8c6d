package redisx

import (
	"regexp"
	"strings"
)

// quoted matches text in quotes of any kind, or after an unclosed quote. An apostrophe within a
// word is not a quote.
var quoted = regexp.MustCompile(strings.Join([]string{
	`"(?:\\.|[^"\\])*"`,
	"`[^`]*`",
	"`[^`']*'",
	`\B'(?:\b'\b|[^'])*'\B`,
	`“[^”]*”`,
	`„[^“”]*[“”]`,
	`«[^»]*»`,
	`‘(?:\pL’\pL|[^’])*’`,
	`=\([^)]*\)`, // as PostgreSQL quotes
	"[\"`“„«‘].*",
	`\B'.*`,
}, "|"))

// varying matches a word with a number, an address, a path or the like.
var varying = regexp.MustCompile(`[\pN@/\\]|^[a-fA-F]{8,}$`)

// keyed matches a word with a name and a value, as in user=jane.
var keyed = regexp.MustCompile(`^([\pL_.-]+=).`)

// stars matches several stars in a row.
var stars = regexp.MustCompile(`\*(?: \*)+`)

// maxLine is the number of bytes of an error's text to examine.
const maxLine = 1 << 10

// WithoutDetails returns the first line of an error's text, with a * for everything likely to vary
// from job to job, or to be personal. A long line is cut.
func WithoutDetails(text string) string {
	line, _, _ := strings.Cut(text[:min(len(text), maxLine)], "\n")
	words := strings.Fields(quoted.ReplaceAllString(line, "*"))
	for i, word := range words {
		words[i] = withoutDetail(word)
	}
	return stars.ReplaceAllString(strings.Join(words, " "), "*")
}

func withoutDetail(word string) string {
	core := strings.Trim(word, "()[]{}<>,.;:!?")
	if core == "" || strings.EqualFold(core, "i/o") {
		return word
	}
	before, after, _ := strings.Cut(word, core)
	if key := keyed.FindStringSubmatch(core); key != nil {
		return before + key[1] + "*" + after
	}
	if varying.MatchString(core) {
		return before + "*" + after
	}
	return word
}
