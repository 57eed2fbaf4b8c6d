package wire

import (
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is the deepest nesting of JSON that Lua can decode.
const maxDepth = 1000

// NotJSON is the reason given for invalid JSON.
const NotJSON = "is not JSON"

// CheckJSON describes why text can't be the data of a job: it is not JSON, or a script of this or
// another client could not read it. For valid data, CheckJSON returns the empty string.
func CheckJSON(text []byte) string {
	c := checker{text: text}
	c.space()
	c.value(0)
	c.space()
	switch {
	case c.at < len(text):
		c.fail(NotJSON)
	case c.problem == "" && !utf8.Valid(text):
		c.fail("is not UTF-8")
	}
	return c.problem
}

// IsJSON is a faster json.Valid.
func IsJSON(text []byte) bool { return CheckJSON(text) == "" || json.Valid(text) }

// A checker has read JSON up to the position at.
type checker struct {
	text    []byte
	at      int
	problem string // the first problem; reading stops there
}

// fail records the first problem.
func (c *checker) fail(problem string) {
	if c.problem == "" {
		c.problem, c.at = problem, len(c.text)
	}
}

// next returns the next byte, or 0 at the end.
func (c *checker) next() byte {
	if c.at < len(c.text) {
		return c.text[c.at]
	}
	return 0
}

// skip reads a byte, and reports whether it was found.
func (c *checker) skip(b byte) bool {
	if c.at == len(c.text) || c.text[c.at] != b {
		return false
	}
	c.at++
	return true
}

// one reads a byte.
func (c *checker) one(b byte) {
	if !c.skip(b) {
		c.fail(NotJSON)
	}
}

// need reads all bytes of a word.
func (c *checker) need(word string) {
	end := c.at + len(word)
	if end > len(c.text) || string(c.text[c.at:end]) != word {
		c.fail(NotJSON)
		return
	}
	c.at = end
}

func (c *checker) space() {
	for c.at < len(c.text) && c.text[c.at] <= ' ' {
		if b := c.text[c.at]; b != ' ' && b != '\n' && b != '\t' && b != '\r' {
			return
		}
		c.at++
	}
}

// value reads a value inside depth others.
func (c *checker) value(depth int) {
	switch b := c.next(); b {
	case '"':
		c.quoted()
	case '{', '[':
		if depth == maxDepth {
			c.fail("is nested more than " + strconv.Itoa(maxDepth) + " deep")
			return
		}
		c.at++
		c.members(b == '{', depth+1)
	case 't':
		c.need("true")
	case 'f':
		c.need("false")
	case 'n':
		c.need("null")
	default:
		c.number()
	}
}

// members reads the rest of an object or an array.
func (c *checker) members(object bool, depth int) {
	end := byte(']')
	if object {
		end = '}'
	}
	c.space()
	if c.skip(end) {
		return
	}
	for c.problem == "" {
		if object {
			c.quoted()
			c.space()
			c.one(':')
			c.space()
		}
		c.value(depth)
		c.space()
		if c.skip(end) {
			return
		}
		c.one(',')
		c.space()
	}
}

func (c *checker) number() {
	c.skip('-')
	if !c.skip('0') {
		c.digits()
	}
	if c.skip('.') {
		c.digits()
	}
	if c.skip('e') || c.skip('E') {
		if !c.skip('+') {
			c.skip('-')
		}
		c.digits()
	}
}

// digits reads at least one digit.
func (c *checker) digits() {
	from := c.at
	for b := c.next(); '0' <= b && b <= '9'; b = c.next() {
		c.at++
	}
	if c.at == from {
		c.fail(NotJSON)
	}
}

// quoted reads a string.
func (c *checker) quoted() {
	c.one('"')
	for c.problem == "" {
		c.at += plainBytes(c.text[c.at:])
		switch {
		case c.skip('"'):
			return
		case c.skip('\\'):
			c.escape()
		default:
			c.fail(NotJSON)
		}
	}
}

// plainBytes counts the bytes at the beginning of text that need no escaping in a string. It checks
// eight at a time: subtracting a character from each sets the highest bit of smaller ones.
func plainBytes(text []byte) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	n := 0
	for ; n+8 <= len(text); n += 8 {
		word := binary.LittleEndian.Uint64(text[n:])
		quote, backslash := word^each*'"', word^each*'\\'
		found := ((word-each*' ')&^word | (quote-each)&^quote | (backslash-each)&^backslash) & high
		if found != 0 {
			return n + bits.TrailingZeros64(found)/8 // the first bit is exact, later ones may not be
		}
	}
	for n < len(text) && text[n] >= ' ' && text[n] != '"' && text[n] != '\\' {
		n++
	}
	return n
}

// escape reads the rest of an escape such as \n, or of a pair such as \ud83d\ude00.
func (c *checker) escape() {
	if !c.skip('u') {
		if strings.IndexByte(`"\/bfnrt`, c.next()) < 0 {
			c.fail(NotJSON)
			return
		}
		c.at++
		return
	}
	first := c.hex()
	if utf16.IsSurrogate(first) &&
		!(c.skip('\\') && c.skip('u') && utf16.DecodeRune(first, c.hex()) != utf8.RuneError) {
		c.fail("has half of a surrogate pair")
	}
}

// hex reads the four digits of an escaped character.
func (c *checker) hex() rune {
	digits := c.text[c.at:min(c.at+4, len(c.text))]
	n, err := strconv.ParseUint(string(digits), 16, 16)
	if err != nil || len(digits) < 4 {
		c.fail(NotJSON)
		return 0
	}
	c.at += 4
	return rune(n)
}
