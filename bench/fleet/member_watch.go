package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

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
