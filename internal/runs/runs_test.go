package runs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRateKeys(t *testing.T) {
	for field, want := range map[string]Key{
		"4:mailWelcome":  {},
		"4:mail:Welcome": {"mail", "Welcome"},
		"0::":            {},
		"3:a:b:c:d":      {"a:b", "c:d"},
		"2:é:K":          {"é", "K"},
		"9:mail:Welcome": {},
		"-1:mail":        {},
		"x":              {},
		"4:mail":         {},
	} {
		key, ok := ParseKey(field)
		require.Equal(t, want, key, field)
		require.Equal(t, want != Key{} || field == "0::", ok, field)
	}
}
