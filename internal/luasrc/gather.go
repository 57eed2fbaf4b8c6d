package luasrc

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// gather puts the cold functions of a script into one, which takes the name of the one to run, so
// that a call of the script makes one closure for all of them. It returns the code of the chunks.
func gather(chunks []chunk) []string {
	g := gatherer{chunks: slices.Clone(chunks), functions: map[string]bool{}}
	for _, c := range chunks {
		if strings.HasPrefix(c.code, "local function ") {
			g.functions[c.name] = true
		}
	}
	var group []int
	for i, c := range chunks {
		if g.separates(c, group) {
			g.join(group)
			group = nil
		}
		head, _, _ := strings.Cut(c.code, "\n")
		if c.cold && functionHead.MatchString(head) && g.onlyCalled(c.name) {
			group = append(group, i)
		}
	}
	g.join(group)
	code := make([]string, len(g.chunks))
	for i, c := range g.chunks {
		code[i] = c.code
	}
	return code
}

type gatherer struct {
	chunks    []chunk
	functions map[string]bool // the script's functions
	joined    int             // how many groups there are
}

// separates reports whether cold functions before a chunk can't move behind it: it may call one of
// them, or declares a name that means something else in one.
func (g *gatherer) separates(c chunk, group []int) bool {
	if c.name != "" {
		return false
	}
	for name := range words(c.code) {
		if g.functions[name] {
			return true
		}
	}
	declared := names(c.code)
	for _, i := range group {
		for name := range words(g.chunks[i].code) {
			if declared[name] {
				return true
			}
		}
	}
	return false
}

// onlyCalled reports whether a function is never a value.
func (g *gatherer) onlyCalled(name string) bool {
	used := regexp.MustCompile(`\b` + name + `\b`)
	called := regexp.MustCompile(`\b` + name + `\(`)
	for _, c := range g.chunks {
		code := literal.ReplaceAllString(c.code, "''")
		if len(used.FindAllString(code, -1)) != len(called.FindAllString(code, -1)) {
			return false
		}
	}
	return true
}

// join replaces the functions of a group with a function in the place of the last one, that is
// declared in the place of the first one.
func (g *gatherer) join(group []int) {
	if len(group) < 2 {
		return
	}
	g.joined++
	name := fmt.Sprintf("seldom%d", g.joined)
	lines := []string{name + " = function(which, ...)"}
	keyword := "if"
	var members []string
	for _, i := range group {
		c := g.chunks[i]
		members = append(members, c.name)
		lines = append(lines, fmt.Sprintf("%s which == '%s' then", keyword, c.name))
		head, body, _ := strings.Cut(strings.TrimSuffix(c.code, "\nend"), "\n")
		if params := functionHead.FindStringSubmatch(head)[2]; params != "" {
			lines = append(lines, "local "+params+" = ...")
		}
		lines = append(lines, body)
		keyword = "elseif"
		g.chunks[i].code = ""
	}
	g.chunks[group[len(group)-1]].code = strings.Join(append(lines, "end", "end"), "\n")
	g.redirect(members, name)
	first := &g.chunks[group[0]]
	first.code = "local " + name + "\n" + first.code
}

// redirect makes all calls of some functions calls of the one that they are in.
func (g *gatherer) redirect(members []string, to string) {
	call := regexp.MustCompile(`'[^'\n]*'|[.]\w+|\b(` + strings.Join(members, "|") + `)\((\)?)`)
	for i := range g.chunks {
		c := &g.chunks[i]
		c.code = call.ReplaceAllStringFunc(c.code, func(found string) string {
			m := call.FindStringSubmatch(found)
			switch {
			case m[1] == "":
				return found
			case m[2] != "":
				return to + "('" + m[1] + "')"
			}
			return to + "('" + m[1] + "', "
		})
	}
}
