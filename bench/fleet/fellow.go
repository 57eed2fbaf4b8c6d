package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
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
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
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
	if err := f.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(f.done)
		_ = f.command.Wait()
	}()
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.metrics+"/metrics", nil)
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
