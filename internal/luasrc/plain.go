package luasrc

import (
	"fmt"
	"io/fs"
	"strings"
)

// DropInName is the file that holds every command behind one entry point.
const DropInName = "qless.lua"

// Plain returns what every call begins with, what a command needs of the library, and the command, with
// all functions as in the sources, so that their code can be checked.
func Plain(sources fs.FS, command string) (string, error) {
	t, err := read(sources)
	if err != nil {
		return "", err
	}
	src := t.commands[command]
	if src == nil {
		return "", fmt.Errorf("no command %s", command)
	}
	used := map[*symbol]bool{}
	t.reach(src.body, used)
	var needed, functions []*symbol
	for _, lib := range t.library {
		for _, sym := range lib.syms {
			if used[sym] && sym.fn == nil {
				needed = append(needed, sym)
			} else if used[sym] {
				functions = append(functions, sym)
			}
		}
	}
	p := &printer{}
	p.stats(t.prologue.body)
	for _, sym := range needed {
		p.stat(&local{[]*symbol{sym}, []expr{sym.value}})
	}
	var names []string
	for _, sym := range functions {
		names = append(names, sym.name)
	}
	if len(names) > 0 {
		p.line("local " + strings.Join(names, ", "))
	}
	for _, sym := range functions {
		p.stat(&assign{[]expr{&name{text: sym.name, sym: sym}}, []expr{sym.fn}})
	}
	p.stats(src.body)
	return p.b.String(), nil
}
