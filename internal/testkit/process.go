package testkit

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// process is one run of the server program.
type process struct {
	command   *exec.Cmd
	done      chan struct{} // closed when the process has ended
	suspended bool
}

// errPortTaken means that the server could not listen on its port.
var errPortTaken = errors.New("the port is taken")

// startProcess starts the server program and waits until the program reports that it is ready.
func startProcess(log *serverLog, binary string, args ...string) (*process, error) {
	ready := log.begin()
	command := exec.Command(binary, args...)
	command.Stdout = log
	command.Stderr = log
	if err := command.Start(); err != nil {
		return nil, err
	}
	p := &process{command: command, done: make(chan struct{})}
	go func() {
		_ = command.Wait()
		close(p.done)
	}()
	select {
	case <-ready:
		return p, nil
	case <-p.done:
		if log.portTaken() {
			return nil, errPortTaken
		}
		return nil, fmt.Errorf("%s ended instead of accepting connections:\n%s", binary, log)
	case <-time.After(patience):
		p.kill()
		return nil, fmt.Errorf("%s did not accept connections within %s:\n%s", binary, patience, log)
	}
}

// signal sends a signal, unless the process has ended.
func (p *process) signal(signal syscall.Signal) {
	_ = p.command.Process.Signal(signal)
}

// kill ends the process at once.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// ended reports whether the process has ended.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// terminate asks the process to end, and reports whether it did.
func (p *process) terminate() bool {
	p.resume()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return true
	case <-time.After(patience):
		return false
	}
}

// suspend stops the process, and waits until it has stopped: the signal alone only requests this.
func (p *process) suspend() {
	if p.suspended {
		return
	}
	p.suspended = true
	p.signal(syscall.SIGSTOP)
	for {
		_, err := syscall.Wait4(p.command.Process.Pid, nil, syscall.WUNTRACED, nil)
		if !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

func (p *process) resume() {
	p.suspended = false
	p.signal(syscall.SIGCONT)
}
