package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// recorded are the packages with tests to record once, so that only tests that reach a change are
// run. The package of a change is included, too.
var recorded = []string{"doctor", "inspect", "lease", ".", "tests/api", "tests/worker"}

// wide are packages with tests that reach most of the script: the arguments of the tests, and
// roughly their seconds.
var wide = []struct {
	folder, arg string
	seconds     float64
}{
	{"tests/conformance", "-test.run=^TestDropIn$", 10},
	{"tests/model", "-model.steps=2000", 20},
	{"tests/atomic", "-test.v", 40},
	{"tests/wake", "-test.v", 60},
}

// packages returns the packages with tests to build.
func (b *bench) packages() []string {
	all := slices.Clone(recorded)
	for _, w := range wide {
		all = append(all, w.folder)
	}
	for _, c := range b.changes {
		folder := filepath.Dir(c.file)
		tests, _ := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if !slices.Contains(all, folder) && len(tests) > 0 {
			all = append(all, folder)
		}
	}
	return all
}

func (b *bench) binary(folder string) string {
	if folder == "." {
		return filepath.Join(b.dir, "qless-go.test")
	}
	return filepath.Join(b.dir, path.Base(folder)+".test")
}

// command returns a run of a package's tests.
func (b *bench) command(
	ctx context.Context, folder string, env []string, args ...string,
) *exec.Cmd {
	cmd := exec.CommandContext(ctx, b.binary(folder), append(args, "-test.v")...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Join(b.dir, "tmp"))
	cmd.Env = append(cmd.Env, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// record runs the tests of each package without a change, one after another, and records the
// changes that each test reaches.
func (b *bench) record() error {
	if err := os.Mkdir(filepath.Join(b.dir, "tmp"), 0o700); err != nil {
		return err
	}
	if err := b.lua.write(filepath.Join(b.dir, "plain")); err != nil {
		return err
	}
	marked, everywhere := b.lua, map[int]bool{}
	for i, c := range b.changes {
		if c.isLua() {
			var ok bool
			marked, ok = marked.marked(c, i+1)
			everywhere[i] = !ok
		}
	}
	if err := marked.write(filepath.Join(b.dir, "marked")); err != nil {
		return err
	}
	b.reached = make([]map[string][]string, len(b.changes))
	for i := range b.reached {
		b.reached[i] = map[string][]string{}
	}
	for _, folder := range b.packages() {
		if strings.HasPrefix(folder, "tests/") && !slices.Contains(recorded, folder) {
			continue
		}
		if err := b.recordPackage(folder); err != nil {
			return err
		}
		for i := range everywhere {
			if everywhere[i] && slices.Contains(recorded, folder) {
				b.reached[i][folder] = []string{".*"}
			}
		}
	}
	return nil
}

func (b *bench) recordPackage(folder string) error {
	name := filepath.Join(b.dir, "log")
	log, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	env := []string{"MUTATE_LOG=" + name, "MUTATE_SCRIPTS=" + filepath.Join(b.dir, "marked")}
	cmd := b.command(context.Background(), folder, env, "-test.parallel=1")
	cmd.Stdout = log
	failure := cmd.Run()
	if _, err := log.Seek(0, io.SeekStart); err != nil {
		return err
	}
	found, failed := b.read(log, folder)
	fmt.Printf("%s: reaches %d changes; %v, tests that fail unchanged: %v\n",
		folder, found, failure, failed)
	return nil
}

// said matches the beginning of a test, a reached change, and the end of a test.
var said = regexp.MustCompile(
	`^(?:=== (?:RUN|CONT|NAME) +(\w+)|mutant (\d+)$|--- (\w+): (\w+) \((\S+)s\))`)

// read reads the output of tests with the reached changes. Because a server's log may be late, a
// change also counts for the previous test.
func (b *bench) read(log io.Reader, folder string) (found int, failed []string) {
	var current, before string
	reached := make([]map[string]bool, len(b.changes))
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		m := said.FindStringSubmatch(lines.Text())
		switch {
		case m == nil:
		case m[1] != "" && m[1] != current:
			current, before = m[1], current
		case m[2] != "":
			i, _ := strconv.Atoi(m[2])
			if reached[i-1] == nil {
				reached[i-1] = map[string]bool{}
			}
			reached[i-1][current], reached[i-1][before] = true, true
		case m[4] != "":
			took, _ := strconv.ParseFloat(m[5], 64)
			b.seconds[folder+" "+m[4]] = took
			b.seconds[folder+" .*"] += took
			if m[3] == "FAIL" {
				failed = append(failed, m[4])
			}
		}
	}
	for i, tests := range reached {
		for _, test := range failed {
			delete(tests, test)
		}
		if delete(tests, ""); len(tests) > 0 {
			found++
			b.reached[i][folder] = slices.Sorted(maps.Keys(tests))
		}
		for test := range tests {
			b.reaches[folder+" "+test]++
		}
	}
	return found, failed
}

// A step runs some tests of a package.
type step struct {
	folder, arg string
	seconds     float64 // the time taken
}

func (b *bench) step(folder string, tests []string) step {
	s := step{folder, "-test.run=^(" + strings.Join(tests, "|") + ")$", 0}
	for _, test := range tests {
		s.seconds += b.seconds[folder+" "+test]
	}
	return s
}

// few is the number of tests in each package to try first: tests that reach the fewest changes are
// the most likely to notice one.
const few = 6

// try returns the test that notices a change, or nothing.
func (b *bench) try(i int) (string, error) {
	c := b.changes[i]
	scripts := filepath.Join(b.dir, "plain")
	var steps []step
	for _, w := range wide {
		steps = append(steps, step(w))
	}
	if c.isLua() {
		scripts = filepath.Join(b.dir, "changed"+strconv.Itoa(i))
		defer os.RemoveAll(scripts)
		if err := b.lua.with(c.file, c.changed()).write(scripts); err != nil {
			return "", err
		}
	}
	var first []step
	for folder, tests := range b.reached[i] {
		slices.SortStableFunc(tests, func(x, y string) int {
			return cmp.Compare(b.reaches[folder+" "+x], b.reaches[folder+" "+y])
		})
		n := min(len(tests), few)
		first = append(first, b.step(folder, tests[:n]))
		if n < len(tests) {
			steps = append(steps, b.step(folder, tests[n:]))
		}
	}
	byTime := func(x, y step) int { return cmp.Compare(x.seconds, y.seconds) }
	slices.SortFunc(first, byTime)
	slices.SortFunc(steps, byTime)
	steps = append(first, steps...)
	env := []string{"MUTATE_ID=" + strconv.Itoa(i+1), "MUTATE_SCRIPTS=" + scripts}
	for _, s := range steps {
		if by := b.failing(s, env); by != "" {
			return s.folder + " " + by, nil
		}
	}
	return "", nil
}

var failure = regexp.MustCompile(`^\s*--- FAIL: (\S+)|^(panic: .*|FAIL|fatal error: .*)$`)

// failing returns the first test of a step that fails.
func (b *bench) failing(s step, env []string) string {
	limit := 2*time.Minute + time.Duration(10*s.seconds*float64(time.Second))
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := b.command(ctx, s.folder, env, s.arg, "-test.failfast", "-test.parallel=8")
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err.Error()
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return err.Error()
	}
	by := ""
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		if m := failure.FindStringSubmatch(lines.Text()); m != nil && by == "" {
			by = m[1] + m[2]
			cancel() // the rest of the tests
		}
	}
	err = cmd.Wait()
	switch {
	case by != "":
	case ctx.Err() != nil:
		by = "its time limit"
	case err != nil:
		by = err.Error()
	}
	return by
}
