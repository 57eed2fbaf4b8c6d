package luasrc

import (
	"regexp"
	"slices"
	"strings"
)

// A function costs a closure on each call of the script, and a call each time it runs. inline puts
// the body of a function in place of a call
//
//   - of a function that only returns an expression, if the arguments can be substituted in it;
//   - of a function that is called once, or small, if its calls are whole statements.
//
// Functions that are no longer called are left out by arrange.
func inline(chunks []chunk) []chunk {
	in := inliner{chunks: chunks}
	for changed := true; changed; {
		changed = false
		in.chunks = reachable(in.chunks) // without the functions that are no longer called
		in.words = make([]*vocabulary, len(in.chunks))
		in.hot = reach(in.chunks, statements(in.chunks), nil)
		for i, c := range in.chunks {
			f, ok := parseFunction(c)
			if !ok || !in.called(f.name, i) {
				continue
			}
			if f.expression() != "" {
				changed = in.substitute(f, i) || changed
			} else {
				changed = in.move(f, i) || changed
			}
		}
	}
	return in.chunks
}

// An inliner puts functions among the chunks of a script in place of their calls.
type inliner struct {
	chunks []chunk
	words  []*vocabulary // of each chunk, nil until somebody asks
	hot    []bool        // whether each chunk may run without a cold function
}

// A vocabulary holds the names in a chunk: those that it declares, those among them that later
// chunks see, and how often it uses each.
type vocabulary struct {
	declared, visible map[string]bool
	uses              map[string]int
}

// of returns the names in the chunk at a place.
func (in inliner) of(at int) *vocabulary {
	if in.words[at] == nil {
		c := in.chunks[at]
		v := &vocabulary{declared: names(c.code), visible: names(firstLine(c)), uses: map[string]int{}}
		for _, found := range nameOrLiteral.FindAllString(c.code, -1) {
			first, _, _ := strings.Cut(found, ".")
			v.uses[first]++
		}
		in.words[at] = v
	}
	return in.words[at]
}

// change gives the chunk at a place other code.
func (in inliner) change(at int, code string) {
	in.chunks[at].code, in.words[at] = code, nil
}

// called reports whether any chunk but the one at a place uses a name.
func (in inliner) called(name string, at int) bool {
	for i := range in.chunks {
		if i != at && in.of(i).uses[name] > 0 {
			return true
		}
	}
	return false
}

// function is a top-level function that may be inlined.
type function struct {
	name   string
	params []string
	body   []string // its lines, without the first and the last
}

var (
	functionHead = regexp.MustCompile(`^local function (\w+)\(([\w, ]*)\)$`)
	callLine     = regexp.MustCompile(`^( *)(return |(?:local )?[\w, ]+ = )?(\w+)\(`)
	returnLine   = regexp.MustCompile(`^( *)return\b ?`)
	localNames   = regexp.MustCompile(`\blocal (?:function )?([\w, ]+)|\bfor ([\w, ]+) (?:in|=)`)
	parameters   = regexp.MustCompile(`\bfunction ?\w*\(([\w, ]*)\)`)
	simple       = regexp.MustCompile(`^(?:[\w.]+|[\w.]+\[\w+\]|'[^']*')$`)
)

// parseFunction returns the function that a chunk is, unless it can't be inlined: it is cold, has
// variable arguments or makes closures, or calls itself.
func parseFunction(c chunk) (function, bool) {
	lines := strings.Split(c.code, "\n")
	m := functionHead.FindStringSubmatch(lines[0])
	if m == nil || c.cold {
		return function{}, false
	}
	f := function{name: m[1], params: list(m[2]), body: lines[1 : len(lines)-1]}
	used := words(strings.Join(f.body, "\n"))
	return f, !used["function"] && !used[f.name]
}

func list(names string) []string {
	if names == "" {
		return nil
	}
	return strings.Split(strings.TrimSpace(names), ", ")
}

// expression returns the one value that is all the function returns, or "".
func (f function) expression() string {
	m := returnLine.FindString(f.body[0])
	if m == "" {
		return ""
	}
	text := strings.TrimPrefix(f.body[0], m)
	for _, line := range f.body[1:] {
		text += " " + strings.TrimSpace(line)
	}
	if values, _ := arguments(text+")", 0); len(values) != 1 {
		return ""
	}
	return text
}

// substitute replaces calls with the function's expression.
func (in inliner) substitute(f function, at int) bool {
	changed := false
	for i, c := range in.chunks {
		if i == at || in.of(i).uses[f.name] == 0 || in.captured(at, i) {
			continue
		}
		if code := f.substituteIn(c.code); code != c.code {
			in.change(i, code)
			changed = true
		}
	}
	return changed
}

// substituteIn replaces those calls in some code that can be.
func (f function) substituteIn(code string) string {
	pattern := regexp.MustCompile(`\b` + f.name + `\(`)
	for from := 0; ; {
		found := pattern.FindStringIndex(code[from:])
		if found == nil {
			return code
		}
		start, open := from+found[0], from+found[1]
		args, end := arguments(code, open)
		value, ok := f.apply(args)
		if !ok || startsStatement(code, start) && !isCall(value) {
			from = open
			continue
		}
		switch {
		case isCall(value) || simple.MatchString(value):
		case isConcatenation(value) && joins.MatchString(code[:start]) && joined.MatchString(code[end:]):
			// One concatenation of all texts makes no text in between.
		default:
			value = "(" + value + ")"
		}
		code, from = code[:start]+value+code[end:], start+len(value)
	}
}

// isCall reports whether an expression is a single call.
func isCall(expression string) bool {
	open := strings.IndexByte(expression, '(')
	if open < 1 || !simple.MatchString(expression[:open]) {
		return false
	}
	_, end := arguments(expression, open+1)
	return end == len(expression)
}

// isConcatenation reports whether an expression has no operators but .. outside of brackets.
func isConcatenation(expression string) bool {
	operands := strings.Split(expression, " .. ")
	for _, operand := range operands {
		if !simple.MatchString(operand) && !(complete(operand) && isCall(operand)) {
			return false
		}
	}
	return len(operands) > 1
}

// What may be before and after a concatenation that needs no brackets.
var (
	joins  = regexp.MustCompile(`(?:[,({=]|\.\.|\breturn)\s*$`)
	joined = regexp.MustCompile(`^(?: *[,)}]|\s*\.\.| *\n *[\w}]| *$)`)
)

// startsStatement reports whether a statement begins at a place in the code: a line that does not
// continue the one before.
func startsStatement(code string, at int) bool {
	before := strings.TrimRight(code[:at], " ")
	return before == "" || strings.HasSuffix(before, "\n") && !continued.MatchString(before)
}

// continued matches code that goes on in the next line.
var continued = regexp.MustCompile(`(?:[,({=]|\.\.|\b(?:and|or|not|return)) *\n$`)

// apply returns the function's expression with arguments in place of the parameters, if each may be evaluated
// there: it is simple, or the only one that is not, and used once.
func (f function) apply(args []string) (string, bool) {
	expression := f.expression()
	if len(args) != len(f.params) {
		return "", false
	}
	complex := 0
	values := map[string]string{}
	for i, param := range f.params {
		if !simple.MatchString(args[i]) {
			complex++
			if count(expression, param) != 1 {
				return "", false
			}
			values[param] = "(" + args[i] + ")"
			continue
		}
		values[param] = args[i]
	}
	return replaceNames(expression, values), complex <= 1
}

// nameOrLiteral finds names, other than fields and the keys of tables, and literals.
var nameOrLiteral = regexp.MustCompile(`'[^'\n]*'|[.\w]*\w(?: = )?`)

func replaceNames(code string, values map[string]string) string {
	return nameOrLiteral.ReplaceAllStringFunc(code, func(found string) string {
		first, rest, dotted := strings.Cut(found, ".")
		value, ok := values[first]
		if !ok {
			return found
		}
		if dotted {
			return value + "." + rest
		}
		return value
	})
}

func count(code, name string) int {
	n := 0
	for _, found := range nameOrLiteral.FindAllString(code, -1) {
		if first, _, _ := strings.Cut(found, "."); first == name {
			n++
		}
	}
	return n
}

// arguments returns the arguments of a call whose list begins at a place in the code, and where
// the call ends.
func arguments(code string, from int) (args []string, end int) {
	depth, quoted, start := 1, false, from
	for at := from; ; at++ {
		switch c := code[at]; {
		case c == '\'':
			quoted = !quoted
		case quoted:
		case c == '(' || c == '{' || c == '[':
			depth++
		case c == ')' || c == '}' || c == ']':
			depth--
		}
		if depth == 0 || depth == 1 && !quoted && code[at] == ',' {
			if arg := strings.Join(strings.Fields(code[start:at]), " "); arg != "" {
				args = append(args, arg)
			}
			start = at + 1
		}
		if depth == 0 {
			return args, at + 1
		}
	}
}

// move puts the function's body in place of its calls, if all of them can be replaced and the
// script does not grow much.
func (in inliner) move(f function, at int) bool {
	moved, calls := map[int]string{}, 0
	for i, c := range in.chunks {
		n := in.of(i).uses[f.name]
		if i == at || n == 0 {
			continue
		}
		if c.cold || in.hot[at] && !in.hot[i] { // has the function inside, or is in one that has
			continue
		}
		if in.captured(at, i) {
			return false
		}
		calls += n
		code, ok := c.code, true
		for range n {
			if code, ok = f.moveOne(code); !ok {
				return false
			}
		}
		moved[i] = code
	}
	if calls > 1 && calls*len(f.body) > maxGrowth {
		return false
	}
	for i, code := range moved {
		in.change(i, code)
	}
	return calls > 0
}

// maxGrowth is how many lines all copies of a function with several calls may have.
const maxGrowth = 40

// moveOne puts the function's body in place of its first call in the code.
func (f function) moveOne(code string) (string, bool) {
	lines := strings.Split(code, "\n")
	for i, line := range lines {
		m := callLine.FindStringSubmatch(line)
		if m == nil || m[3] != f.name {
			continue
		}
		rest := strings.Join(lines[i:], "\n")
		args, end := arguments(rest, len(m[0]))
		if end < len(rest) && rest[end] != '\n' {
			return "", false
		}
		block, ok := f.block(m[1], m[2], args)
		moved := append(slices.Clone(lines[:i]), block...)
		return strings.Join(moved, "\n") + rest[end:], ok
	}
	return "", false
}

// block returns the statements that do what a call of the function does. target is what the call's
// value is for: "return ", an assignment, or nothing.
func (f function) block(indent, target string, args []string) ([]string, bool) {
	declared := names(strings.Join(f.body, "\n"))
	for _, param := range f.params {
		declared[param] = true
	}
	tail := target == "return "
	assigned := strings.TrimSuffix(strings.TrimPrefix(target, "local "), " = ")
	if !tail && target != "" {
		for _, name := range list(assigned) {
			if declared[name] || words(strings.Join(args, " "))[name] && strings.HasPrefix(target, "local ") {
				return nil, false
			}
		}
	}
	body, early, ok := f.body, false, true
	if !tail {
		body, early, ok = f.withoutReturns(assigned)
	}
	if !ok || len(args) > len(f.params) {
		return nil, false
	}
	var block []string
	if strings.HasPrefix(target, "local ") {
		block = append(block, indent+"local "+assigned)
	}
	open, closing := "do", "end"
	if early {
		open, closing = "repeat", "until true"
	}
	block = append(block, indent+open)
	if len(f.params) > 0 {
		line := indent + "  local " + strings.Join(f.params, ", ")
		if len(args) > 0 {
			line += " = " + strings.Join(args, ", ")
		}
		block = append(block, line)
	}
	for _, line := range body {
		block = append(block, indent+line)
	}
	return append(block, indent+closing), true
}

// withoutReturns returns the body with assignments in place of its return statements, and whether
// it leaves a loop around the body early. It fails if a return statement is in a loop.
func (f function) withoutReturns(assigned string) (body []string, early, ok bool) {
	ended := false // the body ends with a return statement
	for i := 0; i < len(f.body); i++ {
		m := returnLine.FindStringSubmatch(f.body[i])
		if m == nil {
			body = append(body, f.body[i])
			continue
		}
		if inLoop(f.body, i, len(m[1])) {
			return nil, false, false
		}
		value := strings.TrimPrefix(f.body[i], m[0])
		last := i
		for !complete(strings.Join(f.body[i:last+1], "\n")) || last+1 < len(f.body) && indentation(f.body[last+1]) > len(m[1]) {
			last++
		}
		statement := append([]string{value}, f.body[i+1:last+1]...)
		switch {
		case assigned != "" && value == "":
			body = append(body, m[1]+assigned+" = nil")
		case assigned != "":
			body = append(body, m[1]+assigned+" = "+strings.Join(statement, "\n"))
		case strings.HasSuffix(statement[len(statement)-1], ")") && callLine.MatchString(value):
			body = append(body, m[1]+strings.Join(statement, "\n"))
		case value != "" && !simple.MatchString(value):
			return nil, false, false
		}
		i = last
		if len(m[1]) == 2 {
			ended = true
		} else {
			body = append(body, m[1]+"break")
			early = true
		}
	}
	if assigned != "" && !ended {
		body = append(body, "  "+assigned+" = nil")
	}
	return body, early, true
}

// inLoop reports whether a line that is indented so far is in a loop.
func inLoop(lines []string, at, indent int) bool {
	for i := at - 1; i >= 0; i-- {
		if own := indentation(lines[i]); own < indent {
			indent = own
			line := strings.TrimSpace(lines[i])
			if strings.HasPrefix(line, "for ") || strings.HasPrefix(line, "while ") || line == "repeat" {
				return true
			}
		}
	}
	return false
}

// complete reports whether all brackets in code are closed.
func complete(code string) bool {
	code = literal.ReplaceAllString(code, "")
	return strings.Count(code, "(")+strings.Count(code, "{") == strings.Count(code, ")")+strings.Count(code, "}")
}

func indentation(line string) int {
	return len(line) - len(strings.TrimLeft(line, " "))
}

// names returns the names that code declares, parameters among them.
func names(code string) map[string]bool {
	declared := map[string]bool{}
	code = literal.ReplaceAllString(code, "''")
	for _, pattern := range []*regexp.Regexp{localNames, parameters} {
		for _, m := range pattern.FindAllStringSubmatch(code, -1) {
			for _, name := range list(strings.Join(m[1:], "")) {
				declared[name] = true
			}
		}
	}
	return declared
}

// captured reports whether the chunk at a place, host, declares a name of its own that, in the
// function at another place, means one that an earlier chunk declares.
func (in inliner) captured(at, host int) bool {
	declared, own := in.of(host).declared, in.of(at)
	for i := range in.chunks[:at] {
		if i == host {
			continue
		}
		for name := range in.of(i).visible {
			if declared[name] && own.uses[name] > 0 && !own.declared[name] {
				return true
			}
		}
	}
	return false
}

// firstLine returns the part of a chunk in which it declares names for those after it.
func firstLine(c chunk) string {
	if c.name == "" {
		return c.code
	}
	line, _, _ := strings.Cut(c.code, "\n")
	line, _, _ = strings.Cut(line, "(")
	return line
}
