// Cleaner cleans queues of the redis-work-queue protocol, for workers in any language.
//
//	go run ./examples/workqueue/cleaner [-light 1m] [-deep 6h] prefix...
//	go run ./examples/workqueue/cleaner -stdin [host]
//
// It uses the Redis server at REDIS_URL, redis://localhost:6379 by default. With -stdin, it cleans
// on request: it reads lines "light:PREFIX" and "deep:PREFIX", as sent by the protocol's test
// suite. The server may then be an argument: a host, with or without a port, as passed by the
// suite, or a URL. The suite starts a program with only the host as an argument, so use a script:
//
//	#!/bin/sh
//	exec cleaner -stdin "$@"
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/compat/workqueue"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout)
	switch {
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		log.Fatal(err)
	}
}

// errUsage is returned for invalid arguments, after the usage has been written.
var errUsage = errors.New("wrong arguments")

// run runs the command line.
func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	var config workqueue.CleanerConfig
	flags := flag.NewFlagSet("cleaner", flag.ContinueOnError)
	flags.DurationVar(&config.LightInterval, "light", time.Minute,
		"time between light cleanings: about the shortest lease")
	flags.DurationVar(&config.DeepInterval, "deep", 6*time.Hour, "time between deep cleanings")
	stdin := flags.Bool("stdin", false, "clean on request from standard input")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return errUsage
	}
	if *stdin && flags.NArg() > 1 || !*stdin && flags.NArg() == 0 {
		flags.Usage()
		return errUsage
	}
	if *stdin {
		return serve(ctx, flags.Arg(0), in, out)
	}
	return clean(ctx, config, flags.Args())
}

// serve cleans the queues named in the input.
func serve(ctx context.Context, host string, in io.Reader, out io.Writer) error {
	rdb, err := connect(host)
	if err != nil {
		return err
	}
	defer rdb.Close()
	return workqueue.ServeCleaner(ctx, rdb, in, out)
}

// clean cleans the queues with the prefixes at intervals.
func clean(ctx context.Context, config workqueue.CleanerConfig, prefixes []string) error {
	rdb, err := connect("")
	if err != nil {
		return err
	}
	defer rdb.Close()
	var queues []*workqueue.Queue
	for _, prefix := range prefixes {
		queues = append(queues, workqueue.New(prefix))
	}
	return workqueue.NewCleaner(rdb, config, queues...).Run(ctx)
}

// connect returns a client for the server at a host or URL, or at REDIS_URL if host is empty.
func connect(host string) (*redis.Client, error) {
	url := cmp.Or(host, os.Getenv("REDIS_URL"), "localhost")
	if !strings.Contains(url, "://") {
		url = "redis://" + url
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(options), nil
}
