package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// settingsVariable is set if this binary should run as a worker process.
const settingsVariable = "QLESS_CHAOS_WORKER"

// settings are the settings of a worker process.
type settings struct {
	Addr            string // the server's address for its worker, perhaps through a proxy
	ServerAddr      string // the server's own address, for the handler's questions
	Queue           string
	Concurrency     int
	PollInterval    time.Duration
	ShutdownTimeout time.Duration
	Receive         bool     // receive jobs instead of running a worker
	Putting         *putting // put jobs instead of running a worker
	Program         string   `json:"-"` // the program to run, if not this one
}

// work is the data of a job: its duration.
type work struct {
	Micros int `json:"us"`
}

// workerProcess is this process as a worker.
type workerProcess struct {
	name   string
	server *redis.Client
	runs   atomic.Int64
	mu     sync.Mutex
	out    *json.Encoder
}

// workerMain works until stopped, or until the parent is gone, and returns the exit code.
func workerMain(text string) int {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
		os.Exit(3)
	}()
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if err := s.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (s settings) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	rdb := redis.NewClient(testkit.Options(s.Addr))
	defer rdb.Close()
	options := testkit.Options(s.ServerAddr)
	options.MaxRetries, options.DialTimeout, options.ReadTimeout = -1, answerTimeout, answerTimeout
	server := redis.NewClient(options)
	defer server.Close()
	client, err := qless.New(rdb, &qless.ClientConfig{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	if s.Putting != nil {
		return s.put(ctx, client)
	}
	if s.Receive {
		return s.receive(ctx, client, server)
	}
	w, err := qless.NewWorker(client, qless.WorkerConfig{
		Concurrency:     s.Concurrency,
		PollInterval:    s.PollInterval,
		Queues:          []string{s.Queue},
		ShutdownTimeout: s.ShutdownTimeout,
	})
	if err != nil {
		return err
	}
	p := &workerProcess{name: w.Name(), server: server, out: json.NewEncoder(os.Stdout)}
	w.Handle("Work", qless.Typed(p.work))
	if err := w.Start(ctx); err != nil {
		return err
	}
	p.print(record{Kind: ready})
	<-w.Closed()
	stats := w.Stats()
	slog.Info("the worker stopped", "worker", p.name, "completed", stats.Completed,
		"released", stats.Released, "retried", stats.Retried, "lost", stats.Lost)
	return nil
}

// answerTimeout limits how long a handler waits for the answer to its question.
const answerTimeout = 300 * time.Millisecond

// work is the handler: it takes as long as requested by the job, and records events.
func (p *workerProcess) work(ctx context.Context, job *qless.Job, task work) error {
	run := record{Run: p.runs.Add(1), JID: job.JID, Attempt: job.Retries - job.Remaining + 1}
	p.print(run.as(started))
	defer context.AfterFunc(ctx, func() { p.print(run.as(canceled)) })()

	p.ask(ctx, run)
	timer := time.NewTimer(time.Duration(task.Micros) * time.Microsecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	p.ask(ctx, run)
	ended := run.as(returned)
	ended.Live = ctx.Err() == nil
	p.print(ended)
	return ctx.Err()
}

// ask asks the server which worker holds the job, and records a contradiction.
func (p *workerProcess) ask(ctx context.Context, run record) {
	answer, err := p.server.HMGet(ctx, "ql:j:"+run.JID, "worker", "state").Result()
	if err != nil || ctx.Err() != nil {
		return
	}
	if answer[0] != p.name || answer[1] != "running" {
		wrong := run.as(foreign)
		wrong.Holder = fmt.Sprintf("%v (%v)", answer[0], answer[1])
		p.print(wrong)
	}
}

// print prints a record immediately: records survive this process.
func (p *workerProcess) print(r record) {
	r.Worker = p.name
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.At == 0 {
		r.At = time.Now().UnixNano()
	}
	_ = p.out.Encode(r)
}
