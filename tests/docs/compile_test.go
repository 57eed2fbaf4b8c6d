package docs

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// blockImports are the packages available to a block without an import.
var blockImports = []string{
	"bytes", "cmp", "context", "crypto/rand", "crypto/tls", "crypto/x509", "encoding/csv", "encoding/json",
	"errors", "expvar", "fmt", "io", "log", "log/slog", "net/http", "os", "os/signal", "strings",
	"syscall", "testing", "time",
	"github.com/redis/go-redis/v9",
	"github.com/qless/qless-go",
	"github.com/qless/qless-go/compat/gearmonkey",
	"github.com/qless/qless-go/compat/workqueue",
	"github.com/qless/qless-go/doctor",
	"github.com/qless/qless-go/inspect",
	"github.com/qless/qless-go/lease",
	"github.com/qless/qless-go/qlesstest",
	"github.com/qless/qless-go/events",
	"github.com/qless/qless-go/shards",
	"github.com/qless/qless-go/web",
}

// moduleImports are the packages available to blocks from other modules, by folder. Such a block is
// a whole file, with its package clause.
var moduleImports = map[string][]string{
	"outbox": {"database/sql", "github.com/qless/qless-go/outbox", "github.com/jackc/pgx/v5"},
	"qlessotel": {
		"github.com/qless/qless-go/qlessotel",
		"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/propagation",
		"go.opentelemetry.io/otel/sdk/trace",
	},
}

// commonVars are variables available to a block without a declaration.
var commonVars = map[string]string{
	"client": "*qless.Client",
	"ctx":    "context.Context",
	"job":    "*qless.Job",
	"queue":  "*qless.Queue",
	"rdb":    "*redis.Client",
	"worker": "*qless.Worker",
}

func TestEveryBlockOfCodeCompiles(t *testing.T) {
	found := goBlocks(t)
	require.NotEmpty(t, found)
	imports := compiled(t)
	for _, b := range found {
		for _, problem := range b.check(imports) {
			t.Error(problem)
		}
	}
}

func TestABlockThatDoesNotCompileIsFound(t *testing.T) {
	const text = "Text.\n\n" +
		"<!-- stubs\nvar n int\n-->\n```go\nn = missing\n```\n\n" +
		"```go\nn := client.Missing()\n```\n\n" +
		"```go\nvar ctx = 1\n\nfunc f() string { return ctx }\n```\n\n" +
		"```go\nif {\n```\n\n" +
		"```go\nerr := client.Close()\nunused, err := client.Queues(ctx)\n```\n"
	imports := compiled(t)
	var problems []string
	for _, b := range blocks("page.md", text) {
		for _, problem := range b.check(imports) {
			problems = append(problems, problem.Error())
		}
	}
	require.Len(t, problems, 4)
	require.Regexp(t, `^page\.md:7: undefined: missing$`, problems[0])
	require.Regexp(t, `^page\.md:11: client\.Missing undefined`, problems[1])
	require.Regexp(t, `^page\.md:17: cannot use ctx`, problems[2])
	require.Regexp(t, `^page\.md:21: `, problems[3])
}

// compiled returns an importer of compiled packages, shared by the tests.
func compiled(t *testing.T) types.Importer {
	t.Helper()
	imports, err := newImporter()
	require.NoError(t, err)
	return imports
}

var newImporter = sync.OnceValues(func() (types.Importer, error) {
	exports := map[string]string{}
	if err := addExports(exports, root, blockImports); err != nil {
		return nil, err
	}
	for folder, paths := range moduleImports {
		if err := addExports(exports, filepath.Join(root, folder), paths); err != nil {
			return nil, err
		}
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("package %s is not among blockImports", path)
		}
		return os.Open(exports[path])
	}), nil
})

// addExports adds the files of compiled packages and their dependencies, by path. It keeps existing
// entries.
func addExports(exports map[string]string, folder string, paths []string) error {
	args := append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, paths...)
	command := exec.Command("go", args...)
	command.Dir = folder
	command.Env = append(os.Environ(), "GOWORK=auto")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	list, err := command.Output()
	if err != nil {
		return fmt.Errorf("%w: %s", err, stderr.String())
	}
	for line := range strings.Lines(string(list)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		if exports[path] == "" {
			exports[path] = file
		}
	}
	return nil
}

// check type-checks a block, and returns the errors. Unused imports and variables are allowed.
func (b block) check(imports types.Importer) []error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", b.source(), parser.SkipObjectResolution)
	if err != nil {
		return []error{err}
	}
	var problems []error
	config := types.Config{Importer: imports, Error: func(err error) {
		var problem types.Error
		if !errors.As(err, &problem) || !problem.Soft {
			problems = append(problems, err)
		}
	}}
	_, _ = config.Check("docs", files, []*ast.File{file}, nil)
	return problems
}

// source returns the source of a file that contains the block.
func (b block) source() string {
	if strings.HasPrefix(b.code, "package ") {
		return b.at() + b.code
	}
	code := b.at() + b.code
	declared, err := names(b.code)
	if err != nil {
		code = "func _() error {\n{\n" + code + "\n}\nreturn nil\n}\n"
	}
	stubbed, _ := names(b.stubs)

	var source strings.Builder
	source.WriteString("package docs\n")
	for _, path := range blockImports {
		fmt.Fprintf(&source, "import %q\n", path)
	}
	for name, kind := range commonVars {
		if !declared[name] && !stubbed[name] {
			fmt.Fprintf(&source, "var %s %s\n", name, kind)
		}
	}
	return source.String() + b.stubs + "\n" + code
}

// at returns a line directive for the position of the block.
func (b block) at() string { return fmt.Sprintf("//line %s:%d\n", b.page, b.line) }

// names returns the names declared by declarations. It fails if the code is not a list of
// declarations.
func names(code string) (map[string]bool, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package docs\n"+code, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, declaration := range file.Decls {
		general, ok := declaration.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range general.Specs {
			if value, ok := spec.(*ast.ValueSpec); ok {
				for _, name := range value.Names {
					found[name.Name] = true
				}
			}
		}
	}
	return found, nil
}
