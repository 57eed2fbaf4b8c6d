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

// variables are the names that docs/coming-from.md gives to values of types.
var variables = map[string]string{
	"client": "Client", "job": "Job", "queue": "Queue", "worker": "Worker",
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

// receiver returns the type of a method with a dot, or nothing.
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

// The first column has the names of the other queue.
func TestComingFromNamesWhatThereIs(t *testing.T) {
	names, checked := declared(t), 0
	for _, line := range strings.Split(read(t, "docs/coming-from.md"), "\n") {
		if strings.HasPrefix(line, "|") {
			line = strings.Join(strings.Split(line, "|")[2:], "|")
		}
		for _, m := range mentioned.FindAllStringSubmatch(line, -1) {
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
	}
	require.Greater(t, checked, 50)
}

// A row after an empty line is shown as text, unless it begins a table.
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
