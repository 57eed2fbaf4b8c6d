package calls

import (
	"slices"
	"strings"

	"github.com/qless/qless-go/internal/wire"
)

// Fields holds the fields of a job in a reply of the script reserve.
type Fields struct{ names, values []string }

// FieldsOf returns the fields of a job, given their names. Its values are one text, or that and the
// data, unless some are missing or contain the byte between them. There are none if it is anything
// else.
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

// Popped returns the fields of the only job in a reply of the script pop, and the entries of its
// history as they are stored, if the reply has no JSON.
func Popped(reply any) (job Fields, history []any, ok bool) {
	parts := wire.Items(reply)
	if len(parts) < 2 || !strings.HasPrefix(wire.AsString(parts[0]), "jid ") {
		return Fields{}, nil, false
	}
	return FieldsOf(strings.Fields(wire.AsString(parts[0])), parts[1]), parts[2:], true
}

// Text returns a field, or the empty string if there is none with that name.
func (f Fields) Text(name string) string {
	i := slices.Index(f.names, name)
	if i < 0 || i >= len(f.values) {
		return ""
	}
	return f.values[i]
}

// Number returns a field as a number, or 0 if it is none.
func (f Fields) Number(name string) wire.Number { return wire.AsNumber(f.Text(name)) }
