package luasrc

import (
	"fmt"
	"strconv"
	"strings"
)

// A Problem describes an error in a source, and its place.
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
	wordToken // a keyword
	numberToken
	stringToken
	signToken
)

// A token is a piece of the text. comment is the comment behind it on its line, without the dashes.
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

// signs are the signs of Lua, longer ones first.
var signs = []string{
	"...", "..", "==", "~=", "<=", ">=", "+", "-", "*", "/", "%", "^", "#", "<", ">", "=", "(", ")",
	"{", "}", "[", "]", ";", ":", ",", ".",
}

// A scanner cuts a text into tokens.
type scanner struct {
	file string
	text string
	at   int
	line int
}

func (s *scanner) fail(format string, args ...any) error {
	return &Problem{s.file, s.line, fmt.Sprintf(format, args...)}
}

// tokens returns all tokens of a text in ASCII; the last one is its end.
func tokens(file, text string) ([]token, error) {
	s := &scanner{file: file, text: text, line: 1}
	if at := strings.IndexFunc(text, func(r rune) bool { return r > 0x7f }); at >= 0 {
		s.line += strings.Count(text[:at], "\n")
		return nil, s.fail("a byte above 127, for which a text has an escape such as \\%d", text[at])
	}
	var all []token
	for {
		comment, err := s.skip()
		if err != nil {
			return nil, err
		}
		if n := len(all); n > 0 && comment != "" && all[n-1].comment == "" {
			all[n-1].comment = comment
		}
		t, err := s.next()
		if err != nil {
			return nil, err
		}
		all = append(all, t)
		if t.kind == endToken {
			return all, nil
		}
	}
}

// skip passes over white space and comments. It returns the comment that is on the same line.
func (s *scanner) skip() (comment string, err error) {
	first := s.line
	for s.at < len(s.text) {
		rest := s.text[s.at:]
		switch {
		case rest[0] == '\n':
			s.line++
			s.at++
		case strings.IndexByte(" \t\r\f\v", rest[0]) >= 0:
			s.at++
		case strings.HasPrefix(rest, "--[[") || strings.HasPrefix(rest, "--[="):
			return "", s.fail("a long comment")
		case strings.HasPrefix(rest, "--"):
			line, _, _ := strings.Cut(rest, "\n")
			s.at += len(line)
			if s.line == first {
				comment = strings.TrimSpace(line[2:])
			}
		default:
			return comment, nil
		}
	}
	return comment, nil
}

func (s *scanner) next() (token, error) {
	t := token{line: s.line}
	if s.at == len(s.text) {
		return t, nil
	}
	rest := s.text[s.at:]
	switch c := rest[0]; {
	case isLetter(c):
		t.kind, t.text = nameToken, s.while(func(c byte) bool { return isLetter(c) || isDigit(c) })
		if keywords[t.text] {
			t.kind = wordToken
		}
		return t, nil
	case isDigit(c) || c == '.' && len(rest) > 1 && isDigit(rest[1]):
		return s.number(t)
	case c == '\'' || c == '"':
		return s.quoted(t)
	case strings.HasPrefix(rest, "[[") || strings.HasPrefix(rest, "[="):
		return t, s.fail("a long string")
	}
	for _, sign := range signs {
		if strings.HasPrefix(rest, sign) {
			s.at += len(sign)
			t.kind, t.text = signToken, sign
			return t, nil
		}
	}
	return t, s.fail("%q is no part of Lua", rest[0])
}

func isLetter(c byte) bool { return c == '_' || c|' ' >= 'a' && c|' ' <= 'z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// while returns the characters ahead up to the first that is not right.
func (s *scanner) while(right func(byte) bool) string {
	from := s.at
	for s.at < len(s.text) && right(s.text[s.at]) {
		s.at++
	}
	return s.text[from:s.at]
}

// number reads decimal numbers, the only ones that sources need.
func (s *scanner) number(t token) (token, error) {
	from := s.at
	s.while(isDigit)
	if s.at < len(s.text) && s.text[s.at] == '.' {
		s.at++
		s.while(isDigit)
	}
	if s.at < len(s.text) && s.text[s.at]|' ' == 'e' {
		s.at++
		if s.at < len(s.text) && (s.text[s.at] == '+' || s.text[s.at] == '-') {
			s.at++
		}
		if s.while(isDigit) == "" {
			return t, s.fail("a number without an exponent")
		}
	}
	if s.at < len(s.text) && (isLetter(s.text[s.at]) || s.text[s.at] == '.') {
		return t, s.fail("a number that goes on as a name")
	}
	t.kind, t.text = numberToken, s.text[from:s.at]
	return t, nil
}

// escapes are the characters that a backslash stands before.
var escapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '\\': '\\', '"': '"', '\'': '\''}

func (s *scanner) quoted(t token) (token, error) {
	quote := s.text[s.at]
	s.at++
	var b strings.Builder
	for {
		if s.at == len(s.text) || s.text[s.at] == '\n' {
			return t, s.fail("a string without an end")
		}
		c := s.text[s.at]
		s.at++
		switch c {
		case quote:
			t.kind, t.text = stringToken, b.String()
			return t, nil
		case '\\':
			if s.at == len(s.text) {
				return t, s.fail("a string without an end")
			}
			escaped, err := s.escape()
			if err != nil {
				return t, err
			}
			b.WriteByte(escaped)
		default:
			b.WriteByte(c)
		}
	}
}

// escape reads the part of an escape after the backslash: a character, or its number.
func (s *scanner) escape() (byte, error) {
	if escaped, ok := escapes[s.text[s.at]]; ok {
		s.at++
		return escaped, nil
	}
	from := s.at
	for s.at < len(s.text) && s.at < from+3 && isDigit(s.text[s.at]) {
		s.at++
	}
	n, err := strconv.ParseUint(s.text[from:s.at], 10, 8)
	if err != nil {
		return 0, s.fail("the escape \\%c", s.text[from])
	}
	return byte(n), nil
}
