package qlessprom_test

import (
	"context"
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlessprom"
)

// This worker exports its own metrics and the server's.
func Example() {
	calls := qlessprom.NewClientMetrics(qlessprom.ProcessOptions{})
	jobs := qlessprom.NewWorkerMetrics(qlessprom.ProcessOptions{})

	client, err := qless.Dial(context.Background(), "redis://localhost", &qless.ClientConfig{Observer: calls.Observe})
	if err != nil {
		log.Fatal(err)
	}
	worker, err := jobs.NewWorker(client, qless.WorkerConfig{Queues: []string{"mail"}})
	if err != nil {
		log.Fatal(err)
	}

	registry := prometheus.NewRegistry()
	registry.MustRegister(calls, jobs, collectors.NewGoCollector())
	// One collector per namespace is enough, for instance in a program that does nothing else.
	registry.MustRegister(qlessprom.NewCollector(client, qlessprom.Options{}))

	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	go func() { log.Fatal(http.ListenAndServe("localhost:9464", nil)) }()
	_ = worker // add handlers, and run it
}
