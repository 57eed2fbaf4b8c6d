package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// longestStep is what the client's steps take at most, in milliseconds.
const longestStep = 10

// A bulkCall is a call about many jobs, or about many of something else.
type bulkCall struct {
	name    string
	prepare func(ctx context.Context, b *bulkLoad) error
	do      func(ctx context.Context, b *bulkLoad) error
	inSteps bool // each of its scripts is a step
}

// bulkLoad is what calls are about: so many jobs, queues and workers, on an empty server.
type bulkLoad struct {
	jobs, queues, workers int

	server *server
	client *qless.Client
	queue  *qless.Queue
	jids   []string
	first  *qless.Job // the one that others wait for
}

var bulkCalls = []bulkCall{
	{"Unfail of a group", failed, func(ctx context.Context, b *bulkLoad) error {
		result, err := inspect.New(b.client).Failed(failedGroup).AtMost(b.jobs).Unfail(ctx)
		return errors.Join(err, expect(result.Changed, b.jobs))
	}, true},
	{"Unfail of those jobs by jid", failed, func(ctx context.Context, b *bulkLoad) error {
		result, err := inspect.New(b.client).JIDs(b.jids...).Unfail(ctx)
		return errors.Join(err, expect(result.Changed, b.jobs))
	}, true},
	{"Cancel of a group", failed, func(ctx context.Context, b *bulkLoad) error {
		result, err := inspect.New(b.client).Failed(failedGroup).Cancel(ctx)
		return errors.Join(err, expect(result.Changed, b.jobs))
	}, true},
	{"Cancel of 100 jobs of that group", failed, func(ctx context.Context, b *bulkLoad) error {
		middle := max(0, len(b.jids)/2-50)
		return b.client.Cancel(ctx, b.jids[middle:min(middle+100, len(b.jids))]...)
	}, false},
	{"Cancel of waiting jobs", waiting, func(ctx context.Context, b *bulkLoad) error {
		result, err := inspect.New(b.client).JIDs(b.jids...).Cancel(ctx)
		return errors.Join(err, expect(result.Changed, b.jobs))
	}, true},
	{"Move of waiting jobs", waiting, func(ctx context.Context, b *bulkLoad) error {
		result, err := inspect.New(b.client).JIDs(b.jids...).Move(ctx, "elsewhere")
		return errors.Join(err, expect(result.Changed, b.jobs))
	}, true},
	{"Jobs by jid", waiting, func(ctx context.Context, b *bulkLoad) error {
		jobs, err := b.client.Jobs(ctx, b.jids...)
		return errors.Join(err, expect(len(jobs), b.jobs))
	}, true},
	{"Complete of a job that all wait for", dependent, func(ctx context.Context, b *bulkLoad) error {
		return b.first.Complete(ctx)
	}, true},
	{"Counts, when all are due", due, func(ctx context.Context, b *bulkLoad) error {
		_, err := b.queue.Counts(ctx)
		return err
	}, false},
	{"Pop of 500, when all are due", due, func(ctx context.Context, b *bulkLoad) error {
		_, err := b.queue.Pop(ctx, inBulk)
		return err
	}, false},
	{"Tracked", tracked, func(ctx context.Context, b *bulkLoad) error {
		page, err := inspect.New(b.client).Tracked().JIDs(ctx, inspect.Range{Limit: min(b.jobs, 100_000)})
		return errors.Join(err, expect(page.Total, b.jobs))
	}, true},
	{"Queues", queues, func(ctx context.Context, b *bulkLoad) error {
		all, err := b.client.Queues(ctx)
		return errors.Join(err, expect(len(all), b.queues))
	}, true},
	{"Workers", taken, func(ctx context.Context, b *bulkLoad) error {
		all, err := inspect.New(b.client).Workers(ctx)
		return errors.Join(err, expect(len(all), b.workers))
	}, true},
}

// bulk measures calls at sizes at which one script would keep the server from all others.
func bulk(ctx context.Context, o *options, r *report, s *server) error {
	c, err := newCrowd(s, 1, qless.ClientConfig{})
	if err != nil {
		return err
	}
	defer func() { _ = c.dismiss() }()
	for _, call := range bulkCalls {
		r.in("%s", call.name)
		small := &bulkLoad{jobs: 1, queues: 1, workers: 1, server: s, client: c.clients[0]}
		if _, err := call.measure(ctx, small); err != nil { // its scripts are loaded then
			return err
		}
		large := &bulkLoad{
			jobs: o.jobs, queues: o.queues, workers: o.workers, server: s, client: c.clients[0],
		}
		one, err := call.measure(ctx, large)
		if err != nil {
			return err
		}
		bar := r.add
		if call.inSteps {
			bar = r.atMost(longestStep)
		}
		r.add("scripts", float64(one.Scripts), "")
		r.add("server CPU", ms(one.CPU), "ms")
		bar("server CPU a script", ms(one.CPU)/float64(max(1, one.Scripts)), "ms")
		bar("longest call", ms(one.longest), "ms")
	}
	return nil
}

// measure measures the call on a server that has nothing else.
func (c bulkCall) measure(ctx context.Context, b *bulkLoad) (cost, error) {
	if err := b.server.empty(ctx); err != nil {
		return cost{}, err
	}
	b.queue = b.client.Queue("bulk")
	if err := c.prepare(ctx, b); err != nil {
		return cost{}, fmt.Errorf("%s: %w", c.name, err)
	}
	one, err := b.server.measure(ctx, func() error { return c.do(ctx, b) })
	if err != nil {
		err = fmt.Errorf("%s: %w", c.name, err)
	}
	return one, err
}

// expect returns an error unless a count is as it should be.
func expect(count, want int) error {
	if count != want {
		return fmt.Errorf("%d, and not %d", count, want)
	}
	return nil
}

// failedGroup is the failure group of failed jobs.
const failedGroup = "failed"

func waiting(ctx context.Context, b *bulkLoad) (err error) {
	b.jids, err = fill(ctx, b.queue, b.jobs, nil)
	return err
}

func failed(ctx context.Context, b *bulkLoad) error {
	if err := waiting(ctx, b); err != nil {
		return err
	}
	return work(ctx, b.server, b.queue.Name(), b.jobs, func(context.Context, *qless.Job) error {
		return qless.FailWith(failedGroup, errors.New("it failed"))
	})
}

func dependent(ctx context.Context, b *bulkLoad) (err error) {
	first, err := b.queue.Put(ctx, klass, data)
	if err != nil {
		return err
	}
	jobs, err := b.queue.Pop(ctx, 1)
	if err != nil {
		return err
	}
	b.first = jobs[0]
	b.jids, err = fill(ctx, b.queue, b.jobs, func(int) []qless.PutOption {
		return []qless.PutOption{qless.DependsOn{first}}
	})
	return err
}

// due has jobs fall due while nobody looks. All of them are when the last one is.
func due(ctx context.Context, b *bulkLoad) (err error) {
	at := time.Now().Add(time.Duration(b.jobs) * 50 * time.Microsecond)
	b.jids, err = fill(ctx, b.queue, b.jobs, func(int) []qless.PutOption {
		return []qless.PutOption{qless.At(at)}
	})
	if err != nil {
		return err
	}
	return pause(ctx, time.Until(at)+10*time.Millisecond)
}

func tracked(ctx context.Context, b *bulkLoad) error {
	if err := waiting(ctx, b); err != nil {
		return err
	}
	result, err := inspect.New(b.client).JIDs(b.jids...).Track(ctx)
	return errors.Join(err, expect(result.Changed, b.jobs))
}

func queues(ctx context.Context, b *bulkLoad) error {
	return makeQueues(ctx, b.client, b.queues)
}

// taken has a job taken by each of many workers.
func taken(ctx context.Context, b *bulkLoad) error {
	if _, err := fill(ctx, b.queue, b.workers, nil); err != nil {
		return err
	}
	rdb := b.server.dial(0)
	defer func() { _ = rdb.Close() }()
	return parallel(16, b.workers, func(i int) error {
		client, err := qless.New(rdb, &qless.ClientConfig{WorkerName: fmt.Sprintf("worker-%05d", i)})
		if err != nil {
			return err
		}
		_, err = client.Queue(b.queue.Name()).Pop(ctx, 1)
		return err
	})
}
