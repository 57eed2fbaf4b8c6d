package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/doctor"
)

// codesIn returns the codes in the first column of the tables of a part of a page, or at the
// beginnings of its list's items.
func codesIn(t *testing.T, page, from, to string) (codes []doctor.ReasonCode) {
	t.Helper()
	_, part, found := strings.Cut(read(t, page), from)
	require.True(t, found, from)
	part, _, found = strings.Cut(part, to)
	require.True(t, found, to)
	for line := range strings.Lines(part) {
		first := ""
		if strings.HasPrefix(line, "| `") {
			first = strings.Split(line, "|")[1]
		} else if strings.HasPrefix(line, "- `") {
			first, _, _ = strings.Cut(line, ": ")
		}
		for _, code := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(first, -1) {
			codes = append(codes, doctor.ReasonCode(code[1]))
		}
	}
	return codes
}

func TestEachReasonIsOnItsPage(t *testing.T) {
	status := codesIn(t, "docs/cli.md", "\n## `status`", "\n## `check`")
	why := codesIn(t, "docs/doctor.md", "\n## Why a queue waits", "\n## Damage")
	damage := codesIn(t, "docs/doctor.md", "\n### Checks", "\n### Costs")
	isDamage := []doctor.Gravity{doctor.Broken, doctor.Leftover, doctor.Warning}
	for _, k := range doctor.Kinds() {
		require.Equal(t, k.Line != "", slices.Contains(status, k.Code), "%s in the table of status", k.Code)
		if slices.Contains(isDamage, k.Gravity) {
			require.True(t, slices.Contains(damage, k.Code), "%s among the checks", k.Code)
		} else {
			require.Equal(t, k.Text != "", slices.Contains(why, k.Code), "%s among the causes", k.Code)
		}
	}
	known := func(code doctor.ReasonCode) bool {
		return slices.ContainsFunc(doctor.Kinds(), func(k doctor.Kind) bool { return k.Code == code })
	}
	for _, code := range slices.Concat(status, why, damage) {
		require.True(t, known(code), "%s is no reason", code)
	}
	problems := slices.DeleteFunc(status, func(code doctor.ReasonCode) bool {
		return code == doctor.ReasonNoPersistence
	})
	require.ElementsMatch(t, doctor.ProblemCodes(), problems)
}
