package luasrc

import (
	"maps"
	"slices"
)

// A coldPart is the code of a command that seldom runs.
type coldPart struct {
	command   string
	body      []stat
	variables []*symbol // of the library
}

// A merger puts functions of the library that the script calls at one place there: in the library,
// or in a command that seldom runs. Those of other commands stay, as their constants would push
// others out of the first 256.
type merger struct {
	bodies   map[*symbol]*[]stat // of functions
	commands []*[]stat
	hot      []branch
	tried    map[*symbol]bool
}

func (b *builder) mergeSingles(hot []branch, cold []*coldPart) {
	m := &merger{bodies: map[*symbol]*[]stat{}, hot: hot, tried: map[*symbol]bool{}}
	for sym := range b.lib {
		if sym.fn != nil {
			body := b.bodyOf(sym)
			m.bodies[sym] = &body
		}
	}
	for _, part := range cold {
		m.commands = append(m.commands, &part.body)
	}
	for m.mergeSome() {
	}
	maps.DeleteFunc(b.lib, func(sym *symbol, _ bool) bool {
		return sym.fn != nil && m.bodies[sym] == nil
	})
	for sym, body := range m.bodies {
		b.bodies[sym] = *body
	}
}

// mergeSome reports whether there were functions to merge.
func (m *merger) mergeSome() bool {
	callers, found := m.callers(), false
	for _, sym := range slices.SortedFunc(maps.Keys(m.bodies), byName) {
		places, body := callers[sym], m.bodies[sym]
		if m.tried[sym] || len(places) != 1 || places[0] == nil || places[0] == body {
			continue
		}
		m.tried[sym] = true
		if made, ok := merged(*places[0], sym, *body); ok {
			*places[0] = made
			delete(m.bodies, sym)
			for _, others := range callers { // the function's calls are there, too
				for i, place := range others {
					if place == body {
						others[i] = places[0]
					}
				}
			}
			found = true
		}
	}
	return found
}

// callers returns the bodies in which each function is named, nil for a command that often runs.
func (m *merger) callers() map[*symbol][]*[]stat {
	callers := map[*symbol][]*[]stat{}
	note := func(body []stat, place *[]stat) {
		walkAll(body, func(x any) bool {
			if sym := libraryName(x); sym != nil && sym.fn != nil {
				callers[sym] = append(callers[sym], place)
			}
			return true
		})
	}
	for _, b := range m.hot {
		note(b.body, nil)
	}
	for _, body := range m.commands {
		note(*body, body)
	}
	for _, body := range m.bodies {
		note(*body, body)
	}
	return callers
}

// merged returns statements with the body of a function in the place of its call, if that is
// possible.
func merged(stats []stat, sym *symbol, body []stat) ([]stat, bool) {
	c := &copier{syms: map[*symbol]*symbol{}}
	f := &function{params: sym.fn.params, variadic: sym.fn.variadic, body: body}
	own := c.declared(sym)
	own.kind, own.fn = inBlock, c.expr(f).(*function)
	if !inlinable(own) {
		return nil, false
	}
	made := inlineAll(append([]stat{&localFunction{own, own.fn}}, c.stats(stats)...), coldGrowth)
	if first, ok := made[0].(*localFunction); ok && first.sym == own {
		return nil, false
	}
	return tidied(made), true
}
