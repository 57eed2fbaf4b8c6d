// Mutate changes the Lua sources and the Go code in small ways, one at a time, and reports which
// tests notice each change. It builds the tests once: this build has all Go changes, and an
// environment variable chooses one of them; another variable names the folder of the scripts. The
// files of the checkout stay unchanged.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A change replaces some bytes of a file.
type change struct {
	file    string
	code    []byte // the file
	at, end int
	text    string // in their place
	guarded string // in their place in a Go file, where \x00 stands for the number of the change
}

func (c change) line() int { return 1 + bytes.Count(c.code[:c.at], []byte("\n")) }

func (c change) changed() []byte {
	return slices.Concat(c.code[:c.at], []byte(c.text), c.code[c.end:])
}

// String returns the place of the change, and the lines before and after it.
func (c change) String() string {
	from := bytes.LastIndexByte(c.code[:c.at], '\n') + 1
	to := c.end + bytes.IndexByte(c.code[c.end:], '\n')
	oneLine := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	before := string(c.code[from:to])
	after := string(c.code[from:c.at]) + c.text + string(c.code[c.end:to])
	return fmt.Sprintf("%s:%d: %s → %s", c.file, c.line(), oneLine(before), oneLine(after))
}

func (c change) isLua() bool { return strings.HasSuffix(c.file, ".lua") }

// sources are the files to change.
var sources = []string{
	"lua/commands/*.lua", "lua/lib/*.lua", "*.go", "doctor/*.go", "inspect/*.go", "lease/*.go",
	"internal/*/*.go",
}

// notChanged matches generated files, and files of tests and tools.
var notChanged = regexp.MustCompile(
	`_test\.go$|_gen\.go$|^internal/(cmd|listeners|luasrc|testkit)/`)

func main() {
	n := flag.Int("n", 300, "how many changes, half of them of Lua")
	seed := flag.Uint64("seed", 0, "the seed of an earlier run, to repeat it; 0 for a new one")
	only := flag.String("only", "", "a regular expression that the changes match, as reported")
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	fmt.Println("seed", *seed)
	chosen, err := choose(*n, *seed, *only)
	if err == nil {
		err = tryAll(chosen)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// choose returns n random changes with a text that matches a pattern.
func choose(n int, seed uint64, pattern string) ([]change, error) {
	matching, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	var all []change
	for _, glob := range sources {
		files, err := filepath.Glob(glob)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if notChanged.MatchString(file) {
				continue
			}
			found, err := changesOf(file)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
	}
	all = slices.DeleteFunc(all, func(c change) bool { return !matching.MatchString(c.String()) })
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	s, err := newLuaSources()
	if err != nil {
		return nil, err
	}
	left := map[bool]int{true: n / 2, false: n - n/2}
	return slices.DeleteFunc(all, func(c change) bool {
		if left[c.isLua()] == 0 || c.isLua() && !s.with(c.file, c.changed()).parses() {
			return true
		}
		left[c.isLua()]--
		return false
	}), nil
}

func changesOf(file string) ([]change, error) {
	code, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	find := goChanges
	if strings.HasSuffix(file, ".lua") {
		find = luaChanges
	}
	found, err := find(string(code))
	for i := range found {
		found[i].file, found[i].code = file, code
	}
	return found, err
}

// tryAll tries each change, and reports which test notices it.
func tryAll(chosen []change) error {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b, err := build(dir, chosen)
	if err != nil {
		return err
	}
	noticed, tried := map[bool]int{}, map[bool]int{}
	for result := range b.tryEach() {
		if result.err != nil {
			return result.err
		}
		isLua := result.change.isLua()
		tried[isLua]++
		if result.by == "" {
			result.by = "NOBODY"
		} else {
			noticed[isLua]++
		}
		fmt.Printf("%s\n\tnoticed by %s\n", result.change, result.by)
	}
	fmt.Printf("noticed: %d of %d changes of Lua, %d of %d of Go\n",
		noticed[true], tried[true], noticed[false], tried[false])
	return nil
}

// atOnce is the number of changes to try at the same time, because most tests wait.
const atOnce = 3

// A result is the test that notices a change, or nothing.
type result struct {
	change change
	by     string
	err    error
}

// tryEach tries all changes.
func (b *bench) tryEach() <-chan result {
	results := make(chan result, len(b.changes))
	next := make(chan int, len(b.changes))
	for i := range b.changes {
		next <- i
	}
	close(next)
	var tries sync.WaitGroup
	for range atOnce {
		tries.Go(func() {
			for i := range next {
				by, err := b.try(i)
				results <- result{b.changes[i], by, err}
			}
		})
	}
	go func() {
		tries.Wait()
		close(results)
	}()
	return results
}
