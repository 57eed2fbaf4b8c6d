package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// foreign uses the gateways as the clients of lmstfy and Workq do, and receives jobs.
func (m *member) foreign() error {
	rate := float64(m.Rate) / 10
	tasks := []func(){
		m.receive, m.consume, m.consume, m.lease, m.lease,
		func() { m.every(rate, m.publish) },
	}
	for _, command := range []func() string{m.addCommand, m.scheduleCommand, m.runCommand} {
		tasks = append(tasks, func() { m.putWorkq(rate/3, command) })
	}
	together(tasks...)
	<-m.ctx.Done()
	return nil
}

const lmstfyJobs = "/api/soak/jobs"

// ask sends a request to the gateway for lmstfy.
func (m *member) ask(ctx context.Context, method, path, body string) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+m.Lmstfy+path,
		strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, text, err
}

// publish publishes jobs, of which some are delayed.
func (m *member) publish(ctx context.Context, i int) error {
	path := fmt.Sprintf("%s?tries=20&ttl=%.0f", lmstfyJobs, m.Life.Seconds())
	if i%10 == 0 {
		path += "&delay=1"
	}
	status, text, err := m.ask(ctx, http.MethodPut, path, strconv.Itoa(i))
	if err == nil && status != http.StatusCreated {
		err = fmt.Errorf("%d to a publish: %s", status, text)
	}
	m.count()
	return err
}

// consume takes jobs, and deletes them, except that it leaves some to be taken again.
func (m *member) consume() {
	for i := 0; m.ctx.Err() == nil; i++ {
		status, text, err := m.ask(m.ctx, http.MethodGet, lmstfyJobs+"?ttr=2&timeout=2", "")
		var job struct {
			ID string `json:"job_id"`
		}
		switch {
		case err != nil || status == http.StatusNotFound:
			m.note(err)
			_ = pause(m.ctx, 10*time.Millisecond)
			continue
		case status != http.StatusOK || json.Unmarshal(text, &job) != nil:
			m.note(fmt.Errorf("%d to a consume: %s", status, text))
			continue
		case i%20 == 19:
			continue
		}
		status, text, err = m.ask(m.ctx, http.MethodDelete, lmstfyJobs+"/job/"+job.ID, "")
		if err == nil && status != http.StatusNoContent {
			err = fmt.Errorf("%d to a delete: %s", status, text)
		}
		m.note(err)
	}
}

// A line is a connection to the gateway for Workq.
type line struct {
	net.Conn
	in *bufio.Reader
}

// dialWorkq returns a connection that is closed when the process ends, and what closes it before.
func (m *member) dialWorkq() (*line, func()) {
	connection, err := net.Dial("tcp", m.Workq)
	if err != nil {
		m.note(err)
		return nil, func() {}
	}
	stop := context.AfterFunc(m.ctx, func() { _ = connection.Close() })
	return &line{connection, bufio.NewReader(connection)}, func() {
		stop()
		_ = connection.Close()
	}
}

// ask sends a command, and returns the first line of the reply.
func (l *line) ask(command string) (string, error) {
	if _, err := io.WriteString(l, command); err != nil {
		return "", err
	}
	return l.read()
}

func (l *line) read() (string, error) {
	text, err := l.in.ReadString('\n')
	return strings.TrimSuffix(text, "\r\n"), err
}

// item reads the rest of a reply with a job or a result, and returns the job's id.
func (l *line) item() (string, error) {
	text, err := l.read()
	if err != nil {
		return "", err
	}
	fields := append(strings.Fields(text), "")
	size, err := strconv.Atoi(fields[len(fields)-2])
	if err != nil {
		return "", err
	}
	_, err = l.in.Discard(size + len("\r\n"))
	return fields[0], err
}

func (m *member) addCommand() string {
	return fmt.Sprintf("add %s soak 2000 %d 4\r\nwork\r\n", uuid.NewString(), m.Life.Milliseconds())
}

func (m *member) scheduleCommand() string {
	at := time.Now().Add(time.Second).UTC().Format("2006-01-02T15:04:05Z")
	return fmt.Sprintf("schedule %s soak 2000 %d %s 4\r\nwork\r\n",
		uuid.NewString(), m.Life.Milliseconds(), at)
}

func (m *member) runCommand() string {
	return fmt.Sprintf("run %s soak 2000 60000 4\r\nwork\r\n", uuid.NewString())
}

// putWorkq puts jobs by a command. If that is a run, it waits for the result.
func (m *member) putWorkq(rate float64, command func() string) {
	l, hangUp := m.dialWorkq()
	defer hangUp()
	if l == nil {
		return
	}
	m.every(rate, func(context.Context, int) error {
		reply, err := l.ask(command())
		m.count()
		switch {
		case err != nil || reply == "+OK":
			return err
		case reply == "+OK 1":
			_, err = l.item()
			return err
		}
		return fmt.Errorf("%q to a put", reply)
	})
}

// lease takes jobs, most of which it completes. It comes back by a new connection now and then.
func (m *member) lease() {
	for m.ctx.Err() == nil {
		l, hangUp := m.dialWorkq()
		for i := 0; l != nil && i < 100 && m.ctx.Err() == nil; i++ {
			m.note(m.leaseOne(l, i))
		}
		hangUp()
		_ = pause(m.ctx, 10*time.Millisecond)
	}
}

func (m *member) leaseOne(l *line, i int) error {
	reply, err := l.ask("lease soak 1000\r\n")
	if err != nil || reply == "-TIMEOUT" {
		return err
	}
	if reply != "+OK 1" {
		return fmt.Errorf("%q to a lease", reply)
	}
	id, err := l.item()
	if err != nil || i%20 == 19 { // some are left to be taken again
		return err
	}
	end := "complete"
	if i%20 == 7 {
		end = "fail"
	}
	reply, err = l.ask(end + " " + id + " 4\r\ndone\r\n")
	if err == nil && reply != "+OK" && reply != "-NOT-FOUND" { // its life may have ended
		err = fmt.Errorf("%q to a %s", reply, end)
	}
	return err
}

// watchedPages are the pages of the dashboard that the watcher reads.
var watchedPages = []string{
	"/", "/queues", "/queues/soak-a", "/failures", "/workers", "/completed", "/tags", "/limits",
	"/schedules", "/tracked", "/activity", "/klasses", "/recurring", "/settings", "/server",
}

// watch reads events, keeps pages of the dashboard open, and opens others.
func (m *member) watch() error {
	tasks := []func(){m.readEvents, m.turnPages}
	for _, page := range watchedPages[:4] {
		tasks = append(tasks, func() { m.follow(page) })
	}
	together(tasks...)
	return nil
}

// readEvents subscribes again and again.
func (m *member) readEvents() {
	for m.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(m.ctx, 5*time.Second)
		events, err := m.client.Events(ctx)
		if err != nil {
			cancel()
			m.note(err)
			return
		}
		for range events { // until the time is over
		}
		cancel()
	}
}

// get begins to read something of the dashboard.
func (m *member) get(ctx context.Context, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.Web+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("%s to %s", response.Status, path)
	}
	return response.Body, nil
}

// follow keeps a page open, for a time after which it is opened again.
func (m *member) follow(page string) {
	for m.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(m.ctx, 30*time.Second)
		body, err := m.get(ctx, "/live?page="+url.QueryEscape(page))
		m.note(err)
		if err == nil {
			_, _ = io.Copy(io.Discard, body)
			_ = body.Close()
		}
		cancel()
		_ = pause(m.ctx, 100*time.Millisecond)
	}
}

// turnPages opens one page a second.
func (m *member) turnPages() {
	for i := 0; pause(m.ctx, time.Second) == nil; i++ {
		body, err := m.get(m.ctx, watchedPages[i%len(watchedPages)])
		m.note(err)
		if err == nil {
			m.count()
			_, _ = io.Copy(io.Discard, body)
			_ = body.Close()
		}
	}
}
