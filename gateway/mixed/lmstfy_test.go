package mixed

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/gateway/lmstfy"
)

// serveLmstfy runs a gateway for lmstfy.
func (p *program) serveLmstfy() error {
	options, err := redis.ParseURL(p.URL)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(options)
	defer func() { _ = rdb.Close() }()
	server, err := lmstfy.New(lmstfy.Config{
		Pools: map[string]lmstfy.Pool{lmstfy.DefaultPool: {Client: p.client, Redis: rdb}},
		Admin: rdb, SkipTokens: true,
	})
	if err != nil {
		return err
	}
	return p.serve(server.Serve, server.Shutdown)
}

// serve runs a gateway until the process is asked to end.
func (p *program) serve(
	serve func(net.Listener) error, shutdown func(context.Context) error,
) error {
	listener, err := p.listen()
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- serve(listener) }()
	p.print(record{Ready: true})
	select {
	case err := <-ended:
		return err
	case <-p.ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), patience)
	defer cancel()
	return shutdown(ctx)
}

// listen listens on the address of a killed gateway. For a while, another connection may occupy its
// port.
func (p *program) listen() (net.Listener, error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		listener, err := net.Listen("tcp", p.Addr)
		if err == nil || p.ctx.Err() != nil || time.Now().After(deadline) {
			return listener, err
		}
	}
}

const jobsPath = "/api/mixed/jobs"

// ask sends a request to a gateway for lmstfy. The status is 0 if there is no answer.
func (p *program) ask(method, path, body string) (status int, answer string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+addr(p.Lmstfy)+path,
		strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		time.Sleep(20 * time.Millisecond) // the gateway may have been killed
		return 0, err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

func (p *program) putLmstfy() {
	for i := 0; p.pause(); i++ {
		path := fmt.Sprintf("%s?tries=%d&ttl=3600", jobsPath, manyTries)
		if sometimes() {
			path += "&delay=1"
		}
		status, text := p.ask(http.MethodPut, path, fmt.Sprint(i))
		var answer struct {
			ID string `json:"job_id"`
		}
		switch {
		case status == 0: // it may have been published
		case status == http.StatusCreated && json.Unmarshal([]byte(text), &answer) == nil:
			p.print(record{Put: answer.ID})
		default:
			p.odd("%d to a publish: %s", status, text)
		}
	}
}

func (p *program) consume() {
	for p.ctx.Err() == nil {
		status, text := p.ask(http.MethodGet,
			fmt.Sprintf("%s?ttr=%d&timeout=1", jobsPath, lockSeconds), "")
		var answer struct {
			ID string `json:"job_id"`
		}
		switch {
		case status == 0 || status == http.StatusNotFound:
			continue
		case status != http.StatusOK || json.Unmarshal([]byte(text), &answer) != nil:
			p.odd("%d to a consume: %s", status, text)
			continue
		}
		p.toil()
		p.print(record{Ran: answer.ID})
		for {
			status, text = p.ask(http.MethodDelete, jobsPath+"/job/"+answer.ID, "")
			if status != 0 || p.ctx.Err() != nil {
				break
			}
		}
		if status != 0 && status != http.StatusNoContent {
			p.odd("%d to a delete: %s", status, text)
		}
	}
}
