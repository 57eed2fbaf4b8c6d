// Moving moves the jobs of a running asynq or Sidekiq into qless, each exactly once: waiting,
// scheduled and retried jobs. It may be run again at any time, even after it was killed.
//
//	cd examples/moving
//	go run . -from asynq -redis redis://localhost:6379 -to redis://localhost:6379
//
// The queues keep their names. Those of asynq are paused. See docs/moving.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
)

func main() {
	from := flag.String("from", "", "asynq or sidekiq")
	old := flag.String("redis", "redis://localhost:6379", "the URL of its Redis")
	to := flag.String("to", "redis://localhost:6379", "the URL of the Redis of qless")
	namespace := flag.String("namespace", "", "the namespace there (default ql:)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	moved, err := run(ctx, *from, *old, *to, *namespace)
	fmt.Println("moved", moved, "jobs")
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, from, old, to, namespace string) (moved int, err error) {
	options, err := redis.ParseURL(old)
	if err != nil {
		return 0, errors.New("-redis is not the URL of a Redis") // err may contain the password
	}
	rdb := redis.NewClient(options)
	defer func() { _ = rdb.Close() }()
	client, err := qless.Dial(ctx, to, &qless.ClientConfig{Namespace: namespace})
	if err != nil {
		return 0, err
	}
	defer client.Close()
	m := &mover{rdb: rdb, client: client}
	switch from {
	case "asynq":
		err = m.moveAsynq(ctx)
	case "sidekiq":
		err = m.moveSidekiq(ctx)
	default:
		err = errors.New("-from is neither asynq nor sidekiq")
	}
	return m.moved, err
}

// A mover moves jobs from an old Redis.
type mover struct {
	rdb    redis.UniversalClient
	client *qless.Client
	moved  int
	died   func() error // for tests: an error ends the program after a put
}

// put puts a job unless it was put before.
func (m *mover) put(
	ctx context.Context, queue, klass, jid string, data any, options ...qless.PutOption,
) error {
	options = append(options, qless.JID(jid), qless.IfAbsent)
	_, err := m.client.Queue(queue).Put(ctx, klass, data, options...)
	switch {
	case err == nil:
		m.moved++
	case !errors.Is(err, qless.ErrExists):
		return fmt.Errorf("job %s of %s in %s: %w", jid, klass, queue, err)
	}
	if m.died != nil {
		return m.died()
	}
	return nil
}
