package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// queueReceived has the jobs that a program receives that is its own worker.
const queueReceived = "soak-received"

// queueNobody has jobs that nobody takes, whose lives end.
const queueNobody = "nobody"

// klassSlow is that of jobs that run for longer than their lock lasts.
const klassSlow = "slow"

// soakLimits are the limits of jobs.
var soakLimits = map[string]qless.LimitConfig{
	"soak":      {Concurrency: 3},
	"soak-rate": {Concurrency: 5, Rate: 20, Per: time.Second},
}

// tenant returns whose job the i-th one is.
func tenant(i int) string { return string(rune('a' + i%10)) }

// optionsOf are the options of jobs that are put one at a time, by kind.
var optionsOf = []struct {
	klass   string
	options func(i int, last string) []qless.PutOption
}{
	{klass, nil},
	{klassAgain, nil},
	{klassNext, nil},
	{klassResult, nil},
	{klassSnooze, nil},
	{klassSlow, func(int, string) []qless.PutOption {
		return []qless.PutOption{qless.LockTime(500 * time.Millisecond), qless.Retries(200)}
	}},
	{klassFails, func(int, string) []qless.PutOption {
		return []qless.PutOption{qless.KeepFailedFor(5 * time.Second)}
	}},
	{klassPanics, func(int, string) []qless.PutOption {
		return []qless.PutOption{qless.KeepFailedFor(0)}
	}},
	{klass, func(i int, _ string) []qless.PutOption {
		return []qless.PutOption{
			qless.Delay(200 * time.Millisecond), qless.Tags{"tag", tenant(i)}, qless.Priority(i % 5),
		}
	}},
	{klass, func(_ int, last string) []qless.PutOption {
		return []qless.PutOption{qless.DependsOn{last}, qless.OnFailureRun}
	}},
	{klass, func(_ int, last string) []qless.PutOption {
		return []qless.PutOption{
			qless.DependsOn{last}, qless.OnFailureFail, qless.KeepFailedFor(time.Second),
		}
	}},
	{klass, func(i int, _ string) []qless.PutOption {
		return []qless.PutOption{
			qless.Unique("replace", i%20).Replace(), qless.Delay(time.Second),
		}
	}},
	{klass, func(i int, _ string) []qless.PutOption {
		return []qless.PutOption{qless.Unique("for", i%50).For(5 * time.Second)}
	}},
	{klass, func(i int, _ string) []qless.PutOption {
		return []qless.PutOption{qless.Unique("new", i), qless.KeepFor(100 * time.Millisecond)}
	}},
	{klass, func(i int, _ string) []qless.PutOption {
		return []qless.PutOption{qless.Limits{"soak"}, qless.Headers{"number": tenant(i)}}
	}},
	{klass, func(int, string) []qless.PutOption {
		return []qless.PutOption{qless.Limits{"soak-rate"}, qless.MaxRunTime(time.Minute)}
	}},
	{klass, func(i int, _ string) []qless.PutOption {
		return []qless.PutOption{qless.Fair(tenant(i))}
	}},
	{klass, func(i int, _ string) []qless.PutOption {
		weight := qless.Weight(float64(1 + i%3))
		return []qless.PutOption{qless.Fair(tenant(i), weight), qless.Limits{"soak"}}
	}},
}

// put puts jobs of all kinds.
func (m *member) put() error {
	together(
		m.putSingly,
		func() { m.every(float64(m.Rate)/50, m.putBatch) },
		func() { m.every(float64(m.Rate)/50, m.putMany) },
		func() { m.every(float64(m.Rate)/20, m.putCanceled) },
		func() { m.every(float64(m.Rate)/20, m.call) },
		func() { m.every(float64(m.Rate)/20, m.putReceived) },
		func() { m.every(float64(m.Rate)/50, m.putForNobody) },
		func() { m.every(float64(m.Rate)/50, m.putMortal) },
	)
	<-m.ctx.Done()
	return nil
}

// putSingly has a part of the rate. Each job may depend on the one before.
func (m *member) putSingly() {
	last, err := m.client.Queue(soakQueues[0]).Put(m.ctx, klass, data)
	m.note(err)
	m.every(float64(m.Rate)/2, func(ctx context.Context, i int) error {
		kind := optionsOf[i%len(optionsOf)]
		var options []qless.PutOption
		if kind.options != nil {
			options = kind.options(i, last)
		}
		jid, err := m.client.Queue(soakQueues[i%2]).Put(ctx, kind.klass, data, options...)
		if errors.Is(err, qless.ErrExists) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("put of %s: %w", kind.klass, err)
		}
		m.count()
		last = jid
		if i%7 == 0 {
			_, err = inspect.New(m.client).JIDs(jid).Track(ctx)
		}
		return err
	})
}

// putBatch puts a batch of two jobs that wait for their time, and two that do not.
func (m *member) putBatch(ctx context.Context, i int) error {
	batch, err := m.client.NewBatch(ctx, soakQueues[1], klass, data)
	if err != nil {
		return err
	}
	members := make([]qless.JobSpec, 4)
	for j := range members {
		members[j] = qless.JobSpec{Klass: klass, Data: data}
		if j%2 == 0 {
			members[j].Options = []qless.PutOption{qless.Delay(time.Second), qless.Unique("member", i, j)}
		}
	}
	_, err = batch.Add(ctx, soakQueues[0], members)
	m.count()
	if i%5 == 4 {
		return errors.Join(err, batch.Cancel(ctx))
	}
	return errors.Join(err, batch.Commit(ctx))
}

// putMany puts some jobs, of which two have the same key.
func (m *member) putMany(ctx context.Context, i int) error {
	jobs := make([]qless.JobSpec, 5)
	for j := range jobs {
		jobs[j] = qless.JobSpec{Klass: klass, Data: data}
		if j < 2 {
			jobs[j].Options = []qless.PutOption{
				qless.Unique("many", i%10).Replace().Within(2 * time.Second), qless.Delay(time.Second),
			}
		}
	}
	_, err := m.client.Queue(soakQueues[0]).PutMany(ctx, jobs)
	m.count()
	return err
}

// putCanceled puts a job that is canceled before it is due.
func (m *member) putCanceled(ctx context.Context, i int) error {
	jid, err := m.client.Queue(soakQueues[1]).Put(ctx, klass, data,
		qless.Delay(time.Hour), qless.Unique("canceled", i), qless.Fair(tenant(i)))
	if err != nil {
		return err
	}
	m.count()
	return m.client.Cancel(ctx, jid)
}

// call waits for the result of a job, unless nobody works.
func (m *member) call(ctx context.Context, _ int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	m.count()
	result, err := m.client.Queue(soakQueues[0]).Call(ctx, klassResult, data,
		qless.KeepFor(time.Second))
	if err == nil && len(result.Data) == 0 {
		err = errors.New("a call has no result")
	}
	return err
}

func (m *member) putReceived(ctx context.Context, _ int) error {
	m.count()
	_, err := m.client.Queue(queueReceived).Put(ctx, klass, data, qless.LockTime(2*time.Second))
	return err
}

func (m *member) putForNobody(ctx context.Context, i int) error {
	m.count()
	_, err := m.client.Queue(queueNobody).Put(ctx, klass, data,
		qless.TTL(2*time.Second), qless.Unique("nobody", i), qless.Fair(tenant(i)))
	return err
}

// putMortal puts a job that is most likely run before its life ends.
func (m *member) putMortal(ctx context.Context, i int) error {
	m.count()
	_, err := m.client.Queue(soakQueues[i%2]).Put(ctx, klass, data,
		qless.StartBy(m.Life), qless.TTL(m.Life))
	return err
}

// work runs the jobs of the mix, and puts those of schedules.
func (m *member) work() error {
	w, err := qless.NewWorker(m.client, qless.WorkerConfig{
		Queues: []string{"soak-*", "!" + queueReceived}, Order: qless.OrderRoundRobin,
		PollInterval: 2 * time.Second,
		Backoff:      qless.ExponentialBackoff(100*time.Millisecond, 100*time.Millisecond),
		Schedules: []qless.Schedule{
			{ID: "soak-cron", Spec: "* * * * *", Queue: soakQueues[0], Klass: klassRecurs},
			{ID: "soak-every", Spec: "@every 2s", Queue: soakQueues[1], Klass: klassRecurs,
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

// handle is the handler of all jobs. It depends on the job alone, because another process may have
// run the job before.
func (m *member) handle(ctx context.Context, job *qless.Job) error {
	m.count()
	again := job.Remaining < job.Retries
	switch job.Klass {
	case klassAgain:
		if !again {
			return errors.New("another time")
		}
	case klassSnooze:
		if rand.IntN(2) == 0 {
			return qless.Snooze(100 * time.Millisecond)
		}
	case klassNext:
		if job.Queue != soakQueues[2] {
			return qless.Next(soakQueues[2])
		}
	case klassFails:
		return qless.FailWith(failedGroup, errors.New("it failed"))
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

// klasses of jobs that are more than complete.
const (
	klassAgain  = "again"
	klassFails  = "fails"
	klassNext   = "next"
	klassPanics = "panics"
	klassRecurs = "recurs"
	klassResult = "result"
	klassSnooze = "snooze"
)

// soakQueues are where the jobs are. The last one is for jobs that come from the first.
var soakQueues = []string{"soak-a", "soak-b", "soak-next"}
