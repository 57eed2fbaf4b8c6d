package redisx

import (
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
