// Service is a web service with background jobs, as a starting point for other services: people
// sign up over HTTP, and a worker in the same process sends mails and, a day later, reminders, and
// counts the mails each night.
//
//	cd examples/service && go run .
//
//	curl -d '{"email":"ann@example.com"}' localhost:8080/signups
//	curl localhost:8080/jobs/JID          # its result; waits up to 10 s
//	curl localhost:8080/readyz
//	curl localhost:8080/metrics
//
// The service uses the Redis server at REDIS_URL, in the namespace service:ql:, and the SQLite file
// DATABASE; if unset, both are in memory. It listens on ADDR, localhost:8080 by default. If
// ADMIN_PASSWORD contains a password, a dashboard is at /admin/, for the user admin. Ctrl-C or
// SIGTERM stops the service: long jobs go back to their queue. The service's data can be removed
// from the server:
//
//	redis-cli --scan --pattern 'service:ql:*' | xargs redis-cli unlink
package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	_ "modernc.org/sqlite"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("ADDR"), "localhost:8080"))
	if err == nil {
		slog.Info("listening", "addr", listener.Addr().String())
		err = run(ctx, config{
			redis:    os.Getenv("REDIS_URL"),
			database: cmp.Or(os.Getenv("DATABASE"), ":memory:"),
			listener: listener,
			admin:    os.Getenv("ADMIN_PASSWORD"),
			mail:     logMail,
		})
	}
	if err != nil {
		slog.Error("service", "error", err)
		os.Exit(1)
	}
}

type config struct {
	redis    string       // the URL of the Redis server, or empty for an in-memory server
	database string       // the file of the database, or :memory:
	listener net.Listener // for the API
	admin    string       // the password of the dashboard, or empty for none
	mail     sendFunc
}

// run runs the service until ctx ends.
func run(ctx context.Context, cfg config) error {
	if cfg.redis == "" {
		server, err := qlesstest.Start()
		if err != nil {
			return err
		}
		defer server.Close()
		cfg.redis = "redis://" + server.Addr()
		slog.Info("Redis is in memory: set REDIS_URL to use a server")
	}
	db, err := sql.Open("sqlite", cfg.database)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)            // SQLite has one writer at a time
	telemetry, err := newTelemetry() // to export traces, pass sdktrace.WithBatcher(exporter)
	if err != nil {
		return err
	}
	defer func() { _ = telemetry.provider.Shutdown(context.WithoutCancel(ctx)) }()
	client, err := qless.Dial(ctx, cfg.redis, telemetry.clientConfig())
	if err != nil {
		return err
	}
	defer client.Close()
	s, err := newService(ctx, cfg, client, db, telemetry)
	if err != nil {
		return err
	}
	return s.run(ctx)
}

// run runs the parts of the service. The API answers, as not ready, until the worker has stopped.
func (s *service) run(ctx context.Context) error {
	server := &http.Server{Handler: s.api(), ReadHeaderTimeout: 5 * time.Second}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var parts sync.WaitGroup
	parts.Go(func() { s.relay.Run(ctx) })
	served := make(chan error, 1)
	parts.Go(func() {
		served <- server.Serve(s.config.listener)
		stop() // the service can't run without the API
	})
	err := s.worker.Run(ctx) // returns when ctx and the running jobs have ended

	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(shutdown))
	stop()
	parts.Wait()
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}
