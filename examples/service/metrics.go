package main

import (
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/qless/qless-go"
)

// metrics counts how jobs end, by klass and outcome, in the text format of Prometheus.
type metrics struct {
	mu    sync.Mutex
	ended map[string]int
}

func newMetrics() *metrics { return &metrics{ended: map[string]int{}} }

// observe is the worker's observer.
func (m *metrics) observe(event qless.JobEvent) {
	if event.Kind != qless.JobEventEnded {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended[fmt.Sprintf("jobs_ended_total{klass=%q,outcome=%q}", event.Klass, event.Outcome.Action)]++
}

func (m *metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var lines []string
	for name, count := range m.ended {
		lines = append(lines, fmt.Sprintln(name, count))
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Fprint(w, line)
	}
}
