package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// helper is added to each package with changes. mutant reports whether a change is chosen. While
// the tests are recorded, mutant writes the requested changes to the log.
const helper = `package %s

import (
	"os"
	"regexp"
	"strconv"
	"sync/atomic"
	"syscall"
)

var (
	mutantChosen, _ = strconv.Atoi(os.Getenv("MUTATE_ID"))
	mutantLog       = os.Getenv("MUTATE_LOG")
	mutantSeen      [%d]atomic.Int64
	mutantName      = regexp.MustCompile("mutant [0-9]+")
)

func mutant(id int) bool {
	if mutantLog != "" {
		var now syscall.Timeval
		_ = syscall.Gettimeofday(&now) // the tests may have another clock
		if ms := now.Nano() / 1e6; mutantSeen[id].Swap(ms) != ms {
			mutantLines([]byte("mutant " + strconv.Itoa(id)))
		}
	}
	return id == mutantChosen
}

func mutantOf[T any](id int, after, before T) T {
	if mutant(id) {
		return after
	}
	return before
}

func mutantLines(text []byte) []byte {
	if mutantLog == "" {
		return text
	}
	if f, err := os.OpenFile(mutantLog, os.O_APPEND|os.O_WRONLY, 0); err == nil {
		for _, name := range mutantName.FindAll(text, -1) {
			_, _ = f.WriteString("\n" + string(name) + "\n")
		}
		_ = f.Close()
	}
	return text
}

func mutantScript(file string) string {
	text, err := os.ReadFile(os.Getenv("MUTATE_SCRIPTS") + "/" + file)
	if err != nil {
		panic(err)
	}
	return string(text)
}
`

// patched are the files that embed a script, and the reader of server logs.
var patched = []string{
	"scripts_embed.go", "doctor/checks.go", "lua/classic.go", "internal/testkit/log.go",
}

var embedding = regexp.MustCompile(`//go:embed (?:lua/)?(\w+\.lua)\nvar (\w+) string`)

func patch(code string) string {
	code = strings.Replace(code, `_ "embed"`, `_ "os"`, 1)
	code = embedding.ReplaceAllString(code, `var $2 = mutantScript("$1")`)
	return strings.Replace(code, "l.text.Write(p)", "l.text.Write(mutantLines(p))", 1)
}

// A bench has the tests, built with all changes.
type bench struct {
	dir     string
	changes []change
	lua     luaSources
	reached []map[string][]string // the tests that run each change, by package
	reaches map[string]int        // the number of changes run by a test of a package
	seconds map[string]float64    // the time taken
}

// build builds the tests of all packages.
func build(dir string, chosen []change) (*bench, error) {
	b := &bench{dir: dir, changes: apart(chosen), reaches: map[string]int{},
		seconds: map[string]float64{}}
	var err error
	if b.lua, err = newLuaSources(); err != nil {
		return nil, err
	}
	for {
		if err := b.writeOverlay(); err != nil {
			return nil, err
		}
		output, err := b.goTool(append([]string{"build", "-gcflags=-e"}, b.folders()...)...)
		if err == nil {
			break
		}
		fmt.Fprintln(os.Stderr, output)
		n := len(b.changes)
		if b.changes = without(b.changes, output); len(b.changes) == n {
			return nil, fmt.Errorf("%w: %s", err, output)
		}
	}
	args := []string{"test", "-vet=off", "-c", "-o", dir + "/"}
	for _, folder := range b.packages() {
		args = append(args, "./"+folder)
	}
	if output, err := b.goTool(args...); err != nil {
		return nil, fmt.Errorf("%w: %s", err, output)
	}
	return b, b.record()
}

// folders returns the packages with changes.
func (b *bench) folders() []string {
	all := map[string]bool{".": true}
	for _, c := range b.changes {
		if !c.isLua() {
			all["./"+filepath.Dir(c.file)] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func (b *bench) goTool(args ...string) (string, error) {
	args = slices.Insert(args, 1, "-overlay", filepath.Join(b.dir, "overlay.json"))
	output, err := exec.Command("go", args...).CombinedOutput()
	return string(output), err
}

// apart returns the changes except for Go changes that overlap an earlier one.
func apart(all []change) []change {
	var kept []change
	for _, c := range all {
		overlaps := func(o change) bool { return o.file == c.file && o.at < c.end && c.at < o.end }
		if c.isLua() || !slices.ContainsFunc(kept, overlaps) {
			kept = append(kept, c)
		}
	}
	return kept
}

var compileError = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):`)

// without returns the changes except for changes with compile errors.
func without(all []change, output string) []change {
	for _, m := range compileError.FindAllStringSubmatch(output, -1) {
		line, _ := strconv.Atoi(m[2])
		all = slices.DeleteFunc(all, func(c change) bool {
			return c.file == filepath.Clean(m[1]) && c.line() == line
		})
	}
	return all
}

// writeOverlay writes the Go files with all changes.
func (b *bench) writeOverlay() error {
	files, folders := map[string][]int{}, map[string]string{}
	for _, file := range patched {
		files[file] = nil
	}
	for i, c := range b.changes {
		if !c.isLua() {
			files[c.file] = append(files[c.file], i)
		}
	}
	replace := map[string]string{}
	write := func(file, text string) error {
		to := filepath.Join(b.dir, strings.ReplaceAll(file, "/", "_"))
		from, err := filepath.Abs(file)
		replace[from] = to
		if err != nil {
			return err
		}
		return os.WriteFile(to, []byte(text), 0o600)
	}
	for file, ids := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text := patch(b.guarded(string(code), ids))
		folders[filepath.Dir(file)] = packageClause.FindStringSubmatch(text)[1]
		if err := write(file, text); err != nil {
			return err
		}
	}
	for folder, name := range folders {
		text := fmt.Sprintf(helper, name, len(b.changes)+1)
		if err := write(filepath.Join(folder, "mutant.go"), text); err != nil {
			return err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, "overlay.json"), text, 0o600)
}

var packageClause = regexp.MustCompile(`(?m)^package (\w+)`)

// guarded returns code with all changes of a file. An environment variable chooses one of them.
func (b *bench) guarded(code string, ids []int) string {
	slices.SortFunc(ids, func(x, y int) int { return b.changes[y].at - b.changes[x].at })
	for _, i := range ids {
		c := b.changes[i]
		text := strings.ReplaceAll(c.guarded, "\x00", strconv.Itoa(i+1))
		code = code[:c.at] + text + code[c.end:]
	}
	return code
}
