package qless_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// allowedImports is all that the package may need besides the standard library and internal
// packages of this module, so that importing it adds little else.
var allowedImports = []string{
	"github.com/google/uuid",
	"github.com/netresearch/go-cron",
	"github.com/redis/go-redis/v9",
}

// internalPath is what the paths of this module's internal packages begin with.
const internalPath = "github.com/qless/qless-go/internal/"

// The internal packages that the package imports count as a part of it.
func TestThePackageImportsLittle(t *testing.T) {
	folders := []string{"."}
	for i := 0; i < len(folders); i++ {
		for file, paths := range imports(t, folders[i]) {
			for _, path := range paths {
				first, _, _ := strings.Cut(path, "/")
				name, internal := strings.CutPrefix(path, internalPath)
				standard := !strings.Contains(first, ".")
				require.True(t, standard || internal || slices.Contains(allowedImports, path),
					"%s imports %s", file, path)
				if folder := filepath.Join("internal", name); internal && !slices.Contains(folders, folder) {
					folders = append(folders, folder)
				}
			}
		}
	}
	require.Contains(t, folders, filepath.Join("internal", "redisx"), "internal packages were looked at")
}

// imports returns what the files of a folder import, except for tests.
func imports(t *testing.T, folder string) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	all := map[string][]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range parsed.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			all[file] = append(all[file], path)
		}
	}
	require.NotEmpty(t, all, folder)
	return all
}
