package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/qless/qless-go/gateway/lmstfy"
)

// serveCommand has the program serve as the gateway.
const serveCommand = "serve"

// token is that of all clients.
const token = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

// A peer is a server that is measured.
type peer struct {
	name    string
	command []string // without the name of the configuration file
}

// buildPeers returns the servers. It builds lmstfy's own in a folder.
func buildPeers(ctx context.Context, dir, only string) ([]peer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ours := peer{"qless", []string{self, serveCommand}}
	if only == ours.name {
		return []peer{ours}, nil
	}
	program := filepath.Join(dir, "lmstfy-server")
	build := exec.CommandContext(ctx, "go", "build", "-modfile=peer.mod", "-o", program,
		"github.com/bitleak/lmstfy/server")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("build lmstfy's own server, in the folder of this program: %w", err)
	}
	theirs := peer{"lmstfy", []string{program, "-c"}}
	if only == theirs.name {
		return []peer{theirs}, nil
	}
	return []peer{theirs, ours}, nil
}

// serve runs the gateway with a configuration file, as its program does.
func serve(path string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	file, err := lmstfy.LoadFile(path)
	if err != nil {
		return err
	}
	config, closeAll, err := file.Connect(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	config.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	server, err := lmstfy.New(config)
	if err != nil {
		return err
	}
	api, err := net.Listen("tcp", file.Addr())
	if err != nil {
		return err
	}
	admin, err := net.Listen("tcp", file.AdminAddr())
	if err != nil {
		return err
	}
	go func() { _ = server.ServeAdmin(admin) }()
	go func() {
		<-ctx.Done()
		_ = server.Shutdown(context.Background())
	}()
	if err := server.Serve(api); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// A process is a server that runs.
type process struct {
	command    *exec.Cmd
	api, admin string
	log        *os.File
}

const configuration = `Host = "127.0.0.1"
Port = %d
AdminHost = "127.0.0.1"
AdminPort = %d
LogLevel = "error"
EnableAccessLog = false
[AdminRedis]
Addr = %q
[Pool.default]
Addr = %[3]q
`

// start starts a server, and returns when it has taken the token.
func (p peer) start(ctx context.Context, dir, redis string) (*process, error) {
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, p.name+".toml")
	text := fmt.Sprintf(configuration, ports[0], ports[1], redis)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, p.name+".log"))
	if err != nil {
		return nil, err
	}
	command := exec.Command(p.command[0], append(p.command[1:], path)...)
	command.Dir, command.Stdout, command.Stderr = dir, log, log
	s := &process{
		command: command, log: log,
		api: "127.0.0.1:" + strconv.Itoa(ports[0]), admin: "127.0.0.1:" + strconv.Itoa(ports[1]),
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	if err := s.addToken(ctx); err != nil {
		text, _ := os.ReadFile(log.Name())
		s.stop()
		return nil, fmt.Errorf("%s does not start: %w\n%s", p.name, err, text)
	}
	return s, nil
}

// freePorts returns ports that nobody listens to.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = listener.Close() }()
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// startTimeout is how long a server may take to start.
const startTimeout = 20 * time.Second

func (s *process) addToken(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		url := "http://" + s.admin + "/token/ns?description=bench&token=" + token
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusCreated {
				return fmt.Errorf("a token is answered with %s", answer.Status)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stopTimeout is how long a server may take to end.
const stopTimeout = 10 * time.Second

func (s *process) stop() {
	_ = s.command.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(stopTimeout, func() { _ = s.command.Process.Kill() })
	defer kill.Stop()
	_ = s.command.Wait()
	_ = s.log.Close()
}

// tick is the unit of CPU times in /proc.
const tick = 10 * time.Millisecond

// cpu returns how much CPU time a process has used.
func cpu(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("/proc has no CPU times")
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick, nil
}

// memory returns the resident memory of a process, in MB.
func memory(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, is := strings.CutPrefix(line, "VmRSS:"); is {
			kb, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kb / 1024, err
		}
	}
	return 0, errors.New("/proc has no VmRSS")
}
