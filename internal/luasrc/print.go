package luasrc

import (
	"fmt"
	"strings"
)

// A printer writes statements as text.
type printer struct {
	b      strings.Builder
	indent int
	named  func(*name) string // returns the form in which a name is written
}

func (p *printer) line(s string) {
	p.b.WriteString(strings.Repeat("\t", p.indent))
	p.b.WriteString(s)
	p.b.WriteByte('\n')
}

func (p *printer) inner(body []stat) {
	p.indent++
	p.stats(body)
	p.indent--
}

func (p *printer) stats(body []stat) {
	for _, s := range body {
		p.stat(s)
	}
}

func (p *printer) stat(s stat) {
	switch s := s.(type) {
	case *local:
		line := "local " + symNames(s.syms)
		if len(s.values) > 0 {
			line += " = " + p.values(len(s.syms), s.values)
		}
		p.line(line)
	case *localFunction:
		p.line("local function " + s.sym.name + p.params(s.fn))
		p.inner(s.fn.body)
		p.line("end")
	case *assign:
		if len(s.targets) == 1 && len(s.values) == 1 {
			if f, ok := s.values[0].(*function); ok {
				p.line("function " + p.expr(s.targets[0], 0) + p.params(f))
				p.inner(f.body)
				p.line("end")
				return
			}
		}
		p.line(p.list(s.targets) + " = " + p.values(len(s.targets), s.values))
	case *run:
		p.line(p.expr(s.call, 0))
	case *block:
		p.line("do")
		p.inner(s.body)
		p.line("end")
	case *while:
		p.line("while " + p.expr(s.cond, singleValue) + " do")
		p.inner(s.body)
		p.line("end")
	case *repeat:
		p.line("repeat")
		p.inner(s.body)
		p.line("until " + p.expr(s.cond, singleValue))
	case *choice:
		for i, b := range s.branches {
			switch {
			case b.cond == nil:
				p.line("else")
			case i == 0:
				p.line("if " + p.expr(b.cond, singleValue) + " then")
			default:
				p.line("elseif " + p.expr(b.cond, singleValue) + " then")
			}
			p.inner(b.body)
		}
		p.line("end")
	case *forStep:
		line := "for " + s.sym.name + " = " + p.expr(s.from, 0) + ", " + p.expr(s.to, 0)
		if s.step != nil {
			line += ", " + p.expr(s.step, 0)
		}
		p.line(line + " do")
		p.inner(s.body)
		p.line("end")
	case *forEach:
		p.line("for " + symNames(s.syms) + " in " + p.list(s.values) + " do")
		p.inner(s.body)
		p.line("end")
	case *ret:
		p.line(strings.TrimRight("return "+p.list(s.values), " "))
	case *leave:
		p.line("break")
	default:
		panic(fmt.Sprintf("a statement of type %T", s))
	}
}

func symNames(syms []*symbol) string {
	names := make([]string, len(syms))
	for i, sym := range syms {
		names[i] = sym.name
	}
	return strings.Join(names, ", ")
}

func (p *printer) params(f *function) string {
	params := symNames(f.params)
	if f.variadic {
		params = strings.TrimPrefix(params+", ...", ", ")
	}
	return "(" + params + ")"
}

// values returns the text of values that are assigned to a number of names.
func (p *printer) values(names int, all []expr) string {
	if len(all) > 0 && len(all) >= names {
		last := p.expr(all[len(all)-1], singleValue)
		return strings.TrimPrefix(strings.TrimSuffix(p.list(all[:len(all)-1]), ", ")+", "+last, ", ")
	}
	return p.list(all)
}

func (p *printer) list(all []expr) string {
	texts := make([]string, len(all))
	for i, x := range all {
		limit := 0
		if i < len(all)-1 {
			limit = singleValue
		}
		texts[i] = p.expr(x, limit)
	}
	return strings.Join(texts, ", ")
}

// singleValue is the limit where an expression has one value anyway, so that it needs no brackets
// for that.
const singleValue = 1

// expr returns the text of an expression, in brackets if it binds less tightly than the limit.
func (p *printer) expr(x expr, limit int) string {
	switch x := x.(type) {
	case *name:
		if p.named != nil {
			return p.named(x)
		}
		return nameOf(x)
	case *literal:
		return x.text
	case *text:
		return quoted(x.value)
	case *function:
		return p.functionValue(x)
	case *binary:
		bind := powers[x.op]
		left, right := bind.left, bind.right
		if left == right { // it groups to the left
			right++
		} else {
			left, right = left+1, left
		}
		if x.op == ".." { // in any order
			left, right = bind.left, bind.left
		}
		s := p.expr(x.a, left) + " " + x.op + " " + p.expr(x.b, right)
		if bind.left < limit {
			return "(" + s + ")"
		}
		return s
	case *unary:
		op := x.op
		inner := p.expr(x.x, unaryPower)
		if op == "not" || op == "-" && strings.HasPrefix(inner, "-") {
			op += " "
		}
		if unaryPower < limit {
			return "(" + op + inner + ")"
		}
		return op + inner
	case *index:
		if key, ok := x.key.(*text); ok && isName(key.value) {
			return p.prefix(x.x) + "." + key.value
		}
		return p.prefix(x.x) + "[" + p.expr(x.key, singleValue) + "]"
	case *call:
		return p.prefix(x.fn) + "(" + p.list(x.args) + ")"
	case *table:
		return p.table(x)
	case *paren:
		if isMany(x.x) && limit == 0 {
			return "(" + p.expr(x.x, 0) + ")"
		}
		return p.expr(x.x, limit)
	}
	panic(fmt.Sprintf("an expression of type %T", x))
}

// prefix returns the text of an expression that is called or indexed.
func (p *printer) prefix(x expr) string {
	switch x := x.(type) {
	case *name, *index, *call:
		return p.expr(x, 0)
	case *paren:
		return p.prefix(x.x)
	}
	return "(" + p.expr(x, 0) + ")"
}

func nameOf(n *name) string {
	if n.sym != nil {
		return n.sym.name
	}
	return n.text
}

func (p *printer) functionValue(f *function) string {
	inner := printer{indent: p.indent + 1, named: p.named}
	inner.stats(f.body)
	return "function" + p.params(f) + "\n" + inner.b.String() + strings.Repeat("  ", p.indent) + "end"
}

func (p *printer) table(t *table) string {
	parts := make([]string, len(t.items))
	for i, it := range t.items {
		limit := 0
		if it.key != nil || i < len(t.items)-1 {
			limit = singleValue
		}
		parts[i] = p.expr(it.value, limit)
		if key, ok := it.key.(*text); ok && isName(key.value) {
			parts[i] = key.value + " = " + parts[i]
		} else if it.key != nil {
			parts[i] = "[" + p.expr(it.key, 0) + "] = " + parts[i]
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func isName(s string) bool {
	if s == "" || !isLetter(s[0]) || keywords[s] {
		return false
	}
	for i := range len(s) {
		if !isLetter(s[i]) && !isDigit(s[i]) {
			return false
		}
	}
	return true
}

// quoted returns a string as a literal in ASCII, so that any client can read the script as text.
func quoted(s string) string {
	b := []byte{'\''}
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\'' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c >= 0x7f:
			b = fmt.Appendf(b, "\\%03d", c)
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '\''))
}
