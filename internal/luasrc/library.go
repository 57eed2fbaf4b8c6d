package luasrc

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// DropInName is the file name of the script.
const DropInName = "qless.lua"

// A tree holds all sources: the prologue of every call, the library, and the commands.
type tree struct {
	prologue *source
	library  []*source
	lent     int // the number of first library files that may be unused
	commands map[string]*source
	names    []string           // of the commands, in order
	shared   map[string]*symbol // the symbols declared by the prologue and the library
}

// globals are the names available in every script.
var globals = map[string]bool{
	"ARGV": true, "KEYS": true, "cjson": true, "error": true, "ipairs": true, "math": true,
	"pairs": true, "pcall": true, "redis": true, "setmetatable": true, "string": true, "table": true,
	"tonumber": true, "tostring": true, "type": true, "unpack": true,
}

// read reads all sources, and resolves each name. The commands are in own, with their own library,
// unless own is nil.
func read(sources, own fs.FS) (*tree, error) {
	t := &tree{commands: map[string]*source{}, shared: map[string]*symbol{}}
	var err error
	if t.prologue, err = readFile(sources, "prologue.lua"); err != nil {
		return nil, err
	}
	if err := t.readLibrary(sources); err != nil {
		return nil, err
	}
	commands := sources
	if own != nil {
		t.lent, commands = len(t.library), own
		if err := t.readLibrary(own); err != nil {
			return nil, err
		}
	}
	if t.names, err = Commands(commands); err != nil {
		return nil, err
	}
	for _, command := range t.names {
		src, err := readFile(commands, path.Join("commands", command+".lua"))
		if err == nil && own == nil {
			err = src.readFacts()
		}
		if err != nil {
			return nil, err
		}
		t.commands[command] = src
	}
	return t, t.resolve()
}

func (t *tree) readLibrary(sources fs.FS) error {
	files, err := fs.Glob(sources, "lib/*.lua")
	for _, file := range files {
		src, err := readFile(sources, file)
		if err != nil {
			return err
		}
		t.library = append(t.library, src)
	}
	return err
}

func readFile(sources fs.FS, file string) (*source, error) {
	code, err := fs.ReadFile(sources, file)
	if err != nil {
		return nil, err
	}
	src, err := parse(file, string(code))
	if err != nil {
		return nil, err
	}
	src.header, _, _ = strings.Cut(string(code), "\n\n")
	return src, nil
}

// Commands lists the commands of a source tree, in order.
func Commands(sources fs.FS) ([]string, error) {
	files, err := fs.Glob(sources, "commands/*.lua")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, file := range files {
		names = append(names, strings.TrimSuffix(path.Base(file), ".lua"))
	}
	slices.Sort(names)
	return names, nil
}

// all returns all sources.
func (t *tree) all() []*source {
	all := append([]*source{t.prologue}, t.library...)
	for _, command := range t.names {
		all = append(all, t.commands[command])
	}
	return all
}

// resolve finds the symbols of names not declared in a file, and refuses names that hide others, or
// stand for nothing.
func (t *tree) resolve() error {
	for _, src := range append([]*source{t.prologue}, t.library...) {
		for _, sym := range src.syms {
			if other := t.shared[sym.name]; other != nil {
				return hides(sym, other)
			}
			sym.kind = inLibrary
			if src == t.prologue {
				sym.kind = inPrologue
			}
			t.shared[sym.name] = sym
		}
	}
	for _, src := range t.library {
		for _, s := range src.body {
			switch s.(type) {
			case *local, *localFunction:
			default:
				return &Problem{src.file, 1, "a statement outside of a function"}
			}
		}
	}
	for _, src := range t.all() {
		if err := t.resolveIn(src); err != nil {
			return err
		}
	}
	return t.checkUse()
}

func (t *tree) resolveIn(src *source) error {
	for _, n := range src.free {
		sym := t.shared[n.text]
		switch {
		case sym != nil:
			n.sym = sym
			sym.assigned = sym.assigned || n.set
			if n.set && sym.kind == inPrologue {
				return &Problem{src.file, n.line, n.text + " belongs to every call"}
			}
		case !globals[n.text]:
			return &Problem{src.file, n.line, n.text + " is not defined"}
		case n.set:
			return &Problem{src.file, n.line, n.text + " is a global variable"}
		}
	}
	var problem error
	walk(src.body, func(x any) bool {
		for _, sym := range declares(x) {
			if err := t.refused(sym); err != nil && problem == nil {
				problem = err
			}
		}
		return problem == nil
	})
	return problem
}

// refused returns the problem of a symbol that hides another one, is cold outside the library, or
// is unused.
func (t *tree) refused(sym *symbol) error {
	switch other := t.shared[sym.name]; {
	case other != nil && other != sym:
		return hides(sym, other)
	case globals[sym.name] || sym.name == libName || sym.name == stateName:
		return &Problem{sym.file, sym.line, sym.name + " hides another name"}
	case sym.kind != inLibrary && sym.fn != nil && sym.fn.cold:
		return &Problem{sym.file, sym.line, sym.name + " is cold, so it belongs in lib"}
	case sym.kind == inBlock && sym.name != "_" && !sym.isParam && !sym.used:
		return &Problem{sym.file, sym.line, "nothing uses " + sym.name}
	}
	return nil
}

// hides returns the problem of a symbol that hides another one.
func hides(sym, other *symbol) error {
	text := fmt.Sprintf("%s hides that of %s:%d", sym.name, other.file, other.line)
	return &Problem{sym.file, sym.line, text}
}

// checkUse refuses symbols of the library that no command needs.
func (t *tree) checkUse() error {
	used := map[*symbol]bool{}
	collect(t.prologue.body, used)
	for _, command := range t.names {
		collect(t.commands[command].body, used)
	}
	for _, src := range t.library[t.lent:] {
		for _, sym := range src.syms {
			if !used[sym] {
				return &Problem{sym.file, sym.line, "no command needs " + sym.name}
			}
		}
	}
	return nil
}

// collect adds the symbols of the library that code needs.
func collect(code any, found map[*symbol]bool) {
	walk(code, func(x any) bool {
		if sym := libraryName(x); sym != nil && !found[sym] {
			found[sym] = true
			collect(sym.content(), found)
		}
		return true
	})
}

// libraryName returns the library symbol named by an expression, or nil.
func libraryName(x any) *symbol {
	if n, ok := x.(*name); ok && n.sym != nil && n.sym.kind == inLibrary {
		return n.sym
	}
	return nil
}

// content returns the initial value of a symbol: a function, a value, or nothing.
func (s *symbol) content() any {
	if s.fn != nil {
		return s.fn
	}
	return s.value
}

// uses counts the mentions of a symbol in code.
func uses(code any, sym *symbol) int {
	return count(code, func(x any) bool {
		n, ok := x.(*name)
		return ok && n.sym == sym
	})
}

// declares returns the symbols declared by an expression or a statement.
func declares(x any) []*symbol {
	switch x := x.(type) {
	case *function:
		return x.params
	case *local:
		return x.syms
	case *localFunction:
		return append([]*symbol{x.sym}, x.fn.params...)
	case *forStep:
		return []*symbol{x.sym}
	case *forEach:
		return x.syms
	}
	return nil
}
