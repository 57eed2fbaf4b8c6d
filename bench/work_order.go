package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/qless/qless-go"
)

// A backlog is a set of waiting jobs in some queues, and how a worker takes the jobs.
type backlog struct {
	name   string
	queues int
	config func(queues []string) qless.WorkerConfig // if not the default
	limit  func(ctx context.Context, s *qlessSession) error
	put    []qless.PutOption
}

// limitName is the limit of jobs with a limit.
const limitName = "bench"

// limitedRate is the number of jobs a second allowed by the limit in the workload order.
const limitedRate = 50

// nothingAhead is the strict order under the conditions of a limit with all slots used up.
func nothingAhead([]string) qless.WorkerConfig { return qless.WorkerConfig{Prefetch: -1} }

func roundRobin([]string) qless.WorkerConfig {
	return qless.WorkerConfig{Order: qless.OrderRoundRobin}
}

// weighted gives all queues different weights, of 1 to 10.
func weighted(queues []string) qless.WorkerConfig {
	weights := map[string]int{}
	for i, name := range queues {
		weights[name] = 1 + i%10
	}
	return qless.WorkerConfig{Weights: weights}
}

// limitQueue lets as many jobs of the queue run as the worker has slots: none can be prefetched.
func limitQueue(ctx context.Context, s *qlessSession) error {
	return s.client.Config().Set(ctx, queueName+"-max-concurrency", s.load.concurrency)
}

// limitJobs does the same for jobs with a limit.
func limitJobs(ctx context.Context, s *qlessSession) error {
	return s.client.Limit(limitName).Set(ctx, qless.LimitConfig{Concurrency: s.load.concurrency})
}

func limitRate(ctx context.Context, s *qlessSession) error {
	return s.client.Limit(limitName).Set(ctx, qless.LimitConfig{Rate: limitedRate, Per: time.Second})
}

// orderGroups measures how fast a worker takes a backlog in each order, and under each kind of
// limit that makes the worker ask in vain. The first of a group is the plain case.
func (b *bench) orderGroups() []group {
	withLimit := []qless.PutOption{qless.Limits{limitName}}
	var groups []group
	for _, concurrency := range b.concurrency {
		groups = append(groups,
			b.backlogs(concurrency, b.jobs,
				backlog{name: "strict", queues: 1, config: nothingAhead},
				backlog{name: "max-concurrency", queues: 1, limit: limitQueue},
				backlog{name: "Limits, concurrency", queues: 1, limit: limitJobs, put: withLimit}),
			b.backlogs(concurrency, b.jobs,
				backlog{name: "strict", queues: 4},
				backlog{name: "round-robin", queues: 4, config: roundRobin},
				backlog{name: "weights", queues: 4, config: weighted}),
			b.backlogs(concurrency, b.jobs,
				backlog{name: "round-robin", queues: 1000, config: roundRobin},
				backlog{name: "weights", queues: 1000, config: weighted}))
	}
	if b.server.counter != nil {
		return groups
	}
	rate := fmt.Sprintf("Limits, %d a second", limitedRate)
	return append(groups, b.backlogs(1, min(b.jobs, 4*limitedRate),
		backlog{name: rate, queues: 1, limit: limitRate, put: withLimit}))
}

// backlogs returns a group for comparing the backlogs.
func (b *bench) backlogs(concurrency, jobs int, all ...backlog) group {
	l := load{
		jobs: jobs, concurrency: concurrency, workers: 1, queues: all[0].queues, payload: payloadOf(100),
	}
	g := group{label: fmt.Sprintf("queues=%d concurrency=%d", l.queues, l.concurrency)}
	for _, one := range all {
		p := peer{name: one.name, open: openQless(one.fill, one.take, qless.ClientConfig{})}
		g.runs = append(g.runs, run{peer: p.name, do: func(ctx context.Context) ([]sample, error) {
			measure := b.wholeJobs
			if b.server.counter != nil {
				measure = b.moreJobs
			}
			phases, err := measure(ctx, p, l)
			if err != nil {
				return nil, err
			}
			return phases[1:2], nil
		}})
	}
	return g
}

// fill puts the jobs in turn into the queues.
func (k backlog) fill(ctx context.Context, s *qlessSession, jobs int) error {
	if k.limit != nil {
		if err := k.limit(ctx, s); err != nil {
			return err
		}
	}
	names := s.queues()
	return parallel(4, len(names), func(i int) error {
		specs := make([]qless.JobSpec, (jobs+len(names)-1-i)/len(names))
		for j := range specs {
			specs[j] = qless.JobSpec{Klass: klass, Data: json.RawMessage(s.load.payload), Options: k.put}
		}
		_, err := s.client.Queue(names[i]).PutMany(ctx, specs)
		return err
	})
}

func (k backlog) take(ctx context.Context, s *qlessSession, to *crew) error {
	var config qless.WorkerConfig
	if k.config != nil {
		config = k.config(s.queues())
	}
	return s.runWorkers(ctx, to, config)
}
