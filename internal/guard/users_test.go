package guard_test

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// given lists each exported type, field and parameter by which users pass functions to the
// packages, with the folder and the name of a test of a function that does not return.
//
// A "caller" calls the function itself, before anything is sent, and gets its panic. A "handler"
// calls the function as part of its work. A "result" is returned to users.
const given = `
gearmonkey.Client.Move(put)           compat/gearmonkey TestMoveSetsAsideWhatCannotBePut
gearmonkey.Handler                    compat/gearmonkey TestOutcomes
gearmonkey.SweeperConfig.Clock        compat/gearmonkey TestAClockThatDoesNotReturnEndsNoWorker
gearmonkey.SweeperConfig.Logger       internal/guard TestALoggerThatPanicsIsHarmless
gearmonkey.Worker.Accept(handler)     compat/gearmonkey TestOutcomes
gearmonkey.WorkerConfig.Clock         compat/gearmonkey TestAClockThatDoesNotReturnEndsNoWorker
gearmonkey.WorkerConfig.Logger        compat/gearmonkey TestNoErrorAndNoLoggerEndsTheProgram
workqueue.CleanerConfig.Logger        internal/guard TestALoggerThatPanicsIsHarmless
workqueue.Handler                     compat/workqueue TestWhatFailsComesBackAfterItsLease
workqueue.JSONHandler(work)           handler
workqueue.New(options)                caller
workqueue.NewWorker(handler)          compat/workqueue TestWhatFailsComesBackAfterItsLease
workqueue.Option                      caller
workqueue.Queue.Move(put)             compat/workqueue TestMoveSetsAsideWhatCannotBePut
workqueue.WorkerConfig.Logger         compat/workqueue TestNoErrorAndNoLoggerEndsTheProgram
doctor.Options.Clock                  tests/api TestAMisdeedInACallIsAnError
doctor.Options.Progress               tests/api TestAMisdeedInACallIsAnError
doctor.StatusReader.Rates             tests/api TestAMisdeedInACallIsAnError
inspect.Selection.Apply(change)       tests/api TestAMisdeedInACallIsAnError
inspect.Selection.OnStep(step)        tests/api TestAMisdeedInACallIsAnError
lease.End.Result                      caller
lmstfy.Config.Logger                  internal/guard TestALoggerThatPanicsIsHarmless
workq.Config.Logger                   internal/guard TestALoggerThatPanicsIsHarmless
outbox.Outbox.Headers                 outbox TestAMisdeedIsTold
outbox.RelayConfig.Listen             outbox TestAMisdeedIsTold
outbox.RelayConfig.Logger             outbox TestAMisdeedIsTold
outbox.RelayConfig.Observer           outbox TestAMisdeedIsTold
qless.Backoff                         tests/worker TestAMisdeedEndsOneJobAtMost
qless.Bulk.By                         tests/worker TestAMisdeedEndsOneJobAtMost
qless.Caller                          caller
qless.ClientConfig.Clock              tests/worker TestAMisdeedEndsOneJobAtMost
qless.ClientConfig.Codec              tests/worker TestAMisdeedEndsOneJobAtMost
qless.ClientConfig.Headers            tests/api TestAMisdeedInACallIsAnError
qless.ClientConfig.Logger             tests/worker TestAMisdeedEndsOneJobAtMost
qless.ClientConfig.NextHeaders        tests/api TestAMisdeedInACallIsLogged
qless.ClientConfig.Observer           tests/worker TestAMisdeedEndsOneJobAtMost
qless.ClientConfig.OldCodecs          tests/api TestAMisdeedInACallIsAnError
qless.ClientConfig.PutObserver        tests/api TestAnObserverThatDoesNotReturnIsLogged
qless.Codec                           tests/worker TestAMisdeedEndsOneJobAtMost
qless.Function.Call(to)               caller
qless.Function.Handle(on)             caller
qless.Function.Handle(work)           handler
qless.Handler                         tests/worker TestAMisdeedEndsOneJobAtMost
qless.JobSpec.Data                    caller
qless.Klass.Handle(on)                caller
qless.Klass.Handle(work)              handler
qless.Klass.HandleBulk(on)            caller
qless.Klass.HandleBulk(work)          handler
qless.Klass.Put(to)                   caller
qless.LogJobs(logger)                 caller
qless.Middleware                      tests/worker TestAMisdeedEndsOneJobAtMost
qless.OnProgress                      tests/api TestAMisdeedInACallIsLogged
qless.PanicError.Value                result
qless.Putter                          caller
qless.Registry                        caller
qless.Typed(work)                     handler
qless.TypedResult(work)               handler
qless.Worker.Handle(handler)          tests/worker TestAMisdeedEndsOneJobAtMost
qless.Worker.Use(middleware)          tests/worker TestAMisdeedEndsOneJobAtMost
qless.WorkerConfig.Backoff            tests/worker TestAMisdeedEndsOneJobAtMost
qless.WorkerConfig.FailGroup          tests/worker TestAMisdeedEndsOneJobAtMost
qless.WorkerConfig.Logger             tests/worker TestAMisdeedEndsOneJobAtMost
qless.WorkerConfig.Observer           tests/worker TestAMisdeedEndsOneJobAtMost
qless.WorkerGroup.Handle(handler)     tests/worker TestAMisdeedEndsOneJobAtMost
qlessotel.Instrumentation.Middleware(next) handler
qlessotel.Options.Propagator          handler
qlessprom.Options.OnError             qlessprom TestAMisdeedOfOnErrorChangesNothing
web.Options.Allow                     web TestAMisdeedOfTheProgramIsLogged
web.Options.Links                     web TestAMisdeedOfTheProgramIsLogged
web.Options.Logger                    internal/guard TestALoggerThatPanicsIsHarmless
web.Options.Namespaces                web TestAMisdeedOfALookForNamespacesIsLogged
web.Options.Redact                    web TestAMisdeedOfTheProgramIsLogged
web.Options.User                      web TestAMisdeedOfTheProgramIsLogged
`

// fixed are interfaces that users hardly implement: a connection, a stream, a test.
var fixed = strings.Fields(`
context.Context error github.com/qless/qless-go/outbox.Tx github.com/redis/go-redis/v9.Pipeliner
github.com/redis/go-redis/v9.UniversalClient io.Reader io.Writer net.Listener
net/http.ResponseWriter testing.TB
`)

const root = "../.."

func TestEachFunctionOfAUserHasItsMisdeed(t *testing.T) {
	rows := map[string][]string{}
	for line := range strings.Lines(strings.TrimSpace(given)) {
		fields := strings.Fields(line)
		require.NotContains(t, rows, fields[0], "two rows")
		rows[fields[0]] = fields[1:]
	}
	for _, pkg := range packages(t, ".", "./compat/...", "./doctor", "./events", "./gateway/...", "./inspect",
		"./lease", "./outbox", "./qlessotel", "./qlessprom", "./qlesstest", "./shards", "./web") {
		for _, name := range functionsOf(pkg) {
			row, listed := rows[name]
			if assert.True(t, listed, "%s needs a row in given, and a test", name) && len(row) == 2 {
				requireTest(t, name, row[0], row[1])
			}
			delete(rows, name)
		}
	}
	require.Empty(t, rows, "rows of functions that are no more")
}

// requireTest requires that a folder has a test in a file that names the tested function.
func requireTest(t *testing.T, function, folder, test string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	require.NoError(t, err)
	word := regexp.MustCompile(`\w+`).FindAllString(function, -1)
	if strings.Contains(function, "(") {
		word = word[:len(word)-1] // without the parameter
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(text), "func "+test+"(") {
			assert.Contains(t, string(text), word[len(word)-1], "%s: %s", test, function)
			return
		}
	}
	assert.Fail(t, "there is no such test", "%s: %s in %s", function, test, folder)
}

// packages returns the exported parts of packages of all modules, as written by the compiler.
func packages(t *testing.T, patterns ...string) []*types.Package {
	t.Helper()
	workspace, err := filepath.Abs(filepath.Join(root, "go.work"))
	require.NoError(t, err)
	list := exec.CommandContext(t.Context(), "go", append([]string{
		"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}\t{{.DepOnly}}",
	}, patterns...)...)
	list.Dir, list.Env, list.Stderr = root, append(os.Environ(), "GOWORK="+workspace), t.Output()
	listed, err := list.Output()
	require.NoError(t, err)
	exports := map[string]string{}
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	var own []string
	for line := range strings.Lines(string(listed)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		exports[fields[0]] = fields[1]
		if fields[2] == "false" && !strings.Contains(fields[0], "/internal/") {
			own = append(own, fields[0])
		}
	}
	var all []*types.Package
	for _, path := range own {
		pkg, err := imports.Import(path)
		require.NoError(t, err)
		all = append(all, pkg)
	}
	return all
}

// functionsOf returns the names of a package's exported types, fields and parameters by which users
// pass functions.
func functionsOf(pkg *types.Package) []string {
	var names []string
	add := func(name string, isGiven bool) {
		if isGiven {
			names = append(names, pkg.Name()+"."+name)
		}
	}
	addParameters := func(name string, f *types.Func) {
		for p := range f.Signature().Params().Variables() {
			add(name+"("+p.Name()+")", f.Exported() && !isAny(p.Type()) && isFunction(p.Type()))
		}
	}
	for _, name := range pkg.Scope().Names() {
		switch object := pkg.Scope().Lookup(name).(type) {
		case *types.Func:
			addParameters(name, object)
		case *types.TypeName:
			if !object.Exported() {
				continue
			}
			if fields, ok := object.Type().Underlying().(*types.Struct); ok {
				for field := range fields.Fields() {
					add(name+"."+field.Name(), field.Exported() && isFunction(field.Type()))
				}
			} else {
				add(name, isFunction(object.Type()))
			}
			if named, ok := object.Type().(*types.Named); ok {
				for method := range named.Methods() {
					addParameters(name+"."+method.Name(), method)
				}
			}
		}
	}
	return names
}

// isFunction reports whether users may write a function for a value of the type.
func isFunction(of types.Type) bool {
	if slices.Contains(fixed, of.String()) {
		return false
	}
	if of.String() == "*log/slog.Logger" {
		return true
	}
	switch under := of.Underlying().(type) {
	case *types.Slice:
		return !isAny(under.Elem()) && isFunction(under.Elem())
	case *types.Signature:
		return true
	case *types.Interface:
		for method := range under.Methods() {
			if !method.Exported() {
				return false
			}
		}
		_, isParameter := of.(*types.TypeParam)
		return !isParameter
	}
	return false
}

func isAny(of types.Type) bool { return types.Identical(of, types.Universe.Lookup("any").Type()) }
