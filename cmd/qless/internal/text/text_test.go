package text_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/cmd/qless/internal/text"
)

func TestNamesCanNotChangeTheTerminal(t *testing.T) {
	require.Equal(t, "a�[31mb c�d�", text.Clean("a\x1b[31mb\nc\u202ed\xff"))
}

func TestTextIsCutToAWidth(t *testing.T) {
	require.Equal(t, "abc", text.Cut("abc", 3))
	require.Equal(t, "ab~", text.Cut("abcd", 3))
	require.Equal(t, "", text.Cut("abcd", 0))
	require.Equal(t, "ä  ", text.Pad("ä", 3))
	require.Equal(t, " 12", text.PadLeft("12", 3))
}

func TestColoursAreForTerminals(t *testing.T) {
	require.Equal(t, "x", text.StyleOf(&bytes.Buffer{}).Red("x"))
	require.Equal(t, "\x1b[31mx\x1b[0m", text.Coloured().Red("x"))
}

func TestJSONCanNotChangeTheTerminal(t *testing.T) {
	require.Equal(t, "{\"a\": \"\\u009b31m\\u202e\\u007fé\\u001b\"}\n",
		string(text.EscapeJSON([]byte("{\"a\": \"\u009b31m\u202e\x7fé\\u001b\"}\n"))))
	same := []byte(`{"a": "é\n中"}`)
	require.Equal(t, same, text.EscapeJSON(same))
}
