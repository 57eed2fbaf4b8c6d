package luasrc

import (
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
)

// Facts are the machine-readable lines in the header of a command:
//
//	-- Repeat   safe, or once, or once, unless new
//	-- Waits    for replicas
//	-- Needs    hget publish zadd ...
//
// The line Waits is optional.
type Facts struct {
	// Repeatable means that the command may be sent again if the connection breaks before its
	// reply: it is idempotent.
	Repeatable bool

	// RepeatableNew means the same for calls that say that all jobs which they put are new.
	RepeatableNew bool

	// Replicated means that clients which wait for replicas do so after the command.
	Replicated bool

	// Needs lists the Redis commands that the script may call, sorted, as ACL rules name them. A
	// user that needs publish also needs the channels of the namespace.
	Needs []string
}

// FactsOf returns the facts in the header of a command. It is an error if the header lacks one.
func FactsOf(sources fs.FS, command string) (Facts, error) {
	header, _, err := read(sources, command+".lua")
	if err != nil {
		return Facts{}, err
	}
	fields := headerFields(header)
	facts := Facts{Needs: strings.Fields(fields["Needs"])}
	switch fields["Repeat"] {
	case "safe":
		facts.Repeatable = true
	case "once, unless new":
		facts.RepeatableNew = true
	case "once":
	default:
		return Facts{}, fmt.Errorf("%s: the header lacks \"Repeat safe\" or \"Repeat once\"", command)
	}
	if waits, ok := fields["Waits"]; ok {
		if waits != "for replicas" {
			return Facts{}, fmt.Errorf("%s: the header has \"Waits %s\", not \"Waits for replicas\"", command, waits)
		}
		facts.Replicated = true
	}
	if len(facts.Needs) == 0 {
		return Facts{}, fmt.Errorf("%s: the header lacks \"Needs\"", command)
	}
	return facts, nil
}

// Check returns an error unless the header of every command has all facts, and lists the commands
// that its script calls.
func Check(sources fs.FS) error {
	commands, err := Commands(sources)
	if err != nil {
		return err
	}
	for _, command := range commands {
		facts, err := FactsOf(sources, command)
		if err != nil {
			return err
		}
		script, err := Flatten(sources, command)
		if err != nil {
			return err
		}
		if called := Calls(script); !slices.Equal(facts.Needs, called) {
			return fmt.Errorf("%s: the header needs\n  %s\nbut the script calls\n  %s", command,
				strings.Join(facts.Needs, " "), strings.Join(called, " "))
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

// calling finds the commands that a script calls: by call, or by a helper that takes the name.
var calling = regexp.MustCompile(`\b(?:call|try|run|write_first|each_slice)\((?:(?:call|try|run), )?'([a-z]+)'` +
	`(?:, '(numsub)')?`)

// Calls returns the Redis commands that a flattened script may call, sorted, as ACL rules name them.
func Calls(script string) []string {
	var names []string
	for _, m := range calling.FindAllStringSubmatch(script, -1) {
		name := m[1]
		if m[2] != "" {
			name += "|" + m[2]
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
