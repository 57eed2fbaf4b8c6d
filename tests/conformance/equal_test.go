package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// same reports whether two replies or stored values, or parts of them, are equal.
func same(want, got any) bool {
	want, got = decoded(want), decoded(got)
	if empty(want) && empty(got) {
		return true
	}
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		return ok && sameObject(want, got)
	case []any:
		got, ok := got.([]any)
		return ok && slices.EqualFunc(want, got, same)
	}
	if want == got {
		return true
	}
	x, ok := number(want)
	y, also := number(got)
	return ok && also && (x == y || math.Abs(x-y) <= max(1e-6, 1e-12*max(math.Abs(x), math.Abs(y))))
}

func sameObject(want, got map[string]any) bool {
	if len(want) != len(got) {
		return false
	}
	for field, value := range want {
		other, ok := got[field]
		if !ok || !same(inOrder(field, value), inOrder(field, other)) {
			return false
		}
	}
	return true
}

// inOrder sorts the value of a field that is a set.
func inOrder(field string, value any) any {
	members, ok := value.([]any)
	if !ok || field != "dependents" && field != "dependencies" {
		return value
	}
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b any) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	return members
}

// decoded decodes a text that is a JSON object or array. It returns other values unchanged.
func decoded(value any) any {
	text, ok := value.(string)
	if !ok || !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
		return value
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var held any
	if decoder.Decode(&held) != nil {
		return value
	}
	if _, err := decoder.Token(); err != io.EOF {
		return value
	}
	return held
}

// empty reports whether a value is {} or [], indistinguishable in Lua.
func empty(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return false
}

// number returns the value of a number, or of a numeric text.
func number(value any) (float64, bool) {
	switch value := value.(type) {
	case int64:
		return float64(value), true
	case json.Number:
		return number(value.String())
	case string:
		n, err := strconv.ParseFloat(value, 64)
		return n, err == nil
	}
	return 0, false
}

func TestSame(t *testing.T) {
	for _, pair := range [][2]any{
		{`{"a":1,"b":[true,null]}`, `{"b":[true,null],"a":1.0}`},
		{`{"a":"{\"b\":{}}"}`, `{"a":"{ \"b\" : [] }"}`},
		{`{"dependents":["a","b"]}`, `{"dependents":["b","a"]}`},
		{`{}`, `[]`},
		{json.Number("1"), int64(1)},
		{"1.0", "1"},
		{"1700000000.1234567", "1700000000.1234560"},
		{"plain", "plain"},
		{nil, nil},
	} {
		assert.True(t, same(pair[0], pair[1]), pair)
	}
	for _, pair := range [][2]any{
		{`{"a":1}`, `{"a":2}`},
		{`{"a":1}`, `{"a":1,"b":1}`},
		{`{"a":1}`, `{"b":1}`},
		{`{"a":["x","y"]}`, `{"a":["y","x"]}`},
		{`{"dependents":["a","b"]}`, `{"dependents":["a","c"]}`},
		{`[1]`, `[1,2]`},
		{`[]`, `[1]`},
		{`{} {}`, `{}`},
		{`{bad`, `{worse`},
		{"1.00001", "1"},
		{"1700000000.1", "1700000000.2"},
		{true, json.Number("1")},
		{nil, ""},
		{"", `[]`},
	} {
		assert.False(t, same(pair[0], pair[1]), pair)
		assert.False(t, same(pair[1], pair[0]), pair)
	}
}
