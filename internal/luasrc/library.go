package luasrc

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// DropInName is the file of the script.
const DropInName = "qless.lua"

// A tree holds all sources: the prologue of every call, the library, and the commands.
type tree struct {
	prologue *source
	library  []*source
	lent     int // the number of first files of the library that need not be used
	commands map[string]*source
	names    []string           // of the commands, in order
	shared   map[string]*symbol // the symbols that the prologue and the library declare
}

// globals are the names that every script has.
var globals = map[string]bool{
	"ARGV": true, "KEYS": true, "cjson": true, "error": true, "ipairs": true, "math": true,
	"pairs": true, "pcall": true, "redis": true, "setmetatable": true, "string": true, "table": true,
	"tonumber": true, "tostring": true, "type": true, "unpack": true,
}

// read reads all sources, and finds the meaning of each name in them.
func read(sources fs.FS) (*tree, error) { return readAll(sources, nil) }

// readAll does so for commands that are in own, with a library of their own, unless own is nil.
func readAll(sources, own fs.FS) (*tree, error) {
	t := &tree{commands: map[string]*source{}, shared: map[string]*symbol{}}
	var err error
	if t.prologue, err = readFile(sources, "prologue.lua"); err != nil {
		return nil, err
	}
	if t.library, err = readLibrary(sources); err != nil {
		return nil, err
	}
	if own != nil {
		t.lent, sources = len(t.library), own
		more, err := readLibrary(own)
		if err != nil {
			return nil, err
		}
		t.library = append(t.library, more...)
	}
	if t.names, err = Commands(sources); err != nil {
		return nil, err
	}
	for _, command := range t.names {
		file := path.Join("commands", command+".lua")
		if t.commands[command], err = readFile(sources, file); err != nil {
			return nil, err
		}
	}
	return t, t.resolve()
}

func readLibrary(sources fs.FS) ([]*source, error) {
	files, err := fs.Glob(sources, "lib/*.lua")
	if err != nil {
		return nil, err
	}
	var all []*source
	for _, file := range files {
		src, err := readFile(sources, file)
		if err != nil {
			return nil, err
		}
		all = append(all, src)
	}
	return all, nil
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

// resolve finds the symbols of names that a file does not declare, and refuses names that hide
// others, or stand for nothing.
func (t *tree) resolve() error {
	for _, src := range append([]*source{t.prologue}, t.library...) {
		for _, sym := range src.syms {
			if other := t.shared[sym.name]; other != nil {
				return repeated(sym, other)
			}
			if globals[sym.name] || sym.name == libName || sym.name == stateName {
				return &Problem{sym.file, sym.line, "the name " + sym.name + " is taken"}
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
	declares(src.body, func(sym *symbol) {
		other := t.shared[sym.name]
		if problem == nil && other != nil && other != sym {
			text := fmt.Sprintf("%s hides that of %s:%d", sym.name, other.file, other.line)
			problem = &Problem{src.file, sym.line, text}
		}
		if problem == nil && sym.kind == inBlock && sym.name != "_" && !sym.isParam && !sym.used {
			problem = &Problem{src.file, sym.line, "nothing uses " + sym.name}
		}
		if problem == nil && (globals[sym.name] || sym.name == libName || sym.name == stateName) {
			problem = &Problem{src.file, sym.line, sym.name + " hides another name"}
		}
	})
	return problem
}

// checkUse refuses symbols that no command needs.
func (t *tree) checkUse() error {
	used := map[*symbol]bool{}
	for _, command := range t.names {
		t.reach(t.commands[command].body, used)
	}
	t.reach(t.prologue.body, used)
	for _, src := range t.library[t.lent:] {
		for _, sym := range src.syms {
			if !used[sym] {
				return &Problem{sym.file, sym.line, "no command needs " + sym.name}
			}
		}
	}
	for _, command := range t.names {
		src := t.commands[command]
		for _, sym := range src.syms {
			if sym.fn != nil && !mentions(src.body, sym) {
				return &Problem{sym.file, sym.line, "nothing calls " + sym.name}
			}
		}
	}
	return nil
}

// reach adds the symbols of the library that code needs.
func (t *tree) reach(code any, used map[*symbol]bool) {
	visit := func(x any) bool {
		n, ok := x.(*name)
		if !ok || n.sym == nil || n.sym.kind != inLibrary || used[n.sym] {
			return true
		}
		used[n.sym] = true
		if n.sym.fn != nil {
			t.reach(n.sym.fn, used)
		} else if n.sym.value != nil {
			t.reach(n.sym.value, used)
		}
		return true
	}
	walk(code, visit)
}

// mentions reports whether some code uses a symbol.
func mentions(code any, sym *symbol) bool {
	found := false
	walk(code, func(x any) bool {
		if n, ok := x.(*name); ok && n.sym == sym {
			found = true
		}
		return !found
	})
	return found
}

// repeated returns the problem of a name that is defined twice.
func repeated(sym, other *symbol) *Problem {
	text := fmt.Sprintf("%s is in %s:%d, too", sym.name, other.file, other.line)
	return &Problem{sym.file, sym.line, text}
}

// declares calls visit for each symbol that some code declares.
func declares(code any, visit func(*symbol)) {
	each := func(syms []*symbol) {
		for _, sym := range syms {
			visit(sym)
		}
	}
	walk(code, func(x any) bool {
		switch x := x.(type) {
		case *function:
			each(x.params)
		case *local:
			each(x.syms)
		case *localFunction:
			visit(x.sym)
		case *forStep:
			visit(x.sym)
		case *forEach:
			each(x.syms)
		}
		return true
	})
}
