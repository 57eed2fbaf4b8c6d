package luasrc

import "slices"

// parts calls each for the parts of an expression x, which may be nil, and inner for the lists of
// statements, in order.
func parts(x any, each func(*expr), inner func(*[]stat)) {
	all := func(list []expr) {
		for i := range list {
			each(&list[i])
		}
	}
	switch x := x.(type) {
	case *function:
		inner(&x.body)
	case *binary:
		each(&x.a)
		each(&x.b)
	case *unary:
		each(&x.x)
	case *index:
		each(&x.x)
		each(&x.key)
	case *call:
		each(&x.fn)
		all(x.args)
	case *table:
		for i := range x.items {
			each(&x.items[i].key)
			each(&x.items[i].value)
		}
	case *paren:
		each(&x.x)
	case *local:
		all(x.values)
	case *localFunction:
		inner(&x.fn.body)
	case *assign:
		all(x.targets)
		all(x.values)
	case *run:
		called := x.call
		if each(&x.call); !isCall(x.call) {
			x.call = called // a statement stays a call
		}
	case *block:
		inner(&x.body)
	case *while:
		each(&x.cond)
		inner(&x.body)
	case *repeat:
		inner(&x.body)
		each(&x.cond)
	case *choice:
		for i := range x.branches {
			each(&x.branches[i].cond)
			inner(&x.branches[i].body)
		}
	case *forStep:
		each(&x.from)
		each(&x.to)
		each(&x.step)
		inner(&x.body)
	case *forEach:
		all(x.values)
		inner(&x.body)
	case *ret:
		all(x.values)
	}
}

// walk calls visit for each expression and statement below x, x first, as long as visit returns
// true.
func walk(x any, visit func(any) bool) {
	var each func(*expr)
	inner := func(body *[]stat) {
		for i := range *body {
			each((*expr)(&(*body)[i]))
		}
	}
	each = func(x *expr) {
		if *x != nil && visit(*x) {
			parts(*x, each, inner)
		}
	}
	if body, ok := x.([]stat); ok {
		inner(&body)
	} else {
		each((*expr)(&x))
	}
}

// count returns the number of expressions and statements of some kind.
func count(code any, is func(any) bool) int {
	n := 0
	walk(code, func(x any) bool {
		if is(x) {
			n++
		}
		return true
	})
	return n
}

// edit replaces each expression x in some statements with f(x), inner expressions first.
func edit(body []stat, f func(expr) expr) {
	var each func(*expr)
	inner := func(body *[]stat) { edit(*body, f) }
	each = func(x *expr) {
		if *x != nil {
			parts(*x, each, inner)
			*x = f(*x)
		}
	}
	for _, s := range body {
		parts(s, each, inner)
	}
}

// replace replaces each statement s in a body with f(s), inner statements first.
func replace(body []stat, f func(stat) []stat) []stat {
	var own []stat
	var each func(*expr)
	inner := func(body *[]stat) { *body = replace(*body, f) }
	each = func(x *expr) { parts(*x, each, inner) }
	for _, s := range body {
		parts(s, each, inner)
		own = append(own, f(s)...)
	}
	return own
}

// A copier copies code, with new symbols for the declarations in it, and with values in place of
// some names.
type copier struct {
	syms   map[*symbol]*symbol
	order  []*symbol // the new symbols
	values map[*symbol]expr
}

func newCopier() *copier {
	return &copier{syms: map[*symbol]*symbol{}, values: map[*symbol]expr{}}
}

func (c *copier) declared(sym *symbol) *symbol {
	own := *sym
	c.syms[sym] = &own
	c.order = append(c.order, &own)
	return &own
}

func (c *copier) declaredAll(syms []*symbol) []*symbol {
	own := make([]*symbol, len(syms))
	for i, sym := range syms {
		own[i] = c.declared(sym)
	}
	return own
}

func (c *copier) stats(body []stat) []stat {
	own := make([]stat, len(body))
	for i, s := range body {
		own[i] = c.copied(s)
	}
	return own
}

// copied returns a copy of an expression or a statement.
func (c *copier) copied(x any) any {
	if n, ok := x.(*name); ok {
		return c.named(n)
	}
	own := c.shallow(x)
	parts(own, func(x *expr) { *x = c.copied(*x) }, func(body *[]stat) { *body = c.stats(*body) })
	return own
}

func (c *copier) named(n *name) expr {
	if value, ok := c.values[n.sym]; ok {
		return value
	}
	own := *n
	if sym := c.syms[n.sym]; sym != nil {
		own.sym = sym
	}
	return &own
}

// shallow returns a copy of x that shares the parts of x.
func (c *copier) shallow(x any) any {
	switch x := x.(type) {
	case *function:
		return &function{c.declaredAll(x.params), x.variadic, x.body, x.cold}
	case *binary:
		return &binary{x.op, x.a, x.b}
	case *unary:
		return &unary{x.op, x.x}
	case *index:
		return &index{x.x, x.key}
	case *call:
		return &call{x.fn, slices.Clone(x.args), x.line}
	case *table:
		return &table{slices.Clone(x.items)}
	case *paren:
		return &paren{x.x}
	case *local:
		return &local{c.declaredAll(x.syms), slices.Clone(x.values)}
	case *localFunction:
		sym := c.declared(x.sym)
		sym.fn = c.shallow(x.fn).(*function)
		return &localFunction{sym, sym.fn}
	case *assign:
		return &assign{slices.Clone(x.targets), slices.Clone(x.values)}
	case *run:
		return &run{x.call}
	case *block:
		return &block{x.body}
	case *while:
		return &while{x.cond, x.body}
	case *repeat:
		return &repeat{x.body, x.cond}
	case *choice:
		return &choice{slices.Clone(x.branches), x.flat}
	case *forStep:
		return &forStep{c.declared(x.sym), x.from, x.to, x.step, x.body}
	case *forEach:
		return &forEach{c.declaredAll(x.syms), slices.Clone(x.values), x.body}
	case *ret:
		return &ret{slices.Clone(x.values)}
	}
	return x
}
