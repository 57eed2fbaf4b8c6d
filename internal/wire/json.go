package wire

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Unreadable describes the part of valid JSON that the scripts of this or other clients can't read.
// It returns the empty string if there is none. It saves the server that check.
func Unreadable(raw []byte) string {
	if !utf8.Valid(raw) {
		return "is not UTF-8"
	}
	depth, inString := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			if raw[i+1] == 'u' && utf16.IsSurrogate(unescaped(raw[i:])) {
				if i+12 > len(raw) ||
					utf16.DecodeRune(unescaped(raw[i:]), unescaped(raw[i+6:])) == utf8.RuneError {
					return "has half of a surrogate pair"
				}
				i += 6
			}
			i++
		case inString:
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return "is nested more than " + strconv.Itoa(maxDepth) + " deep"
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return ""
}

// maxDepth is the deepest nesting of JSON that Lua can decode.
const maxDepth = 1000

// unescaped returns the character of an escape such as \u00e9 at the beginning of text, or 0 if
// there is none.
func unescaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}
