package cli

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

// names returns the names in the arguments, each once. A "-" is replaced by the lines of the
// standard input.
func (c *console) names(args []string) ([]string, error) {
	var names []string
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	for _, arg := range args {
		if arg != stdin {
			add(arg)
			continue
		}
		lines := bufio.NewScanner(c.in)
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

// stdin stands for the lines of the standard input.
const stdin = "-"

// oneStdin refuses arguments that would read the standard input twice.
func oneStdin(args ...string) error {
	if first := slices.Index(args, stdin); first >= 0 && slices.Contains(args[first+1:], stdin) {
		return usageError{errors.New(`only one argument can be "-", the standard input`)}
	}
	return nil
}

// open opens a file for reading, or the standard input for "-".
func (c *console) open(path string) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(c.in), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, usageError{err}
	}
	return file, nil
}

// data returns JSON from an argument or the standard input, or nil if there is none.
func (c *console) data(args []string) (any, error) {
	if len(args) == 0 {
		return nil, nil
	}
	text := []byte(args[0])
	if args[0] == stdin {
		read, err := io.ReadAll(c.in)
		if err != nil {
			return nil, err
		}
		text = read
	}
	if err := checkJSON(text); err != nil {
		return nil, err
	}
	return json.RawMessage(text), nil
}

func checkJSON(text []byte) error {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return usageError{fmt.Errorf("the data is not JSON: %w", err)}
	}
	return nil
}
