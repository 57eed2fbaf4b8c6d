package mixed

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/qless/qless-go/gateway/workq"
)

// serveWorkq runs a gateway for Workq.
func (p *program) serveWorkq() error {
	server, err := workq.New(workq.Config{Client: p.client})
	if err != nil {
		return err
	}
	return p.serve(server.Serve, server.Shutdown)
}

// A line is a connection to a random gateway for Workq.
type line struct {
	list []string
	net  net.Conn
	in   *bufio.Reader
}

// ask sends a command, and returns the first line of the reply. If that fails, the next command
// uses a new connection.
func (l *line) ask(command string) (string, error) {
	reply, err := l.try(command)
	if err != nil {
		l.close()
		time.Sleep(20 * time.Millisecond) // the gateway may have been killed
	}
	return reply, err
}

func (l *line) try(command string) (string, error) {
	if l.net == nil {
		connection, err := net.Dial("tcp", addr(l.list))
		if err != nil {
			return "", err
		}
		l.net, l.in = connection, bufio.NewReader(connection)
	}
	if err := l.net.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(l.net, command); err != nil {
		return "", err
	}
	return l.read()
}

func (l *line) read() (string, error) {
	text, err := l.in.ReadString('\n')
	return strings.TrimSuffix(text, "\r\n"), err
}

// job reads the rest of a reply with a job, and returns the job's id.
func (l *line) job() (string, error) {
	text, err := l.read()
	if err != nil {
		return "", err
	}
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return "", errors.New("the line is empty")
	}
	size, err := strconv.Atoi(fields[len(fields)-1])
	if err != nil {
		return "", err
	}
	_, err = l.in.Discard(size + 2)
	return fields[0], err
}

func (l *line) close() {
	if l.net != nil {
		_ = l.net.Close()
	}
	l.net = nil
}

// putWorkq adds and schedules jobs. A command without an answer is sent again, and may then find
// that the job exists.
func (p *program) putWorkq() {
	l := &line{list: p.Workq}
	defer l.close()
	for p.pause() {
		id := uuid.NewString()
		command := fmt.Sprintf("add %s jobs %d 3600000 4\r\nwork\r\n", id, lockSeconds*1000)
		switch {
		case sometimes():
			command = fmt.Sprintf("add %s jobs %d 3600000 4 -priority=5\r\nwork\r\n",
				id, lockSeconds*1000)
		case sometimes():
			at := time.Now().Add(time.Second).UTC().Format("2006-01-02T15:04:05Z")
			command = fmt.Sprintf("schedule %s jobs %d 3600000 %s 4\r\nwork\r\n",
				id, lockSeconds*1000, at)
		}
		for p.ctx.Err() == nil {
			reply, err := l.ask(command)
			if err != nil {
				continue
			}
			if reply == "+OK" || reply == "-CLIENT-ERROR Duplicate job" {
				p.print(record{Put: id})
			} else {
				p.odd("%q to an add", reply)
			}
			break
		}
	}
}

func (p *program) lease() {
	l := &line{list: p.Workq}
	defer l.close()
	for p.ctx.Err() == nil {
		reply, err := l.ask("lease jobs 1000\r\n")
		switch {
		case err != nil || reply == "-TIMEOUT":
			continue
		case reply != "+OK 1":
			p.odd("%q to a lease", reply)
			continue
		}
		id, err := l.job()
		if err != nil {
			l.close()
			continue
		}
		p.toil()
		p.print(record{Ran: id})
		p.complete(l, id)
	}
}

// complete completes a job through any gateway. The job may have ended before.
func (p *program) complete(l *line, id string) {
	for p.ctx.Err() == nil {
		reply, err := l.ask("complete " + id + " 4\r\ndone\r\n")
		switch {
		case err != nil:
			continue
		case reply == "+OK", reply == "-NOT-FOUND", reply == "-CLIENT-ERROR Duplicate result":
		default:
			p.odd("%q to a complete", reply)
		}
		return
	}
}
