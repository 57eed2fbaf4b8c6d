package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
)

// swapped has the replacement of each operator.
var swapped = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LAND: token.LOR, token.LOR: token.LAND,
}

// A goFile collects the changes of a Go file.
type goFile struct {
	code    string
	fset    *token.FileSet
	changes []change
}

// goChanges returns the changes of a Go file. Some do not compile.
func goChanges(code string) ([]change, error) {
	f := &goFile{code: code, fset: token.NewFileSet()}
	parsed, err := parser.ParseFile(f.fset, "", code, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GenDecl:
			return node.Tok != token.CONST
		case *ast.BinaryExpr:
			f.binary(node)
		case *ast.IfStmt:
			if x, ok := node.Cond.(*ast.BinaryExpr); !ok || swapped[x.Op] == 0 {
				f.add(node.Cond, "!("+f.text(node.Cond)+")", "("+f.text(node.Cond)+") != mutant(\x00)")
			}
		case *ast.ExprStmt:
			f.drop(node, node.X)
		case *ast.DeferStmt:
			f.drop(node, node.Call)
		case *ast.ReturnStmt:
			f.bools(node.Results)
		case *ast.AssignStmt:
			f.bools(node.Rhs)
		case *ast.CallExpr:
			f.bools(node.Args)
		case *ast.KeyValueExpr:
			f.bools([]ast.Expr{node.Value})
		}
		return true
	})
	return f.changes, nil
}

func (f *goFile) offset(p token.Pos) int { return f.fset.Position(p).Offset }

func (f *goFile) text(node ast.Node) string {
	return f.code[f.offset(node.Pos()):f.offset(node.End())]
}

func (f *goFile) add(node ast.Node, text, guarded string) {
	at, end := f.offset(node.Pos()), f.offset(node.End())
	f.changes = append(f.changes, change{at: at, end: end, text: text, guarded: guarded})
}

// binary changes the operator of an expression, and a number in it. Error checks are not changed:
// every error is checked, so tests would notice.
func (f *goFile) binary(x *ast.BinaryExpr) {
	a, b := f.text(x.X), f.text(x.Y)
	if b == "nil" && (a == "err" || a == "e") {
		return
	}
	choose := func(after string) {
		before := f.text(x)
		switch {
		case swapped[x.Op] != 0:
			f.add(x, after, "(mutant(\x00) && ("+after+") || !mutant(\x00) && ("+before+"))")
		case !callsAnything(x):
			f.add(x, after, "mutantOf(\x00, "+after+", "+before+")")
		}
	}
	if op := swapped[x.Op]; op != 0 {
		if inner, ok := x.X.(*ast.BinaryExpr); ok && inner.Op == token.LOR {
			a = "(" + a + ")"
		}
		choose("(" + a + " " + op.String() + " " + b + ")")
	}
	if number, ok := x.Y.(*ast.BasicLit); ok && number.Kind == token.INT {
		if n, err := strconv.Atoi(number.Value); err == nil {
			choose(a + " " + x.Op.String() + " " + strconv.Itoa(n+1))
		}
	}
}

// callsAnything reports whether code calls a function other than len.
func callsAnything(node ast.Node) (calls bool) {
	ast.Inspect(node, func(node ast.Node) bool {
		if c, ok := node.(*ast.CallExpr); ok {
			fn, isName := c.Fun.(*ast.Ident)
			calls = calls || !isName || fn.Name != "len"
		}
		return true
	})
	return calls
}

// drop leaves out a statement that calls a function.
func (f *goFile) drop(node ast.Node, x ast.Expr) {
	c, ok := x.(*ast.CallExpr)
	if ok && !strings.HasPrefix(f.text(c), "panic(") {
		f.add(node, "", "if !mutant(\x00) { "+f.text(node)+" }")
	}
}

// bools changes true and false.
func (f *goFile) bools(all []ast.Expr) {
	for _, x := range all {
		switch name, _ := x.(*ast.Ident); {
		case name == nil:
		case name.Name == "true":
			f.add(x, "false", "!mutant(\x00)")
		case name.Name == "false":
			f.add(x, "true", "mutant(\x00)")
		}
	}
}
