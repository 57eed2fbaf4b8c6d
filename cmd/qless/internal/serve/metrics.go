package serve

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/qlessprom"
)

// metricsHandler serves the metrics, and reports whether the process is alive and ready.
func (s *servers) metricsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.scrapes())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if problem := s.problem(r.Context()); problem != "" {
			http.Error(w, problem, http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	return mux
}

// scrapes serves the metrics of the queues, of this process, and of its calls.
func (s *servers) scrapes() http.Handler {
	const most = 5 // at once
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		s.queueMetrics(),
		s.calls,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: most, Registry: registry,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	})
}

// queueMetrics returns the collector of the namespace, or of all namespaces matching a pattern.
func (s *servers) queueMetrics() prometheus.Collector {
	options := qlessprom.Options{OnError: func(err error) {
		s.log.Warn("a part of the metrics can't be read", "err", err)
	}}
	if s.ManySpaces() {
		return qlessprom.NewGroup(s.redis, s.NamespaceName(), options)
	}
	return qlessprom.NewCollector(s.qless, options)
}

// problem returns why requests should go elsewhere, or "". Only gateways need a server that accepts
// writes.
func (s *servers) problem(ctx context.Context) string {
	if !s.ready.Load() {
		return "starting or stopping"
	}
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ask := redisx.AskReads
	if s.options.hasGateway() {
		ask = redisx.AskWrites
	}
	err := ask(ctx, s.redis, s.qless.Namespace())
	switch hint := redisx.Hint(err); {
	case hint != "":
		return "Redis refuses: " + hint
	case err != nil:
		return "no answer from Redis"
	}
	return ""
}
