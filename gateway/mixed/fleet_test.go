package mixed

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// patience turns a hang into a failure.
const patience = 60 * time.Second

// A fleet holds the processes of a test, and their printed records.
type fleet struct {
	t      *testing.T
	random *rand.Rand

	processes []*process
	putting   bool // new processes put jobs
	kills     map[string]int

	mu   sync.Mutex
	puts map[string]string          // the kinds of programs that put jobs, by jid
	ran  map[string]map[string]bool // the kinds that ran the jobs
	odd  []string
	log  bytes.Buffer
}

// A process is one gateway, or one program.
type process struct {
	settings settings
	command  *exec.Cmd
	stdin    io.WriteCloser
	ready    chan struct{} // closed when the process is ready
	done     chan struct{} // closed when the process has ended and all output was read
}

func newFleet(t *testing.T, random *rand.Rand) *fleet {
	f := &fleet{
		t: t, random: random, putting: true, kills: map[string]int{},
		puts: map[string]string{}, ran: map[string]map[string]bool{},
	}
	t.Cleanup(func() {
		for _, p := range f.processes {
			f.kill(p)
		}
		if t.Failed() {
			text := f.log.Bytes()
			t.Logf("end of the processes' log:\n%s", text[max(0, len(text)-20_000):])
		}
	})
	return f
}

// start starts processes, and waits until they are ready.
func (f *fleet) start(all ...settings) {
	f.t.Helper()
	first := len(f.processes)
	for _, s := range all {
		f.processes = append(f.processes, f.launch(s))
	}
	for _, p := range f.processes[first:] {
		f.await(p.ready, "a process to start")
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
	self, err := os.Executable()
	require.NoError(f.t, err)
	words := []string{self}
	if s.Kind == pythonProgram {
		words = pythonCommand(f.t, s)
	}
	p := &process{
		settings: s, command: exec.Command(words[0], words[1:]...),
		ready: make(chan struct{}), done: make(chan struct{}),
	}
	p.command.Env = append(os.Environ(), settingsVariable+"="+string(text),
		"GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	p.command.Stderr = f
	stdout, err := p.command.StdoutPipe()
	require.NoError(f.t, err)
	p.stdin, err = p.command.StdinPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, p.command.Start())
	if !f.putting {
		f.stopPutting(p)
	}
	go f.follow(p, stdout)
	return p
}

// Write receives the logs of processes.
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
			continue // killed while printing this
		}
		f.note(p.settings.Kind, r)
		if r.Ready {
			close(p.ready)
		}
	}
	_ = p.command.Wait()
}

func (f *fleet) note(kind string, r record) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case r.Put != "":
		f.puts[r.Put] = kind
	case r.Ran != "":
		jid := plain(r.Ran)
		if f.ran[jid] == nil {
			f.ran[jid] = map[string]bool{}
		}
		f.ran[jid][kind] = true
	case r.Odd != "":
		f.odd = append(f.odd, r.Odd)
	}
}

// missing returns the number of jobs put, and a job not run.
func (f *fleet) missing() (put int, jid string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for jid := range f.puts {
		if f.ran[plain(jid)] == nil {
			return len(f.puts), jid
		}
	}
	return len(f.puts), ""
}

// kill ends a process at once.
func (f *fleet) kill(p *process) {
	_ = p.command.Process.Kill()
	<-p.done
}

// killSome kills and replaces random processes for a time.
func (f *fleet) killSome(d time.Duration) {
	f.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(time.Duration(f.random.Int64N(int64(400 * time.Millisecond))))
		i := f.random.IntN(len(f.processes))
		p := f.processes[i]
		f.await(p.ready, "a process to start") // otherwise it would never work
		f.kill(p)
		f.kills[p.settings.Kind]++
		time.Sleep(time.Duration(f.random.Int64N(int64(300 * time.Millisecond))))
		f.processes[i] = f.launch(p.settings)
	}
}

// endPuts stops all processes from putting more jobs.
func (f *fleet) endPuts() {
	f.putting = false
	for _, p := range f.processes {
		f.stopPutting(p)
	}
}

func (f *fleet) stopPutting(p *process) { _, _ = io.WriteString(p.stdin, "\n") }

// stop stops the processes of some kinds gracefully.
func (f *fleet) stop(kinds ...string) {
	f.t.Helper()
	for _, p := range f.processes {
		for _, kind := range kinds {
			if p.settings.Kind == kind {
				f.await(p.ready, "a process to start")
				_ = p.stdin.Close()
				f.await(p.done, "the end of a process")
				assert.Equal(f.t, 0, p.command.ProcessState.ExitCode(), kind)
			}
		}
	}
}
