// Cleaner cleans queues of the redis-work-queue protocol, whatever language their workers
// are written in.
//
//	go run ./examples/workqueue/cleaner [-light 1m] [-deep 6h] prefix...
//	go run ./examples/workqueue/cleaner -stdin
//
// It uses the Redis server at REDIS_URL, redis://localhost:6379 by default. With -stdin it cleans
// on request, by lines "light:PREFIX" and "deep:PREFIX", as the protocol's test suite sends them.
package main

import (
	"cmp"
	"context"
	"flag"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/compat/workqueue"
)

func main() {
	var config workqueue.CleanerConfig
	flag.DurationVar(&config.LightInterval, "light", time.Minute,
		"time between light cleanings: about the shortest lease")
	flag.DurationVar(&config.DeepInterval, "deep", 6*time.Hour, "time between deep cleanings")
	stdin := flag.Bool("stdin", false, "clean on request from standard input")
	flag.Parse()
	if *stdin == (flag.NArg() > 0) {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	url := cmp.Or(os.Getenv("REDIS_URL"), "redis://localhost:6379")
	if err := run(ctx, url, config, flag.Args(), os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run cleans the queues with the prefixes or, without any, those named in the input.
func run(
	ctx context.Context, url string, config workqueue.CleanerConfig,
	prefixes []string, in io.Reader, out io.Writer,
) error {
	options, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	rdb := redis.NewClient(options)
	defer rdb.Close()
	if len(prefixes) == 0 {
		return workqueue.ServeCleaner(ctx, rdb, in, out)
	}
	var queues []*workqueue.Queue
	for _, prefix := range prefixes {
		queues = append(queues, workqueue.New(prefix))
	}
	return workqueue.NewCleaner(rdb, config, queues...).Run(ctx)
}
