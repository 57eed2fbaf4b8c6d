// Package text writes counts and names for people, and in colours.
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

// Clean replaces what a name or a message could change a terminal with, and puts it on one line.
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

// isCommand reports whether a character may change a terminal, or the order of others on it.
func isCommand(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// EscapeJSON escapes the characters in the strings of a JSON text that may change a terminal. A
// character below a space is escaped in JSON, or between its values.
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

// Quote returns a name as a shell wants it.
func Quote(name string) string {
	isPlain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) ||
			strings.ContainsRune("-_.:/@%+,", r)
	}
	if name != "" && strings.TrimFunc(name, isPlain) == "" {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

// Cut returns the beginning of a text that is not wider than a number of columns.
func Cut(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	return string([]rune(s)[:width-1]) + "~"
}

// Pad returns a text with exactly this width.
func Pad(s string, width int) string {
	s = Cut(s, width)
	return s + strings.Repeat(" ", width-utf8.RuneCountInString(s))
}

// PadLeft is Pad for numbers, which are aligned to the right.
func PadLeft(s string, width int) string {
	s = Cut(s, width)
	return strings.Repeat(" ", width-utf8.RuneCountInString(s)) + s
}

// IsTerminal reports whether a person reads or writes here.
func IsTerminal(stream any) bool {
	file, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(file.Fd()))
}

// A Style writes in colours, or does not.
type Style struct{ colours bool }

// StyleOf returns the style for a stream: colours are for terminals, unless NO_COLOR is set.
func StyleOf(stream any) Style {
	wanted := os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	return Style{wanted && IsTerminal(stream)}
}

// Coloured returns the style that writes in colours.
func Coloured() Style { return Style{true} }

// Bold, Red and the others return a text in that colour.
func (s Style) Bold(t string) string   { return s.Paint("1", t) }
func (s Style) Faint(t string) string  { return s.Paint("2", t) }
func (s Style) Red(t string) string    { return s.Paint("31", t) }
func (s Style) Green(t string) string  { return s.Paint("32", t) }
func (s Style) Yellow(t string) string { return s.Paint("33", t) }
func (s Style) Cyan(t string) string   { return s.Paint("36", t) }

// Reverse returns a text with its colours reversed, as what is selected.
func (s Style) Reverse(t string) string { return s.Paint("7", t) }

// Paint returns a text in the colour with a code, such as "31" for red.
func (s Style) Paint(code, t string) string {
	if !s.colours || t == "" {
		return t
	}
	return "\x1b[" + code + "m" + t + "\x1b[0m"
}
