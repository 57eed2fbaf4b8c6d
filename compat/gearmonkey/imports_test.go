package gearmonkey_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The package depends only on the standard library, go-redis, and this module's helpers for it.
func TestImports(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, shared := range []string{"guard", "redisx"} {
		those, err := filepath.Glob("../../internal/" + shared + "/*.go")
		require.NoError(t, err)
		require.NotEmpty(t, those)
		files = append(files, those...)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			if strings.Contains(path, ".") {
				allowed := path == "github.com/qless/qless-go/internal/guard" ||
					path == "github.com/qless/qless-go/internal/redisx" ||
					strings.HasPrefix(path, "github.com/redis/go-redis/v9")
				require.True(t, allowed, "%s imports %s", name, path)
			}
		}
	}
}
