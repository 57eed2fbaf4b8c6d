// Previous is a process of the tests, built with the previous release, and in its words.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
)

// settings are the tests' settings, as far as known to this program.
type settings struct {
	Addr            string
	ServerAddr      string
	Queue           string
	Concurrency     int
	PollInterval    time.Duration
	ShutdownTimeout time.Duration
	Putting         *putting
}

type putting struct {
	From, To, Step int
	Every          time.Duration
	Micros         int
}

type work struct {
	Micros int `json:"us"`
}

type record struct {
	Kind    string `json:"k"`
	Worker  string `json:"w"`
	At      int64  `json:"t"`
	Run     int64  `json:"r,omitempty"`
	JID     string `json:"j,omitempty"`
	Attempt int    `json:"a,omitempty"`
	Live    bool   `json:"l,omitempty"`
	Holder  string `json:"h,omitempty"`
}

// jobRetries is the number of retries in the tests.
const jobRetries = 40

type process struct {
	settings
	name   string
	server *redis.Client
	runs   atomic.Int64
	mu     sync.Mutex
	out    *json.Encoder
}

func main() {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
		os.Exit(3)
	}()
	p := &process{out: json.NewEncoder(os.Stdout)}
	if err := json.Unmarshal([]byte(os.Getenv("QLESS_CHAOS_WORKER")), &p.settings); err != nil {
		log.Fatal(err)
	}
	if err := p.run(); err != nil {
		log.Fatal(err)
	}
}

func (p *process) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr})
	defer rdb.Close()
	const answerTimeout = 300 * time.Millisecond
	p.server = redis.NewClient(&redis.Options{
		Addr: p.ServerAddr, MaxRetries: -1, DialTimeout: answerTimeout, ReadTimeout: answerTimeout,
	})
	defer p.server.Close()
	client, err := qless.New(rdb)
	if err != nil {
		return err
	}
	if p.Putting != nil {
		return p.put(ctx, client)
	}
	w := qless.NewWorker(client, qless.WorkerConfig{
		Concurrency: p.Concurrency, PollInterval: p.PollInterval, Queues: []string{p.Queue},
		ShutdownTimeout: p.ShutdownTimeout,
	})
	p.name = w.Name()
	w.HandleFunc("Work", p.work)
	if err := w.Start(ctx); err != nil {
		return err
	}
	p.tell(record{Kind: "ready"})
	<-w.Closed()
	return nil
}

// put puts missing jobs.
func (p *process) put(ctx context.Context, client *qless.Client) error {
	p.name = fmt.Sprintf("putter-%d", os.Getpid())
	p.tell(record{Kind: "ready"})
	ticker := time.NewTicker(p.Putting.Every)
	defer ticker.Stop()
	calls := context.WithoutCancel(ctx)
	for i := p.Putting.From; i < p.Putting.To; i += p.Putting.Step {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		jid := fmt.Sprintf("job-%d", i)
		_, err := client.Job(calls, jid)
		if errors.Is(err, qless.ErrNotFound) {
			_, err = client.Queue(p.Queue).Put(calls, "Work", work{1 + i*7919%p.Putting.Micros},
				qless.JID(jid), qless.Retries(jobRetries))
		}
		if err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// work is the handler: it takes as long as requested by the job, and records events.
func (p *process) work(ctx context.Context, job *qless.Job) error {
	var task work
	if err := json.Unmarshal(job.Data, &task); err != nil {
		return err
	}
	run := record{Run: p.runs.Add(1), JID: job.JID, Attempt: job.Retries - job.Remaining + 1}
	p.tell(run.as("started"))
	defer context.AfterFunc(ctx, func() { p.tell(run.as("canceled")) })()
	p.ask(ctx, run)
	timer := time.NewTimer(time.Duration(task.Micros) * time.Microsecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	p.ask(ctx, run)
	ended := run.as("returned")
	ended.Live = ctx.Err() == nil
	p.tell(ended)
	return ctx.Err()
}

// ask asks the server for the job's holder, and records contradictions.
func (p *process) ask(ctx context.Context, run record) {
	answer, err := p.server.HMGet(ctx, "ql:j:"+run.JID, "worker", "state").Result()
	if err != nil || ctx.Err() != nil {
		return
	}
	if answer[0] != p.name || answer[1] != "running" {
		wrong := run.as("foreign")
		wrong.Holder = fmt.Sprintf("%v (%v)", answer[0], answer[1])
		p.tell(wrong)
	}
}

func (r record) as(kind string) record {
	r.Kind, r.At = kind, time.Now().UnixNano()
	return r
}

func (p *process) tell(r record) {
	r.Worker = p.name
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.At == 0 {
		r.At = time.Now().UnixNano()
	}
	_ = p.out.Encode(r)
}
