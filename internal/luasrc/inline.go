package luasrc

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A function costs a closure on each call of the script, and a call each time it runs. So the
// bodies of functions replace their calls:
//
//   - the body of a function that only returns an expression, wherever arguments can be put in it;
//   - the body of one that is called once, or is small, if its calls are whole statements.
//
// Every name stands for a symbol, so nothing is captured: a copied body has symbols of its own, and
// the ones with the name of an argument get another one.

// inlinable reports whether copies of a function may replace its calls.
func inlinable(sym *symbol) bool {
	if sym.fn == nil || sym.fn.variadic || sym.assigned {
		return false
	}
	ok := true
	walkAll(sym.fn.body, func(x any) bool {
		switch x := x.(type) {
		case *function:
			ok = false
		case *name:
			ok = ok && x.sym != sym
		}
		return ok
	})
	return ok
}

// onlyReturns returns the expression that is all a function returns, or nil.
func onlyReturns(f *function) expr {
	if len(f.body) != 1 {
		return nil
	}
	if r, ok := f.body[0].(*ret); ok && len(r.values) == 1 {
		return r.values[0]
	}
	return nil
}

// weight returns the number of expressions and statements in code.
func weight(code any) int {
	n := 0
	walk(code, func(any) bool { n++; return true })
	return n
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

// substituted returns the value of a function for some arguments, if each may be evaluated there:
// it is simple, or the only one that is not, and used once.
func substituted(f *function, args []expr) (expr, bool) {
	value := onlyReturns(f)
	if value == nil || len(args) != len(f.params) {
		return nil, false
	}
	values, others := map[*symbol]expr{}, 0
	for i, param := range f.params {
		if !isSimple(args[i]) {
			if others++; others > 1 || uses(value, param) != 1 || isMany(args[i]) && !isCall(args[i]) {
				return nil, false
			}
		}
		values[param] = args[i]
	}
	c := copier{syms: map[*symbol]*symbol{}}
	c.rewrite = func(x expr) (expr, bool) {
		if n, ok := x.(*name); ok {
			if arg, ok := values[n.sym]; ok {
				return single(arg), true
			}
		}
		return nil, false
	}
	return c.expr(value), true
}

// single returns an expression of one value.
func single(x expr) expr {
	if isCall(x) {
		return &paren{x}
	}
	return x
}

func isCall(x expr) bool { _, ok := x.(*call); return ok }

// isMany reports whether an expression may have several values.
func isMany(x expr) bool {
	l, ok := x.(*literal)
	return isCall(x) || ok && l.text == "..."
}

// uses counts the mentions of a symbol in code.
func uses(code any, sym *symbol) int {
	n := 0
	walk(code, func(x any) bool {
		if x, ok := x.(*name); ok && x.sym == sym {
			n++
		}
		return true
	})
	return n
}

// An inliner puts functions in the place of their calls in the statements of a block, of which they
// are the first.
type inliner struct{ body []stat }

// inlineAll does so as often as there is something to do, and leaves out functions without calls.
func inlineAll(body []stat) []stat {
	in := inliner{body}
	for in.once() {
	}
	return in.body
}

func (in *inliner) once() bool {
	for i, s := range in.body {
		f, ok := s.(*localFunction)
		if !ok {
			continue
		}
		if n := uses(in.body, f.sym) - uses(f.fn, f.sym); n == 0 {
			in.body = slices.Delete(slices.Clone(in.body), i, i+1)
			return true
		}
		if !inlinable(f.sym) {
			continue
		}
		if onlyReturns(f.fn) != nil {
			if in.substitute(f.sym) {
				return true
			}
		} else if in.move(f.sym) {
			return true
		}
	}
	return false
}

// substitute replaces calls of a function with its value.
func (in *inliner) substitute(sym *symbol) bool {
	before := uses(in.body, sym)
	edit(in.body, func(x expr) expr {
		if called := callOf(x, sym); called != nil {
			if value, ok := substituted(sym.fn, called.args); ok {
				return value
			}
		}
		return x
	})
	return uses(in.body, sym) < before
}

// callOf returns an expression if it is a call of a function by its name, or nil.
func callOf(x expr, sym *symbol) *call {
	called, ok := x.(*call)
	if !ok {
		return nil
	}
	if n, ok := called.fn.(*name); !ok || n.sym != sym {
		return nil
	}
	return called
}

// growth is the maximum weight of all copies of a function with several calls.
const growth = 400

// move puts the function's body in the place of its calls, if all of them can be replaced, and the
// script does not grow much.
func (in *inliner) move(sym *symbol) bool {
	calls := uses(in.body, sym)
	if calls > 1 && calls*weight(sym.fn) > growth {
		return false
	}
	possible := 0
	in.body = replace(in.body, func(s stat) []stat {
		if m := newMove(s, sym); m != nil && m.isPossible() {
			possible++
		}
		return []stat{s}
	})
	if possible != calls {
		return false
	}
	in.body = replace(in.body, func(s stat) []stat {
		if m := newMove(s, sym); m != nil {
			return m.made()
		}
		return []stat{s}
	})
	return true
}

// A move puts the body of a function in the place of a statement that calls it.
type move struct {
	fn      *function
	args    []expr
	targets []expr    // the targets that the results are assigned to
	syms    []*symbol // the variables that are declared for them
	isTail  bool      // the results are returned
}

// newMove returns the move of a function's body in place of a statement, or nil if that is no call
// of the function.
func newMove(s stat, sym *symbol) *move {
	m := &move{fn: sym.fn}
	var x expr
	switch s := s.(type) {
	case *run:
		x = s.call
	case *local:
		if len(s.values) != 1 {
			return nil
		}
		x, m.syms = s.values[0], s.syms
		for _, sym := range s.syms {
			m.targets = append(m.targets, &name{text: sym.name, sym: sym, set: true})
		}
	case *assign:
		if len(s.values) != 1 {
			return nil
		}
		x, m.targets = s.values[0], s.targets
	case *ret:
		if len(s.values) != 1 {
			return nil
		}
		x, m.isTail = s.values[0], true
	default:
		return nil
	}
	called := callOf(x, sym)
	if called == nil {
		return nil
	}
	m.args = called.args
	return m
}

// isPossible reports whether the move can be made.
func (m *move) isPossible() bool {
	if len(m.args) > len(m.fn.params) {
		return false
	}
	for _, target := range m.targets {
		if _, ok := target.(*name); !ok {
			return false
		}
	}
	return m.isTail || m.canAssign(m.fn.body, false)
}

// canAssign reports whether assignments can take the place of the return statements: none is in a
// loop.
func (m *move) canAssign(body []stat, inLoop bool) bool {
	for _, s := range body {
		ok := true
		switch s := s.(type) {
		case *ret:
			ok = !inLoop && m.canAssignValues(s.values)
		case *block:
			ok = m.canAssign(s.body, inLoop)
		case *choice:
			for _, b := range s.branches {
				ok = ok && m.canAssign(b.body, inLoop)
			}
		case *while:
			ok = m.canAssign(s.body, true)
		case *repeat:
			ok = m.canAssign(s.body, true)
		case *forStep:
			ok = m.canAssign(s.body, true)
		case *forEach:
			ok = m.canAssign(s.body, true)
		}
		if !ok {
			return false
		}
	}
	return true
}

// canAssignValues reports whether values can be assigned, or left out if they are unused.
func (m *move) canAssignValues(values []expr) bool {
	if len(m.targets) > 0 || len(values) == 0 {
		return true
	}
	return len(values) == 1 && (isCall(values[0]) || isSimple(values[0]))
}

// made returns the statements.
func (m *move) made() []stat {
	taken := map[string]bool{}
	for _, x := range append(slices.Clone(m.args), m.targets...) {
		walk(x, func(x any) bool {
			if n, ok := x.(*name); ok {
				taken[nameOf(n)] = true
			}
			return true
		})
	}
	c := copier{syms: map[*symbol]*symbol{}}
	var declared local
	substitutes := map[*symbol]expr{}
	for i, param := range m.fn.params {
		var arg expr
		if i < len(m.args) {
			arg = m.args[i]
		} else if !isSingle(m.args) {
			arg = &literal{"..."} // one of several values
		} else {
			arg = &literal{"nil"}
		}
		if !param.assigned && isFixed(arg) && !m.assigns(arg) {
			substitutes[param] = arg
			continue
		}
		declared.syms = append(declared.syms, c.declared(param))
		if i < len(m.args)-1 {
			arg = single(arg)
		}
		if i < len(m.args) {
			declared.values = append(declared.values, arg)
		}
	}
	c.rewrite = func(x expr) (expr, bool) {
		n, ok := x.(*name)
		if !ok {
			return nil, false
		}
		arg, ok := substitutes[n.sym]
		return arg, ok
	}
	body := c.stats(m.fn.body)
	edit(body, folded)
	rename(body, c.syms, taken)
	if len(declared.syms) > 0 {
		body = append([]stat{&declared}, body...)
	}
	return m.framed(body)
}

// isSingle reports whether arguments have no more values than there are expressions.
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

// assigns reports whether an argument is a variable to which a result is assigned.
func (m *move) assigns(arg expr) bool {
	n, ok := arg.(*name)
	return ok && slices.ContainsFunc(m.targets, func(target expr) bool {
		return target.(*name).sym == n.sym
	})
}

// rename gives the symbols of a copied body other names if theirs are taken.
func rename(body []stat, own map[*symbol]*symbol, taken map[string]bool) {
	used := maps.Clone(taken)
	walkAll(body, func(x any) bool {
		if n, ok := x.(*name); ok {
			used[nameOf(n)] = true
		}
		return true
	})
	for _, sym := range own {
		used[sym.name] = true
	}
	var conflicts []*symbol
	for _, sym := range own {
		if taken[sym.name] {
			conflicts = append(conflicts, sym)
		}
	}
	slices.SortFunc(conflicts, func(x, y *symbol) int {
		return cmp.Or(strings.Compare(x.name, y.name), x.line-y.line)
	})
	for _, sym := range conflicts {
		base := strings.TrimRight(sym.name, "0123456789")
		for i := 2; used[sym.name]; i++ {
			sym.name = fmt.Sprint(base, i)
		}
		used[sym.name] = true
	}
}

// isFixed reports whether an expression has the same value as long as its names are seen.
func isFixed(x expr) bool {
	switch x := x.(type) {
	case *text:
		return true
	case *literal:
		return x.text != "..."
	case *name:
		return x.sym != nil && !x.sym.assigned && x.sym.kind != inLibrary
	}
	return false
}

// framed returns the statements with the declaration and assignment of the results: in a block, if
// that is possible and not longer than a loop that each return leaves.
func (m *move) framed(body []stat) []stat {
	if m.isTail {
		if !endsAlways(body) {
			body = append(body, &ret{})
		}
		return []stat{&block{body}}
	}
	ends := endsAlways(body)
	isNil := !ends && len(m.targets) > 0 && len(m.syms) == 0 // unless it returns something
	own, _ := m.assigned(body, !isNil, true)
	if isNil {
		own = append(own, &assign{m.targets, []expr{&literal{"nil"}}})
	}
	framed := []stat{&repeat{own, &literal{"true"}}}
	if !isNil {
		if own, ok := m.assigned(body, true, false); ok && length(own) <= length(framed) {
			if declared, ok := m.declared(own); ok && ends {
				return declared
			}
			framed = []stat{&block{own}}
		}
	}
	if len(m.syms) > 0 {
		return append([]stat{&local{syms: m.syms}}, framed...)
	}
	return framed
}

// length returns the length of statements as text.
func length(body []stat) int {
	p := &printer{indent: 1}
	p.stats(body)
	return p.b.Len()
}

// declared returns the statements of a body that ends with an assignment of variables of its own to
// the ones declared for the results, which then take the place of its own.
func (m *move) declared(body []stat) ([]stat, bool) {
	if len(m.syms) == 0 || len(body) < 2 {
		return nil, false
	}
	last, ok := body[len(body)-1].(*assign)
	if !ok || len(last.values) != len(m.syms) {
		return nil, false
	}
	places := map[*symbol]*symbol{}
	for i, value := range last.values {
		n, ok := value.(*name)
		if !ok || n.sym == nil || places[n.sym] != nil || last.targets[i].(*name).sym != m.syms[i] {
			return nil, false
		}
		places[n.sym] = m.syms[i]
	}
	body = slices.Clone(body[:len(body)-1])
	found := 0
	first := 0 // the number of statements that declare the results, before the block
	for i, s := range body {
		l, ok := s.(*local)
		if !ok {
			continue
		}
		inside := 0
		for _, sym := range l.syms {
			if places[sym] != nil {
				inside++
			}
		}
		if inside == 0 {
			continue
		}
		if inside != len(l.syms) {
			return nil, false
		}
		found += inside
		if i == 0 && inside == len(places) && len(l.values) > 0 {
			own := &local{values: l.values}
			for _, sym := range l.syms {
				own.syms = append(own.syms, places[sym])
			}
			body[0], first = own, 1
			continue
		}
		if len(l.values) == 0 {
			body[i] = &block{}
			continue
		}
		set := &assign{values: l.values}
		for _, sym := range l.syms {
			set.targets = append(set.targets, &name{text: places[sym].name, sym: places[sym], set: true})
		}
		body[i] = set
	}
	if found != len(places) {
		return nil, false
	}
	edit(body, func(x expr) expr {
		if n, ok := x.(*name); ok && places[n.sym] != nil {
			return &name{text: places[n.sym].name, sym: places[n.sym], line: n.line, set: n.set}
		}
		return x
	})
	rest := slices.DeleteFunc(body[first:], func(s stat) bool {
		b, ok := s.(*block)
		return ok && len(b.body) == 0
	})
	all := body[:first:first]
	if first == 0 {
		all = []stat{&local{syms: m.syms}}
	}
	if len(rest) > 0 {
		all = append(all, &block{rest})
	}
	return all, true
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

// assigned returns a body with assignments in the place of its return statements. With leaves, the
// ones before the end leave the loop around the body; without, the statements after a return are in
// the other branch of its condition, and it fails if that is impossible. isLast means that nothing
// follows.
func (m *move) assigned(body []stat, isLast, leaves bool) ([]stat, bool) {
	var own []stat
	for i, s := range body {
		last := isLast && i == len(body)-1
		switch s := s.(type) {
		case *ret:
			own = append(own, m.assignment(s.values)...)
			if !last && !leaves {
				return nil, false
			}
			if !last {
				own = append(own, &leave{})
			}
			continue
		case *block:
			inner, fine := m.assigned(s.body, last, leaves)
			if !fine {
				return nil, false
			}
			own = append(own, &block{inner})
			continue
		case *choice:
			rest := body[i+1:]
			whole, fine := s, last
			if !leaves && isLast && len(rest) > 0 && returns(s) {
				if whole, fine = withRest(s, rest); !fine {
					return nil, false
				}
			}
			copied := &choice{}
			for _, b := range whole.branches {
				inner, ok := m.assigned(b.body, fine, leaves)
				if !ok {
					return nil, false
				}
				copied.branches = append(copied.branches, branch{b.cond, inner})
			}
			own = append(own, flat(copied)...)
			if whole != s {
				return own, true
			}
			continue
		}
		own = append(own, s)
	}
	return own, true
}

// returns reports whether a statement may end with a return.
func returns(s stat) bool {
	found := false
	walk(s, func(x any) bool {
		if _, ok := x.(*ret); ok {
			found = true
		}
		_, isFunction := x.(*function)
		return !isFunction && !found
	})
	return found
}

// withRest returns a choice with the statements after it in its last branch, if the others all end
// with a return.
func withRest(s *choice, rest []stat) (*choice, bool) {
	all := slices.Clone(s.branches)
	last := len(all) - 1
	if all[last].cond != nil {
		all = append(all, branch{nil, rest})
	} else if slices.ContainsFunc(all[last].body, needsBlock) {
		return nil, false
	} else {
		all[last].body = append(slices.Clone(all[last].body), rest...)
	}
	for _, b := range all[:len(all)-1] {
		if !endsAlways(b.body) {
			return nil, false
		}
	}
	return &choice{all}, true
}

// flat returns a choice whose last branch is no choice of its own, and whose first is not empty.
func flat(s *choice) []stat {
	if last := s.branches[len(s.branches)-1]; last.cond == nil && len(last.body) == 1 {
		if inner, ok := last.body[0].(*choice); ok {
			s.branches = append(s.branches[:len(s.branches)-1], inner.branches...)
		}
	}
	if len(s.branches) == 2 && len(s.branches[0].body) == 0 && s.branches[1].cond == nil {
		return []stat{&choice{[]branch{{negated(s.branches[0].cond), s.branches[1].body}}}}
	}
	return []stat{s}
}

// negated returns a condition that is true when another is false.
func negated(x expr) expr {
	switch x := x.(type) {
	case *paren:
		return negated(x.x)
	case *unary:
		if x.op == "not" {
			return x.x
		}
	case *binary:
		switch x.op {
		case "==":
			return &binary{"~=", x.a, x.b}
		case "~=":
			return &binary{"==", x.a, x.b}
		}
	}
	return &unary{"not", x}
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
