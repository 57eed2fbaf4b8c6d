package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// variables are the names that pages use for values of types.
var variables = map[string]string{
	"batch": "Batch", "client": "Client", "job": "Job", "queue": "Queue", "worker": "Worker",
}

// mentioned matches a name of the package, or a field or method of a type or a variable.
var mentioned = regexp.MustCompile(`\b(\w+)\.([A-Z]\w*)`)

// declared returns the names that the package declares, as Name, Type.Field and Type.Method.
func declared(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "*.go"))
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
		fields, ok := s.Type.(*ast.StructType)
		if !ok {
			return
		}
		for _, field := range fields.Fields.List {
			for _, name := range field.Names {
				found[s.Name.Name+"."+name.Name] = true
			}
		}
	}
}

// The first column has the other queue's names.
func TestComingFromNamesWhatExists(t *testing.T) {
	names, checked := declared(t), 0
	for _, line := range strings.Split(read(t, "docs/coming-from.md"), "\n") {
		if strings.HasPrefix(line, "|") {
			line = strings.Join(strings.Split(line, "|")[2:], "|")
		}
		checked += requireNames(t, names, line)
	}
	require.Greater(t, checked, 50)
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

// A row after an empty line is rendered as text, unless it begins a table.
func TestNoTableIsCut(t *testing.T) {
	for _, page := range pages(t) {
		lines := strings.Split(read(t, page), "\n")
		for i, line := range lines {
			if !strings.HasPrefix(line, "|") || i > 0 && strings.HasPrefix(lines[i-1], "|") {
				continue
			}
			require.True(t, i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|-"),
				"%s:%d: a row without a table", page, i+1)
		}
	}
}
