package redisx

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithoutDetailsKeepsTheKindOfAnError(t *testing.T) {
	for text, want := range map[string]string{
		"no route to 10.0.0.7:80\nmore":     "no route to *",
		"user=jane is unknown":              "user=* is unknown",
		`can't open "a b" in time`:          "can't open * in time",
		"i/o timeout":                       "i/o timeout",
		"order 1 2 3 failed":                "order * failed",
		"it's (deadbeef01), and that is it": "it's (*), and that is it",
	} {
		require.Equal(t, want, WithoutDetails(text))
	}
}

// The text of an error may be a whole page of HTML in one line.
func TestWithoutDetailsLooksAtTheBeginning(t *testing.T) {
	start := strings.Repeat("word ", maxLine/5) + strings.Repeat(" ", maxLine%5)
	for _, rest := range []string{"x", `"quoted"`, "1", "“"} {
		require.Equal(t, WithoutDetails(start), WithoutDetails(start+strings.Repeat(rest, 1<<20)))
	}
}
