// Luabundle writes the Lua sources as scripts that a server can load.
//
//	luabundle -o DIR         one flattened script a command: DIR/<command>.lua
//	luabundle -plain DIR     the same with all functions as in the sources, to be checked
//	luabundle -dropin FILE   one script with every command, for other languages' clients
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/qless/qless-go/internal/luasrc"
)

func main() {
	src := flag.String("src", "lua", "the folder of the sources")
	dir := flag.String("o", "", "write one flattened script a command into this folder")
	plain := flag.String("plain", "", "write the same with all functions as in the sources")
	dropIn := flag.String("dropin", "", "write the script with every command to this file")
	flag.Parse()
	if *dir == "" && *plain == "" && *dropIn == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*src, *dir, *plain, *dropIn); err != nil {
		fmt.Fprintln(os.Stderr, "luabundle:", err)
		os.Exit(1)
	}
}

func run(src, dir, plain, dropIn string) error {
	sources := os.DirFS(src)
	if err := luasrc.Check(sources); err != nil {
		return err
	}
	if err := writeCommands(sources, dir, luasrc.Flatten); err != nil {
		return err
	}
	if err := writeCommands(sources, plain, luasrc.Plain); err != nil {
		return err
	}
	if dropIn == "" {
		return nil
	}
	script, err := luasrc.DropIn(sources)
	if err != nil {
		return err
	}
	return os.WriteFile(dropIn, []byte(script), 0o644)
}

// writeCommands writes each command into a folder, if there is one.
func writeCommands(sources fs.FS, dir string, flatten func(fs.FS, string) (string, error)) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	commands, err := luasrc.Commands(sources)
	if err != nil {
		return err
	}
	for _, command := range commands {
		script, err := flatten(sources, command)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, command+".lua"), []byte(script), 0o644); err != nil {
			return err
		}
	}
	return nil
}
