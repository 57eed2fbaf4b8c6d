package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
)

// A fellow is a process of a soak, as the process that has started it sees it.
type fellow struct {
	name    string
	command *exec.Cmd
	stdin   io.WriteCloser
	told    chan selfSample // what it tells, for a member
	done    chan struct{}   // closed when it has ended
	metrics string          // the address of its metrics, for the gateways
}

// startMember starts this program as a member of the fleet, and returns when it works.
func startMember(ctx context.Context, name string, r role) (*fellow, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := exec.Command(self)
	command.Env = append(os.Environ(), memberVariable+"="+string(text))
	command.Stderr = os.Stderr
	f := &fellow{
		name: name, command: command,
		told: make(chan selfSample, 1), done: make(chan struct{}),
	}
	if f.stdin, err = command.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	go f.follow(stdout)
	_, err = f.hear(ctx)
	return f, err
}

// follow reads what a member tells, until it has ended.
func (f *fellow) follow(stdout io.Reader) {
	defer close(f.done)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var s selfSample
		if json.Unmarshal(lines.Bytes(), &s) == nil {
			f.told <- s
		}
	}
	_ = f.command.Wait()
}

func (f *fellow) hear(ctx context.Context) (selfSample, error) {
	select {
	case s := <-f.told:
		return s, nil
	case <-f.done:
		return selfSample{}, fmt.Errorf("%s has ended: %s", f.name, f.command.ProcessState)
	case <-ctx.Done():
		return selfSample{}, ctx.Err()
	case <-time.After(patience):
		return selfSample{}, fmt.Errorf("%s does not answer", f.name)
	}
}

// buildGateways builds the program that has the gateways and the dashboard, in a folder. It is run
// from the folder of the bench, or from one in it.
func buildGateways(ctx context.Context, dir string) (string, error) {
	where, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "qless")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./qless")
	build.Dir = filepath.Join(filepath.Dir(strings.TrimSpace(string(where))), "..", "cmd")
	build.Env = append(os.Environ(), "GOWORK=auto", "GOFLAGS=")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build the gateways: %w", err)
	}
	return program, nil
}

// startGateways starts them, and returns when they are ready. The role gets their addresses.
func startGateways(ctx context.Context, program string, r *role) (*fellow, error) {
	f := &fellow{name: "gateways, dashboard", done: make(chan struct{})}
	for _, addr := range []*string{&r.Lmstfy, &r.Workq, &r.Web, &f.metrics} {
		var err error
		if *addr, err = freeAddr(); err != nil {
			return nil, err
		}
	}
	f.command = exec.Command(program, "serve", "--redis", "redis://"+r.Redis, "--skip-tokens",
		"--lmstfy", r.Lmstfy, "--workq", r.Workq, "--web", r.Web, "--metrics", f.metrics,
		"--log-level", "warn")
	f.command.Stderr = os.Stderr
	if err := f.start(); err != nil {
		return nil, err
	}
	return f, until(ctx, "the gateways", 20*time.Millisecond, func() (bool, error) {
		select {
		case <-f.done:
			return false, fmt.Errorf("the gateways have ended: %s", f.command.ProcessState)
		default:
		}
		response, err := http.Get("http://" + f.metrics + "/readyz")
		if err != nil {
			return false, nil
		}
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
}

// start starts a process that is not followed.
func (f *fellow) start() error {
	if err := f.command.Start(); err != nil {
		return err
	}
	go func() {
		defer close(f.done)
		_ = f.command.Wait()
	}()
	return nil
}

// freeAddr returns a loopback address that nobody listens to.
func freeAddr() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// send sends a line to a member.
func (f *fellow) send(line string) error {
	_, err := io.WriteString(f.stdin, line+"\n")
	return err
}

// kill ends a process at once.
func (f *fellow) kill() {
	_ = f.command.Process.Kill()
	<-f.done
}

// end ends a process in an orderly way, and returns an error if it does not end well.
func (f *fellow) end(ctx context.Context) error {
	if f.stdin != nil {
		_ = f.stdin.Close()
	} else if err := f.command.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return fmt.Errorf("%s does not end", f.name)
	}
	if !f.command.ProcessState.Success() {
		return fmt.Errorf("%s: %s", f.name, f.command.ProcessState)
	}
	return nil
}

// sample measures a process.
func (f *fellow) sample(ctx context.Context) (size, error) {
	s := size{}
	if f.metrics != "" {
		if err := f.scrape(ctx, s); err != nil {
			return nil, err
		}
	} else {
		if err := f.send(lineSample); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		told, err := f.hear(ctx)
		if err != nil {
			return nil, err
		}
		s["heap"], s["goroutines"] = float64(told.Heap)/1e3, float64(told.Goroutines)
		s["jobs"] = float64(told.Jobs)
	}
	return s, f.fromSystem(s)
}

// fromSystem adds what the system knows of a process, where there is a /proc.
func (f *fellow) fromSystem(s size) error {
	proc := fmt.Sprintf("/proc/%d", f.command.Process.Pid)
	if _, err := os.Stat(proc); os.IsNotExist(err) {
		return nil
	}
	files, err := os.ReadDir(proc + "/fd")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(proc + "/status")
	if err != nil {
		return err
	}
	s["descriptors"] = float64(len(files))
	for line := range strings.Lines(string(text)) {
		if value, is := strings.CutPrefix(line, "VmRSS:"); is {
			kb, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			s["resident"] = kb * 1.024
			return err
		}
	}
	return nil
}

// scrape adds what the metrics say of the process.
func (f *fellow) scrape(ctx context.Context, s size) error {
	address := "http://" + f.metrics + "/metrics"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		number, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
		case name == "go_goroutines":
			s["goroutines"] = number
		case name == "go_memstats_heap_alloc_bytes":
			s["heap"] = number / 1e3
		}
	}
	return lines.Err()
}

// memberVariable is set if this program is to run as a member of a fleet.
const memberVariable = "QLESS_FLEET_MEMBER"

// role is what a member of a fleet does.
type role struct {
	Name   string
	Redis  string // the address of the server
	Lmstfy string // the addresses of the gateways and of the dashboard
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
// does not catch up on late calls.
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
