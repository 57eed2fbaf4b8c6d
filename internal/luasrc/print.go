package luasrc

import (
	"fmt"
	"math"
	"regexp"
	"strings"
)

// A printer writes statements as text.
type printer struct {
	b       strings.Builder
	indent  int
	library string // an expression for the library
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

// block writes statements between two lines.
func (p *printer) block(first string, body []stat, last string) {
	p.line(first)
	p.inner(body)
	p.line(last)
}

func (p *printer) stat(s stat) {
	switch s := s.(type) {
	case *local:
		line := "local " + symNames(s.syms)
		if len(s.values) > 0 {
			line += " = " + p.list(len(s.syms), s.values)
		}
		p.line(line)
	case *localFunction:
		p.block("local function "+s.sym.name+params(s.fn), s.fn.body, "end")
	case *assign:
		if f, ok := s.values[0].(*function); ok && len(s.targets) == 1 && len(s.values) == 1 {
			p.block("function "+p.expr(s.targets[0])+params(f), f.body, "end")
			return
		}
		p.line(p.list(math.MaxInt, s.targets) + " = " + p.list(len(s.targets), s.values))
	case *run:
		p.line(p.expr(s.call))
	case *block:
		p.block("do", s.body, "end")
	case *while:
		p.block("while "+p.single(s.cond)+" do", s.body, "end")
	case *repeat:
		p.block("repeat", s.body, "until "+p.single(s.cond))
	case *choice:
		p.choice(s)
	case *forStep:
		line := "for " + s.sym.name + " = " + p.single(s.from) + ", " + p.single(s.to)
		if s.step != nil {
			line += ", " + p.single(s.step)
		}
		p.block(line+" do", s.body, "end")
	case *forEach:
		p.block("for "+symNames(s.syms)+" in "+p.list(math.MaxInt, s.values)+" do", s.body, "end")
	case *ret:
		p.line(strings.TrimRight("return "+p.list(math.MaxInt, s.values), " "))
	case *leave:
		p.line("break")
	default:
		panic(fmt.Sprintf("a statement of type %T", s))
	}
}

func (p *printer) choice(c *choice) {
	keyword := "if "
	for _, b := range c.branches {
		if b.cond != nil {
			p.line(keyword + p.single(b.cond) + " then")
		} else {
			p.line("else")
		}
		if c.flat {
			p.stats(b.body)
		} else {
			p.inner(b.body)
		}
		keyword = "elseif "
	}
	if len(c.branches) > 0 {
		p.line("end")
	}
}

func symNames(syms []*symbol) string {
	names := make([]string, len(syms))
	for i, sym := range syms {
		names[i] = sym.name
	}
	return strings.Join(names, ", ")
}

func params(f *function) string {
	params := symNames(f.params)
	if f.variadic {
		params = strings.TrimPrefix(params+", ...", ", ")
	}
	return "(" + params + ")"
}

// list returns the text of values assigned to a number of names. An expression needs no brackets in
// a list, unless it has several values there.
func (p *printer) list(names int, all []expr) string {
	texts := make([]string, len(all))
	for i, x := range all {
		for in, ok := x.(*paren); ok; in, ok = x.(*paren) {
			if isMany(in.x) && i == len(all)-1 && len(all) < names {
				break
			}
			x = in.x
		}
		texts[i] = p.expr(x)
	}
	return strings.Join(texts, ", ")
}

// single returns the text of an expression in a place for one value.
func (p *printer) single(x expr) string { return p.list(1, []expr{x}) }

// expr returns the text of an expression, with the brackets in the code.
func (p *printer) expr(x expr) string {
	switch x := x.(type) {
	case *name:
		return p.name(x)
	case *literal:
		return x.text
	case *text:
		return quoted(x.value)
	case *function:
		inner := printer{indent: p.indent, library: p.library}
		inner.inner(x.body)
		return "function" + params(x) + "\n" + inner.b.String() + strings.Repeat("\t", p.indent) + "end"
	case *binary:
		return p.expr(x.a) + " " + x.op + " " + p.expr(x.b)
	case *unary:
		inner := p.expr(x.x)
		if x.op == "not" || strings.HasPrefix(inner, "-") {
			return x.op + " " + inner
		}
		return x.op + inner
	case *index:
		if key, ok := x.key.(*text); ok && isName(key.value) {
			return p.prefix(x.x) + "." + key.value
		}
		return p.prefix(x.x) + "[" + p.single(x.key) + "]"
	case *call:
		return p.prefix(x.fn) + "(" + p.list(math.MaxInt, x.args) + ")"
	case *table:
		return p.table(x)
	case *paren:
		return "(" + p.expr(x.x) + ")"
	}
	panic(fmt.Sprintf("an expression of type %T", x))
}

// prefix returns the text of a called or indexed expression.
func (p *printer) prefix(x expr) string {
	switch x := x.(type) {
	case *name, *index, *call:
		return p.expr(x)
	case *paren:
		return p.prefix(x.x)
	}
	return "(" + p.expr(x) + ")"
}

func (p *printer) table(t *table) string {
	parts := make([]string, len(t.items))
	for i, it := range t.items {
		names := 1
		if it.key == nil && i == len(t.items)-1 {
			names = math.MaxInt
		}
		parts[i] = p.list(names, []expr{it.value})
		if key, ok := it.key.(*text); ok && isName(key.value) {
			parts[i] = key.value + " = " + parts[i]
		} else if it.key != nil {
			parts[i] = "[" + p.single(it.key) + "] = " + parts[i]
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// name returns the text of a name.
func (p *printer) name(n *name) string {
	switch {
	case n.sym == nil || n.sym.kind != inLibrary:
		return nameOf(n)
	case n.sym.fn != nil:
		return p.library + "." + n.sym.name
	}
	return stateName + "." + n.sym.name
}

func nameOf(n *name) string {
	if n.sym != nil {
		return n.sym.name
	}
	return n.text
}

var namePattern = regexp.MustCompile(`^[A-Za-z_]\w*$`)

func isName(s string) bool { return namePattern.MatchString(s) && !keywords[s] }

// quoted returns a string as an ASCII literal, so that any client can read the script as text.
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
