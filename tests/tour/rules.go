package tour

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/tests/scripts"
)

// Rules returns the rules of a user in docs/security.md: the words after its name.
func Rules(t testing.TB, user string) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(scripts.Root, "docs", "security.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "\nuser "+user+" ")
	require.True(t, found, "the rules of %s", user)
	rules, _, _ := strings.Cut(rest, "\n```")
	rules, _, _ = strings.Cut(rules, "\nuser ")
	return strings.Fields(strings.ReplaceAll(rules, "\\\n", " "))
}
