package chaos

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/lease"
)

// receive receives and runs jobs in several goroutines, until the context ends.
func (s settings) receive(ctx context.Context, client *qless.Client, server *redis.Client) error {
	p := &workerProcess{name: client.WorkerName(), server: server, out: json.NewEncoder(os.Stdout)}
	var receivers sync.WaitGroup
	for range s.Concurrency {
		receivers.Go(func() {
			for ctx.Err() == nil {
				jobs, err := lease.New(client).Take(ctx, lease.Request{
					Queues: []string{s.Queue}, PollInterval: s.PollInterval,
				})
				if err != nil {
					continue
				}
				p.serve(ctx, jobs[0])
			}
		})
	}
	p.print(record{Kind: ready})
	receivers.Wait()
	return client.Close()
}

// serve runs a job, renews its lock, and completes it or, if the context ends, releases it.
func (p *workerProcess) serve(ctx context.Context, job *qless.Job) {
	var task work
	_ = job.Unmarshal(&task)
	working, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for {
			select {
			case <-time.After(lockTime / 3):
			case <-working.Done():
				return
			}
			if _, err := job.Heartbeat(working); err != nil {
				stop()
			}
		}
	}()
	end := job.Complete
	if p.work(working, job, task) != nil {
		end = func(ctx context.Context) error { return job.Release(ctx, 0) }
	}
	if err := end(context.WithoutCancel(ctx)); err != nil {
		slog.Info("a job was not ended", "jid", job.JID, "error", err)
	}
}
