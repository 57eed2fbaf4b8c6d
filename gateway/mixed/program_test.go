package mixed

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/qless/qless-go"
)

// settingsVariable is set if this binary must run as a gateway or as a client program.
const settingsVariable = "QLESS_MIXED"

// Kinds of processes.
const (
	lmstfyGateway = "lmstfy gateway"
	workqGateway  = "workq gateway"
	lmstfyProgram = "lmstfy"
	workqProgram  = "workq"
	qlessProgram  = "qless"
	pythonProgram = "python"
)

// Queues of the test.
const (
	lmstfyQueue    = "mixed/jobs"
	workqQueue     = "workq/jobs/0"
	workqUrgent    = "workq/jobs/5"
	workqScheduled = "workq/jobs/0/s"
)

// lockSeconds is how long a job is locked.
const lockSeconds = 2

// manyTries is more than a job can need, and less than Workq's limit.
const manyTries = 200

// settings are the settings of a process.
type settings struct {
	Kind   string
	URL    string // of Redis
	Addr   string // where a gateway listens
	Lmstfy []string
	Workq  []string // the addresses of the gateways
}

// A record is a line of a program's output.
type record struct {
	Ready bool   `json:"ready,omitempty"`
	Put   string `json:"put,omitempty"` // the put of this job was acknowledged
	Ran   string `json:"ran,omitempty"` // this job was run, and is about to be completed
	Odd   string `json:"odd,omitempty"` // describes a failure
}

// A program is this process.
type program struct {
	settings
	ctx     context.Context // ends when the process is asked to end
	putting context.Context // ends when no more jobs are put
	client  *qless.Client

	mu  sync.Mutex
	out *json.Encoder
}

// programMain runs a process until it is asked to end or its parent is gone, and returns its
// status.
func programMain(text string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	putting, stopPutting := context.WithCancel(ctx)
	go func() {
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			stopPutting()
		}
		stop() // the parent is gone, or wants this process to end
	}()
	p := &program{ctx: ctx, putting: putting, out: json.NewEncoder(os.Stdout)}
	if err := json.Unmarshal([]byte(text), &p.settings); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if err := p.run(); err != nil {
		fmt.Fprintln(os.Stderr, p.Kind, err)
		return 1
	}
	return 0
}

func (p *program) run() error {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)).With("kind", p.Kind))
	client, err := qless.Dial(p.ctx, p.URL, nil)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	p.client = client
	switch p.Kind {
	case lmstfyGateway:
		return p.serveLmstfy()
	case workqGateway:
		return p.serveWorkq()
	case lmstfyProgram:
		return p.clients(p.putLmstfy, p.consume)
	case workqProgram:
		return p.clients(p.putWorkq, p.lease)
	case qlessProgram:
		return p.workQless()
	}
	return fmt.Errorf("there is no %q", p.Kind)
}

// clients runs put once and work several times, all concurrently.
func (p *program) clients(put, work func()) error {
	const workers = 4
	p.print(record{Ready: true})
	var all sync.WaitGroup
	all.Go(put)
	for range workers {
		all.Go(work)
	}
	all.Wait()
	return nil
}

// pause waits briefly, and reports whether to put more jobs.
func (p *program) pause() bool {
	select {
	case <-time.After(rand.N(30 * time.Millisecond)):
		return true
	case <-p.putting.Done():
		return false
	}
}

// toil does the work of a job, which takes either hardly any time, or longer than its lock.
func (p *program) toil() {
	d := rand.N(5 * time.Millisecond)
	if rand.N(300) == 0 {
		d = lockSeconds * time.Second * 5 / 4
	}
	select {
	case <-time.After(d):
	case <-p.ctx.Done():
	}
}

// addr returns the address of a random gateway.
func addr(list []string) string { return list[rand.N(len(list))] }

// sometimes is true one time in ten.
func sometimes() bool { return rand.N(10) == 0 }

// print prints a record immediately: records survive this process.
func (p *program) print(r record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.out.Encode(r)
}

func (p *program) odd(format string, args ...any) {
	p.print(record{Odd: p.Kind + ": " + fmt.Sprintf(format, args...)})
}

// plain returns a jid without dashes, as written by some programs.
func plain(jid string) string { return strings.ReplaceAll(jid, "-", "") }
