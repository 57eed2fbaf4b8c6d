package luasrc

import "fmt"

// A source is a parsed file.
type source struct {
	file   string
	header string
	body   []stat
	syms   []*symbol // the symbols of its top, in order
	free   []*name   // names that it does not declare
}

// maxDepth is the maximum depth of nested blocks and expressions.
const maxDepth = 200

// A parser reads the tokens of one file and finds the meaning of each name.
type parser struct {
	src    *source
	tokens []token
	at     int
	scopes []map[string]*symbol
	depth  int
	loops  int
	vararg bool
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
	return t.text == text && (t.kind == wordToken || t.kind == signToken)
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

// declare makes a symbol that is seen from here on. A name may not hide another one of the file.
func (p *parser) declare(t token) *symbol {
	for _, scope := range p.scopes {
		if other := scope[t.text]; other != nil && t.text != "_" {
			panic(&Problem{p.src.file, t.line, fmt.Sprintf("%s hides that of line %d", t.text, other.line)})
		}
	}
	sym := &symbol{name: t.text, file: p.src.file, line: t.line}
	p.scopes[len(p.scopes)-1][t.text] = sym
	if len(p.scopes) == 1 {
		sym.kind = atTop
		p.src.syms = append(p.src.syms, sym)
	}
	return sym
}

func (p *parser) find(text string) *symbol {
	for i := len(p.scopes) - 1; i >= 0; i-- {
		if sym := p.scopes[i][text]; sym != nil {
			return sym
		}
	}
	return nil
}

func (p *parser) use(t token) *name {
	n := &name{text: t.text, sym: p.find(t.text), line: t.line}
	if n.sym == nil {
		p.src.free = append(p.src.free, n)
	} else {
		n.sym.used = true
	}
	return n
}

func (p *parser) open()  { p.scopes = append(p.scopes, map[string]*symbol{}) }
func (p *parser) close() { p.scopes = p.scopes[:len(p.scopes)-1] }

// block reads statements in a scope of their own, up to a word that ends them.
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
			return p.localFunction()
		}
		return p.local()
	case p.has("if"):
		return p.choice()
	case p.has("while"):
		cond := p.expr()
		p.want("do")
		body := p.loop()
		p.want("end")
		return &while{cond, body}
	case p.has("repeat"):
		p.open()
		defer p.close()
		p.loops++
		body := p.statements()
		p.loops--
		p.want("until")
		return &repeat{body, p.expr()}
	case p.has("for"):
		return p.forLoop()
	case p.has("do"):
		body := p.block()
		p.want("end")
		return &block{body}
	case p.has("return"):
		if p.atEnd() || p.is(";") {
			return &ret{}
		}
		return &ret{p.exprs()}
	case p.is("break"):
		if p.loops == 0 {
			p.fail("break outside of a loop")
		}
		p.take()
		return &leave{}
	case p.is("function"):
		p.fail("a global function")
	}
	return p.assignment()
}

func (p *parser) loop() []stat {
	p.loops++
	defer func() { p.loops-- }()
	return p.block()
}

func (p *parser) localFunction() stat {
	sym := p.declare(p.name())
	sym.fn = p.function()
	sym.fn.line = sym.line
	return &localFunction{sym, sym.fn}
}

func (p *parser) local() stat {
	names := []token{p.name()}
	for p.has(",") {
		names = append(names, p.name())
	}
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
	names := []token{p.name()}
	for p.has(",") {
		names = append(names, p.name())
	}
	if len(names) == 1 && p.has("=") {
		f := &forStep{from: p.expr()}
		p.want(",")
		f.to = p.expr()
		if p.has(",") {
			f.step = p.expr()
		}
		p.open()
		defer p.close()
		f.sym = p.declare(names[0])
		p.want("do")
		f.body = p.loop()
		p.want("end")
		return f
	}
	p.want("in")
	f := &forEach{values: p.exprs()}
	p.open()
	defer p.close()
	for _, t := range names {
		f.syms = append(f.syms, p.declare(t))
	}
	p.want("do")
	f.body = p.loop()
	p.want("end")
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
		switch target := target.(type) {
		case *name:
			target.set = true
			if target.sym != nil {
				target.sym.assigned = true
			}
		case *index:
		default:
			p.fail("a value that can't be assigned to")
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
		if !ok || t.kind != wordToken && t.kind != signToken || bind.left <= limit {
			return x
		}
		p.take()
		x = &binary{t.text, x, p.operation(bind.right)}
	}
}

func (p *parser) simple() expr {
	t := p.ahead()
	switch {
	case t.kind == numberToken:
		p.take()
		return &literal{t.text}
	case t.kind == stringToken:
		p.take()
		return &text{t.text}
	case p.is("nil") || p.is("true") || p.is("false"):
		p.take()
		return &literal{t.text}
	case p.is("..."):
		if !p.vararg {
			p.fail("... outside of a function that has it")
		}
		p.take()
		return &literal{"..."}
	case p.is("{"):
		return p.table()
	case p.has("function"):
		return p.function()
	}
	return p.suffixed()
}

func (p *parser) suffixed() expr {
	defer p.deeper()()
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
	defer p.deeper()()
	p.want("{")
	t := &table{}
	for !p.is("}") {
		switch {
		case p.has("["):
			key := p.expr()
			p.want("]")
			p.want("=")
			t.items = append(t.items, item{key, p.expr()})
		case p.ahead().kind == nameToken &&
			p.tokens[p.at+1].text == "=" && p.tokens[p.at+1].kind == signToken:
			key := &text{p.take().text}
			p.take()
			t.items = append(t.items, item{key, p.expr()})
		default:
			t.items = append(t.items, item{nil, p.expr()})
		}
		if !p.has(",") && !p.has(";") {
			break
		}
	}
	p.want("}")
	return t
}

// function reads the parameters and the body of a function.
func (p *parser) function() *function {
	loops, vararg := p.loops, p.vararg
	defer func() { p.loops, p.vararg = loops, vararg }()
	p.loops, p.vararg = 0, false
	f := &function{line: p.ahead().line}
	p.open()
	defer p.close()
	p.want("(")
	for !p.is(")") {
		if p.has("...") {
			f.variadic, p.vararg = true, true
			break
		}
		param := p.declare(p.name())
		param.isParam = true
		f.params = append(f.params, param)
		if !p.has(",") {
			break
		}
	}
	if !p.is(")") {
		p.want(")")
	}
	f.cold = p.take().comment == "cold"
	f.body = p.block()
	p.want("end")
	return f
}
