package chaos

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patience is far longer than anything here takes: it turns a hang into a failure.
const patience = 60 * time.Second

// fleet has the worker processes of a test.
type fleet struct {
	t         *testing.T
	random    *rand.Rand
	processes []*process

	mu      sync.Mutex
	records []record
	ends    ends
	log     bytes.Buffer

	programs map[string]string // the programs of the workers, by name
}

// process is one worker process.
type process struct {
	settings settings
	command  *exec.Cmd
	stdin    io.Closer
	worker   string        // the worker's name, once printed
	ready    chan struct{} // closed when the worker has started
	done     chan struct{} // closed when the process has ended and all output was read
}

func newFleet(t *testing.T, random *rand.Rand) *fleet {
	f := &fleet{t: t, random: random, ends: ends{}, programs: map[string]string{}}
	t.Cleanup(func() {
		for _, p := range f.processes {
			f.kill(p)
		}
		if t.Failed() {
			text := f.log.Bytes()
			t.Logf("end of the workers' log:\n%s", text[max(0, len(text)-20_000):])
		}
	})
	return f
}

// start starts processes, and waits until they are ready.
func (f *fleet) start(all ...settings) {
	f.t.Helper()
	for _, s := range all {
		f.processes = append(f.processes, f.launch(s))
	}
	for _, p := range f.processes {
		f.await(p.ready, "a worker to start")
	}
}

func (f *fleet) await(c <-chan struct{}, what string) {
	f.t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		f.t.Fatalf("gave up waiting for %s", what)
	}
}

func (f *fleet) launch(s settings) *process {
	f.t.Helper()
	text, err := json.Marshal(s)
	require.NoError(f.t, err)
	program := s.Program
	if program == "" {
		program, err = os.Executable()
		require.NoError(f.t, err)
	}
	p := &process{settings: s, command: exec.Command(program), ready: make(chan struct{}), done: make(chan struct{})}
	p.command.Env = append(os.Environ(), settingsVariable+"="+string(text),
		"GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE")) // with the race detector, processes end slowly
	p.command.Stderr = f
	stdout, err := p.command.StdoutPipe()
	require.NoError(f.t, err)
	p.stdin, err = p.command.StdinPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, p.command.Start())
	go f.follow(p, stdout)
	return p
}

// Write receives the workers' logs.
func (f *fleet) Write(text []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.Write(text)
}

// follow reads the output of a process until it has ended.
func (f *fleet) follow(p *process, stdout io.Reader) {
	defer close(p.done)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var r record
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue // it was killed while it printed this
		}
		f.mu.Lock()
		f.records = append(f.records, r)
		p.worker = r.Worker
		f.programs[r.Worker] = p.settings.Program
		f.mu.Unlock()
		if r.Kind == ready {
			close(p.ready)
		}
	}
	_ = p.command.Wait()
	f.ended(p, time.Now(), time.Now())
}

// ended notes that a process was not live.
func (f *fleet) ended(p *process, from, to time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ends[p.worker] = append(f.ends[p.worker], span{from.UnixNano(), to.UnixNano()})
}

// halt stops a process for a time, like a machine that is short of memory. The request that it was
// about to make follows a little later.
func (f *fleet) halt(p *process, wait func()) {
	f.t.Helper()
	f.await(p.ready, "a worker to start")
	from := time.Now()
	require.NoError(f.t, p.command.Process.Signal(syscall.SIGSTOP))
	wait()
	require.NoError(f.t, p.command.Process.Signal(syscall.SIGCONT))
	f.ended(p, from, time.Now().Add(lateness))
}

// kill ends a process at once.
func (f *fleet) kill(p *process) {
	_ = p.command.Process.Kill()
	<-p.done
}

// terminate asks a process to end, waits until it has, and requires that it succeeded.
func (f *fleet) terminate(p *process) {
	f.t.Helper()
	f.await(p.ready, "a worker to start")
	require.NoError(f.t, p.command.Process.Signal(syscall.SIGTERM))
	f.await(p.done, "a worker to stop")
	assert.Equal(f.t, 0, p.command.ProcessState.ExitCode(), "how a worker's process ended")
}

// replaceAny ends a random process in the given way, and starts another one in its place.
func (f *fleet) replaceAny(end func(*process)) {
	f.t.Helper()
	f.replace(f.random.IntN(len(f.processes)), end)
}

func (f *fleet) replace(i int, end func(*process)) {
	f.t.Helper()
	p := f.processes[i]
	end(p)
	f.processes[i] = f.launch(p.settings)
}

// stop stops all processes gracefully.
func (f *fleet) stop() {
	f.t.Helper()
	for _, p := range f.processes {
		f.terminate(p)
	}
}
