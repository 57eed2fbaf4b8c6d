package calls

import (
	"slices"
	"strings"

	"github.com/qless/qless-go/internal/wire"
)

// Fields holds the fields of a job in a reply of the script reserve.
type Fields struct{ names, values []string }

// FieldsOf returns the fields of a job with the given names. The values are one text, or a text and
// the data, unless values are missing or contain the separator byte. Any other item has no fields.
func FieldsOf(names []string, item any) Fields {
	switch item := item.(type) {
	case string:
		return Fields{names, strings.Split(item, "\x01")}
	case []any:
		values := wire.AsStrings(item)
		if len(values) == 2 {
			data := values[1]
			values = strings.Split(values[0], "\x01")
			if i := slices.Index(names, "data"); i >= 0 && i < len(values) {
				values[i] = data
			}
		}
		return Fields{names, values}
	}
	return Fields{}
}

// Popped returns the fields of the only job in a reply of the script pop, and the stored entries of
// its history, if the reply has no JSON.
func Popped(reply any) (job Fields, history []any, ok bool) {
	parts := wire.Items(reply)
	if len(parts) < 2 || !strings.HasPrefix(wire.AsString(parts[0]), "jid ") {
		return Fields{}, nil, false
	}
	return FieldsOf(strings.Fields(wire.AsString(parts[0])), parts[1]), parts[2:], true
}

// Text returns a field, or the empty string if it is missing.
func (f Fields) Text(name string) string {
	i := slices.Index(f.names, name)
	if i < 0 || i >= len(f.values) {
		return ""
	}
	return f.values[i]
}

// Number returns a field as a number, or 0 if it is not a number.
func (f Fields) Number(name string) wire.Number { return wire.AsNumber(f.Text(name)) }
