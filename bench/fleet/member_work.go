package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/qless/qless-go"
)

// work runs the jobs of the mix, and puts those of schedules.
func (m *member) work() error {
	w, err := qless.NewWorker(m.client, qless.WorkerConfig{
		Queues: []string{"soak-*", "!" + queueReceived}, Order: qless.OrderRoundRobin,
		PollInterval: 2 * time.Second,
		Backoff:      qless.ExponentialBackoff(100*time.Millisecond, 100*time.Millisecond),
		Schedules: []qless.Schedule{
			{ID: "soak-cron", Spec: "* * * * *", Queue: mixQueues[0], Klass: klassRecurs},
			{ID: "soak-every", Spec: "@every 2s", Queue: mixQueues[1], Klass: klassRecurs,
				Options: []qless.PutOption{qless.Unique("schedule").Replace()}},
		},
	})
	if err != nil {
		return err
	}
	w.Handle("*", m.handle)
	if err := w.Start(m.ctx); err != nil {
		return err
	}
	<-w.Closed()
	return nil
}

// handle is the handler of all jobs. What a job does follows from the job alone, because another
// process may have run it before.
func (m *member) handle(ctx context.Context, job *qless.Job) error {
	m.count()
	again := job.Remaining < job.Retries
	switch job.Klass {
	case klassAgain:
		if !again {
			return errors.New("another time")
		}
	case klassNext:
		if job.Queue != mixQueues[2] {
			return qless.Next(mixQueues[2])
		}
	case klassFails:
		return qless.FailWith(group, errors.New("it failed"))
	case klassPanics:
		panic("it failed")
	case klassResult:
		return job.SetResult(job.JID)
	case klassSlow:
		for done := range 10 {
			if err := pause(ctx, 100*time.Millisecond); err != nil {
				return err
			}
			if err := job.SetProgress(ctx, done+1, 10, "slow"); err != nil {
				return err
			}
		}
	}
	return nil
}

// receive runs jobs without a worker.
func (m *member) receive() {
	for m.ctx.Err() == nil {
		jobs, err := m.client.Receive(m.ctx, qless.ReceiveConfig{
			Queues: []string{queueReceived}, Count: 10, PollInterval: 2 * time.Second,
		})
		if m.ctx.Err() != nil {
			return
		}
		m.note(err)
		var jids []string
		for job := range slices.Values(jobs) {
			m.count()
			jids = append(jids, job.JID)
		}
		if len(jids) == 0 {
			continue
		}
		for _, err := range m.client.Queue(queueReceived).CompleteMany(m.ctx, jids...) {
			if !errors.Is(err, qless.ErrLockLost) {
				m.note(err)
			}
		}
	}
}
