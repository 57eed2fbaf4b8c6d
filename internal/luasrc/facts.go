package luasrc

import (
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Facts are a command's facts: these lines of its header, and the Redis commands it calls.
//
//	-- For      classic, PHP or Go
//	-- Repeat   safe, or once, or once, unless new
//	-- Waits    for replicas
//	-- Hot
//	-- Library  cancel_job ...
//
// For names the callers: all clients (classic), those of qless-php, or those of this module.
type Facts struct {
	Repeatable    bool // may be sent again if the connection breaks before the reply
	RepeatableNew bool // the same for calls marked to put only new jobs
	Replicated    bool // clients that wait for replicas do so after the command

	// Needs lists the Redis commands that the command may call for Go, sorted, by their names in ACL
	// rules. A user that needs publish also needs the channels of the namespace.
	Needs []string
}

// FactsOf returns the facts about all commands, by name.
func FactsOf(sources fs.FS) (map[string]Facts, error) {
	t, err := read(sources, nil)
	if err != nil {
		return nil, err
	}
	all := map[string]Facts{}
	for _, command := range t.names {
		src := t.commands[command]
		src.facts.Needs = t.calls(src)
		all[command] = src.facts
	}
	return all, nil
}

// required are patterns of lines required in each header, and the problems of missing lines.
var required = []struct{ pattern, problem string }{
	{`\n-- Repeat   (safe|once|once, unless new)\n`, `the header lacks "Repeat safe" or "once"`},
	{`\n-- For      (classic|PHP|Go)\n`, `the header lacks "For classic", "For PHP" or "For Go"`},
	{`\n-- Args     `, `the header does not say what the arguments are`},
}

// wordy matches a header with a Cost longer than a line.
var wordy = regexp.MustCompile(`\n-- Cost (.{95}|.*\n--  )`)

// readFacts reads the facts in the header of a command.
func (s *source) readFacts() error {
	header := s.header + "\n"
	for _, line := range required {
		if !regexp.MustCompile(line.pattern).MatchString(header) {
			return &Problem{s.file, 1, line.problem}
		}
	}
	if wordy.MatchString(header) {
		return &Problem{s.file, 1, "the header says more about the Cost than fits on a line"}
	}
	s.facts = Facts{
		Repeatable:    s.says("Repeat", "safe"),
		RepeatableNew: s.says("Repeat", "once, unless new"),
		Replicated:    s.says("Waits", "for replicas"),
	}
	return nil
}

// says reports whether the header has a line with a field and its value.
func (s *source) says(field, value string) bool {
	return strings.Contains(s.header+"\n", fmt.Sprintf("\n-- %-8s %s\n", field, value))
}

// calls returns the Redis commands that a command may call for Go, sorted, as named in ACL rules.
func (t *tree) calls(src *source) []string {
	found, seen := map[string]bool{}, map[*symbol]bool{}
	var visit func(any) bool
	visit = func(x any) bool {
		switch x := x.(type) {
		case *choice:
			if n, ok := x.branches[0].cond.(*name); ok && n.text == "classic" {
				for _, b := range x.branches[1:] {
					walk(b.body, visit)
				}
				return false
			}
		case *call:
			if name := calledBy(x); name != "" {
				found[name] = true
			}
		case *name:
			if sym := libraryName(x); sym != nil && !seen[sym] {
				seen[sym] = true
				walk(sym.content(), visit)
			}
		}
		return true
	}
	walk(t.prologue.body, visit)
	walk(src.body, visit)
	return slices.Sorted(maps.Keys(found))
}

// callers are the functions that take the name of a Redis command, either first or after another
// caller.
var callers = map[string]bool{
	"call": true, "try": true, "run": true, "each_slice": true, "read": true, "scanned": true,
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
