// Package wire decodes the replies of scripts, and formats their arguments.
//
// Replies are JSON written by Lua, or by the scripts of other clients: an empty array may be {}, a
// number may be a string or a float, and an absent value may be false. The types of this package
// accept all of these; only replies that make no sense are errors.
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A List is a JSON array. Anything else is an empty list, in particular {}, Lua's empty array.
type List[T any] []T

// UnmarshalJSON reads an array.
func (l *List[T]) UnmarshalJSON(raw []byte) error {
	*l = nil
	switch {
	case raw[0] != '[':
		return nil
	case string(raw) == "[]":
		*l = List[T]{}
		return nil
	}
	return json.Unmarshal(raw, (*[]T)(l))
}

// A Text is a JSON string. A number counts as its text; anything else is empty.
type Text string

// UnmarshalJSON reads a string or a number.
func (t *Text) UnmarshalJSON(raw []byte) error {
	*t = ""
	switch {
	case raw[0] == '"' && (bytes.IndexByte(raw, '\\') >= 0 || !utf8.Valid(raw)):
		return json.Unmarshal(raw, (*string)(t))
	case raw[0] == '"': // almost every text; decoding costs much more
		*t = Text(raw[1 : len(raw)-1])
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		*t = Text(raw)
	}
	return nil
}

// A Raw is a [Text] that keeps invalid UTF-8, which allows sending a name back.
type Raw string

// UnmarshalJSON reads a string or a number.
func (r *Raw) UnmarshalJSON(raw []byte) error {
	if raw[0] != '"' || utf8.Valid(raw) {
		return (*Text)(r).UnmarshalJSON(raw)
	}
	var out []byte
	for rest := raw[1 : len(raw)-1]; len(rest) > 0; {
		n := validBytes(rest)
		var part Text
		if err := part.UnmarshalJSON(fmt.Appendf(nil, `"%s"`, rest[:n])); err != nil {
			return err
		}
		odd := min(n+1, len(rest))
		out = append(append(out, part...), rest[n:odd]...)
		rest = rest[odd:]
	}
	*r = Raw(out)
	return nil
}

// validBytes returns the number of bytes of a text before the first that is not UTF-8.
func validBytes(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(text)
}

// Strings returns texts as strings, or nil without texts.
func Strings[T ~string](texts []T) []string {
	if len(texts) == 0 {
		return nil
	}
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = string(t)
	}
	return out
}

// A Number is a JSON number, or a string with a number; anything else is 0.
type Number float64

// UnmarshalJSON reads a number.
func (n *Number) UnmarshalJSON(raw []byte) error {
	*n = parseNumber(string(raw))
	return nil
}

func parseNumber(text string) Number {
	f, err := strconv.ParseFloat(strings.Trim(text, `"`), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return Number(f)
}

// Int returns the whole part, limited to the range of 32 bits.
func (n Number) Int() int {
	return int(math.Max(math.MinInt32, math.Min(math.MaxInt32, math.Floor(float64(n)))))
}

// LargeInt returns the whole part, limited to the range of an int.
func (n Number) LargeInt() int {
	switch whole := math.Floor(float64(n)); {
	case whole >= math.MaxInt:
		return math.MaxInt
	case whole <= math.MinInt:
		return math.MinInt
	default:
		return int(whole)
	}
}

// Time returns the number as seconds since 1970, to the microsecond. Impossible times, including 0,
// are the zero time.
func (n Number) Time() time.Time {
	if n <= 0 || n > 1e11 {
		return time.Time{}
	}
	whole, fraction := math.Modf(float64(n))
	return time.Unix(int64(whole), int64(math.Round(fraction*1e6))*1000)
}

// Duration returns the number as seconds, limited to the range of a Duration.
func (n Number) Duration() time.Duration {
	return time.Duration(math.Round(math.Max(-9e9, math.Min(9e9, float64(n))) * float64(time.Second)))
}

// DecodeJSON reads a reply in the form of a JSON document.
func DecodeJSON[T any](reply any) (T, error) {
	var value T
	raw, ok := reply.(string)
	if !ok {
		return value, Unexpected(reply)
	}
	err := json.Unmarshal([]byte(raw), &value)
	if err != nil && json.Unmarshal(repaired(raw), &value) != nil {
		return value, fmt.Errorf("unreadable reply: %w", err)
	}
	return value, nil
}

// repaired returns text as JSON if it differs from JSON only by numbers and control characters that
// only Lua reads. The numbers become null.
func repaired(text string) []byte {
	var out []byte
	for i := 0; i < len(text); {
		end := i + 1
		switch c := text[i]; {
		case c == '"':
			for end < len(text) && text[end] != '"' {
				end += 1 + strings.Count(text[end:end+1], `\`)
			}
			end = min(end+1, len(text))
			out = append(out, escaped(text[i:end])...)
		case strings.IndexByte(between, c) >= 0:
			out = append(out, c)
		default:
			for end < len(text) && strings.IndexByte(between+`"`, text[end]) < 0 {
				end++
			}
			out = append(out, repairedWord(text[i:end])...)
		}
		i = end
	}
	return out
}

// repairedWord returns a number that only Lua reads, such as -Infinity, nan or 0x10, as null, and
// any other word unchanged.
func repairedWord(word string) string {
	_, notDecimal := strconv.ParseFloat(word, 64)
	_, notHex := strconv.ParseInt(word, 0, 64)
	if json.Valid([]byte(word)) || notDecimal != nil && notHex != nil {
		return word
	}
	return "null"
}

// between holds the characters that end a number in JSON.
const between = "[]{}:, \t\r\n"

// escaped returns a JSON string with its control characters escaped.
func escaped(quoted string) []byte {
	var out []byte
	for i := range len(quoted) {
		if c := quoted[i]; c < ' ' {
			out = fmt.Appendf(out, `\u%04x`, c)
		} else {
			out = append(out, c)
		}
	}
	return out
}

// DecodeInt reads an integer reply.
func DecodeInt(reply any) (int, error) {
	switch v := reply.(type) {
	case int64:
		return int(v), nil
	case string:
		if n, err := strconv.Atoi(v); err == nil {
			return n, nil
		}
	}
	return 0, Unexpected(reply)
}

// DecodeStrings reads a reply with an array of strings.
func DecodeStrings(reply any) ([]string, error) {
	items, ok := reply.([]any)
	if !ok {
		return nil, Unexpected(reply)
	}
	out := make([]string, len(items))
	for i, item := range items {
		if out[i], ok = item.(string); !ok {
			return nil, Unexpected(reply)
		}
	}
	return out, nil
}

// Unexpected returns the error for a reply of the wrong type, with the beginning of the reply.
func Unexpected(reply any) error { return fmt.Errorf("unexpected reply: %.100v", reply) }

// Items returns the items of a list reply, and otherwise none.
func Items(reply any) []any {
	list, _ := reply.([]any)
	return list
}

// Parts returns the parts of a reply that may have large data: the JSON, the job fields outside the
// JSON, and the data.
func Parts(reply any) (text any, rest string, large []any) {
	parts := Items(reply)
	if len(parts) < 2 {
		return reply, "", nil
	}
	return parts[0], AsString(parts[1]), parts[2:]
}

// Anys appends strings to the arguments of a script.
func Anys(args []any, texts ...string) []any {
	for _, text := range texts {
		args = append(args, text)
	}
	return args
}

// AsString returns a part of a reply as a string, or the empty string for other types.
func AsString(part any) string {
	s, _ := part.(string)
	return s
}

// AsStrings returns the parts of a reply as strings.
func AsStrings(parts []any) []string {
	texts := make([]string, len(parts))
	for i, part := range parts {
		texts[i] = AsString(part)
	}
	return texts
}

// AsNumber returns a part of a reply as a number, or 0 if it is not a string with a number.
func AsNumber(part any) Number { return parseNumber(AsString(part)) }

// FormatTime formats a time for scripts: in seconds since 1970, with microseconds.
func FormatTime(t time.Time) string {
	return fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000)
}

// FormatSeconds formats a duration in seconds, with as many digits as needed.
func FormatSeconds(d time.Duration) string {
	text := fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}

// JSONList encodes names as a JSON array.
func JSONList(names []string) string {
	if len(names) == 0 {
		return "[]"
	}
	text, err := json.Marshal(names)
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(text)
}

// State returns the name in Go of a job's state on the server. On the server, a "stalled" job was
// taken from its worker; in Go, a stalled job is still running, but its lock has expired.
func State[T ~string](name T) string {
	if name == "stalled" {
		return "timed_out"
	}
	return string(name)
}

// Distinct returns the distinct texts, in the same order.
func Distinct(texts []string) []string {
	seen := make(map[string]bool, len(texts))
	return slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
		known := seen[text]
		seen[text] = true
		return known
	})
}
