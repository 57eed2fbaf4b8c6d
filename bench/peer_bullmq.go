package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

//go:embed bullmq.mjs
var bullmqProgram []byte

// The packages to install by npm, at fixed versions, which are reported with the results.
const (
	bullmqPackage  = "bullmq@6.7.0"
	ioredisPackage = "ioredis@5"
)

// bullmq is BullMQ run by node in a temporary folder.
type bullmq struct {
	folder string
}

// installBullMQ installs BullMQ. It returns an error if node is missing or npm can't install the
// packages.
func installBullMQ(ctx context.Context) (*bullmq, error) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, err
		}
	}
	folder, err := os.MkdirTemp("", "bullmq-")
	if err != nil {
		return nil, err
	}
	b := &bullmq{folder: folder}
	npm := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund",
		"--prefix", folder, bullmqPackage, ioredisPackage)
	if output, err := npm.CombinedOutput(); err != nil {
		b.remove()
		return nil, fmt.Errorf("npm install: %w\n%s", err, output)
	}
	return b, os.WriteFile(b.program(), bullmqProgram, 0o600)
}

func (b *bullmq) program() string { return filepath.Join(b.folder, "bullmq.mjs") }

func (b *bullmq) remove() { _ = os.RemoveAll(b.folder) }

// version returns the version of an installed package.
func (b *bullmq) version(name string) string {
	var manifest struct{ Version string }
	text, err := os.ReadFile(filepath.Join(b.folder, "node_modules", name, "package.json"))
	if err != nil || json.Unmarshal(text, &manifest) != nil {
		return "?"
	}
	return manifest.Version
}

// bullmqSession is a node process driven by lines of JSON.
type bullmqSession struct {
	load    load
	bulk    bool
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// open returns a function that opens sessions, which put jobs singly or in bulk.
func (b *bullmq) open(bulk bool) func(context.Context, *server, load) (session, error) {
	return func(ctx context.Context, s *server, l load) (session, error) {
		_, port, err := net.SplitHostPort(s.addr())
		if err != nil {
			return nil, err
		}
		process := exec.CommandContext(ctx, "node", b.program(), port, l.payload)
		session := &bullmqSession{load: l, bulk: bulk, process: process}
		session.process.Stderr = os.Stderr
		if session.in, err = session.process.StdinPipe(); err != nil {
			return nil, err
		}
		out, err := session.process.StdoutPipe()
		if err != nil {
			return nil, err
		}
		session.out = bufio.NewReader(out)
		if err := session.process.Start(); err != nil {
			return nil, err
		}
		_, err = session.done(ctx) // a reply means that the process is ready
		return session, err
	}
}

// A request is a line sent to the process, and a reply is the answering line.
type request struct {
	Do          string `json:"do"`
	Jobs        int    `json:"jobs,omitempty"`
	Concurrency int    `json:"concurrency,omitempty"`
	Count       int    `json:"count,omitempty"`
	Bulk        bool   `json:"bulk,omitempty"`
	Gap         int64  `json:"gap,omitempty"`
	Rate        int    `json:"rate,omitempty"`
}

type reply struct {
	Handled int       `json:"handled"`
	Done    int       `json:"done"`
	Waits   []float64 `json:"waits"`
}

func (s *bullmqSession) ask(r request) (reply, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return reply{}, err
	}
	if _, err := s.in.Write(append(line, '\n')); err != nil {
		return reply{}, err
	}
	answer, err := s.out.ReadBytes('\n')
	if err != nil {
		return reply{}, fmt.Errorf("node: %w", err)
	}
	var answered reply
	return answered, json.Unmarshal(answer, &answered)
}

func (s *bullmqSession) enqueue(_ context.Context, jobs int) error {
	_, err := s.ask(request{Do: "enqueue", Jobs: jobs, Concurrency: s.load.concurrency, Bulk: s.bulk})
	return err
}

// work waits until the jobs of the load have been handled, to keep its lines apart from other
// requests' lines.
func (s *bullmqSession) work(_ context.Context, to *crew) error {
	_, err := s.ask(request{Do: "work", Concurrency: s.load.concurrency, Count: s.load.workers})
	if err != nil || to.wanted == 0 {
		return err
	}
	answered, err := s.ask(request{Do: "wait", Jobs: int(to.wanted)})
	for range answered.Handled {
		to.handled()
	}
	return err
}

func (s *bullmqSession) done(context.Context) (int, error) {
	answered, err := s.ask(request{Do: "done"})
	return answered.Done, err
}

// pickUps measures inside the process, because only that process's clock is fair.
func (s *bullmqSession) pickUps(
	_ context.Context, jobs int, gap time.Duration,
) ([]time.Duration, error) {
	return s.waits(request{Do: "pickups", Jobs: jobs, Gap: gap.Milliseconds()})
}

func (s *bullmqSession) pace(_ context.Context, jobs, rate int) ([]time.Duration, error) {
	return s.waits(request{Do: "pace", Jobs: jobs, Rate: rate})
}

func (s *bullmqSession) waits(r request) ([]time.Duration, error) {
	answered, err := s.ask(r)
	waits := make([]time.Duration, len(answered.Waits))
	for i, ms := range answered.Waits {
		waits[i] = time.Duration(ms * float64(time.Millisecond))
	}
	return waits, err
}

func (s *bullmqSession) close() error {
	_, err := s.ask(request{Do: "close"})
	return errors.Join(err, s.in.Close(), s.process.Wait())
}
