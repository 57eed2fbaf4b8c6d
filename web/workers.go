package web

import (
	"context"
	"slices"
	"strconv"

	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
)

// A workersData is a part of the workers.
type workersData struct {
	Sum     doctor.Workforce `json:"sum"` // of all workers
	Queue   string           `json:"queue,omitempty"`
	Total   int              `json:"total"`
	Workers []inspect.Worker `json:"workers"`
	Rows    rows             `json:"-"`
}

// workers lists the workers: the registered ones, then the others.
func (s *site) workers(ctx context.Context, q query) (*view, error) {
	listed, err := s.listed(ctx)
	if err != nil {
		return nil, err
	}
	data := &workersData{Queue: q.Get("queue")}
	var registered, silent []inspect.Worker
	for _, worker := range listed {
		addWorker(&data.Sum, &worker)
		switch {
		case worker.Info == nil && data.Queue == "":
			silent = append(silent, worker)
		case worker.Info != nil && (data.Queue == "" || worker.Info.TakesFrom(data.Queue)):
			registered = append(registered, worker)
		}
	}
	all := slices.Concat(registered, silent)
	data.Total, data.Workers = len(all), part(all, q.from(), pageSize)
	data.Rows = rows{q.from(), len(data.Workers), len(all), pageSize}
	return &view{Title: "Workers", Data: data}, nil
}

// listed returns the workers that were seen lately.
func (s *site) listed(ctx context.Context) ([]inspect.Worker, error) {
	return sampled(ctx, &s.samples, "workers", s.in.Workers)
}

// addWorker adds a worker to what workers are, all together.
func addWorker(sum *doctor.Workforce, worker *inspect.Worker) {
	sum.Held += worker.Jobs
	sum.Stalled += worker.Stalled
	if worker.Info == nil {
		sum.Silent++
		return
	}
	sum.Registered++
	sum.Slots += worker.Info.Slots
	sum.Busy += worker.Jobs
}

// workerJobsShown is the number of jobs of a worker on a page.
const workerJobsShown = 25

// A workerData is a worker with its jobs.
type workerData struct {
	Worker  string         `json:"worker"`
	Counts  inspect.Worker `json:"counts"`
	Listed  bool           `json:"listed"`
	Running int            `json:"running"`
	Stalled int            `json:"stalled"`
	Jobs    []inspect.Row  `json:"jobs"` // those whose locks have ended first
	Rows    rows           `json:"-"`
}

// worker shows a worker.
func (s *site) worker(ctx context.Context, q query) (*view, error) {
	listed, err := s.listed(ctx)
	if err != nil {
		return nil, err
	}
	data := &workerData{Worker: q.name}
	for _, worker := range listed {
		if worker.Name == q.name {
			data.Counts, data.Listed = worker, true
		}
	}
	jobs, err := s.in.HeldBy(q.name).List(ctx, inspect.Range{Offset: q.from(), Limit: workerJobsShown})
	if err != nil {
		return nil, err
	}
	s.redactAll(jobs.Items)
	data.Jobs = jobs.Items
	data.Stalled = min(data.Counts.Stalled, jobs.Total)
	data.Running = jobs.Total - data.Stalled
	data.Rows = rows{q.from(), len(jobs.Items), jobs.Total, workerJobsShown}
	return &view{Title: q.name, Data: data}, nil
}

// program writes what a worker is: "go v1.2.0".
func program(info *inspect.WorkerInfo) string {
	if info.Version == "" {
		return info.Language
	}
	return info.Language + " " + info.Version
}

// process writes where a worker runs: "host:pid".
func process(info *inspect.WorkerInfo) string {
	if info.PID == 0 {
		return info.Host
	}
	return info.Host + ":" + strconv.Itoa(info.PID)
}
