package luasrc

// walk calls visit for each expression and statement below x, x first, as long as visit returns
// true.
func walk(x any, visit func(any) bool) {
	if x == nil || !visit(x) {
		return
	}
	switch x := x.(type) {
	case []stat:
		walkAll(x, visit)
	case *function:
		walkAll(x.body, visit)
	case *binary:
		walk(x.a, visit)
		walk(x.b, visit)
	case *unary:
		walk(x.x, visit)
	case *index:
		walk(x.x, visit)
		walk(x.key, visit)
	case *call:
		walk(x.fn, visit)
		walkAll(x.args, visit)
	case *table:
		for _, it := range x.items {
			walk(it.key, visit)
			walk(it.value, visit)
		}
	case *paren:
		walk(x.x, visit)
	case *local:
		walkAll(x.values, visit)
	case *localFunction:
		walk(x.fn, visit)
	case *assign:
		walkAll(x.targets, visit)
		walkAll(x.values, visit)
	case *run:
		walk(x.call, visit)
	case *block:
		walkAll(x.body, visit)
	case *while:
		walk(x.cond, visit)
		walkAll(x.body, visit)
	case *repeat:
		walkAll(x.body, visit)
		walk(x.cond, visit)
	case *choice:
		for _, b := range x.branches {
			walk(b.cond, visit)
			walkAll(b.body, visit)
		}
	case *forStep:
		walk(x.from, visit)
		walk(x.to, visit)
		walk(x.step, visit)
		walkAll(x.body, visit)
	case *forEach:
		walkAll(x.values, visit)
		walkAll(x.body, visit)
	case *ret:
		walkAll(x.values, visit)
	}
}

func walkAll[T any](all []T, visit func(any) bool) {
	for _, x := range all {
		walk(x, visit)
	}
}

// A copier copies code, with symbols of its own for what the code declares. rewrite may return
// another expression in the place of one.
type copier struct {
	syms    map[*symbol]*symbol
	rewrite func(expr) (expr, bool)
}

func (c *copier) declared(sym *symbol) *symbol {
	own := *sym
	c.syms[sym] = &own
	return &own
}

func (c *copier) declaredAll(syms []*symbol) []*symbol {
	own := make([]*symbol, len(syms))
	for i, sym := range syms {
		own[i] = c.declared(sym)
	}
	return own
}

func (c *copier) expr(x expr) expr {
	if x == nil {
		return nil
	}
	if c.rewrite != nil {
		if other, ok := c.rewrite(x); ok {
			return other
		}
	}
	switch x := x.(type) {
	case *name:
		n := *x
		if own := c.syms[x.sym]; own != nil {
			n.sym = own
		}
		return &n
	case *function:
		f := *x
		f.params = c.declaredAll(x.params)
		f.body = c.stats(x.body)
		return &f
	case *binary:
		return &binary{x.op, c.expr(x.a), c.expr(x.b)}
	case *unary:
		return &unary{x.op, c.expr(x.x)}
	case *index:
		return &index{c.expr(x.x), c.expr(x.key)}
	case *call:
		return &call{c.expr(x.fn), c.exprs(x.args), x.line}
	case *table:
		t := &table{}
		for _, it := range x.items {
			t.items = append(t.items, item{c.expr(it.key), c.expr(it.value)})
		}
		return t
	case *paren:
		return &paren{c.expr(x.x)}
	}
	return x
}

func (c *copier) exprs(all []expr) []expr {
	var own []expr
	for _, x := range all {
		own = append(own, c.expr(x))
	}
	return own
}

func (c *copier) stats(all []stat) []stat {
	var own []stat
	for _, s := range all {
		own = append(own, c.stat(s))
	}
	return own
}

func (c *copier) stat(s stat) stat {
	switch s := s.(type) {
	case *local:
		values := c.exprs(s.values) // before the names are seen
		return &local{c.declaredAll(s.syms), values}
	case *localFunction:
		sym := c.declared(s.sym)
		sym.fn = c.expr(s.fn).(*function)
		return &localFunction{sym, sym.fn}
	case *assign:
		return &assign{c.exprs(s.targets), c.exprs(s.values)}
	case *run:
		if called, ok := c.expr(s.call).(*call); ok {
			return &run{called}
		}
		return &run{s.call}
	case *block:
		return &block{c.stats(s.body)}
	case *while:
		return &while{c.expr(s.cond), c.stats(s.body)}
	case *repeat:
		body := c.stats(s.body)
		return &repeat{body, c.expr(s.cond)}
	case *choice:
		own := &choice{}
		for _, b := range s.branches {
			own.branches = append(own.branches, branch{c.expr(b.cond), c.stats(b.body)})
		}
		return own
	case *forStep:
		from, to, step := c.expr(s.from), c.expr(s.to), c.expr(s.step)
		return &forStep{c.declared(s.sym), from, to, step, c.stats(s.body)}
	case *forEach:
		values := c.exprs(s.values)
		return &forEach{c.declaredAll(s.syms), values, c.stats(s.body)}
	case *ret:
		return &ret{c.exprs(s.values)}
	}
	return s
}

// edit puts f(x) in the place of each expression x in some statements, inner ones first. A call
// that is a statement stays a call.
func edit(body []stat, f func(expr) expr) {
	e := editor{f}
	e.stats(body)
}

type editor struct{ f func(expr) expr }

func (e editor) expr(x expr) expr {
	switch x := x.(type) {
	case nil:
		return nil
	case *function:
		e.stats(x.body)
	case *binary:
		x.a, x.b = e.expr(x.a), e.expr(x.b)
	case *unary:
		x.x = e.expr(x.x)
	case *index:
		x.x, x.key = e.expr(x.x), e.expr(x.key)
	case *call:
		x.fn = e.expr(x.fn)
		e.exprs(x.args)
	case *table:
		for i := range x.items {
			x.items[i].key, x.items[i].value = e.expr(x.items[i].key), e.expr(x.items[i].value)
		}
	case *paren:
		x.x = e.expr(x.x)
	}
	return e.f(x)
}

func (e editor) exprs(all []expr) {
	for i, x := range all {
		all[i] = e.expr(x)
	}
}

func (e editor) stats(body []stat) {
	for _, s := range body {
		e.stat(s)
	}
}

func (e editor) stat(s stat) {
	switch s := s.(type) {
	case *local:
		e.exprs(s.values)
	case *localFunction:
		e.stats(s.fn.body)
	case *assign:
		e.exprs(s.targets)
		e.exprs(s.values)
	case *run:
		if c, ok := e.expr(s.call).(*call); ok {
			s.call = c
		}
	case *block:
		e.stats(s.body)
	case *while:
		s.cond = e.expr(s.cond)
		e.stats(s.body)
	case *repeat:
		e.stats(s.body)
		s.cond = e.expr(s.cond)
	case *choice:
		for i := range s.branches {
			s.branches[i].cond = e.expr(s.branches[i].cond)
			e.stats(s.branches[i].body)
		}
	case *forStep:
		s.from, s.to, s.step = e.expr(s.from), e.expr(s.to), e.expr(s.step)
		e.stats(s.body)
	case *forEach:
		e.exprs(s.values)
		e.stats(s.body)
	case *ret:
		e.exprs(s.values)
	}
}

// replace puts f(s) in the place of each statement s in a body, inner ones first.
func replace(body []stat, f func(stat) []stat) []stat {
	var own []stat
	for _, s := range body {
		switch s := s.(type) {
		case *localFunction:
			s.fn.body = replace(s.fn.body, f)
		case *block:
			s.body = replace(s.body, f)
		case *while:
			s.body = replace(s.body, f)
		case *repeat:
			s.body = replace(s.body, f)
		case *choice:
			for i := range s.branches {
				s.branches[i].body = replace(s.branches[i].body, f)
			}
		case *forStep:
			s.body = replace(s.body, f)
		case *forEach:
			s.body = replace(s.body, f)
		}
		replaceInValues(s, f)
		own = append(own, f(s)...)
	}
	return own
}

// replaceInValues does so in the functions that are values of a statement.
func replaceInValues(s stat, f func(stat) []stat) {
	values := func(x any) bool {
		fn, ok := x.(*function)
		if ok {
			fn.body = replace(fn.body, f)
		}
		return !ok
	}
	switch s := s.(type) {
	case *local:
		walkAll(s.values, values)
	case *assign:
		walkAll(s.values, values)
	case *run:
		walk(s.call, values)
	case *ret:
		walkAll(s.values, values)
	}
}
