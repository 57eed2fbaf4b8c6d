package luasrc

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// Facts are what a command tells: the machine-readable lines of its header, and what it calls.
//
//	-- For      classic, PHP or Go
//	-- Repeat   safe, or once, or once, unless new
//	-- Waits    for replicas
//	-- Hot
//	-- Library  cancel_job ...
//
// The lines Waits, Hot and Library are optional; the last names the functions that a hot command
// calls in the library. For is the callers of the command: all clients (classic),
// those of qless-php, or those of this module.
type Facts struct {
	// Repeatable means that the command may be sent again if the connection breaks before its
	// reply: it is idempotent.
	Repeatable bool

	// RepeatableNew means the same for calls that are marked to put only new jobs.
	RepeatableNew bool

	// Replicated means that clients that wait for replicas wait for them after the command.
	Replicated bool

	// Hot means that the command runs often: all of its code is in its branch of the script.
	Hot bool

	// Needs lists the Redis commands that the command may call for Go, sorted, as ACL rules name
	// them; it comes from the code. A user that needs publish also needs the channels of the
	// namespace.
	Needs []string
}

// FactsOf returns the facts about all commands, by name.
func FactsOf(sources fs.FS) (map[string]Facts, error) {
	t, err := read(sources)
	if err != nil {
		return nil, err
	}
	all := map[string]Facts{}
	for _, command := range t.names {
		src := t.commands[command]
		facts, problem := factsOf(src.header)
		if problem != "" {
			return nil, &Problem{src.file, 1, problem}
		}
		facts.Needs = t.calls(src)
		all[command] = facts
	}
	return all, nil
}

// factsOf returns the facts in a header, or its problem.
func factsOf(header string) (facts Facts, problem string) {
	fields := headerFields(header)
	facts.Hot = strings.Contains(header+"\n", "\n-- Hot\n")
	switch fields["Repeat"] {
	case "safe":
		facts.Repeatable = true
	case "once, unless new":
		facts.RepeatableNew = true
	case "once":
	default:
		return facts, `the header lacks "Repeat safe" or "Repeat once"`
	}
	if !slices.Contains([]string{"classic", "PHP", "Go"}, fields["For"]) {
		return facts, `the header lacks "For classic", "For PHP" or "For Go"`
	}
	if waits, ok := fields["Waits"]; ok {
		if waits != "for replicas" {
			return facts, fmt.Sprintf(`the header has "Waits %s", not "Waits for replicas"`, waits)
		}
		facts.Replicated = true
	}
	if !strings.Contains(header, "\n-- KEYS[1]  the namespace prefix\n-- ARGV     ") {
		return facts, `the header does not say what KEYS[1] and ARGV are`
	}
	if len(fields["Cost"]) > mostCost {
		return facts, `the header says more about the Cost than fits on a line`
	}
	return facts, ""
}

// mostCost is the maximum length of what a header says about the cost of a command.
const mostCost = 90

// check refuses wrong headers.
func (t *tree) check() error {
	for _, command := range t.names {
		src := t.commands[command]
		if _, problem := factsOf(src.header); problem != "" {
			return &Problem{src.file, 1, problem}
		}
	}
	return nil
}

var (
	fieldLine     = regexp.MustCompile(`^-- ([A-Z][a-z]+) +(\S.*)$`)
	continuedLine = regexp.MustCompile(`^-- {6,}(\S.*)$`)
)

// headerFields returns the fields of a header, each with its continued lines.
func headerFields(header string) map[string]string {
	fields := map[string]string{}
	var name string
	for _, line := range strings.Split(header, "\n") {
		if m := fieldLine.FindStringSubmatch(line); m != nil {
			name = m[1]
			fields[name] = m[2]
		} else if m := continuedLine.FindStringSubmatch(line); m != nil && name != "" {
			fields[name] += " " + m[1]
		} else {
			name = ""
		}
	}
	return fields
}

// calls returns the Redis commands that a command may call for Go, sorted, as ACL rules name them.
func (t *tree) calls(src *source) []string {
	found := map[string]bool{}
	seen := map[*symbol]bool{}
	var visit func(any) bool
	visit = func(x any) bool {
		switch x := x.(type) {
		case *choice:
			if n, ok := x.branches[0].cond.(*name); ok && n.text == "classic" {
				for _, b := range x.branches[1:] {
					walkAll(b.body, visit)
				}
				return false
			}
		case *call:
			if name := calledBy(x); name != "" {
				found[name] = true
			}
		case *name:
			if x.sym != nil && x.sym.kind == inLibrary && !seen[x.sym] {
				seen[x.sym] = true
				if x.sym.fn != nil {
					walk(x.sym.fn, visit)
				} else {
					walk(x.sym.value, visit)
				}
			}
		}
		return true
	}
	walkAll(t.prologue.body, visit)
	walkAll(src.body, visit)
	var names []string
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// callers are the functions that are passed the name of a Redis command, either first or after
// another of them.
var callers = map[string]bool{
	"call": true, "try": true, "run": true, "write_first": true, "each_slice": true,
}

// calledBy returns the Redis command of a call, or nothing.
func calledBy(c *call) string {
	n, ok := c.fn.(*name)
	if !ok || !callers[n.text] {
		return ""
	}
	args := c.args
	if len(args) > 1 {
		if first, ok := args[0].(*name); ok && callers[first.text] {
			args = args[1:]
		}
	}
	if len(args) == 0 {
		return ""
	}
	command, ok := args[0].(*text)
	if !ok {
		return ""
	}
	if command.value == "pubsub" && len(args) > 1 {
		if sub, ok := args[1].(*text); ok {
			return command.value + "|" + sub.value
		}
	}
	return command.value
}
