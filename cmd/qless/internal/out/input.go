package out

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Names returns the names in the arguments, each once. A "-" is replaced by the lines of the
// standard input.
func (c *Console) Names(args []string) ([]string, error) {
	var names []string
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for _, arg := range args {
		if arg != Stdin {
			add(arg)
			continue
		}
		lines := bufio.NewScanner(c.In)
		for lines.Scan() {
			if name := strings.TrimSpace(lines.Text()); name != "" {
				add(name)
			}
		}
		if err := lines.Err(); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// Stdin stands for the lines of the standard input.
const Stdin = "-"

// OneStdin refuses arguments that would read the standard input twice.
func OneStdin(args ...string) error {
	if first := slices.Index(args, Stdin); first >= 0 && slices.Contains(args[first+1:], Stdin) {
		return Error(errors.New(`only one argument can be "-", the standard input`))
	}
	return nil
}

// Open opens a file for reading, or the standard input for "-".
func (c *Console) Open(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(c.In), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, Error(err)
	}
	return file, nil
}

// Data returns JSON from an argument or the standard input, or nil if missing.
func (c *Console) Data(args []string) (any, error) {
	if len(args) == 0 {
		return nil, nil
	}
	text := []byte(args[0])
	if args[0] == Stdin {
		read, err := io.ReadAll(c.In)
		if err != nil {
			return nil, err
		}
		text = read
	}
	if err := CheckJSON(text); err != nil {
		return nil, err
	}
	return json.RawMessage(text), nil
}

// CheckJSON returns an error if the data of a job is not JSON.
func CheckJSON(text []byte) error {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return Error(fmt.Errorf("the data is not JSON: %w", err))
	}
	return nil
}
