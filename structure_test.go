package qless_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
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

// The tests of this file hold the structure of the repository.
const (
	maxMethods   = 55     // of the Worker
	maxDocWords  = 17_500 // of go doc -all
	maxTestFiles = 20     // tests and examples of the root
	maxTestName  = 50     // letters

	maxTestLines    = 94_700 // of all tests
	maxAPITestLines = 15_000 // of the tests in tests/api
	maxLuaLines     = 12_400 // of the commands of qless, and of what they share
)

// limits has the size of each package, tests apart: its lines and files, the lines of its largest
// file and function, the files of its largest cycle, of which each needs all others, and its
// exported types, functions, methods, constants and variables. Lines are rounded up to 50, but for
// the root. A commit that raises a limit says why, and names what it could have removed instead.
const limits = `
package                                       lines files  file  func cycle exported
.                                             11450    38   698    44    15      300
bench                                          5250    32   310    60     3        0
cmd/qless                                        50     1    19     3     1        0
cmd/qless/internal/admin                       1150     7   334    38     2        1
cmd/qless/internal/cli                          100     1    94    23     1        1
cmd/qless/internal/health                      1750    10   322    43     3        1
cmd/qless/internal/jobs                        2300    13   348    48     3        1
cmd/qless/internal/out                         1100     9   223    33     2       80
cmd/qless/internal/place                       1050     5   273    31     4       46
cmd/qless/internal/queues                       750     4   297    35     1        1
cmd/qless/internal/schedules                    450     3   303    35     1        1
cmd/qless/internal/selection                    600     3   344    47     1       25
cmd/qless/internal/serve                        700     5   233    35     4        1
cmd/qless/internal/text                         150     1   115    15     1       18
cmd/qless/internal/top                         1350     6   382    37     5       23
cmd/qless/internal/usage                        350     1   325    22     1       11
cmd/qless/internal/workers                      450     3   244    36     1        1
compat/gearmonkey                              1950    13   326    36     8       72
compat/workqueue                               1550    11   272    40     2       53
doctor                                         4080    20   469    33    11      152
events                                          200     1   185    33     1       21
examples/gearmonkey                             200     1   156    41     1        0
examples/internal/connect                       150     1   101    28     1        2
examples/mixed                                  100     1    81    38     1        0
examples/moving                                 750     5   194    44     5        0
examples/pipeline                               100     1    98    46     1        0
examples/quickstart                             400     3   172    24     2        0
examples/service                                450     4   171    35     4        0
examples/worker                                 150     1   143    39     1        0
examples/workqueue                              150     1   148    23     1        0
examples/workqueue/cleaner                      150     1   108    23     1        0
gateway/lmstfy                                 4000    22   445    35     1       22
gateway/lmstfy/serve                            250     3   190    42     1        2
gateway/mixed                                    50     1    18     0     0        0
gateway/workq                                  2900    16   330    36     6        9
gateway/workq/serve                             100     1    74    21     1        3
inspect                                        3300    15   399    36     1      110
internal/ahead                                  150     1   127    11     1       13
internal/ask                                    550     3   298    29     3       37
internal/batch                                  250     2   184    20     1        8
internal/calls                                  300     3   210    42     1       11
internal/cmd/luabundle                          150     1   101    37     1        0
internal/cmd/mutate                            1000     5   273    43     5        0
internal/connect                                 50     1    34    20     1        1
internal/cmd/optiontable                         50     1    40    17     1        0
internal/cron                                   200     1   181    22     1        5
internal/dial                                   400     2   205    41     2        8
internal/dump                                   700     3   270    47     3        9
internal/gather                                 200     2   116    15     1       14
internal/guard                                  350     4   148    26     2       21
internal/histogram                              250     2   112    21     1       12
internal/holders                                100     1    68    14     1        5
internal/hosts                                   50     1    50    13     1        3
internal/hub                                    950     5   339    32     3       29
internal/inside                                 150     1   147     0     1       35
internal/jobopts                               1600     7   312    32     5       69
internal/keys                                   300     2   161    21     2       15
internal/leases                                 400     2   316    26     1       16
internal/line                                   200     1   164    12     1       14
internal/linger                                 100     1    95    16     1        7
internal/listeners                              200     5    58    15     1        6
internal/listeners/keepalivetest                100     1    68    20     1        5
internal/luasrc                                2410    10   466    64     7        9
internal/queues                                 400     2   213    26     1       27
internal/redisx                                 710     7   263    33     1       49
internal/rendezvous                              50     1    29    10     1        1
internal/runs                                   300     2   217    19     1       15
internal/script                                 580     5   153    40     1       25
internal/settings                               300     1   257    27     1       22
internal/slots                                  150     1   135    17     1       17
internal/testkit                               1400    15   198    44     3       49
internal/testkit/memory                          50     1    23     8     1        1
internal/stacks                                 200     1   178    30     1       13
internal/terms                                  200     1   190    27     1       10
internal/together                               100     1    96    37     1        4
internal/units                                  350     3   147    31     1       17
internal/wire                                   717     5   329    25     1       40
lease                                           900     5   309    29     5        8
lua                                              50     1    10     0     0        1
outbox                                         2300    12   429    40     9       29
qlessotel                                      1000     8   307    38     5        8
qlessprom                                      1650     9   326    39     6       22
qlesstest                                       550     6   170    17     1       18
shards                                          550     3   280    27     1       26
web                                            6350    37   340    39     6       48
web/browsertest                                  50     1     6     0     0        0
web/internal/actions                           2800    15   392    53     5       68
web/internal/charts                            1050     4   369    41     1       18
web/internal/find                               500     2   279    37     1       28
web/internal/rates                              600     2   337    31     1       28
web/internal/words                              350     3   144    31     1       15
`

// lightImports is all that the package may need besides the standard library and internal
// packages of this module, so that importing it adds little else.
var lightImports = []string{
	"github.com/google/uuid",
	"github.com/netresearch/go-cron",
	"github.com/redis/go-redis/v9",
}

const (
	bottom = "internal/guard internal/keys internal/redisx internal/units internal/wire "
	parts  = "internal/ahead internal/ask internal/batch internal/calls internal/cron internal/dial " +
		"internal/gather internal/histogram internal/hub internal/inside internal/jobopts internal/leases internal/line " +
		"internal/linger internal/queues internal/rendezvous internal/runs internal/script " +
		"internal/settings internal/slots internal/stacks internal/together "
	shell = "cmd/qless/internal/out cmd/qless/internal/place cmd/qless/internal/selection " +
		"cmd/qless/internal/text cmd/qless/internal/usage "
)

// A row names packages of the project and the packages of the project that they may import, tests
// apart. As for the go command, /... stands for all packages below.
type row struct{ packages, imports string }

// mayImport lists lower packages first. The first row that names a package counts.
var mayImport = []row{
	{bottom, ""},
	{"internal/hosts internal/listeners/... internal/luasrc lua", ""},
	{"internal/ask", bottom + "internal/calls internal/hub"},
	{"internal/inside", bottom + "internal/ask internal/jobopts"},
	{"internal/runs", bottom + "internal/histogram"},
	{parts, bottom},
	{".", bottom + parts},
	{"compat/...", "internal/guard internal/redisx"},
	{"qlessotel", "."},
	{"internal/dump", bottom},
	{"inspect", bottom + parts + "."},
	{"internal/holders", "inspect"},
	{"internal/terms", ". inspect"},
	{"events", bottom + ". internal/inside"},
	{"lease", bottom + parts + "."},
	{"outbox", bottom + ". internal/inside internal/jobopts"},
	{"qlesstest", ". inspect"},
	{"internal/connect", ". qlesstest"},
	{"shards", bottom + ". inspect internal/inside internal/jobopts internal/rendezvous " +
		"internal/together"},
	{"qlessprom", ". doctor inspect internal/guard internal/together"},
	{"doctor", bottom + ". inspect internal/settings"},
	{"gateway/...",
		". gateway/... inspect internal/connect internal/guard internal/hosts internal/inside " +
			"internal/listeners internal/redisx lease"},
	{"web web/...",
		". doctor events inspect internal/guard internal/holders internal/hosts internal/inside " +
			"internal/jobopts internal/redisx internal/settings internal/stacks internal/terms internal/together internal/units web/internal/..."},
	{"cmd/qless/internal/text", ""},
	{"cmd/qless/internal/out", ". cmd/qless/internal/text inspect internal/redisx internal/units"},
	{"cmd/qless/internal/usage", ". cmd/qless/internal/out internal/jobopts internal/settings"},
	{"cmd/qless/internal/place", ". cmd/qless/internal/out cmd/qless/internal/text " +
		"cmd/qless/internal/usage doctor inspect internal/dial internal/together internal/units"},
	{"cmd/qless cmd/qless/internal/cli", "cmd/..."},
	{"cmd/...", ". " + shell + "cmd/qless/internal/top doctor events gateway/... inspect internal/connect " +
		"internal/dump internal/holders internal/hosts internal/jobopts internal/listeners internal/queues " +
		"internal/redisx internal/stacks internal/terms internal/units lua qlessprom qlesstest web"},
	{"examples/...", ". compat/... examples/... inspect internal/testkit outbox qlessotel qlessprom " +
		"qlesstest web"},
	{"internal/cmd/...", "internal/jobopts internal/luasrc"},
	{"internal/testkit/...", "internal/redisx internal/testkit"},
	{"tests/...", ". doctor events inspect internal/inside internal/luasrc internal/testkit lease shards " +
		"tests/..."},
	{"bench/...", ". bench/... doctor events inspect internal/luasrc internal/testkit lease outbox " +
		"tests/... web"},
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

func TestTheRootHasFewFilesOfTests(t *testing.T) {
	_, tests := goFiles(t)
	tests = slices.DeleteFunc(tests, func(file string) bool { return path.Dir(file) != "." })
	require.LessOrEqual(t, len(tests), maxTestFiles)
}

// Steps of tests/model and traces of tests/conformance need no other test.
func TestTestsAndScriptsStayShort(t *testing.T) {
	lines := func(files []string) (n int) {
		for _, file := range files {
			n += strings.Count(readFile(t, file), "\n")
		}
		require.Positive(t, n)
		return n
	}
	_, tests := goFiles(t)
	require.LessOrEqual(t, lines(tests), maxTestLines)
	require.LessOrEqual(t, lines(slices.DeleteFunc(tests, func(file string) bool {
		return path.Dir(file) != "tests/api"
	})), maxAPITestLines)
	scripts, err := filepath.Glob("lua/[cl]*/*.lua")
	require.NoError(t, err)
	require.LessOrEqual(t, lines(scripts), maxLuaLines)
}

// A worker is made of parts, each with methods of its own.
func TestTheWorkerHasFewMethods(t *testing.T) {
	method := regexp.MustCompile(`(?m)^func \(\w+ \*Worker\) `)
	files, _ := goFiles(t)
	methods := 0
	for _, file := range files {
		if path.Dir(file) == "." {
			methods += len(method.FindAllString(readFile(t, file), -1))
		}
	}
	require.NotZero(t, methods)
	require.LessOrEqual(t, methods, maxMethods)
}

func TestTheDocumentationStaysShort(t *testing.T) {
	text, err := exec.Command("go", "doc", "-all", ".").Output()
	require.NoError(t, err)
	words := len(strings.Fields(string(text)))
	require.Greater(t, words, maxDocWords/2)
	require.LessOrEqual(t, words, maxDocWords)
}

func TestPackagesStaySmall(t *testing.T) {
	files, _ := goFiles(t)
	packages := map[string][]string{}
	for _, file := range files {
		if !strings.HasPrefix(file, "tests/") {
			packages[path.Dir(file)] = append(packages[path.Dir(file)], file)
		}
	}
	names := strings.Fields(strings.SplitN(limits, "\n", 3)[1])
	var table strings.Builder
	for _, folder := range slices.Sorted(maps.Keys(packages)) {
		sizes := sizesOf(t, packages[folder])
		fmt.Fprintf(&table, "%-44s %6d %5d %5d %5d %5d %8d\n", folder,
			sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5])
		row := strings.Fields(rowOf(folder))
		if !assert.Len(t, row, len(names), "%s has no row in limits", folder) {
			continue
		}
		for i, size := range sizes {
			limit, err := strconv.Atoi(row[i+1])
			require.NoError(t, err)
			assert.LessOrEqual(t, size, limit, "%s: %s", folder, names[i+1])
		}
		delete(packages, folder)
	}
	if t.Failed() {
		t.Logf("The sizes are now:\n%s", table.String())
	}
}

// rowOf returns the row of a package in limits.
func rowOf(folder string) string {
	for line := range strings.Lines(limits) {
		if strings.HasPrefix(line, folder+" ") {
			return line
		}
	}
	return ""
}

// sizesOf returns the sizes of a package with these files, in the order of limits.
func sizesOf(t *testing.T, files []string) []int {
	t.Helper()
	fset, parsed, lines, largest, function := token.NewFileSet(), []*ast.File{}, 0, 0, 0
	for _, file := range files {
		one, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		parsed = append(parsed, one)
		n := fset.File(one.Pos()).LineCount()
		lines, largest = lines+n, max(largest, n)
		for _, decl := range one.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				function = max(function, fset.Position(f.End()).Line-fset.Position(f.Pos()).Line+1)
			}
		}
	}
	pkg, info := typesOf(fset, parsed)
	return []int{lines, len(files), largest, function, len(largestCycle(uses(fset, pkg, info))),
		exported(pkg)}
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

// Readers look up a field by its name.
func TestFieldsOfConfigsAreInAlphabeticalOrder(t *testing.T) {
	files, _ := goFiles(t)
	configs := 0
	for _, file := range files {
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(parsed, func(node ast.Node) bool {
			spec, ok := node.(*ast.TypeSpec)
			if !ok || !strings.HasSuffix(spec.Name.Name, "Config") && spec.Name.Name != "Options" {
				return true
			}
			made, ok := spec.Type.(*ast.StructType)
			if ok && spec.Name.IsExported() && !strings.Contains(file, "internal/") {
				configs++
				assert.True(t, slices.IsSorted(fieldsOf(made)), "%s: %s", file, spec.Name.Name)
			}
			return true
		})
	}
	require.Greater(t, configs, 5)
}

// fieldsOf returns the names of the exported fields of a struct.
func fieldsOf(made *ast.StructType) (names []string) {
	for _, field := range made.Fields.List {
		for _, name := range field.Names {
			if name.IsExported() {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

func TestNoNameHidesAPredeclaredOne(t *testing.T) {
	files, tests := goFiles(t)
	for _, file := range slices.Concat(files, tests) {
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, name := range declared(parsed) {
			assert.Nil(t, types.Universe.Lookup(name.Name), "%s: %s", fset.Position(name.Pos()), name.Name)
		}
	}
}

// withContexts are the structs that have a context: requests that are passed on to another
// goroutine. There shall be no further ones.
var withContexts = []string{"internal/batch.Call", "internal/inside.Job"}

// A context belongs to a call, and a struct outlives calls.
func TestNoOtherStructHasAContext(t *testing.T) {
	files, _ := goFiles(t)
	var found []string
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		name := ""
		ast.Inspect(parsed, func(node ast.Node) bool {
			switch n := node.(type) {
			case *ast.FuncDecl:
				name = n.Name.Name
			case *ast.TypeSpec:
				name = n.Name.Name
			case *ast.StructType:
				if slices.ContainsFunc(n.Fields.List, func(f *ast.Field) bool {
					return types.ExprString(f.Type) == "context.Context"
				}) {
					found = append(found, path.Dir(file)+"."+name)
				}
			}
			return true
		})
	}
	require.ElementsMatch(t, withContexts, found)
}

// declared returns the names of functions, parameters and variables.
func declared(file *ast.File) (names []*ast.Ident) {
	add := func(list ...ast.Expr) {
		for _, x := range list {
			if name, ok := x.(*ast.Ident); ok {
				names = append(names, name)
			}
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				add(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				add(n.Key, n.Value)
			}
		case *ast.ValueSpec:
			names = append(names, n.Names...)
		case *ast.FuncType:
			for _, list := range []*ast.FieldList{n.Params, n.Results} {
				if list == nil {
					continue
				}
				for _, field := range list.List {
					names = append(names, field.Names...)
				}
			}
		case *ast.FuncDecl:
			if n.Recv == nil {
				add(n.Name)
			}
		}
		return true
	})
	return names
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

// typesOf checks the types of a package, without the packages that it imports. That is enough
// for the names that it declares itself.
func typesOf(fset *token.FileSet, files []*ast.File) (*types.Package, *types.Info) {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: noImports{}, Error: func(error) {}}
	pkg, _ := config.Check(files[0].Name.Name, fset, files, info)
	return pkg, info
}

type noImports struct{}

func (noImports) Import(string) (*types.Package, error) { return nil, errors.New("not looked up") }

// exported counts the exported identifiers of a package: fields are not among them.
func exported(pkg *types.Package) (count int) {
	add := func(object types.Object) {
		if object.Exported() {
			count++
		}
	}
	for _, name := range pkg.Scope().Names() {
		object := pkg.Scope().Lookup(name)
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
func uses(fset *token.FileSet, pkg *types.Package, info *types.Info) map[string]map[string]bool {
	used := map[string]map[string]bool{}
	for ident, object := range info.Uses {
		if object.Pkg() == pkg {
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

// isInside reports whether users don't meet the names in a file, or another protocol has made them.
func isInside(file string) bool {
	top, _, _ := strings.Cut(file, "/")
	return slices.Contains([]string{"bench", "compat", "examples", "internal", "lua", "tests"}, top) ||
		strings.HasPrefix(file, "gateway/lmstfy/")
}

// vocabulary returns the words of the table in the package comment, by their kind.
func vocabulary(t *testing.T) map[string][]string {
	t.Helper()
	_, table, found := strings.Cut(readFile(t, "doc.go"), "//\tstates ")
	require.True(t, found)
	table, _, _ = strings.Cut("states "+table, "\n//\n")
	words, kind := map[string][]string{}, ""
	for line := range strings.Lines(inBrackets.ReplaceAllString(table, "")) {
		for _, word := range strings.Fields(strings.TrimPrefix(line, "//")) {
			if slices.Contains([]string{"states", "lists", "events"}, word) {
				kind = word
				continue
			}
			words[kind] = append(words[kind], word)
		}
	}
	require.Len(t, words, 3)
	return words
}

var (
	inBrackets = regexp.MustCompile(`\([^)]*\)`)
	constant   = regexp.MustCompile(`(?m)^\s*(?:const )?([A-Z]\w*) +(\w+) += "([a-z_]+)"`)
	jsonKey    = regexp.MustCompile(`(?m)^.*json:"([a-z_0-9]+).*$`)
)

// otherForms are words of the same origin as a state or an event that mean something else: orders
// and nouns, and words of the server.
var otherForms = strings.Fields("cancel complete dependency dependencies dependents ends fail " +
	"failing failure failures log put_at puts release resume retry retries retrying run runs " +
	"schedule schedules start start_by timeout track wait waits")

// qless's own words on the wire are not ours.
func TestStatesListsAndEventsHaveTheirWords(t *testing.T) {
	words := vocabulary(t)
	kinds := map[string][]string{
		"State": words["states"], "List": slices.Concat(words["states"], words["lists"]),
		"Kind": words["events"], "JobEventKind": words["events"],
	}
	known := slices.Concat(words["states"], words["lists"], words["events"], otherForms)
	stems := map[string]bool{}
	for _, word := range slices.Concat(words["states"], words["events"]) {
		stems[strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(word, "s"), "ed"), "ing")] = true
	}
	isKnown := func(name string) bool {
		for part := range strings.SplitSeq(name, "_") {
			for stem := range stems {
				if strings.HasPrefix(part, stem) && !slices.Contains(known, part) &&
					!slices.Contains(known, name) {
					return false
				}
			}
		}
		return true
	}
	files, _ := goFiles(t)
	constants, keys := 0, 0
	for _, file := range files {
		if isInside(file) {
			continue
		}
		for _, match := range constant.FindAllStringSubmatch(readFile(t, file), -1) {
			other := match[2] == "Kind" && path.Dir(file) != "events"
			if of, ok := kinds[match[2]]; ok && !other && match[3] != "gap" {
				constants++
				assert.Contains(t, of, match[3], "%s: %s", file, match[1])
			}
		}
		for _, match := range jsonKey.FindAllStringSubmatch(readFile(t, file), -1) {
			if !strings.Contains(match[0], "wire.") {
				keys++
				assert.True(t, isKnown(match[1]), "%s: %s", file, match[1])
			}
		}
	}
	require.Greater(t, constants, 30)
	require.Greater(t, keys, 200)
}
