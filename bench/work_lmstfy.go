package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// lmstfyToken is that of all clients.
const lmstfyToken = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

// lmstfy compares lmstfy's own server with qless serve lmstfy, on a Redis that keeps a file, as the
// former demands. They take turns, each as a process of its own with an empty database.
func lmstfy(ctx context.Context, o *options, r *report) error {
	dir, err := os.MkdirTemp("", "qless-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ours, err := buildGateways(ctx, dir)
	if err != nil {
		return err
	}
	theirs, err := buildLmstfy(ctx, dir)
	if err != nil {
		return err
	}
	s, err := startFleet(ctx, o, "--appendonly", "yes", "--maxmemory-policy", "noeviction")
	if err != nil {
		return err
	}
	defer s.stop()
	var rounds []*report
	for range o.rounds {
		round := &report{workload: r.workload}
		for _, command := range [][]string{{theirs, "-c"}, {ours, "serve", "lmstfy", "-c"}} {
			l := &lmstfyServer{server: s, name: filepath.Base(command[0]), command: command, dir: dir}
			if err := l.measureAll(ctx, o, round); err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
		}
		rounds = append(rounds, round)
	}
	for i, f := range rounds[0].figures {
		var values []float64
		for _, round := range rounds {
			values = append(values, round.figures[i].Value)
		}
		f.Value = spreadOf(values).Median
		r.figures = append(r.figures, f)
	}
	return nil
}

// buildLmstfy builds lmstfy's own server in a folder.
func buildLmstfy(ctx context.Context, dir string) (string, error) {
	program := filepath.Join(dir, "lmstfy")
	build := exec.CommandContext(ctx, "go", "build", "-modfile=lmstfy.mod", "-o", program,
		"github.com/bitleak/lmstfy/server")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	build.Stderr = os.Stderr
	return program, build.Run()
}

// An lmstfyServer is a server of that protocol, and the Redis that it uses.
type lmstfyServer struct {
	*server
	name    string
	command []string // without the name of the configuration file
	dir     string
	process *fellow
	api     string
}

// measureAll measures a server with each number of clients, and with workers that wait.
func (l *lmstfyServer) measureAll(ctx context.Context, o *options, r *report) error {
	for _, clients := range o.concurrency {
		err := l.with(ctx, func() error {
			r.in("publish, %d clients, %s", clients, l.name)
			err := l.measureJobs(ctx, r, o.jobs, func() error { return l.publish(clients, "q", o.jobs) })
			if err != nil {
				return err
			}
			r.in("consume and delete, %d clients, %s", clients, l.name)
			err = l.measureJobs(ctx, r, o.jobs, func() error { return l.consume(clients, o.jobs) })
			if err != nil {
				return err
			}
			waits, err := l.wake(clients)
			r.in("put to answer, %d clients that wait, %s", clients, l.name)
			r.add("p50", longestOf(waits, 0.50), "ms")
			r.add("p99", longestOf(waits, 0.99), "ms")
			return err
		})
		if err != nil {
			return err
		}
	}
	return l.with(ctx, func() error {
		r.in("%d clients that wait, %s", o.workers, l.name)
		return l.wait(ctx, r, o.workers)
	})
}

const lmstfyConfig = `Host = "127.0.0.1"
Port = %s
AdminHost = "127.0.0.1"
AdminPort = %s
LogLevel = "error"
EnableAccessLog = false
[AdminRedis]
Addr = %q
[Pool.default]
Addr = %[3]q
`

// with does something with a server that was just started, and has done a few jobs.
func (l *lmstfyServer) with(ctx context.Context, do func() error) error {
	if err := l.empty(ctx); err != nil {
		return err
	}
	var admin string
	for _, addr := range []*string{&l.api, &admin} {
		var err error
		if *addr, err = freeAddr(); err != nil {
			return err
		}
	}
	_, port, _ := strings.Cut(l.api, ":")
	_, adminPort, _ := strings.Cut(admin, ":")
	path := filepath.Join(l.dir, l.name+".toml")
	text := fmt.Sprintf(lmstfyConfig, port, adminPort, l.addr())
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	command := exec.Command(l.command[0], append(l.command[1:len(l.command):len(l.command)], path)...)
	command.Dir, command.Stderr = l.dir, os.Stderr
	l.process = &fellow{name: l.name, command: command, done: make(chan struct{})}
	if err := l.process.start(); err != nil {
		return err
	}
	defer l.process.kill()
	url := "http://" + admin + "/token/ns?description=bench&token=" + lmstfyToken
	err := until(ctx, "a token", 20*time.Millisecond, func() (bool, error) {
		answer, err := http.Post(url, "", nil)
		if err != nil {
			return false, nil // it does not listen yet
		}
		return answer.StatusCode == http.StatusCreated, answer.Body.Close()
	})
	const few = 200
	if err = errors.Join(err, l.publish(4, "q", few)); err == nil {
		err = l.consume(4, few)
	}
	if err != nil {
		return err
	}
	return do()
}

// measureJobs measures the server and its Redis.
func (l *lmstfyServer) measureJobs(
	ctx context.Context, r *report, jobs int, do func() error,
) error {
	pid := l.process.command.Process.Pid
	before, err := cpuOf(pid)
	if err != nil {
		return err
	}
	c, err := l.measure(ctx, do)
	if err != nil {
		return err
	}
	after, err := cpuOf(pid)
	r.add("jobs", float64(jobs)/c.elapsed.Seconds(), "a second")
	r.add("Redis CPU a job", us(c.CPU)/float64(jobs), "us")
	r.add("server CPU a job", us(after-before)/float64(jobs), "us")
	return err
}

// cpuOf returns how much CPU time a process has used, by the 10 ms of /proc.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := append(strings.Fields(rest), make([]string, 13)...)
	user, err := strconv.Atoi(fields[11])
	system, failed := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, errors.Join(err, failed)
}

// clients calls do at once for a number of clients with a connection each.
func (l *lmstfyServer) clients(clients int, do func(c *lmstfyClient) error) error {
	return each(make([]struct{}, clients), func(struct{}) error {
		conn, err := net.Dial("tcp", l.api)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		return do(&lmstfyClient{conn: conn, in: bufio.NewReader(conn)})
	})
}

func (l *lmstfyServer) publish(clients int, queue string, jobs int) error {
	var published atomic.Int64
	return l.clients(clients, func(c *lmstfyClient) error {
		for published.Add(1) <= int64(jobs) {
			if _, err := c.ask("PUT", queue, 201); err != nil {
				return err
			}
		}
		return nil
	})
}

// consume consumes jobs and deletes them.
func (l *lmstfyServer) consume(clients, jobs int) error {
	var consumed atomic.Int64
	var seen sync.Map
	return l.clients(clients, func(c *lmstfyClient) error {
		for consumed.Add(1) <= int64(jobs) {
			id, err := c.take("q")
			if err != nil {
				return err
			}
			if _, again := seen.LoadOrStore(id, true); again {
				return fmt.Errorf("the job %s was consumed twice", id)
			}
		}
		return nil
	})
}

// wake publishes jobs while clients wait, and returns how long each took to arrive.
func (l *lmstfyServer) wake(clients int) (waits []time.Duration, err error) {
	const jobs = 500
	arrived := make(chan time.Time, clients)
	var stopping atomic.Bool
	ended := make(chan error, 1)
	go func() {
		ended <- l.clients(clients, func(c *lmstfyClient) error {
			for {
				if _, err := c.take("w"); err != nil || stopping.Load() {
					return err
				}
				arrived <- time.Now()
			}
		})
	}()
	return waits, l.clients(1, func(c *lmstfyClient) error {
		for range jobs {
			time.Sleep(2 * time.Millisecond)
			published := time.Now()
			if _, err := c.ask("PUT", "w", 201); err != nil {
				return err
			}
			select {
			case at := <-arrived:
				waits = append(waits, at.Sub(published))
			case err := <-ended:
				return fmt.Errorf("the consumers have ended: %w", err)
			case <-time.After(patience):
				return errors.New("a job does not arrive")
			}
		}
		stopping.Store(true)
		return errors.Join(l.publish(1, "w", clients), <-ended)
	})
}

// wait has clients wait, and then gives each a job.
func (l *lmstfyServer) wait(ctx context.Context, r *report, clients int) error {
	before := size{}
	if err := l.process.fromSystem(before); err != nil {
		return err
	}
	var asked sync.WaitGroup
	asked.Add(clients)
	ended := make(chan error, 1)
	go func() {
		ended <- l.clients(clients, func(c *lmstfyClient) error {
			err := c.send("GET", "many?timeout=50")
			asked.Done()
			if err == nil {
				_, err = c.expect(200)
			}
			return err
		})
	}()
	asked.Wait()
	if err := pause(ctx, 3*time.Second); err != nil { // so that all wait
		return err
	}
	waiting := size{}
	if err := l.process.fromSystem(waiting); err != nil {
		return err
	}
	now, err := l.read(ctx)
	if err != nil {
		return err
	}
	r.add("resident before", before["resident"]/1e3, "MB")
	r.add("resident", waiting["resident"]/1e3, "MB")
	r.add("connections to Redis", float64(now.Connections-1), "")
	return l.measureJobs(ctx, r, clients, func() error {
		return errors.Join(l.publish(min(16, clients), "many", clients), <-ended)
	})
}

// An lmstfyClient has a connection to a server. It does as little as it can.
type lmstfyClient struct {
	conn net.Conn
	in   *bufio.Reader
}

// send sends a request about ns. A PUT has a body of 100 bytes.
func (c *lmstfyClient) send(method, path string) error {
	body := ""
	if method == "PUT" {
		body = strings.Repeat("0123456789", 10)
	}
	if err := c.conn.SetDeadline(time.Now().Add(slowest)); err != nil {
		return err
	}
	_, err := io.WriteString(c.conn, method+" /api/ns/"+path+" HTTP/1.1\r\nHost: bench\r\nX-Token: "+
		lmstfyToken+"\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
	return err
}

// expect reads an answer of a status, and returns its body.
func (c *lmstfyClient) expect(status int) ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	answered := strings.Fields(string(line))
	var length int
	for {
		if line, err = c.in.ReadSlice('\n'); err != nil {
			return nil, err
		}
		if len(line) == 2 {
			break
		}
		if value, is := bytes.CutPrefix(line, []byte("Content-Length: ")); is {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return nil, err
			}
		}
	}
	body := make([]byte, length)
	_, err = io.ReadFull(c.in, body)
	if err == nil && !slices.Contains(answered, strconv.Itoa(status)) {
		err = fmt.Errorf("%v %s, and not %d", answered, body, status)
	}
	return body, err
}

func (c *lmstfyClient) ask(method, path string, status int) ([]byte, error) {
	if err := c.send(method, path); err != nil {
		return nil, err
	}
	return c.expect(status)
}

// take consumes a job of a queue, deletes it, and returns its id.
func (c *lmstfyClient) take(queue string) (string, error) {
	answer, err := c.ask("GET", queue+"?timeout=5", 200)
	if err != nil {
		return "", err
	}
	_, rest, _ := bytes.Cut(answer, []byte(`"job_id":"`))
	id, _, _ := bytes.Cut(rest, []byte(`"`))
	_, err = c.ask("DELETE", queue+"/job/"+string(id), 204)
	return string(id), err
}
