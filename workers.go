package qless

import "context"

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
	replies, err := decode[list[struct {
		Name    text   `json:"name"`
		Jobs    number `json:"jobs"`
		Stalled number `json:"stalled"`
	}]]("workers", reply)
	if err != nil {
		return nil, err
	}
	workers := make([]WorkerCounts, len(replies))
	for i, r := range replies {
		workers[i] = WorkerCounts{Name: string(r.Name), Jobs: r.Jobs.int(), Stalled: r.Stalled.int()}
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
		Jobs    list[text] `json:"jobs"`
		Stalled list[text] `json:"stalled"`
	}]("workers", reply)
	return WorkerJobs{Jobs: stringsOf(r.Jobs), Stalled: stringsOf(r.Stalled)}, err
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
