package luasrc

import (
	"fmt"
	"slices"
)

// A source is a parsed file.
type source struct {
	file   string
	header string
	facts  Facts // of a command
	body   []stat
	syms   []*symbol // top-level symbols, in order
	free   []*name   // undeclared names
}

// maxDepth is the maximum depth of nested blocks and expressions.
const maxDepth = 200

// A parser reads the tokens of one file and resolves each name.
type parser struct {
	src    *source
	tokens []token
	at     int
	scopes []map[string]*symbol
	depth  int
}

// parse reads a file.
func parse(file, code string) (src *source, err error) {
	all, err := tokens(file, code)
	if err != nil {
		return nil, err
	}
	p := &parser{src: &source{file: file}, tokens: all}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Problem:
			src, err = nil, r
		default:
			panic(r)
		}
	}()
	p.src.body = p.block()
	if p.ahead().kind != endToken {
		p.fail("%q where a statement may begin", p.ahead().text)
	}
	return p.src, nil
}

func (p *parser) fail(format string, args ...any) {
	panic(&Problem{p.src.file, p.ahead().line, fmt.Sprintf(format, args...)})
}

func (p *parser) ahead() token { return p.tokens[p.at] }

func (p *parser) take() token {
	t := p.tokens[p.at]
	if t.kind != endToken {
		p.at++
	}
	return t
}

// is reports whether a keyword or a sign is ahead.
func (p *parser) is(text string) bool {
	t := p.ahead()
	return t.text == text && t.kind == wordToken
}

// has takes a keyword or a sign if it is ahead.
func (p *parser) has(text string) bool {
	if p.is(text) {
		p.at++
		return true
	}
	return false
}

func (p *parser) want(text string) {
	if !p.has(text) {
		p.fail("%q in the place of %q", p.ahead().text, text)
	}
}

func (p *parser) name() token {
	if p.ahead().kind != nameToken {
		p.fail("%q in the place of a name", p.ahead().text)
	}
	return p.take()
}

// deeper counts the depth of the parser.
func (p *parser) deeper() func() {
	if p.depth++; p.depth > maxDepth {
		p.fail("nested too deep")
	}
	return func() { p.depth-- }
}

// declare makes a symbol visible from here on.
func (p *parser) declare(t token) *symbol {
	sym := &symbol{name: t.text, file: p.src.file, line: t.line}
	p.scopes[len(p.scopes)-1][t.text] = sym
	if len(p.scopes) == 1 {
		p.src.syms = append(p.src.syms, sym)
	}
	return sym
}

func (p *parser) use(t token) *name {
	n := &name{text: t.text, line: t.line}
	for _, scope := range slices.Backward(p.scopes) {
		if n.sym = scope[t.text]; n.sym != nil {
			n.sym.used = true
			return n
		}
	}
	p.src.free = append(p.src.free, n)
	return n
}

func (p *parser) open()  { p.scopes = append(p.scopes, map[string]*symbol{}) }
func (p *parser) close() { p.scopes = p.scopes[:len(p.scopes)-1] }

// block reads statements in their own scope, up to a word that ends them.
func (p *parser) block() []stat {
	p.open()
	defer p.close()
	return p.statements()
}

func (p *parser) statements() []stat {
	defer p.deeper()()
	var all []stat
	for {
		if p.has(";") {
			continue
		}
		if p.atEnd() {
			return all
		}
		last := p.is("return") || p.is("break")
		all = append(all, p.statement())
		if last {
			p.has(";")
			return all
		}
	}
}

// atEnd reports whether a block ends here.
func (p *parser) atEnd() bool {
	return p.ahead().kind == endToken ||
		p.is("end") || p.is("else") || p.is("elseif") || p.is("until")
}

func (p *parser) statement() stat {
	switch {
	case p.has("local"):
		if p.has("function") {
			sym := p.declare(p.name())
			sym.fn = p.function()
			return &localFunction{sym, sym.fn}
		}
		return p.local()
	case p.has("if"):
		return p.choice()
	case p.has("while"):
		return &while{p.expr(), p.loop()}
	case p.has("repeat"):
		p.open()
		defer p.close()
		body := p.statements()
		p.want("until")
		return &repeat{body, p.expr()}
	case p.has("for"):
		return p.forLoop()
	case p.is("do"):
		return &block{p.loop()}
	case p.has("return"):
		if p.atEnd() || p.is(";") {
			return &ret{}
		}
		return &ret{p.exprs()}
	case p.has("break"):
		return &leave{}
	}
	return p.assignment()
}

// loop reads a block between do and end.
func (p *parser) loop() []stat {
	p.want("do")
	body := p.block()
	p.want("end")
	return body
}

// names reads names separated by commas.
func (p *parser) names() []token {
	names := []token{p.name()}
	for p.has(",") {
		names = append(names, p.name())
	}
	return names
}

func (p *parser) local() stat {
	names := p.names()
	l := &local{}
	if p.has("=") {
		l.values = p.exprs()
	}
	for i, t := range names {
		sym := p.declare(t)
		if i < len(l.values) && len(l.values) == len(names) {
			sym.value = l.values[i]
		}
		l.syms = append(l.syms, sym)
	}
	return l
}

func (p *parser) choice() stat {
	c := &choice{}
	for {
		cond := p.expr()
		p.want("then")
		c.branches = append(c.branches, branch{cond, p.block()})
		if p.has("elseif") {
			continue
		}
		if p.has("else") {
			c.branches = append(c.branches, branch{nil, p.block()})
		}
		p.want("end")
		return c
	}
}

func (p *parser) forLoop() stat {
	names := p.names()
	p.open()
	defer p.close()
	if len(names) == 1 && p.has("=") {
		f := &forStep{from: p.expr()}
		p.want(",")
		f.to = p.expr()
		if p.has(",") {
			f.step = p.expr()
		}
		f.sym = p.declare(names[0])
		f.body = p.loop()
		return f
	}
	p.want("in")
	f := &forEach{values: p.exprs()}
	for _, t := range names {
		f.syms = append(f.syms, p.declare(t))
	}
	f.body = p.loop()
	return f
}

func (p *parser) assignment() stat {
	first := p.suffixed()
	if !p.is("=") && !p.is(",") {
		if c, ok := first.(*call); ok {
			return &run{c}
		}
		p.fail("an expression that is no statement")
	}
	a := &assign{targets: []expr{first}}
	for p.has(",") {
		a.targets = append(a.targets, p.suffixed())
	}
	for _, target := range a.targets {
		if n, ok := target.(*name); ok {
			n.set = true
			if n.sym != nil {
				n.sym.assigned = true
			}
		}
	}
	p.want("=")
	a.values = p.exprs()
	return a
}

func (p *parser) exprs() []expr {
	all := []expr{p.expr()}
	for p.has(",") {
		all = append(all, p.expr())
	}
	return all
}

// power is how tightly an operator binds on its left and its right side.
type power struct{ left, right int }

var powers = map[string]power{
	"or": {1, 1}, "and": {2, 2},
	"<": {3, 3}, ">": {3, 3}, "<=": {3, 3}, ">=": {3, 3}, "~=": {3, 3}, "==": {3, 3},
	"..": {5, 4}, "+": {6, 6}, "-": {6, 6}, "*": {7, 7}, "/": {7, 7}, "%": {7, 7}, "^": {10, 9},
}

const unaryPower = 8

func (p *parser) expr() expr { return p.operation(0) }

func (p *parser) operation(limit int) expr {
	defer p.deeper()()
	var x expr
	if p.is("not") || p.is("-") || p.is("#") {
		op := p.take().text
		x = &unary{op, p.operation(unaryPower)}
	} else {
		x = p.simple()
	}
	for {
		t := p.ahead()
		bind, ok := powers[t.text]
		if !ok || t.kind != wordToken || bind.left <= limit {
			return x
		}
		p.take()
		x = &binary{t.text, x, p.operation(bind.right)}
	}
}

func (p *parser) simple() expr {
	t := p.ahead()
	switch {
	case t.kind == stringToken:
		return &text{p.take().text}
	case t.kind == numberToken, p.is("nil"), p.is("true"), p.is("false"), p.is("..."):
		return &literal{p.take().text}
	case p.has("{"):
		return p.table()
	case p.has("function"):
		return p.function()
	}
	return p.suffixed()
}

func (p *parser) suffixed() expr {
	var x expr
	if p.has("(") {
		x = &paren{p.expr()}
		p.want(")")
	} else {
		x = p.use(p.name())
	}
	for {
		switch {
		case p.has("."):
			x = &index{x, &text{p.name().text}}
		case p.has("["):
			x = &index{x, p.expr()}
			p.want("]")
		case p.is("("):
			c := &call{fn: x, line: p.take().line}
			if !p.is(")") {
				c.args = p.exprs()
			}
			p.want(")")
			x = c
		case p.is(":") || p.is("{") || p.ahead().kind == stringToken:
			p.fail("a call without brackets, or of a method")
		default:
			return x
		}
	}
}

func (p *parser) table() expr {
	t := &table{}
	for !p.has("}") {
		var it item
		if next := p.tokens[min(p.at+1, len(p.tokens)-1)]; p.has("[") {
			it.key = p.expr()
			p.want("]")
			p.want("=")
		} else if p.ahead().kind == nameToken && next.text == "=" && next.kind == wordToken {
			it.key = &text{p.take().text}
			p.want("=")
		}
		it.value = p.expr()
		t.items = append(t.items, it)
		if !p.has(",") && !p.has(";") && !p.is("}") {
			p.want("}")
		}
	}
	return t
}

// function reads the parameters and the body of a function.
func (p *parser) function() *function {
	f := &function{}
	p.open()
	defer p.close()
	p.want("(")
	for !p.is(")") {
		if f.variadic = p.has("..."); f.variadic {
			break
		}
		param := p.declare(p.name())
		param.isParam = true
		f.params = append(f.params, param)
		if !p.has(",") {
			break
		}
	}
	f.cold = p.ahead().comment == "cold"
	p.want(")")
	f.body = p.block()
	p.want("end")
	return f
}
