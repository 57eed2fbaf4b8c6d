package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A process is another program running beside this one.
type process struct {
	command *exec.Cmd
	done    chan struct{} // closed when the process has ended
}

func startProcess(name string, args ...string) (*process, error) {
	return start(exec.Command(name, args...))
}

func start(command *exec.Cmd) (*process, error) {
	p := &process{command: command, done: make(chan struct{})}
	p.command.Stderr = os.Stderr
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.done)
		_ = p.command.Wait()
	}()
	return p, nil
}

// kill kills a process, unless it has ended.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.done
}

// ready waits until a condition holds. It returns an error if the process ends first.
func (p *process) ready(ctx context.Context, holds func() (bool, error)) error {
	return until(ctx, p.command.String(), 20*time.Millisecond, func() (bool, error) {
		select {
		case <-p.done:
			return false, fmt.Errorf("%s has ended: %s", p.command, p.command.ProcessState)
		default:
			return holds()
		}
	})
}

// cpu returns the CPU time used by a process.
func (p *process) cpu() (time.Duration, error) { return cpuOf(p.command.Process.Pid, false) }

// cpuOf returns the CPU time used by a process, with or without its ended children, in the 10 ms
// resolution of /proc.
func cpuOf(pid int, children bool) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	last := 13
	if children {
		last = 15
	}
	ticks := 0
	for _, field := range fields[11:last] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// freeAddrs returns free loopback addresses.
func freeAddrs(count int) (addrs []string, err error) {
	for range count {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = listener.Close() }()
		addrs = append(addrs, listener.Addr().String())
	}
	return addrs, nil
}

// buildProgram builds a program into dir, using the module in a folder of the project.
func buildProgram(ctx context.Context, dir, module, name string, flags ...string) (string, error) {
	where, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, filepath.Base(name))
	args := append([]string{"build", "-o", program}, flags...)
	build := exec.CommandContext(ctx, "go", append(args, name)...)
	build.Dir = filepath.Join(filepath.Dir(strings.TrimSpace(string(where))), "..", module)
	build.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=auto")
	if len(flags) > 0 { // a -modfile can't be used in a workspace
		build.Env = append(build.Env, "GOWORK=off")
	}
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build %s: %w", name, err)
	}
	return program, nil
}
