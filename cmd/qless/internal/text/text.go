// Package text formats counts and names for people, with colours.
package text

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Count formats a number of things: "1 job", "3 jobs".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Clean replaces characters that could control a terminal, and joins lines.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case isCommand(r):
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
}

// isCommand reports whether a character may control a terminal, or reorder text.
func isCommand(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// EscapeJSON escapes the characters in JSON strings that may control a terminal. Characters below a
// space occur only between values, as JSON escapes them in strings.
func EscapeJSON(json []byte) []byte {
	isRaw := func(r rune) bool { return r > unicode.MaxASCII && isCommand(r) || r == '\x7f' }
	if !bytes.ContainsFunc(json, isRaw) {
		return json
	}
	var escaped []byte
	for _, r := range string(json) {
		if isRaw(r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, r)
		} else {
			escaped = utf8.AppendRune(escaped, r)
		}
	}
	return escaped
}

// Cut returns the beginning of a text that fits into a number of columns.
func Cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	return string([]rune(s)[:width-1]) + "~"
}

// Pad cuts or pads a text to a width.
func Pad(s string, width int) string {
	s = Cut(s, width)
	return s + strings.Repeat(" ", width-utf8.RuneCountInString(s))
}

// PadLeft is Pad with alignment to the right, for numbers.
func PadLeft(s string, width int) string {
	s = Cut(s, width)
	return strings.Repeat(" ", width-utf8.RuneCountInString(s)) + s
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(file.Fd()))
}

// A Style colours text, or leaves it plain.
type Style struct{ colours bool }

// StyleOf returns the style for a stream: terminals have colours unless NO_COLOR is set.
func StyleOf(stream any) Style {
	wanted := os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return Style{wanted && IsTerminal(stream)}
}

// Coloured returns the style with colours.
func Coloured() Style { return Style{true} }

// Bold, Red and the others return text in that style.
func (s Style) Bold(t string) string   { return s.Paint("1", t) }
func (s Style) Faint(t string) string  { return s.Paint("2", t) }
func (s Style) Red(t string) string    { return s.Paint("31", t) }
func (s Style) Green(t string) string  { return s.Paint("32", t) }
func (s Style) Yellow(t string) string { return s.Paint("33", t) }
func (s Style) Cyan(t string) string   { return s.Paint("36", t) }

// Reverse returns text with its colours reversed, to mark a selection.
func (s Style) Reverse(t string) string { return s.Paint("7", t) }

// Paint returns text in the colour of a code, such as "31" for red.
func (s Style) Paint(code, t string) string {
	if !s.colours || t == "" {
		return t
	}
	return "\x1b[" + code + "m" + t + "\x1b[0m"
}
