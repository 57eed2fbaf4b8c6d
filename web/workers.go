package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
)

// A workersData is a part of the workers.
type workersData struct {
	Sum     doctor.Workforce     `json:"sum"` // of all workers
	Queue   string               `json:"queue,omitempty"`
	Total   int                  `json:"total"`
	Workers []qless.WorkerCounts `json:"workers"`
	Rows    rows                 `json:"-"`
}

// workers lists the workers: those that say what they are, then the silent ones.
func (s *site) workers(r *http.Request) (*view, error) {
	listed, err := s.listed(r.Context())
	if err != nil {
		return nil, err
	}
	from, queue := fromOf(r), r.URL.Query().Get("queue")
	all := slices.Clone(listed)
	if queue != "" {
		all = slices.DeleteFunc(all, func(w qless.WorkerCounts) bool {
			return w.Info == nil || !w.Info.TakesFrom(queue)
		})
	}
	slices.SortStableFunc(all, func(a, b qless.WorkerCounts) int { return rank(&a) - rank(&b) })
	shown := part(all, from, pageSize)
	return &view{template: "workers", title: "Workers", section: "workers", data: &workersData{
		Sum: workforceOf(listed), Queue: queue, Total: len(all), Workers: shown,
		Rows: rows{from, len(shown), len(all)},
	}}, nil
}

// listed returns the workers that were seen lately.
func (s *site) listed(ctx context.Context) ([]qless.WorkerCounts, error) {
	return sampled(ctx, &s.samples, "workers", s.Client.Workers)
}

// workforceOf returns what workers are, all together.
func workforceOf(workers []qless.WorkerCounts) (sum doctor.Workforce) {
	for i := range workers {
		worker := &workers[i]
		sum.Held += worker.Jobs
		sum.Stalled += worker.Stalled
		if worker.Info == nil {
			sum.Silent++
			continue
		}
		sum.Registered++
		sum.Slots += worker.Info.Slots
		sum.Busy += worker.Jobs
	}
	return sum
}

// rank says where a worker is in the list.
func rank(w *qless.WorkerCounts) int {
	if w.Info == nil {
		return 1
	}
	return 0
}

// workerJobsShown is how many jobs of a worker a page shows. Each is read with its data.
const workerJobsShown = 25

// A workerData is a worker with its jobs.
type workerData struct {
	Worker  string             `json:"worker"`
	Counts  qless.WorkerCounts `json:"counts"`
	Listed  bool               `json:"listed"`
	Running int                `json:"running"`
	Stalled int                `json:"stalled"`
	Jobs    []qless.JobSummary `json:"jobs"` // those whose locks have ended first
	Rows    sizedRows          `json:"-"`
}

// worker shows a worker.
func (s *site) worker(r *http.Request) (*view, error) {
	name, from := nameOf(r, "worker"), fromOf(r)
	key := fmt.Sprintf("worker %q %d", name, from)
	data, err := sampled(r.Context(), &s.samples, key, func(ctx context.Context) (*workerData, error) {
		return s.readWorker(ctx, name, from)
	})
	if err != nil {
		return nil, err
	}
	return &view{template: "worker", title: name, section: "workers", data: data}, nil
}

func (s *site) readWorker(ctx context.Context, name string, from int) (*workerData, error) {
	data := &workerData{Worker: name, Jobs: []qless.JobSummary{}}
	listed, err := s.listed(ctx)
	if err != nil {
		return nil, err
	}
	for _, worker := range listed {
		if worker.Name == name {
			data.Counts, data.Listed = worker, true
		}
	}
	held, err := s.Client.WorkerJobs(ctx, name)
	if err != nil {
		return nil, err
	}
	data.Running, data.Stalled = len(held.Jobs), len(held.Stalled)
	all := slices.Concat(held.Stalled, held.Jobs)
	shown := part(all, from, workerJobsShown)
	data.Rows = sizedRows{rows{from, len(shown), len(all)}, workerJobsShown}
	if len(shown) == 0 {
		return data, nil
	}
	jobs, err := s.Client.Jobs(ctx, shown...)
	if err != nil {
		return nil, err
	}
	for _, job := range jobs {
		data.Jobs = append(data.Jobs, summaryOf(job))
	}
	s.redactAll(data.Jobs)
	return data, nil
}

// summaryOf returns a line of a list for a job.
func summaryOf(job *qless.Job) qless.JobSummary {
	return qless.JobSummary{
		JID: job.JID, Klass: job.Klass, Queue: job.Queue, State: job.State, Priority: job.Priority,
		Tags: job.Tags, Retries: job.Retries, Remaining: job.Remaining, Worker: job.Worker,
		Since: sinceOf(job), Due: job.Due, Expires: job.Expires, Failure: job.Failure,
		ParkedBy: job.Parked, DataSize: len(job.Data),
	}
}

// sinceOf returns when a job was put, popped, completed or failed last.
func sinceOf(job *qless.Job) time.Time {
	for _, entry := range slices.Backward(job.History) {
		switch entry.What {
		case "put", "popped", "done", "failed":
			return entry.When
		}
	}
	return time.Time{}
}

// program writes what a worker is: "go v1.2.0".
func program(info *qless.WorkerInfo) string {
	if info.Version == "" {
		return info.Language
	}
	return info.Language + " " + info.Version
}

// process writes where a worker runs: "host:pid".
func process(info *qless.WorkerInfo) string {
	if info.PID == 0 {
		return info.Host
	}
	return info.Host + ":" + strconv.Itoa(info.PID)
}
