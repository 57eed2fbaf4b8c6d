package luasrc

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
)

// unproven returns the commands that can return success after writes that were only tried, and that
// a server refusing writes has not done. It maps these commands to the tried writes that can come
// first. writes reports whether a Redis command writes.
//
// It follows each path through a command, even if conditions rule it out, and takes loops to run at
// least once. A write counts as done after a check of its reply that fails on an error.
func unproven(sources fs.FS, writes func(string) bool) (map[string][]string, error) {
	t, err := read(sources, nil)
	if err != nil {
		return nil, err
	}
	all := map[string][]string{}
	for _, command := range t.names {
		f := &flow{writes: writes, known: map[visit]effects{}, firsts: map[string]bool{}}
		body := &function{body: t.commands[command].body}
		var after effects
		for !f.settled {
			f.settled, f.seen = true, map[visit]bool{}
			after = f.through(visit{fn: body, before: untouched}, t.commands[command].file)
		}
		if after&tried != 0 {
			all[command] = slices.Sorted(maps.Keys(f.firsts))
		}
	}
	return all, nil
}

// Effects are a set of what a call may have done to the server so far.
type effects uint8

const (
	untouched effects = 1 << iota
	tried             // all writes were tried, and may have failed
	written
)

// A visit is a call of a function, with one of the effects before it. run is the symbol "call" or
// "try" passed to the function, if any.
type visit struct {
	fn     *function
	before effects
	run    string
}

// A flow follows the paths through a command.
type flow struct {
	writes  func(string) bool
	known   map[visit]effects // after the visits so far; they grow until settled
	seen    map[visit]bool    // in this round
	settled bool
	firsts  map[string]bool // the places of tried writes before any other

	file     string
	run      string           // passed to the present function
	returned effects          // by the present function
	left     effects          // by the present loop
	replies  map[*symbol]bool // the variables with a reply of a tried write
}

// through returns the effects after a visit.
func (f *flow) through(v visit, file string) effects {
	if f.seen[v] {
		return f.known[v]
	}
	f.seen[v] = true
	outer := *f
	f.file, f.run, f.returned, f.replies = file, v.run, 0, map[*symbol]bool{}
	after := f.stats(v.fn.body, v.before) | f.returned
	settled := f.settled
	*f = outer
	f.settled = settled && after == f.known[v]
	f.known[v] |= after
	return f.known[v]
}

func (f *flow) stats(body []stat, e effects) effects {
	for _, s := range body {
		if e == 0 {
			break
		}
		e = f.stat(s, e)
	}
	return e
}

func (f *flow) stat(s stat, e effects) effects {
	switch s := s.(type) {
	case *local:
		e = f.exprs(s.values, e)
		for i, sym := range s.syms {
			f.replies[sym] = i < len(s.values) && f.isTried(s.values[i])
		}
	case *assign:
		e = f.exprs(s.values, e)
		for i, target := range s.targets {
			if n, ok := target.(*name); ok && n.sym != nil {
				f.replies[n.sym] = i < len(s.values) && f.isTried(s.values[i])
			}
		}
	case *run:
		return f.expr(s.call, e)
	case *block:
		return f.stats(s.body, e)
	case *while:
		into, past := f.cond(s.cond, e)
		return f.loop(s.body, into, past)
	case *repeat:
		return f.expr(s.cond, f.loop(s.body, e, 0))
	case *forStep:
		e = f.exprs([]expr{s.from, s.to}, e)
		return f.loop(s.body, e, e)
	case *forEach:
		e = f.exprs(s.values, e)
		return f.loop(s.body, e, e)
	case *choice:
		var after effects
		for _, b := range s.branches {
			into := e
			if b.cond != nil {
				into, e = f.cond(b.cond, e)
			} else {
				e = 0
			}
			after |= f.stats(b.body, into)
		}
		return after | e
	case *ret:
		f.returned |= f.exprs(s.values, e)
		return 0
	case *leave:
		f.left |= e
		return 0
	}
	return e
}

// loop returns the effects of a loop: of its first and its second round, or of none if it is always
// left.
func (f *flow) loop(body []stat, e, past effects) effects {
	outer := f.left
	f.left = 0
	once := f.stats(body, e)
	after := once | f.stats(body, once) | f.left
	f.left = outer
	if once == 0 {
		after |= past
	}
	return after
}

func (f *flow) exprs(all []expr, e effects) effects {
	for _, x := range all {
		e = f.expr(x, e)
	}
	return e
}

func (f *flow) expr(x expr, e effects) effects {
	switch x := x.(type) {
	case *binary:
		yes, no := f.cond(x, e)
		return yes | no
	case *unary:
		return f.expr(x.x, e)
	case *paren:
		return f.expr(x.x, e)
	case *index:
		return f.expr(x.key, f.expr(x.x, e))
	case *table:
		for _, it := range x.items {
			e = f.expr(it.value, f.expr(it.key, e))
		}
	case *call:
		return f.called(x, f.exprs(x.args, f.expr(x.fn, e)))
	}
	return e
}

// called returns the effects after a call with evaluated arguments.
func (f *flow) called(c *call, e effects) effects {
	n, ok := c.fn.(*name)
	if !ok || e == 0 {
		return e
	}
	if n.text == "error" && n.sym == nil {
		return 0
	}
	if command := calledBy(c); command != "" {
		switch {
		case !f.writes(command):
		case !f.isTried(c):
			return written
		case e&untouched != 0:
			f.firsts[fmt.Sprintf("%s:%d", f.file, c.line)] = true
			return e&^untouched | tried
		}
		return e
	}
	run := ""
	for _, arg := range c.args {
		switch arg := arg.(type) {
		case *function:
			e |= f.each(arg, e, "", f.file)
		case *name:
			if callers[arg.text] {
				run = f.bound(arg.text)
			} else if arg.sym != nil && arg.sym.fn != nil {
				e |= f.each(arg.sym.fn, e, "", arg.sym.file)
			}
		}
	}
	if n.sym != nil && n.sym.fn != nil {
		return f.each(n.sym.fn, e, run, n.sym.file)
	}
	return e
}

// each visits a function with each of the effects before it.
func (f *flow) each(fn *function, e effects, run, file string) effects {
	var after effects
	for _, before := range []effects{untouched, tried, written} {
		if e&before != 0 {
			after |= f.through(visit{fn, before, run}, file)
		}
	}
	return after
}

// bound returns the meaning of a name: "call" or "try".
func (f *flow) bound(name string) string {
	if name == "run" {
		return f.run
	}
	return name
}

// isTried reports whether an expression is a tried write.
func (f *flow) isTried(x expr) bool {
	c, ok := x.(*call)
	if !ok {
		return false
	}
	n, ok := c.fn.(*name)
	command := calledBy(c)
	if !ok || command == "" || !f.writes(command) {
		return false
	}
	if first, ok := c.args[0].(*name); ok && callers[first.text] {
		n = first
	}
	return f.bound(n.text) == "try"
}

// isReply reports whether an expression is the reply of a tried write.
func (f *flow) isReply(x expr) bool {
	n, ok := x.(*name)
	return f.isTried(x) || ok && n.sym != nil && f.replies[n.sym]
}

// cond returns the effects after a true condition, and after a false one.
func (f *flow) cond(x expr, e effects) (yes, no effects) {
	switch x := x.(type) {
	case *paren:
		return f.cond(x.x, e)
	case *unary:
		if x.op == "not" {
			no, yes = f.cond(x.x, e)
			return yes, no
		}
	case *binary:
		switch x.op {
		case "and":
			yes, no = f.cond(x.a, e)
			both, second := f.cond(x.b, yes)
			return both, no | second
		case "or":
			yes, no = f.cond(x.a, e)
			second, neither := f.cond(x.b, no)
			return yes | second, neither
		case "==", "~=":
			e = f.expr(x.b, f.expr(x.a, e))
			proves, is := f.proof(x)
			yes, no = e, e
			if proves && e != 0 && is == (x.op == "==") {
				yes = written
			} else if proves && e != 0 {
				no = written
			}
			return yes, no
		}
		e = f.expr(x.b, f.expr(x.a, e))
		return e, e
	case *index:
		e = f.expr(x, e)
		if key, ok := x.key.(*text); ok && f.isReply(x.x) && e != 0 {
			switch key.value {
			case "ok":
				return written, e
			case "err":
				return e, written
			}
		}
		return e, e
	}
	e = f.expr(x, e)
	return e, e
}

// proof reports whether a comparison with a constant proves that a write was done, and whether
// equality does so.
func (f *flow) proof(x *binary) (proves, equal bool) {
	if _, ok := x.b.(*literal); ok {
		return f.isReply(x.a), true
	}
	kind, ok := x.b.(*text)
	c, isCall := x.a.(*call)
	if !ok || !isCall || len(c.args) != 1 {
		return false, false
	}
	n, ok := c.fn.(*name)
	return ok && n.text == "type" && f.isReply(c.args[0]), kind.value != "table"
}
