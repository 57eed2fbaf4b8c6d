package luasrc

import (
	"regexp"
	"slices"
	"strings"
)

// chunk is a top-level part of a script: a function, a constant, or the statements between them.
type chunk struct {
	name string // the function's or constant's; empty for statements
	cold bool   // it seldom runs
	code string
}

// split cuts code into its top-level functions and constants, and the statements between
// them. It relies on the sources' layout: a function begins and ends in the first column.
func split(code string) []chunk {
	var chunks []chunk
	var current []string
	var function chunk
	flush := func(c chunk) {
		if len(current) > 0 {
			c.code = strings.Join(current, "\n")
			chunks = append(chunks, c)
			current = nil
		}
	}
	for _, line := range strings.Split(code, "\n") {
		if m := functionLine.FindStringSubmatch(line); m != nil {
			flush(chunk{})
			function = chunk{name: m[1], cold: m[2] != ""}
			line = strings.TrimSuffix(line, m[2])
		} else if m := constantLine.FindStringSubmatch(line); m != nil {
			flush(chunk{})
			current = []string{line}
			flush(chunk{name: m[1]})
			continue
		}
		current = append(current, line)
		if function.name != "" && line == "end" {
			flush(function)
			function = chunk{}
		}
	}
	flush(chunk{})
	return chunks
}

// arrange returns the code of the chunks that a script needs, in order, with the bodies of some
// functions in the place of their calls. What only cold functions need is nested inside these.
func arrange(chunks []chunk) []string {
	code := gather(order(inline(reachable(substituteConstants(chunks)))))
	for i := range code {
		code[i] = joinLiterals(code[i])
	}
	return code
}

// isVariable reports whether a chunk declares a variable that another one sets.
func isVariable(c chunk, chunks []chunk) bool {
	if !constantLine.MatchString(c.code) {
		return false
	}
	set := regexp.MustCompile(`(?m)^ +(?:\w+, )*` + c.name + `(?:, \w+|\[.*\])* = `)
	return slices.ContainsFunc(chunks, func(other chunk) bool { return set.MatchString(other.code) })
}

// joinLiterals replaces literals that are concatenated with one.
func joinLiterals(code string) string {
	return literals.ReplaceAllStringFunc(code, func(found string) string {
		var text strings.Builder
		for _, one := range literal.FindAllString(found, -1) {
			text.WriteString(one[1 : len(one)-1])
		}
		return "'" + text.String() + "'"
	})
}

// arrangePlain does the same without moving code that often runs.
func arrangePlain(chunks []chunk) []string {
	var code []string
	for _, c := range order(reachable(substituteConstants(chunks))) {
		code = append(code, c.code)
	}
	return code
}

// order puts chunks that only cold functions need inside these. Variables stay outside, so that all
// functions have the same one.
func order(chunks []chunk) []chunk {
	hot := reach(chunks, statements(chunks), nil)
	for i, c := range chunks {
		hot[i] = hot[i] || isVariable(c, chunks)
	}
	var kept []chunk
	for i, c := range chunks {
		if !hot[i] {
			continue
		}
		if c.cold {
			c.code = nest(c, chunks, reach(chunks, words(c.code), hot))
		}
		kept = append(kept, c)
	}
	return kept
}

// substituteConstants replaces the names of constants with their values: a name would make every later closure
// of the script slower to build.
func substituteConstants(chunks []chunk) []chunk {
	values := map[string]string{}
	for _, c := range chunks {
		if m := valueLine.FindStringSubmatch(c.code); m != nil {
			values[m[1]] = m[2]
		}
	}
	inlined := make([]chunk, len(chunks))
	for i, c := range chunks {
		if values[c.name] == "" {
			c.code = literalOrConstant.ReplaceAllStringFunc(c.code, func(found string) string {
				if value, ok := values[found]; ok {
					return value
				}
				return found
			})
		}
		inlined[i] = c
	}
	return inlined
}

// statements returns the names that the chunks other than functions mention.
func statements(chunks []chunk) map[string]bool {
	mentioned := map[string]bool{}
	for _, c := range chunks {
		if c.name == "" {
			add(mentioned, words(c.code))
		}
	}
	return mentioned
}

// reach returns which chunks are needed for the mentioned names: statements, and functions with
// what they mention in turn. Without a base, what cold functions mention is ignored; with one, only
// chunks that are not in it are returned, cold or not.
func reach(chunks []chunk, mentioned map[string]bool, base []bool) []bool {
	needed := make([]bool, len(chunks))
	for i := len(chunks) - 1; i >= 0; i-- {
		c := chunks[i]
		if c.name != "" && !mentioned[c.name] || base != nil && base[i] {
			continue
		}
		needed[i] = true
		if base != nil || !c.cold {
			add(mentioned, words(c.code))
		}
	}
	return needed
}

// reachable returns the chunks that a script needs, cold or not.
func reachable(chunks []chunk) []chunk {
	needed := reach(chunks, statements(chunks), make([]bool, len(chunks)))
	var kept []chunk
	for i, c := range chunks {
		if needed[i] {
			kept = append(kept, c)
		}
	}
	return kept
}

// nest returns a function with the chunks that it alone needs nested inside it.
func nest(c chunk, chunks []chunk, needed []bool) string {
	first, rest, _ := strings.Cut(c.code, "\n")
	lines := []string{first}
	for i, inner := range chunks {
		if needed[i] && inner.name != c.name {
			lines = append(lines, inner.code)
		}
	}
	return strings.Join(append(lines, rest), "\n")
}

var (
	word     = regexp.MustCompile(`[A-Za-z_]\w*`)
	literals = regexp.MustCompile(`'[^'\n]*'(?: \.\. '[^'\n]*')*`)
	literal  = regexp.MustCompile(`'[^'\n]*'`)

	valueLine         = regexp.MustCompile(`^local ([A-Z][A-Z_]+) = ('[^']*'|\d+)$`)
	literalOrConstant = regexp.MustCompile(`'[^'\n]*'|\b[A-Z][A-Z_]+\b`)
)

// words returns the names that code mentions, outside of its string literals.
func words(code string) map[string]bool {
	set := map[string]bool{}
	for _, w := range word.FindAllString(literal.ReplaceAllString(code, ""), -1) {
		set[w] = true
	}
	return set
}

func add(set, more map[string]bool) {
	for name := range more {
		set[name] = true
	}
}
