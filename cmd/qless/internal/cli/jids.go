package cli

import (
	"bufio"
	"errors"
	"slices"
	"strings"
)

// names returns the names in the arguments, each once. A "-" is replaced by the lines of the
// standard input.
func (a *app) names(args []string) ([]string, error) {
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
		lines := bufio.NewScanner(a.in)
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
