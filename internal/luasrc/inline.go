package luasrc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A function costs a closure on each call of the script, and a call each time it runs. So the
// bodies of functions replace their calls:
//
//   - the body of a function that only returns an expression, wherever arguments can be put in it;
//   - the body of a function that is called once, or is small, if its calls are whole statements. A
//     return before its end becomes a break from an enclosing loop that runs once.
//
// Every name stands for a symbol, so nothing is captured: a copied body has new symbols, which are
// renamed if an argument has the same name.

// inlinable reports whether copies of a function may replace its calls.
func inlinable(sym *symbol) bool {
	return !sym.fn.variadic && !sym.assigned && uses(sym.fn, sym) == 0 &&
		count(sym.fn.body, isFunction) == 0
}

func isFunction(x any) bool {
	switch x.(type) {
	case *function, *localFunction:
		return true
	}
	return false
}

// onlyReturns returns the expression that a function returns, if it does nothing else, or nil.
func onlyReturns(f *function) expr {
	if len(f.body) != 1 {
		return nil
	}
	if r, ok := f.body[0].(*ret); ok && len(r.values) == 1 {
		return r.values[0]
	}
	return nil
}

// isSimple reports whether an expression costs next to nothing and has no effects.
func isSimple(x expr) bool {
	switch x := x.(type) {
	case *name, *text:
		return true
	case *literal:
		return x.text != "..."
	case *index:
		return isSimple(x.x) && isSimple(x.key)
	}
	return false
}

// substituted returns the value of a function for some arguments, if each may be evaluated in
// place: it is simple, or the only complex argument, and used once.
func substituted(f *function, args []expr) (expr, bool) {
	value := onlyReturns(f)
	if len(args) != len(f.params) {
		return nil, false
	}
	c, others := newCopier(), 0
	for i, param := range f.params {
		if !isSimple(args[i]) {
			if others++; others > 1 || uses(value, param) != 1 || isMany(args[i]) && !isCall(args[i]) {
				return nil, false
			}
		}
		c.values[param] = operand(args[i])
	}
	if value = c.copied(value); isCall(value) {
		return value, true
	}
	return operand(value), true
}

// operand returns an expression of one value, ready to stand beside any operator.
func operand(x expr) expr {
	if isSimple(x) {
		return x
	}
	return &paren{x}
}

func isCall(x expr) bool { _, ok := x.(*call); return ok }

// isMany reports whether an expression may have several values.
func isMany(x expr) bool {
	l, ok := x.(*literal)
	return isCall(x) || ok && l.text == "..."
}

// inlineAll replaces calls with the functions at the beginning of a block, in the block's
// statements, until nothing is left to do. It removes functions without calls.
func inlineAll(body []stat) []stat {
	for i := 0; i < len(body); i++ {
		f, ok := body[i].(*localFunction)
		if !ok {
			continue
		}
		before := uses(body, f.sym)
		switch {
		case before == uses(f.fn, f.sym):
			body, i = slices.Delete(body, i, i+1), -1
		case !inlinable(f.sym):
		case onlyReturns(f.fn) != nil:
			if substitute(body, f.sym); uses(body, f.sym) < before {
				i = -1
			}
		case canMove(body, f.sym, before):
			body, i = moved(body, f.sym), -1
		}
	}
	return body
}

// substitute replaces calls of a function with its value.
func substitute(body []stat, sym *symbol) {
	edit(body, func(x expr) expr {
		if called := callOf(x, sym); called != nil {
			if value, ok := substituted(sym.fn, called.args); ok {
				return value
			}
		}
		return x
	})
}

// callOf returns an expression if it calls a function by name, or nil.
func callOf(x expr, sym *symbol) *call {
	if called, ok := x.(*call); ok {
		if n, ok := called.fn.(*name); ok && n.sym == sym {
			return called
		}
	}
	return nil
}

// growth is the maximum number of expressions and statements in all copies of a function with
// several calls.
const growth = 400

// canMove reports whether the body of a function can replace all calls without much growth of the
// script.
func canMove(body []stat, sym *symbol, calls int) bool {
	if calls > 1 && calls*count(sym.fn, func(any) bool { return true }) > growth {
		return false
	}
	return calls == count(body, func(x any) bool { return newMove(x, sym) != nil })
}

// moved replaces the calls of a function with its body.
func moved(body []stat, sym *symbol) []stat {
	return replace(body, func(s stat) []stat {
		if m := newMove(s, sym); m != nil {
			return m.made()
		}
		return []stat{s}
	})
}

// A move replaces a statement that calls a function with the function's body.
type move struct {
	fn      *function
	args    []expr
	targets []expr    // the targets of the results
	syms    []*symbol // the variables declared for the results
	isTail  bool      // the results are returned
	leaves  bool      // a return before the end of the body became a break
}

// newMove returns the move of a function's body in place of a statement, or nil if the statement is
// no call of the function, or can't be replaced.
func newMove(s any, sym *symbol) *move {
	m := move{fn: sym.fn} // most moves are nil, and not worth an allocation
	var values []expr
	switch s := s.(type) {
	case *run:
		values = []expr{s.call}
	case *local:
		values, m.syms = s.values, s.syms
		for _, sym := range s.syms {
			m.targets = append(m.targets, &name{text: sym.name, sym: sym, set: true})
		}
	case *assign:
		values, m.targets = s.values, s.targets
	case *ret:
		values, m.isTail = s.values, true
	}
	if len(values) != 1 {
		return nil
	}
	called := callOf(values[0], sym)
	if called == nil || len(called.args) > len(m.fn.params) || !m.isTail && !m.canAssign() {
		return nil
	}
	made := m
	made.args = called.args
	return &made
}

// canAssign reports whether assignments can replace the return statements: none is in a loop, and
// the values can be assigned, or left out if unused.
func (m *move) canAssign() bool {
	ok := true
	for _, target := range m.targets {
		_, isName := target.(*name)
		ok = ok && isName
	}
	walk(m.fn.body, func(x any) bool {
		switch x := x.(type) {
		case *while, *repeat, *forStep, *forEach:
			ok = ok && count(x, isReturn) == 0
		case *ret:
			values := x.values
			ok = ok && (len(m.targets) > 0 || len(values) == 0 ||
				len(values) == 1 && (isCall(values[0]) || isSimple(values[0])))
		}
		return ok
	})
	return ok
}

func isReturn(x any) bool { _, ok := x.(*ret); return ok }

// made returns the statements.
func (m *move) made() []stat {
	c := newCopier()
	bound := &local{}
	for i, param := range m.fn.params {
		var arg expr = &literal{"nil"}
		if i < len(m.args) {
			arg = m.args[i]
		} else if !isSingle(m.args) {
			arg = &literal{"..."} // one of several values
		}
		if !param.assigned && isFixed(arg) {
			c.values[param] = arg
			continue
		}
		bound.syms = append(bound.syms, c.declared(param))
		if i < len(m.args)-1 {
			arg = operand(arg)
		}
		if i < len(m.args) {
			bound.values = append(bound.values, arg)
		}
	}
	body := c.stats(m.fn.body)
	edit(body, folded)
	taken := map[string]bool{}
	addNames(taken, &assign{m.targets, m.args})
	rename(body, c.order, taken)
	if len(bound.syms) > 0 {
		body = append([]stat{bound}, body...)
	}
	return m.framed(body)
}

// isSingle reports whether arguments have no more values than expressions.
func isSingle(args []expr) bool {
	if len(args) == 0 || !isMany(args[len(args)-1]) {
		return true
	}
	called, ok := args[len(args)-1].(*call)
	if !ok {
		return false
	}
	n, ok := called.fn.(*name)
	return ok && (nameOf(n) == "call" || nameOf(n) == "try")
}

// addNames adds the names in code to found.
func addNames(found map[string]bool, code any) {
	walk(code, func(x any) bool {
		if n, ok := x.(*name); ok {
			found[nameOf(n)] = true
		}
		return true
	})
}

// rename renames the symbols of a copied body if their names are taken.
func rename(body []stat, own []*symbol, taken map[string]bool) {
	used := maps.Clone(taken)
	addNames(used, body)
	for _, sym := range own {
		used[sym.name] = true
	}
	for _, sym := range own {
		if taken[sym.name] {
			base := strings.TrimRight(sym.name, "0123456789")
			for i := 2; used[sym.name]; i++ {
				sym.name = fmt.Sprint(base, i)
			}
			used[sym.name] = true
		}
	}
}

// isFixed reports whether an expression has the same value as long as its names are visible.
func isFixed(x expr) bool {
	switch x := x.(type) {
	case *name:
		return x.sym != nil && !x.sym.assigned && x.sym.kind != inLibrary
	case *index:
		return false
	}
	return isSimple(x)
}

// framed returns the statements with the declaration and assignment of the results: in a block, or
// in a loop left by an early return.
func (m *move) framed(body []stat) []stat {
	ends := endsAlways(body)
	if m.isTail {
		if !ends {
			body = append(body, &ret{})
		}
		return []stat{&block{body}}
	}
	isNil := !ends && len(m.targets) > 0 && len(m.syms) == 0 // unless it returns something
	body = m.assigned(body, !isNil)
	if isNil {
		body = append(body, &assign{m.targets, []expr{&literal{"nil"}}})
	}
	var framed []stat
	if len(m.syms) > 0 {
		framed = []stat{&local{syms: m.syms}}
	}
	if m.leaves {
		return append(framed, &repeat{body, &literal{"true"}})
	}
	return append(framed, &block{body})
}

// assigned returns a body with assignments in place of its return statements. isLast means that
// nothing follows.
func (m *move) assigned(body []stat, isLast bool) []stat {
	var own []stat
	for i, s := range body {
		last := isLast && i == len(body)-1
		switch s := s.(type) {
		case *ret:
			own = append(own, m.assignment(s.values)...)
			if !last {
				own, m.leaves = append(own, &leave{}), true
			}
			continue
		case *block:
			s.body = m.assigned(s.body, last)
		case *choice:
			for i := range s.branches {
				s.branches[i].body = m.assigned(s.branches[i].body, last)
			}
		}
		own = append(own, s)
	}
	return own
}

// endsAlways reports whether statements end with a return on every path.
func endsAlways(body []stat) bool {
	if len(body) == 0 {
		return false
	}
	switch s := body[len(body)-1].(type) {
	case *ret:
		return true
	case *block:
		return endsAlways(s.body)
	case *choice:
		for _, b := range s.branches {
			if !endsAlways(b.body) {
				return false
			}
		}
		return s.branches[len(s.branches)-1].cond == nil
	}
	return false
}

func (m *move) assignment(values []expr) []stat {
	switch {
	case len(m.targets) > 0 && len(values) == 0:
		return []stat{&assign{m.targets, []expr{&literal{"nil"}}}}
	case len(m.targets) > 0:
		return []stat{&assign{m.targets, values}}
	case len(values) == 1 && isCall(values[0]):
		return []stat{&run{values[0].(*call)}}
	}
	return nil
}
