// Optiontable writes the table of options at the end of docs/extensions.md.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/qless/qless-go/internal/jobopts"
)

// head is the head of the table.
const head = "| option | in files | flag |\n|---|---|---|\n"

func main() {
	if err := rewrite("docs/extensions.md"); err != nil {
		fmt.Fprintln(os.Stderr, "optiontable:", err)
		os.Exit(1)
	}
}

// rewrite replaces the rows of the table at the end of a file.
func rewrite(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, _, found := strings.Cut(string(text), head)
	if !found {
		return errors.New(file + " has no table of options")
	}
	page := before + head
	for _, row := range jobopts.Table {
		if row.Key != "" {
			page += row.Line() + "\n"
		}
	}
	return os.WriteFile(file, []byte(page), 0o600)
}
