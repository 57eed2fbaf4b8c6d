package qless

import (
	"bytes"
	"encoding/json"
	"hash/maphash"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// encodeData returns a job's data as JSON: a [json.RawMessage] or []byte unchanged, anything else
// marshaled. Nil becomes an empty object, which is what clients of other languages expect.
func encodeData(op, jid string, data any) (string, error) {
	return encodeJSON(op, jid, "data", data, "{}")
}

// encodeJSON does the same for data or a result. Nil becomes the text empty.
func encodeJSON(op, jid, what string, value any, empty string) (string, error) {
	var raw []byte
	switch v := value.(type) {
	case nil:
	case storedData:
		return string(v), nil
	case json.RawMessage:
		if v != nil && !json.Valid(v) {
			return "", invalid(op, jid, "the %s is not JSON: %.100q", what, v)
		}
		raw = v
	case []byte:
		if v != nil && !json.Valid(v) {
			return "", invalid(op, jid, "the %s is a []byte that is not JSON: "+
				"pass what json.Marshal makes of it, or a struct with a []byte field", what)
		}
		raw = v
	default:
		var err error
		if raw, err = json.Marshal(value); err != nil {
			return "", &Error{Op: op, Code: CodeInvalid, JID: jid,
				Message: "the " + what + " can't be JSON: " + err.Error(), Err: err}
		}
	}
	if raw == nil {
		return empty, nil
	}
	if problem := unreadable(raw); problem != "" {
		return "", invalid(op, jid, "the %s %s", what, problem)
	}
	return string(raw), nil
}

// unmarshal decodes the data or the result of a job into v.
func unmarshal(jid string, raw json.RawMessage, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return &Error{Op: "unmarshal", Code: CodeInvalid, JID: jid, Message: err.Error(), Err: err}
	}
	return nil
}

// storedData is data that was read from the server. It may be no JSON to Go: Lua takes NaN, 0x10
// and control characters in strings, and so other clients may put them. Such data is stored again
// as it is.
type storedData json.RawMessage

// dataSeed is the seed of the sums by which a job knows whether its data is as it was read.
var dataSeed = maphash.MakeSeed()

// stored returns the job's data as a put takes it.
func (j *Job) stored() any {
	if j.dataSum == maphash.Bytes(dataSeed, j.Data) {
		return storedData(j.Data)
	}
	return j.Data
}

// shownJSON returns data as [json.Marshal] takes it: as it is, or as a string if it is no JSON.
func shownJSON(data json.RawMessage) json.RawMessage {
	if len(data) == 0 || json.Valid(data) {
		return data
	}
	quoted, _ := json.Marshal(string(data))
	return quoted
}

// marshalFields returns a value as JSON that leaves it to the caller to escape HTML.
func marshalFields(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return text.Bytes(), err
}

// maxDepth is the deepest nesting of JSON that Lua can decode.
const maxDepth = 1000

// unreadable returns what our scripts, or those of other clients, can't read in valid JSON, or the
// empty string if they can read it. It saves the server that check.
func unreadable(raw []byte) string {
	if !utf8.Valid(raw) {
		return "is not UTF-8"
	}
	depth, inString := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			if raw[i+1] == 'u' && utf16.IsSurrogate(escaped(raw[i:])) {
				if i+12 > len(raw) ||
					utf16.DecodeRune(escaped(raw[i:]), escaped(raw[i+6:])) == utf8.RuneError {
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

// escaped returns the character of an escape such as \u00e9 at the beginning of text, or 0 if there
// is none.
func escaped(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}
