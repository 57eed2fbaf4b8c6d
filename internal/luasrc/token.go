package luasrc

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Problem describes an error in a source, and where it is.
type Problem struct {
	File string
	Line int
	Text string
}

func (p *Problem) Error() string { return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Text) }

// kind is the kind of a token.
type kind int

const (
	endToken kind = iota
	nameToken
	numberToken
	stringToken
	wordToken // a keyword or a sign
)

// A token is a piece of the text. comment is the comment after it on its line, without the dashes.
type token struct {
	kind    kind
	text    string // of a string: its value, without quotes and escapes
	line    int
	comment string
}

var keywords = map[string]bool{
	"and": true, "break": true, "do": true, "else": true, "elseif": true, "end": true, "false": true,
	"for": true, "function": true, "if": true, "in": true, "local": true, "nil": true, "not": true,
	"or": true, "repeat": true, "return": true, "then": true, "true": true, "until": true,
	"while": true,
}

const escape = `\\(?:[ntr\\"']|25[0-5]|2[0-4][0-9]|[01]?[0-9]{1,2})`

// tokenPattern matches white space, a comment or a token, with a group for each.
var tokenPattern = regexp.MustCompile(`^(?:(\s+)|--([^\n]*)|([A-Za-z_]\w*)` +
	`|((?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)` +
	`|("(?:[^"\\\n]|` + escape + `)*"|'(?:[^'\\\n]|` + escape + `)*')` +
	`|(\.\.\.?|[=~<>]=|[-+*/%^#<>=(){}\[\];:,.]))`)

// tokens returns all tokens of an ASCII text; the last one is its end.
func tokens(file, text string) ([]token, error) {
	all, line := []token{}, 1
	fail := func(format string, args ...any) ([]token, error) {
		return nil, &Problem{file, line, fmt.Sprintf(format, args...)}
	}
	if at := strings.IndexFunc(text, func(r rune) bool { return r > 0x7f }); at >= 0 {
		line += strings.Count(text[:at], "\n")
		return fail("a byte above 127, for which a text has an escape such as \\%d", text[at])
	}
	for text != "" {
		m := tokenPattern.FindStringSubmatch(text)
		if m == nil {
			return fail("%q is no part of Lua, or begins a string without an end", text[0])
		}
		text = text[len(m[0]):]
		t := token{line: line}
		switch {
		case m[1] != "":
			line += strings.Count(m[1], "\n")
			continue
		case m[3] != "":
			t.kind, t.text = nameToken, m[3]
			if keywords[t.text] {
				t.kind = wordToken
			}
		case m[4] != "":
			t.kind, t.text = numberToken, m[4]
		case m[5] != "":
			t.kind, t.text = stringToken, unescaped(m[5][1:len(m[5])-1])
		case m[6] != "":
			t.kind, t.text = wordToken, m[6]
		case strings.HasPrefix(m[2], "[[") || strings.HasPrefix(m[2], "[="):
			return fail("a long comment")
		default:
			if n := len(all); n > 0 && all[n-1].line == line {
				all[n-1].comment = strings.TrimSpace(m[2])
			}
			continue
		}
		all = append(all, t)
	}
	return append(all, token{line: line}), nil
}

var escapePattern = regexp.MustCompile(escape)

// unescaped returns the value of a string.
func unescaped(s string) string {
	return escapePattern.ReplaceAllStringFunc(s, func(escape string) string {
		if n, err := strconv.Atoi(escape[1:]); err == nil {
			return string([]byte{byte(n)})
		}
		return map[string]string{"n": "\n", "t": "\t", "r": "\r"}[escape[1:]] +
			strings.Trim(escape[1:], "ntr")
	})
}
