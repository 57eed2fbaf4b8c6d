package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/hub"
	"github.com/qless/qless-go/internal/keys"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/settings"
	"github.com/qless/qless-go/internal/stacks"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/lua"
)

// variables are the names for values of types on pages.
var variables = map[string]string{
	"batch": "Batch", "client": "Client", "job": "Job", "queue": "Queue", "worker": "Worker",
}

// mentioned matches a name of the package, or a field or method of a type or a variable.
var mentioned = regexp.MustCompile(`\b(\w+)\.([A-Z]\w*)`)

// declared returns the names declared by the package, as Name, Type.Field and Type.Method.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	return declaredIn(t, ".")
}

// declaredIn returns the names declared by the package in a folder.
func declaredIn(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	require.NoError(t, err)
	found := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, declaration := range parsed.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				found[receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					note(found, spec)
				}
			}
		}
	}
	return found
}

// receiver returns the type of a method followed by a dot, or the empty string.
func receiver(f *ast.FuncDecl) string {
	name := ""
	if f.Recv != nil {
		ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && name == "" {
				name = id.Name + "."
			}
			return true
		})
	}
	return name
}

// note adds the names of a declaration.
func note(found map[string]bool, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			found[name.Name] = true
		}
	case *ast.TypeSpec:
		found[s.Name.Name] = true
		var fields *ast.FieldList
		switch kind := s.Type.(type) {
		case *ast.StructType:
			fields = kind.Fields
		case *ast.InterfaceType:
			fields = kind.Methods
		default:
			return
		}
		for _, field := range fields.List {
			for _, name := range field.Names {
				found[s.Name.Name+"."+name.Name] = true
			}
		}
	}
}

// The first column has the names of another queue, or former ones.
func TestNamesAreTranslatedIntoExistingOnes(t *testing.T) {
	names := declared(t)
	for page, least := range map[string]int{"docs/coming-from.md": 50, "CHANGELOG.md": 2} {
		checked := 0
		for _, line := range strings.Split(read(t, page), "\n") {
			if strings.HasPrefix(line, "|") {
				line = strings.Join(strings.Split(line, "|")[2:], "|")
			}
			checked += requireNames(t, names, line)
		}
		require.Greater(t, checked, least, page)
	}
}

// requireNames checks that the names in a text exist, and returns their number. It passes over
// names of other packages.
func requireNames(t *testing.T, names map[string]bool, text string) (checked int) {
	t.Helper()
	for _, m := range mentioned.FindAllStringSubmatch(text, -1) {
		owner, name := m[1], m[2]
		if as, ok := variables[owner]; ok {
			owner = as
		}
		switch {
		case owner == "qless":
			require.True(t, names[name], "qless.%s", name)
		case names[owner]:
			require.True(t, names[owner+"."+name], "%s.%s", owner, name)
		default:
			continue
		}
		checked++
	}
	return checked
}

var (
	fencedBlock = regexp.MustCompile("(?ms)^```.*?^```$")
	inlineCode  = regexp.MustCompile("`[^`]+`")
	packageLink = regexp.MustCompile(`pkg\.go\.dev/github\.com/qless/qless-go#([A-Z][\w.]*)`)
)

// Other packages and queues have types of the same names.
func TestPagesNameWhatExists(t *testing.T) {
	names, unique, checked := declared(t), declared(t), 0
	for _, shared := range []string{"Config", "Handler", "Result", "Unique", "WorkerConfig"} {
		delete(unique, shared)
	}
	for _, page := range pages(t) {
		text := fencedBlock.ReplaceAllString(read(t, page), "")
		for _, link := range packageLink.FindAllStringSubmatch(text, -1) {
			if checked++; !names[link[1]] {
				t.Errorf("%s links to %s", page, link[1])
			}
		}
		switch page {
		case "CHANGELOG.md", "docs/coming-from.md", "docs/gearmonkey.md":
			continue
		}
		t.Run(page, func(t *testing.T) {
			for _, code := range inlineCode.FindAllString(text, -1) {
				checked += requireNames(t, unique, code)
			}
		})
	}
	require.Greater(t, checked, 100)
}

// A row after an empty line is rendered as text, unless it begins a table, and text right after a
// row is rendered as another row.
func TestTablesAreWhole(t *testing.T) {
	for _, page := range pages(t) {
		var rows []string // of the table before a line
		for i, line := range strings.Split(read(t, page), "\n") {
			where := fmt.Sprintf("%s:%d", page, i+1)
			switch {
			case !strings.HasPrefix(line, "|"):
				require.True(t, rows == nil || line == "", "%s: text belongs to the table", where)
				require.NotEqual(t, 1, len(rows), "%s: a row without a table", where)
				rows = nil
				continue
			case len(rows) == 1:
				require.True(t, strings.HasPrefix(line, "|-"), "%s: no line below the heads", where)
			}
			require.NotContains(t, rows, line, "%s: a row that is there twice", where)
			rows = append(rows, line)
		}
	}
}

// public are the folders of the packages with names mentioned on pages, from the root.
var public = []string{
	".", "inspect", "doctor", "events", "lease", "outbox", "qlessprom", "qlessotel", "qlesstest", "web",
	"compat/gearmonkey", "compat/workqueue", "gateway/lmstfy", "gateway/workq",
}

// calledOrCompound matches code consisting of one name: a call, or a compound word with capitals.
var calledOrCompound = regexp.MustCompile("^`(?:([A-Z]\\w*)\\(.*\\)|([A-Z][a-z]+[A-Z]\\w*))`$")

// foreign are the names of other queues, libraries and programs mentioned on pages.
var foreign = strings.Fields(`
	BindReport ClusterStateReloadInterval DialTimeout DialerRetries ForkingWorker InsertTx LuaPlugin
	MaxRetries NewProxy NextProcessAt ProcessAt RenderPage ResultWriter RouteByLatency RouteRandomly
	ScheduledAt TaskID TestMain TextMapPropagator TimeoutStopSec UniqueOpts`)

// alert matches the definition of an alert.
var alert = regexp.MustCompile(`alert: (\w+)`)

func TestInlineNamesExist(t *testing.T) {
	names, checked := map[string]bool{}, 0
	for _, name := range foreign {
		names[name] = true
	}
	for _, found := range alert.FindAllStringSubmatch(read(t, "deploy/prometheus/alerts.yml"), -1) {
		names[found[1]] = true
	}
	for _, folder := range public {
		for name := range declaredIn(t, folder) {
			names[name[strings.LastIndex(name, ".")+1:]] = true
		}
	}
	for _, page := range pages(t) {
		switch page {
		case "CHANGELOG.md", "docs/coming-from.md":
			continue
		}
		text := fencedBlock.ReplaceAllString(read(t, page), "")
		for _, code := range inlineCode.FindAllString(text, -1) {
			m := calledOrCompound.FindStringSubmatch(code)
			if m == nil {
				continue
			}
			if checked++; !names[m[1]+m[2]] {
				t.Errorf("%s: %s", page, code)
			}
		}
	}
	require.Greater(t, checked, 300)
}

var (
	literalMetric = regexp.MustCompile(`"(qless_\w+)"`)
	anyMetric     = regexp.MustCompile(`\bqless_\w+`)
	partOfMetric  = regexp.MustCompile(`_(bucket|count|sum)$`)
	inlineKey     = regexp.MustCompile("`(?:ql:)?x:([a-z]+)[^`]*`")
	inlinePath    = regexp.MustCompile("`((?:bench|cmd|compat|deploy|docs|doctor|examples|gateway|" +
		"inspect|internal|lua|outbox|qless[a-z]+|tests|web)/[\\w./-]*)`")
	anySetting = regexp.MustCompile(`qless config (?:get|set|unset) ([\w-]+)`)
)

// noMetrics begin like metrics: a gem of Ruby, a table, the metrics of an example, and those of
// checks, whose names have several parts.
var noMetrics = regexp.MustCompile(`^qless_(lua|outbox_?|jobs|check_.*)$`)

func TestMetricsOfThePagesExist(t *testing.T) {
	known, checked := map[string]bool{}, 0
	files, err := filepath.Glob(filepath.Join(root, "qlessprom", "*.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, name := range literalMetric.FindAllStringSubmatch(string(text), -1) {
			known[name[1]] = true
		}
	}
	for _, page := range pages(t) {
		for _, name := range anyMetric.FindAllString(read(t, page), -1) {
			if noMetrics.MatchString(name) {
				continue
			}
			if checked++; !known[partOfMetric.ReplaceAllString(name, "")] {
				t.Errorf("%s: %s", page, name)
			}
		}
	}
	require.Greater(t, checked, 40)
}

// A key, channel or field of a job named on a page is used by the script or a client.
func TestKeysOfThePagesExist(t *testing.T) {
	known, checked := qless.DropInScript()+" "+hub.Idle+" "+stacks.Channel, 0
	for _, kind := range keys.Kinds() {
		known += " " + kind.Pattern
	}
	for _, page := range pages(t) {
		for _, key := range inlineKey.FindAllStringSubmatch(read(t, page), -1) {
			if checked++; !strings.Contains(known, "x:"+key[1]) {
				t.Errorf("%s: %s", page, key[0])
			}
		}
	}
	require.Greater(t, checked, 50)
}

func TestPathsOfThePagesExist(t *testing.T) {
	checked := 0
	for _, page := range pages(t) {
		for _, path := range inlinePath.FindAllStringSubmatch(read(t, page), -1) {
			if strings.HasSuffix(path[1], ".0") || page == "CHANGELOG.md" { // the tag of a version
				continue
			}
			checked++
			_, err := os.Stat(filepath.Join(root, path[1]))
			require.NoError(t, err, page)
		}
	}
	require.Greater(t, checked, 50)
}

func TestSettingsOfThePagesExist(t *testing.T) {
	checked := 0
	for _, page := range pages(t) {
		for _, name := range anySetting.FindAllStringSubmatch(read(t, page), -1) {
			checked++
			_, _, known := settings.Of(name[1])
			require.True(t, known, "%s: %s", page, name[0])
		}
	}
	require.Greater(t, checked, 5)
}

// The figures may differ by a twentieth, so that a changed command does not change them.
func TestSizesOfScriptsAreRight(t *testing.T) {
	text := strings.Join(strings.Fields(read(t, "docs/sharing.md")), " ")
	for pattern, size := range map[string]int{
		`The drop-in has about (\d+) KB`: len(qless.DropInScript()),
		`a script of about (\d+) KB`:     len(lua.Classic),
	} {
		found := regexp.MustCompile(pattern).FindStringSubmatch(text)
		require.NotNil(t, found, pattern)
		given, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		require.InEpsilon(t, float64(size)/1000, given, 0.05, pattern)
	}
}

// The pages state the memory taken by the script on a server.
func TestTheMemoryOfTheScriptIsRight(t *testing.T) {
	rdb := testkit.Start(t).Client(t)
	used := func() (total float64) {
		memory := rdb.InfoMap(t.Context(), "memory").Val()["Memory"]
		for _, field := range []string{"used_memory_vm_eval", "used_memory_scripts_eval"} {
			bytes, err := strconv.ParseFloat(memory[field], 64)
			require.NoError(t, err, field)
			total += bytes
		}
		return total
	}
	require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
	before := used()
	require.NoError(t, rdb.ScriptLoad(t.Context(), qless.DropInScript()).Err())
	taken := fmt.Sprintf("%.1f MB", (used()-before)/1e6)
	for _, page := range []string{"README.md", "docs/sharing.md", "docs/upgrading.md"} {
		require.Contains(t, read(t, page), taken, page)
	}
}

func TestPagesNameTheOldestServer(t *testing.T) {
	for page, words := range map[string]string{
		"README.md": "\nRedis %s, 7.x", "CHANGELOG.md": "runs on Redis %s to", "docs/doctor.md": "older than %s, or",
		"docs/operations.md": "any two servers since Redis %s", "dial.go": "that it is Redis %s or later",
	} {
		require.Contains(t, read(t, page), fmt.Sprintf(words, redisx.OldestServer), page)
	}
}

func TestPagesNameTheDefaultReadTimeout(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { require.NoError(t, rdb.Close()) })
	words := fmt.Sprintf("`ReadTimeout` of the go-redis client (%.0f s)", rdb.Options().ReadTimeout.Seconds())
	for _, page := range []string{"docs/scaling.md", "docs/worker.md"} {
		require.Contains(t, strings.Join(strings.Fields(read(t, page)), " "), words, page)
	}
}
