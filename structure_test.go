package qless_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests of this file hold the structure of the repository. A limit is lowered with the number
// that it limits.
const (
	maxFiles     = 40    // of the root, but for tests
	maxTestFiles = 20    // tests and examples beside them
	maxLines     = 13040 // of the files of the root, but for tests
	maxExported  = 346   // types, functions, methods, constants and variables of the root
	maxCycle     = 20    // files of the root of which each needs all others
	maxTestName  = 50    // letters
)

// lightImports is all that the package may need besides the standard library and internal
// packages of this module, so that importing it adds little else.
var lightImports = []string{
	"github.com/google/uuid",
	"github.com/netresearch/go-cron",
	"github.com/redis/go-redis/v9",
}

const (
	bottom = "internal/keys internal/redisx internal/units internal/wire "
	parts  = "internal/ahead internal/batch internal/calls internal/cron internal/dial " +
		"internal/histogram internal/hub internal/inside internal/jobopts internal/leases internal/line " +
		"internal/linger internal/queues internal/runs internal/script internal/settings " +
		"internal/together "
)

// A row names packages of the project and the packages of the project that they may import, tests
// apart. As for the go command, /... stands for all packages below.
type row struct{ packages, imports string }

// mayImport lists lower packages first. The first row that names a package counts.
var mayImport = []row{
	{bottom, ""},
	{"internal/hosts internal/luasrc lua", ""},
	{"internal/inside", "internal/jobopts"},
	{"internal/runs", bottom + "internal/histogram"},
	{parts, bottom},
	{".", bottom + parts},
	{"compat/...", "internal/redisx"},
	{"qlessotel", "."},
	{"internal/dump", bottom},
	{"inspect", bottom + parts + "."},
	{"outbox", bottom + ". internal/inside internal/jobopts"},
	{"qlesstest", ". inspect"},
	{"qlessprom", ". doctor inspect internal/together"},
	{"doctor", bottom + ". inspect internal/luasrc lua"},
	{"gateway/...", ". gateway/... inspect internal/hosts internal/redisx qlesstest"},
	{"web web/...",
		". doctor inspect internal/hosts internal/jobopts internal/redisx internal/together " +
			"internal/units web/internal/..."},
	{"cmd/...", ". cmd/... doctor gateway/... inspect internal/dial internal/dump internal/hosts " +
		"internal/jobopts internal/luasrc internal/queues internal/redisx internal/settings " +
		"internal/together internal/units lua qlessprom qlesstest web"},
	{"examples/...", ". compat/... examples/... inspect internal/testkit outbox qlessotel qlessprom " +
		"qlesstest web"},
	{"internal/cmd/...", "internal/luasrc"},
	{"internal/testkit/...", "internal/redisx internal/testkit"},
	{"tests/...", ". doctor inspect internal/luasrc internal/testkit tests/..."},
	{"bench/...", ". bench/... doctor inspect internal/luasrc internal/testkit outbox tests/... web"},
}

// covers reports whether one of several patterns stands for a package.
func covers(patterns, folder string) bool {
	return slices.ContainsFunc(strings.Fields(patterns), func(pattern string) bool {
		above, below := strings.CutSuffix(pattern, "/...")
		return folder == above || below && strings.HasPrefix(folder, above+"/")
	})
}

func TestImportsPointDown(t *testing.T) {
	files, _ := goFiles(t)
	for _, file := range files {
		folder := path.Dir(file)
		at := slices.IndexFunc(mayImport, func(r row) bool { return covers(r.packages, folder) })
		require.GreaterOrEqual(t, at, 0, "give %s a row in mayImport", folder)
		for _, imported := range imports(t, file) {
			if own, ok := inProject(imported); ok {
				assert.True(t, covers(mayImport[at].imports, own), "%s imports %s", file, own)
			}
		}
	}
}

// The internal packages that the package imports count as a part of it.
func TestThePackageImportsLittle(t *testing.T) {
	files, _ := goFiles(t)
	folders := []string{"."}
	for i := 0; i < len(folders); i++ {
		for _, file := range files {
			if path.Dir(file) != folders[i] {
				continue
			}
			for _, imported := range imports(t, file) {
				first, _, _ := strings.Cut(imported, "/")
				own, ok := inProject(imported)
				require.True(t, !strings.Contains(first, ".") || strings.HasPrefix(own, "internal/") ||
					slices.Contains(lightImports, imported), "%s imports %s", file, imported)
				if ok && !slices.Contains(folders, own) {
					folders = append(folders, own)
				}
			}
		}
	}
	require.Contains(t, folders, "internal/redisx", "internal packages were looked at")
}

func TestNamesOfTestsAreShort(t *testing.T) {
	names := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark|Example)\w+)\(`)
	_, tests := goFiles(t)
	for _, file := range tests {
		for _, match := range names.FindAllStringSubmatch(readFile(t, file), -1) {
			assert.LessOrEqual(t, len(match[1]), maxTestName,
				"%s: say the case of %s in fewer letters, and the rest in a comment", file, match[1])
		}
	}
}

// Clients in other languages read the script as text.
func TestGeneratedFilesAreASCII(t *testing.T) {
	found, err := exec.Command("git", "grep", "-lE", `^(//|--) Code generated .*DO NOT EDIT`).Output()
	require.NoError(t, err)
	files := strings.Fields(string(found))
	require.Subset(t, files, []string{"commands_gen.go", "lua/qless.lua"})
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NotRegexp(t, `[^\x00-\x7f]`, string(text), file)
	}
}

func TestThePackageStaysSmall(t *testing.T) {
	files, tests := goFiles(t)
	isBelow := func(file string) bool { return path.Dir(file) != "." }
	files, tests = slices.DeleteFunc(files, isBelow), slices.DeleteFunc(tests, isBelow)
	lines := 0
	for _, file := range files {
		lines += strings.Count(readFile(t, file), "\n")
	}
	assert.LessOrEqual(t, len(files), maxFiles, "files")
	assert.LessOrEqual(t, len(tests), maxTestFiles, "files of tests")
	assert.LessOrEqual(t, lines, maxLines, "lines")

	fset, root, info := typesOf(t, files)
	assert.LessOrEqual(t, exported(root), maxExported, "exported identifiers")
	cycle := largestCycle(uses(fset, root, info))
	assert.LessOrEqual(t, len(cycle), maxCycle, "files of the largest cycle: %v", cycle)
}

// goFiles returns the Go files of all modules, by their slashed paths.
func goFiles(t *testing.T) (files, tests []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(".", func(file string, entry fs.DirEntry, err error) error {
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != "." &&
			(name[0] == '.' || name == "testdata" || name == "node_modules"):
			return fs.SkipDir
		case strings.HasSuffix(name, "_test.go"):
			tests = append(tests, filepath.ToSlash(file))
		case strings.HasSuffix(name, ".go"):
			files = append(files, filepath.ToSlash(file))
		}
		return nil
	}))
	return files, tests
}

// A loop over the literal of a map has no order, so that of several faults, any may be reported.
func TestNoLoopIsOverALiteralMap(t *testing.T) {
	files, _ := goFiles(t)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if !strings.HasPrefix(file, "tests/") {
			assert.NotContains(t, string(text), ":= range map[", file)
		}
	}
}

// actionRows matches the constants of actions, and the rows of their tables.
var actionRows = regexp.MustCompile(`(?m)^\t(Action\w+)(?: +Action = |: +\{|: +func\(s \*WorkerStats)`)

func TestEachActionHasARow(t *testing.T) {
	seen := map[string]int{}
	for _, file := range []string{"outcome.go", "worker_stats.go"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, found := range actionRows.FindAllStringSubmatch(string(text), -1) {
			seen[found[1]]++
		}
	}
	require.Len(t, seen, 4)
	for name, times := range seen {
		require.Equal(t, 3, times, "%s is a constant, and has a row in actions and countActions", name)
	}
}

// imports returns the paths that a file imports.
func imports(t *testing.T, file string) (paths []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	require.NoError(t, err)
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		paths = append(paths, imported)
	}
	return paths
}

// inProject returns the folder of a package of this project.
func inProject(imported string) (folder string, ok bool) {
	if folder, ok = strings.CutPrefix(imported+"/", "github.com/qless/qless-go/"); !ok {
		return "", false
	}
	return path.Clean(folder), true
}

// typesOf checks the types of the root, which has these files. The go command knows where the
// packages are that it imports.
func typesOf(t *testing.T, files []string) (*token.FileSet, *types.Package, *types.Info) {
	t.Helper()
	list := exec.CommandContext(t.Context(),
		"go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".")
	list.Stderr = t.Output()
	listed, err := list.Output()
	require.NoError(t, err)
	exports := map[string]string{}
	for line := range strings.Lines(string(listed)) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[name] = file
	}
	open := func(name string) (io.ReadCloser, error) { return os.Open(exports[name]) }

	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, file := range files {
		one, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		parsed = append(parsed, one)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", open)}
	root, err := config.Check("github.com/qless/qless-go", fset, parsed, info)
	require.NoError(t, err)
	return fset, root, info
}

// exported counts the exported identifiers of a package: fields are not among them.
func exported(root *types.Package) (count int) {
	add := func(object types.Object) {
		if object.Exported() {
			count++
		}
	}
	for _, name := range root.Scope().Names() {
		object := root.Scope().Lookup(name)
		add(object)
		named, ok := object.Type().(*types.Named)
		if _, isType := object.(*types.TypeName); !isType || !ok || !object.Exported() {
			continue
		}
		for method := range named.Methods() {
			add(method)
		}
		if methods, ok := named.Underlying().(*types.Interface); ok {
			for method := range methods.ExplicitMethods() {
				add(method)
			}
		}
	}
	return count
}

// uses returns the files whose types, functions, methods, fields, constants and variables each file
// uses.
func uses(fset *token.FileSet, root *types.Package, info *types.Info) map[string]map[string]bool {
	used := map[string]map[string]bool{}
	for ident, object := range info.Uses {
		if object.Pkg() == root {
			from, to := fset.Position(ident.Pos()).Filename, fset.Position(object.Pos()).Filename
			if used[from] == nil {
				used[from] = map[string]bool{}
			}
			used[from][to] = true
		}
	}
	return used
}

// largestCycle returns the files of the largest set of files of which each reaches all others.
func largestCycle(used map[string]map[string]bool) (largest []string) {
	for through := range used {
		for from := range used {
			if used[from][through] {
				for to := range used[through] {
					used[from][to] = true
				}
			}
		}
	}
	for file := range used {
		var cycle []string
		for other := range used[file] {
			if used[other][file] {
				cycle = append(cycle, other)
			}
		}
		if len(cycle) > len(largest) {
			largest = cycle
		}
	}
	slices.Sort(largest)
	return largest
}
