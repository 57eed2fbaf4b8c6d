package qless

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Data that Go takes for JSON, and Lua's decoder does not, is found before it is sent.
func TestDataThatLuaCanNotReadIsFound(t *testing.T) {
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	for _, readable := range []string{
		`"\ud83d\ude00"`, `"\\ud83d"`, `{"a":"\u00e9[[[","b":[1]}`, `"a\"["`, nested(1000),
	} {
		require.Empty(t, unreadable([]byte(readable)), readable)
	}
	for text, problem := range map[string]string{
		`"\ud83d"`:             "surrogate",
		`"\ud83dx\ude00"`:      "surrogate",
		`"\ude00"`:             "surrogate",
		`"\ud83d\ude00\ud83d"`: "surrogate",
		nested(1001):           "deep",
		"\"\xff\"":             "UTF-8",
	} {
		require.Contains(t, unreadable([]byte(text)), problem, text)
	}
}
