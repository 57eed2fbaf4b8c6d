// Service is a small web service with jobs behind it: people sign up over HTTP, a worker in the
// same process mails them, reminds them a day later, and counts the signups each night.
//
//	go run ./examples/service
//
//	curl -d '{"email":"ann@example.com"}' localhost:8080/signups
//	curl localhost:8080/jobs/JID
//	curl -X DELETE localhost:8080/jobs/JID
//	curl localhost:8080/readyz
//	curl localhost:8080/metrics
//
// With a password in ADMIN_PASSWORD, it has a dashboard at localhost:8080/admin/, for the user
// admin.
//
// It uses the Redis server at REDIS_URL, redis://localhost:6379 by default, and listens at ADDR,
// localhost:8080 by default. Ctrl-C or SIGTERM stops it: it finishes what it is doing, and jobs
// that take longer go back to their queue.
package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/qless/qless-go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, config{
		redis: cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379"),
		addr:  cmp.Or(os.Getenv("ADDR"), "localhost:8080"),
		mail:  logMail,
		admin: os.Getenv("ADMIN_PASSWORD"),
	})
	if err != nil {
		slog.Error("service", "error", err)
		os.Exit(1)
	}
}

// A config configures the service.
type config struct {
	redis string // the URL of the Redis server
	addr  string // where the API listens
	mail  sendFunc
	admin string            // the password of the dashboard, or empty for none
	ready func(addr string) // called when the API listens; may be nil
}

// run runs the API and the worker until ctx ends.
func run(ctx context.Context, cfg config) error {
	client, err := qless.Dial(ctx, cfg.redis, nil)
	if err != nil {
		return err
	}
	defer client.Close()

	worker, metrics, err := newWorker(client, cfg.mail)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", newAPI(client, worker, metrics))
	if cfg.admin != "" {
		admin, err := newAdmin(client, cfg.admin)
		if err != nil {
			return err
		}
		mux.Handle(adminPath+"/", admin)
	}
	listener, err := net.Listen("tcp", cfg.addr)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
	}
	workerCtx, stopWorker := context.WithCancel(ctx)
	defer stopWorker()
	served := make(chan error, 1)
	go func() {
		served <- server.Serve(listener)
		stopWorker()
	}()
	slog.Info("listening", "addr", listener.Addr().String())
	if cfg.ready != nil {
		cfg.ready(listener.Addr().String())
	}

	err = worker.Run(workerCtx) // until ctx ends and the running jobs have

	// The API answers, as not ready, until the worker has stopped.
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(shutdown))
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}
