package main

import (
	"context"
	"errors"
	"fmt"
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
		return []qless.PutOption{qless.Fair(tenant(i), qless.Weight(float64(1+i%3))), qless.Limits{"soak"}}
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
	last, err := m.client.Queue(mixQueues[0]).Put(m.ctx, klass, data)
	m.note(err)
	m.every(float64(m.Rate)/2, func(ctx context.Context, i int) error {
		kind := optionsOf[i%len(optionsOf)]
		var options []qless.PutOption
		if kind.options != nil {
			options = kind.options(i, last)
		}
		jid, err := m.client.Queue(mixQueues[i%2]).Put(ctx, kind.klass, data, options...)
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
	batch, err := m.client.NewBatch(ctx, mixQueues[1], klass, data)
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
	_, err = batch.Add(ctx, mixQueues[0], members)
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
	_, err := m.client.Queue(mixQueues[0]).PutMany(ctx, jobs)
	m.count()
	return err
}

// putCanceled puts a job that is canceled before it is due.
func (m *member) putCanceled(ctx context.Context, i int) error {
	jid, err := m.client.Queue(mixQueues[1]).Put(ctx, klass, data,
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
	result, err := m.client.Queue(mixQueues[0]).Call(ctx, klassResult, data,
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
	_, err := m.client.Queue(mixQueues[i%2]).Put(ctx, klass, data,
		qless.StartBy(m.Life), qless.TTL(m.Life))
	return err
}
