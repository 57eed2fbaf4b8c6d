package qless

import (
	"context"

	"github.com/qless/qless-go/internal/wire"
)

// WorkerCounts is how many jobs a worker holds.
type WorkerCounts struct {
	Name    string
	Jobs    int // with a lock that lasts
	Stalled int // with a lock that has ended
}

// WorkerJobs are the jids of the jobs that a worker holds.
type WorkerJobs struct {
	Jobs    []string // with a lock that lasts
	Stalled []string // with a lock that has ended
}

// Workers returns the workers that were seen lately, last seen first. Its cost grows with
// their number. A job that was taken from a worker by [Job.Timeout] is counted until that
// worker holds another one or stops. It is the qless command workers.
func (c *Client) Workers(ctx context.Context) ([]WorkerCounts, error) {
	reply, err := c.run(ctx, "workers", "")
	if err != nil {
		return nil, err
	}
	replies, err := decode[wire.List[struct {
		Name    wire.Text   `json:"name"`
		Jobs    wire.Number `json:"jobs"`
		Stalled wire.Number `json:"stalled"`
	}]]("workers", reply)
	if err != nil {
		return nil, err
	}
	workers := make([]WorkerCounts, len(replies))
	for i, r := range replies {
		workers[i] = WorkerCounts{Name: string(r.Name), Jobs: r.Jobs.Int(), Stalled: r.Stalled.Int()}
	}
	return workers, nil
}

// Worker returns the jobs that a worker holds; none when there is no such worker. A job that
// was taken from it by [Job.Timeout] is not among them. It is the qless command workers.
func (c *Client) Worker(ctx context.Context, name string) (WorkerJobs, error) {
	if err := checkName("workers", "worker name", name); err != nil {
		return WorkerJobs{}, err
	}
	reply, err := c.run(ctx, "workers", "", name, "held")
	if err != nil {
		return WorkerJobs{}, err
	}
	r, err := decode[struct {
		Jobs    wire.List[wire.Text] `json:"jobs"`
		Stalled wire.List[wire.Text] `json:"stalled"`
	}]("workers", reply)
	return WorkerJobs{Jobs: wire.Strings(r.Jobs), Stalled: wire.Strings(r.Stalled)}, err
}

// Deregister takes workers off the list of known workers. Their locks stay. It is the qless
// command worker.deregister.
func (c *Client) Deregister(ctx context.Context, workers ...string) error {
	if err := checkNames("worker.deregister", "worker name", workers); err != nil {
		return err
	}
	_, err := c.run(ctx, "worker.deregister", "", anys(nil, workers...)...)
	return err
}
