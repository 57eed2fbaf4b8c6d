package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// counter counts the instructions of a server running under valgrind's callgrind. Whenever the
// server is about to run the marker, callgrind writes the count to the next part of its output and
// starts again from zero.
type counter struct {
	valgrind string
	folder   string
	profile  string // the folder for the parts of measured phases, or ""
	parts    int
	marking  int64 // the cost of the marker itself
}

// The marker is a command not sent by any peer, and the server's function for the command.
const (
	marker         = "lastsave"
	markerFunction = "lastsaveCommand"
	housekeeping   = "serverCron" // called by the server once a second
)

// quietSettings minimize the server's housekeeping, and its log of slow calls: both depend on the
// clock, and so on the load of the machine.
var quietSettings = []string{
	"--hz", "1", "--dynamic-hz", "no", "--activerehashing", "no", "--slowlog-log-slower-than", "-1",
}

// newCounter returns a counter for a server, or an error if valgrind is missing.
func newCounter(profile string) (*counter, error) {
	valgrind, err := exec.LookPath("valgrind")
	if err != nil {
		return nil, fmt.Errorf("%w: counting instructions needs it (apt-get install valgrind)", err)
	}
	folder, err := os.MkdirTemp("", "callgrind-")
	return &counter{valgrind: valgrind, folder: folder, profile: profile}, err
}

// command returns the words to put before the command that starts a server.
func (c *counter) command() []string {
	if c == nil {
		return nil
	}
	return []string{
		c.valgrind, "--quiet", "--tool=callgrind", "--dump-before=" + markerFunction,
		"--callgrind-out-file=" + c.output(),
	}
}

func (c *counter) output() string { return filepath.Join(c.folder, "out") }

func (c *counter) remove() {
	if c != nil {
		_ = os.RemoveAll(c.folder)
	}
}

// weighMarker measures the cost added to a phase by marking its beginning and end.
func (s *server) weighMarker(ctx context.Context) error {
	// The first markers do one-time work.
	for range 3 {
		count, err := s.mark(ctx, "")
		if err != nil {
			return err
		}
		s.counter.marking = count
	}
	return nil
}

// restCollector nearly stops Lua's garbage collector. In a phase of few calls, the collector's
// share depends on chance, and on the size of all scripts.
func (s *server) restCollector(ctx context.Context) error {
	return s.eval(ctx, "collectgarbage('setpause', 1000) collectgarbage('setstepmul', 1)")
}

func (s *server) eval(ctx context.Context, code string) error {
	err := s.admin.Eval(ctx, code, nil).Err()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// collect is the script that collects all of Lua's garbage.
const collect = "collectgarbage()"

// startCounting first collects Lua's garbage: a phase pays only for its own garbage. On a steady
// server, the collector just runs as usual.
func (s *server) startCounting(ctx context.Context) error {
	if s.counter == nil {
		return nil
	}
	if !s.steady {
		if err := s.eval(ctx, collect); err != nil {
			return err
		}
	}
	_, err := s.mark(ctx, "")
	return err
}

// stopCounting returns the number of instructions since startCounting, or 0 if they are not
// counted. They include the cost of collecting the garbage made since then, minus the cost of a
// collection without garbage.
func (s *server) stopCounting(ctx context.Context, phase string) (int64, error) {
	if s.counter == nil {
		return 0, nil
	}
	count, err := s.mark(ctx, phase)
	count -= s.counter.marking
	if err != nil || s.steady {
		return count, err
	}
	var collecting [2]int64
	for i := range collecting {
		if err := s.eval(ctx, collect); err != nil {
			return 0, err
		}
		if collecting[i], err = s.mark(ctx, ""); err != nil {
			return 0, err
		}
	}
	return count + collecting[0] - collecting[1], nil
}

// mark returns the number of instructions since the last mark. If profiles are wanted, mark keeps
// the profile of a named phase.
func (s *server) mark(ctx context.Context, phase string) (int64, error) {
	if err := s.admin.Do(ctx, marker).Err(); err != nil {
		return 0, err
	}
	c := s.counter
	c.parts++
	part := fmt.Sprintf("%s.%d", c.output(), c.parts)
	text, err := os.ReadFile(part)
	if err != nil {
		return 0, fmt.Errorf("callgrind has not seen the server call %s: %w", markerFunction, err)
	}
	if err := os.Remove(part); err != nil {
		return 0, err
	}
	if c.profile != "" && phase != "" {
		name := filepath.Join(c.profile, fmt.Sprintf("callgrind.%04d.%s.out", c.parts, phase))
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return 0, err
		}
	}
	return readCount(text)
}

// readCount returns the instructions in callgrind's output. Housekeeping is left out: on a busy
// machine, more of it falls into a phase.
func readCount(text []byte) (int64, error) {
	total, err := readTotal(text)
	if err != nil {
		return 0, err
	}
	id := regexp.MustCompile(`fn=\((\d+)\) ` + housekeeping + `\n`).FindSubmatch(text)
	if id == nil {
		return total, nil
	}
	call := regexp.MustCompile(`cfn=\(` + string(id[1]) + `\).*\ncalls=.*\n\S+ (\d+)\n`)
	for _, cost := range call.FindAllSubmatch(text, -1) {
		count, err := strconv.ParseInt(string(cost[1]), 10, 64)
		if err != nil {
			return 0, err
		}
		total -= count
	}
	return total, nil
}

// readTotal reads the line "totals: COUNT" at the end of callgrind's output.
func readTotal(text []byte) (int64, error) {
	at := bytes.LastIndex(text, []byte("\ntotals:"))
	if at < 0 {
		return 0, fmt.Errorf("no totals in the output of callgrind")
	}
	total, _, _ := strings.Cut(string(text[at+len("\ntotals:"):]), "\n")
	return strconv.ParseInt(strings.TrimSpace(total), 10, 64)
}
