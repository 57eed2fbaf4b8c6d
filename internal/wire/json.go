package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is the deepest nesting of JSON that Lua can decode.
const maxDepth = 1000

// NotJSON is the reason given for invalid JSON.
const NotJSON = "is not JSON"

// halfPair is the reason for the escape of half a character, which no program can decode.
const halfPair = "has half of a surrogate pair"

// CheckJSON describes why text can't be the data of a job: it is not JSON, or a script of this or
// another client could not read it. For valid data, CheckJSON returns the empty string.
func CheckJSON(text []byte) string {
	c := checker{text: text}
	end := c.space(c.value(c.space(0), 0))
	switch {
	case end < len(text):
		c.fail(NotJSON)
	case c.problem == "" && !utf8.Valid(text):
		c.fail("is not UTF-8")
	}
	return c.problem
}

// CheckMarshaled is a faster CheckJSON for text made by json.Marshal. It is JSON: only a large text
// can be nested too deeply, and only a [json.Marshaler] can return strings that Lua can't read.
func CheckMarshaled(text []byte) string {
	opened := bytes.Count(text, []byte{'['}) + bytes.Count(text, []byte{'{'})
	surrogate := bytes.Contains(text, []byte(`\ud`)) || bytes.Contains(text, []byte(`\uD`))
	if opened > maxDepth || surrogate || !utf8.Valid(text) {
		return CheckJSON(text)
	}
	return ""
}

// IsJSON is a faster json.Valid.
func IsJSON(text []byte) bool { return CheckJSON(text) == "" || json.Valid(text) }

// A checker reads JSON. Its methods read something at a position of the text, and return the
// position after it. After a problem that is the end of the text, where nothing more can be read.
type checker struct {
	text    []byte
	problem string // the first problem
}

// fail records the first problem.
func (c *checker) fail(problem string) int {
	if c.problem == "" {
		c.problem = problem
	}
	return len(c.text)
}

// byte returns the byte at a position, or 0 at the end.
func (c *checker) byte(at int) byte {
	if at < len(c.text) {
		return c.text[at]
	}
	return 0
}

// need reads all bytes of a word.
func (c *checker) need(at int, word string) int {
	end := at + len(word)
	if end > len(c.text) || string(c.text[at:end]) != word {
		return c.fail(NotJSON)
	}
	return end
}

func (c *checker) space(at int) int {
	for at < len(c.text) && c.text[at] <= ' ' {
		if b := c.text[at]; b != ' ' && b != '\n' && b != '\t' && b != '\r' {
			return at
		}
		at++
	}
	return at
}

// value reads a value inside depth others.
func (c *checker) value(at, depth int) int {
	switch b := c.byte(at); b {
	case '"':
		return c.quoted(at + 1)
	case '{', '[':
		if depth == maxDepth {
			return c.fail("is nested more than " + strconv.Itoa(maxDepth) + " deep")
		}
		return c.members(at, b == '{', depth+1)
	case 't':
		return c.need(at, "true")
	case 'f':
		return c.need(at, "false")
	case 'n':
		return c.need(at, "null")
	}
	return c.number(at)
}

// members reads an object or an array.
func (c *checker) members(at int, object bool, depth int) int {
	end := byte(']')
	if object {
		end = '}'
	}
	at = c.space(at + 1)
	if c.byte(at) == end {
		return at + 1
	}
	for {
		if object {
			at = c.name(at)
		}
		at = c.space(c.value(at, depth))
		switch c.byte(at) {
		case end:
			return at + 1
		case ',':
			at = c.space(at + 1)
		default:
			return c.fail(NotJSON)
		}
	}
}

// name reads the name of a member of an object, and its colon.
func (c *checker) name(at int) int {
	if c.byte(at) != '"' {
		return c.fail(NotJSON)
	}
	at = c.space(c.quoted(at + 1))
	if c.byte(at) != ':' {
		return c.fail(NotJSON)
	}
	return c.space(at + 1)
}

func (c *checker) number(at int) int {
	if c.byte(at) == '-' {
		at++
	}
	if c.byte(at) == '0' {
		at++
	} else {
		at = c.digits(at)
	}
	if c.byte(at) == '.' {
		at = c.digits(at + 1)
	}
	if c.byte(at)|0x20 == 'e' {
		at++
		if b := c.byte(at); b == '+' || b == '-' {
			at++
		}
		at = c.digits(at)
	}
	return at
}

// digits reads at least one digit.
func (c *checker) digits(at int) int {
	from := at
	for b := c.byte(at); '0' <= b && b <= '9'; b = c.byte(at) {
		at++
	}
	if at == from {
		return c.fail(NotJSON)
	}
	return at
}

// quoted reads the rest of a string after its first quote.
func (c *checker) quoted(at int) int {
	for {
		at = skipPlain(c.text, at)
		switch c.byte(at) {
		case '"':
			return at + 1
		case '\\':
			at = c.escape(at + 1)
		default:
			return c.fail(NotJSON)
		}
	}
}

// skipPlain returns the position of the next byte that needs escaping in a string, or of the end.
// It checks eight bytes at a time: subtracting a character from each sets the highest bit of
// smaller ones.
func skipPlain(text []byte, at int) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	for ; at+8 <= len(text); at += 8 {
		word := binary.LittleEndian.Uint64(text[at:])
		quote, backslash := word^each*'"', word^each*'\\'
		found := ((word-each*' ')&^word | (quote-each)&^quote | (backslash-each)&^backslash) & high
		if found != 0 { // its lowest bit is exact, higher ones may not be
			return at + bits.TrailingZeros64(found)/8
		}
	}
	for at < len(text) && text[at] >= ' ' && text[at] != '"' && text[at] != '\\' {
		at++
	}
	return at
}

// escape reads the rest of an escape such as \n, or of a pair such as \ud83d\ude00.
func (c *checker) escape(at int) int {
	switch c.byte(at) {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return at + 1
	case 'u':
	default:
		return c.fail(NotJSON)
	}
	first, at := c.hex(at + 1)
	if !utf16.IsSurrogate(first) {
		return at
	}
	if c.byte(at) != '\\' || c.byte(at+1) != 'u' {
		return c.fail(halfPair)
	}
	second, at := c.hex(at + 2)
	if utf16.DecodeRune(first, second) == utf8.RuneError {
		return c.fail(halfPair)
	}
	return at
}

// hex reads the four digits of an escaped character.
func (c *checker) hex(at int) (rune, int) {
	digits := c.text[at:min(at+4, len(c.text))]
	n, err := strconv.ParseUint(string(digits), 16, 16)
	if err != nil || len(digits) < 4 {
		return 0, c.fail(NotJSON)
	}
	return rune(n), at + 4
}
