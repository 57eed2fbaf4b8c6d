package luasrc_test

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/luasrc"
)

var (
	topLevel = regexp.MustCompile(`(?m)^local (?:function )?(\w+)`)
	ignored  = regexp.MustCompile(`--[^\n]*|'[^'\n]*'|[\w\])]\.\w+|\b\w+ = `)
	include  = regexp.MustCompile(`(?m)^-- @include "([^"]+)"$`)
	name     = regexp.MustCompile(`[A-Za-z_]\w*`)
)

// A file includes the pieces whose names it uses, and no others.
func TestFilesIncludeWhatTheyUse(t *testing.T) {
	pieces, err := fs.Glob(real, "lib/*.lua")
	require.NoError(t, err)
	home := map[string]string{}
	for _, piece := range pieces {
		for _, m := range topLevel.FindAllStringSubmatch(text(t, piece), -1) {
			home[m[1]] = piece
		}
	}
	commands, err := fs.Glob(real, "*.lua")
	require.NoError(t, err)
	for _, file := range append(commands, pieces...) {
		if path.Base(file) == luasrc.DropInName {
			continue
		}
		code := text(t, file)
		var want, got []string
		for _, m := range include.FindAllStringSubmatch(code, -1) {
			got = append(got, m[1])
		}
		own := localNames(code)
		for _, word := range name.FindAllString(ignored.ReplaceAllString(code, " "), -1) {
			if piece := home[word]; piece != "" && piece != file && !own[word] {
				want = append(want, piece)
			}
		}
		slices.Sort(want)
		require.Equal(t, slices.Compact(want), got, file)
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	raw, err := fs.ReadFile(real, file)
	require.NoError(t, err)
	return string(raw)
}

// localNames returns the names that code declares itself, at whatever level.
func localNames(code string) map[string]bool {
	own := map[string]bool{}
	for _, pattern := range []string{
		`local function (\w+)`, `local ((?:\w+)(?:, \w+)*)`, `for ((?:\w+)(?:, \w+)*) (?:in|=)`, `function ?\w*\(([^)]*)\)`,
	} {
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(code, -1) {
			for _, declared := range strings.Split(m[1], ", ") {
				own[declared] = true
			}
		}
	}
	return own
}
