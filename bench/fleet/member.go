package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
)

// memberVariable is set if this program is to run as a member of a fleet.
const memberVariable = "QLESS_FLEET_MEMBER"

// role is what a member of a fleet does.
type role struct {
	Name   string
	Redis  string // the address of the server
	Lmstfy string // those of the gateways and of the dashboard
	Workq  string
	Web    string
	Rate   int           // jobs a second
	Life   time.Duration // of jobs that have one
}

// Names of roles.
const (
	rolePut     = "puts"
	roleWork    = "works"
	roleForeign = "foreign clients"
	roleWatch   = "watches"
)

// Lines that a member is sent. It ends when there are no more.
const (
	lineSample = "sample"
	lineEnough = "enough" // it puts no more jobs
)

// selfSample is what a member tells of itself, once when it has started, and when it is asked.
type selfSample struct {
	Heap       uint64 `json:"heap"`
	Goroutines int    `json:"goroutines"`
	Jobs       int64  `json:"jobs"` // that it has put, or run
}

// A member is this process.
type member struct {
	role
	ctx     context.Context // ends when the process is to end
	putting context.Context // ends when the last job was put
	client  *qless.Client

	mu   sync.Mutex
	jobs int64
	odd  error // the first thing that must not happen
}

// memberMain does what a role says, and returns the exit code.
func memberMain(text string, in io.Reader, out io.Writer) int {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	putting, enough := context.WithCancel(ctx)
	defer enough()
	m := &member{ctx: ctx, putting: putting}
	err := json.Unmarshal([]byte(text), &m.role)
	if err == nil {
		err = m.run(func() {
			m.tell(out)
			go m.listen(in, out, enough, end)
		})
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "a process that %s: %v\n", m.Name, err)
		return 1
	}
	return 0
}

// listen does what the lines say.
func (m *member) listen(in io.Reader, out io.Writer, enough, end func()) {
	defer end()
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		switch lines.Text() {
		case lineSample:
			m.tell(out)
		case lineEnough:
			enough()
		}
	}
}

func (m *member) tell(out io.Writer) {
	process := inUse()
	m.mu.Lock()
	defer m.mu.Unlock()
	text, _ := json.Marshal(selfSample{process.heap, process.goroutines, m.jobs})
	fmt.Fprintf(out, "%s\n", text)
}

// run calls ready when it has a connection, and returns when the process is to end.
func (m *member) run(ready func()) error {
	rdb := redis.NewClient(&redis.Options{Addr: m.Redis, ReadTimeout: time.Minute})
	defer func() { _ = rdb.Close() }()
	client, err := qless.New(rdb, &qless.ClientConfig{Logger: slog.New(&lineCounter{})})
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	m.client = client
	tasks := map[string]func() error{
		rolePut: m.put, roleWork: m.work, roleForeign: m.foreign, roleWatch: m.watch,
	}
	task, ok := tasks[m.Name]
	if !ok {
		return fmt.Errorf("there is no such role")
	}
	ready()
	if err := task(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.odd
}

// together calls functions until all have returned.
func together(all ...func()) {
	var group sync.WaitGroup
	for _, one := range all {
		group.Go(one)
	}
	group.Wait()
}

// count counts a job.
func (m *member) count() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobs++
}

// note keeps the first error, unless the process ends.
func (m *member) note(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil && m.odd == nil && m.ctx.Err() == nil {
		m.odd = err
	}
}

// every calls do a number of times a second while jobs are put, with the number of the call. It
// does not make up for what is late.
func (m *member) every(rate float64, do func(ctx context.Context, i int) error) {
	ticker := time.NewTicker(time.Duration(float64(time.Second) / rate))
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-ticker.C:
			m.note(do(m.ctx, i))
		case <-m.putting.Done():
			return
		}
	}
}
