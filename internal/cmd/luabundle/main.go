// Luabundle writes the Lua sources as scripts that a server can load.
//
//	luabundle -o DIR         one flattened script a command: DIR/<command>.lua
//	luabundle -dropin FILE   one script with every command, for other languages' clients
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/qless/qless-go/internal/luasrc"
)

func main() {
	src := flag.String("src", "lua", "the folder of the sources")
	dir := flag.String("o", "", "write one flattened script a command into this folder")
	dropIn := flag.String("dropin", "", "write the script with every command to this file")
	flag.Parse()
	if *dir == "" && *dropIn == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*src, *dir, *dropIn); err != nil {
		fmt.Fprintln(os.Stderr, "luabundle:", err)
		os.Exit(1)
	}
}

func run(src, dir, dropIn string) error {
	sources := os.DirFS(src)
	if err := luasrc.Check(sources); err != nil {
		return err
	}
	if dir != "" {
		if err := writeCommands(src, dir); err != nil {
			return err
		}
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

func writeCommands(src, dir string) error {
	sources := os.DirFS(src)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	commands, err := luasrc.Commands(sources)
	if err != nil {
		return err
	}
	for _, command := range commands {
		script, err := luasrc.Flatten(sources, command)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, command+".lua"), []byte(script), 0o644); err != nil {
			return err
		}
	}
	return nil
}
