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

// allowedImports is all that the package may need besides the standard library, so that
// whoever imports it gets little else.
var allowedImports = []string{
	"github.com/google/uuid",
	"github.com/netresearch/go-cron",
	"github.com/qless/qless-go/internal/luasrc",
	"github.com/redis/go-redis/v9",
}

func TestThePackageImportsLittle(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	looked := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range parsed.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			first, _, _ := strings.Cut(path, "/")
			standard := !strings.Contains(first, ".")
			require.True(t, standard || slices.Contains(allowedImports, path), "%s imports %s", file, path)
			looked++
		}
	}
	require.NotZero(t, looked)
}
