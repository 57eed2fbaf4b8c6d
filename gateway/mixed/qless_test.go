package mixed

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/gateway/workq"
)

// workQless puts and runs jobs with package qless.
func (p *program) workQless() error {
	worker, err := qless.NewWorker(p.client, qless.WorkerConfig{
		Queues: []string{lmstfyQueue, "workq/jobs/*"}, Concurrency: 4,
	})
	if err != nil {
		return err
	}
	worker.Handle("*", p.handle)
	if err := worker.Start(p.ctx); err != nil {
		return err
	}
	p.print(record{Ready: true})
	p.putQless()
	<-worker.Closed()
	return nil
}

// handle runs a job. Some jobs from Workq move on to a queue of lmstfy's clients.
func (p *program) handle(_ context.Context, job *qless.Job) error {
	p.toil()
	if job.Queue != lmstfyQueue && sometimes() {
		return qless.Next(lmstfyQueue)
	}
	p.print(record{Ran: job.JID})
	return nil
}

func (p *program) putQless() {
	queues := []string{lmstfyQueue, workqQueue, workqUrgent}
	for p.pause() {
		options := []qless.PutOption{
			qless.LockTime(lockSeconds * time.Second), qless.Retries(manyTries),
		}
		if sometimes() {
			options = append(options, qless.Delay(time.Second))
		}
		queue := p.client.Queue(queues[rand.N(len(queues))])
		jid, err := queue.Put(p.ctx, "jobs", workq.Body{Body: []byte("work")}, options...)
		if err == nil {
			p.print(record{Put: jid})
		}
	}
}
