package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing/fstest"

	"github.com/qless/qless-go/internal/luasrc"
)

// luaToken matches comments, texts and the beginnings of conditions. The group matches brackets and
// tokens to change.
var luaToken = regexp.MustCompile(`--[^\n]*|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"` +
	`|\b(?:else)?if |(\b[A-Za-z_][\w.]*|\b\d+\b|[<>=~]=|[<>()])`)

// opposite has the change of each token except numbers and names.
var opposite = map[string]string{
	"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "~=", "~=": "==",
	"and": "or", "or": "and", "not": "", "true": "false", "false": "true",
}

// luaChanges returns the changes of a Lua file. Some are not valid Lua.
func luaChanges(code string) ([]change, error) {
	var all []change
	condition := -1 // the beginning of a condition
	for _, m := range luaToken.FindAllStringSubmatchIndex(code, -1) {
		at, end := m[0], m[1]
		token := code[at:end]
		other, changes := opposite[token]
		number, err := strconv.Atoi(token)
		switch {
		case changes:
			all = append(all, change{at: at, end: end, text: other})
		case err == nil:
			all = append(all, change{at: at, end: end, text: strconv.Itoa(number + 1)})
		case strings.HasSuffix(token, "if "):
			condition = end
		case token == "then" && condition >= 0:
			text := "not (" + strings.TrimSpace(code[condition:at]) + ") "
			all = append(all, change{at: condition, end: at, text: text})
		case strings.HasPrefix(code[end:], "(") && strings.TrimSpace(lineTo(code, at)) == "":
			if last := callEnd(code, end); strings.HasPrefix(code[last:], "\n") {
				all = append(all, change{at: at, end: last})
			}
		}
	}
	return all, nil
}

// lineTo returns the beginning of a line, up to a byte.
func lineTo(code string, at int) string { return code[strings.LastIndex(code[:at], "\n")+1 : at] }

// callEnd returns the end of the arguments that begin at a byte.
func callEnd(code string, at int) int {
	depth := 0
	for _, m := range luaToken.FindAllStringIndex(code[at:], -1) {
		switch code[at+m[0] : at+m[1]] {
		case "(":
			depth++
		case ")":
			if depth--; depth == 0 {
				return at + m[1]
			}
		}
	}
	return len(code)
}

// luaSources has all Lua sources, by file.
type luaSources fstest.MapFS

func newLuaSources() (luaSources, error) {
	s := luaSources{}
	for _, glob := range []string{"lua/prologue.lua", "lua/*/*.lua", "doctor/lua/*/*.lua"} {
		files, err := filepath.Glob(glob)
		for _, file := range files {
			code, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			s[file] = &fstest.MapFile{Data: code}
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// below returns the sources of a folder.
func (s luaSources) below(folder string) fs.FS {
	sub, err := fs.Sub(fstest.MapFS(s), folder)
	if err != nil {
		panic(err)
	}
	return sub
}

// with returns the sources with new code in a file.
func (s luaSources) with(file string, code []byte) luaSources {
	s = maps.Clone(s)
	s[file] = &fstest.MapFile{Data: code}
	return s
}

// parses reports whether the sources are valid.
func (s luaSources) parses() bool {
	_, err := luasrc.FactsOf(s.below("lua"))
	return err == nil
}

// write makes a folder with the scripts.
func (s luaSources) write(to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	lua := s.below("lua")
	script, err := luasrc.Build(lua)
	if err != nil {
		return err
	}
	classic, err := luasrc.BuildClassic(lua)
	if err != nil {
		return err
	}
	doctor, err := luasrc.BuildDoctor(lua, s.below("doctor/lua"))
	if err != nil {
		return err
	}
	for _, made := range [][2]string{
		{"qless.lua", script}, {"classic.lua", classic}, {"doctor.lua", doctor},
	} {
		if err := os.WriteFile(filepath.Join(to, made[0]), []byte(made[1]), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// marked returns the sources with a mark before a change: a statement that logs its number. The
// mark begins the last line up to the change where a statement may begin. marked reports whether
// such a line exists.
func (s luaSources) marked(c change, id int) (luaSources, bool) {
	mark := "redis.log(3, 'mutant " + strconv.Itoa(id) + "') "
	lines := strings.SplitAfter(string(s[c.file].Data), "\n")
	depth := 100 // the indentation of the if statement with the changed condition
	for i := c.line() - 1; i >= 0; i-- {
		line := strings.TrimLeft(lines[i], "\t")
		indent := len(lines[i]) - len(line)
		switch {
		case line == "\n" || indent > depth:
		case strings.HasPrefix(line, "elseif ") || strings.HasPrefix(line, "else\n"):
			depth = indent
		default:
			text := strings.Join(lines[:i], "") + mark + strings.Join(lines[i:], "")
			if try := s.with(c.file, []byte(text)); try.parses() {
				return try, true
			}
		}
	}
	return s, false
}
