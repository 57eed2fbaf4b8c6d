package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
)

// A workersData holds a page of the workers.
type workersData struct {
	Sum     doctor.Workforce       `json:"sum"` // of all workers
	Queue   string                 `json:"queue,omitempty"`
	Total   int                    `json:"total"`
	Workers []inspect.WorkerStatus `json:"workers"`
	Rows    rows                   `json:"-"`

	runs map[string]jobRun
}

// Run returns the run of a worker with the earliest lock expiry, if known.
func (d *workersData) Run(worker string) jobRun { return d.runs[worker] }

// few formats the first names: "mail*, sms +17".
func few(names []string) string {
	const shown = 2
	if len(names) <= shown+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s +%d", strings.Join(names[:shown], ", "), len(names)-shown)
}

// workerOrders are the columns for sorting workers. The column kind puts dead workers first, and
// workers without details last.
var workerOrders = orders[inspect.WorkerStatus]{
	"kind": func(w *inspect.WorkerStatus) any {
		switch {
		case w.Gone != nil:
			return " "
		case w.Info != nil:
			return " " + strings.Join(w.Info.Queues, " ") + program(w.Info)
		}
		return "\U0010ffff"
	},
	"worker":  func(w *inspect.WorkerStatus) any { return w.Name },
	"process": func(w *inspect.WorkerStatus) any { return process(infoOf(w)) },
	"busy":    func(w *inspect.WorkerStatus) any { return w.Jobs },
	"stalled": func(w *inspect.WorkerStatus) any { return w.Stalled },
	"up":      func(w *inspect.WorkerStatus) any { return -float64(infoOf(w).Started.Unix()) },
	"seen":    func(w *inspect.WorkerStatus) any { return -float64(infoOf(w).Seen.Unix()) },
}

func infoOf(w *inspect.WorkerStatus) *inspect.WorkerInfo {
	return cmp.Or(w.Info, w.Gone, &inspect.WorkerInfo{})
}

// workers lists the workers: dead workers, registered workers, then the others.
func (s *site) workers(ctx context.Context, q query) (*view, error) {
	listed, err := s.listed(ctx)
	if err != nil {
		return nil, err
	}
	data := &workersData{Queue: q.Get("queue"), runs: map[string]jobRun{}}
	all := []inspect.WorkerStatus{}
	for _, worker := range listed {
		data.Sum.Count(&worker)
		if data.Queue == "" || worker.Info != nil && worker.Info.TakesFrom(data.Queue) {
			all = append(all, worker)
		}
	}
	by := workerOrders.sort(all, q, "kind")
	data.Total, data.Workers = len(all), part(all, q.from(), pageSize)
	data.Rows = rows{q.from(), len(data.Workers), len(all), pageSize}
	if err := s.addRuns(ctx, data); err != nil {
		return nil, err
	}
	return &view{Title: "Workers", Data: data, order: by}, nil
}

// The number of workers with jobs read by each view, and the maximum age of a reading.
const (
	runsAtOnce = 5
	runsAge    = 3 * time.Second
)

// addRuns adds the known jobs of the workers. It reads some missing jobs, or the oldest readings.
func (s *site) addRuns(ctx context.Context, data *workersData) error {
	var names []string
	for _, worker := range data.Workers {
		if worker.Jobs > 0 {
			names = append(names, worker.Name)
		}
	}
	now := time.Now()
	isOld := func(_ string, at time.Time) bool { return now.Sub(at) >= runsAge }
	for _, name := range s.runs.due(names, runsAtOnce, isOld) {
		held, err := s.in.HeldBy(name).List(ctx, inspect.Range{Limit: 1})
		if err != nil {
			return err
		}
		runs, err := s.readRuns(ctx, held.Items)
		if err != nil {
			return err
		}
		s.runs.set(name, jobRun{}, now, maxKnownGroups)
		for _, run := range runs {
			s.runs.set(name, run, now, maxKnownGroups)
		}
	}
	for _, name := range names {
		if known, isKnown := s.runs.get(name); isKnown {
			data.runs[name] = known.value
		}
	}
	return nil
}

// listed returns the recently seen workers.
func (s *site) listed(ctx context.Context) ([]inspect.WorkerStatus, error) {
	return sampled(ctx, &s.samples, "workers", s.in.Workers)
}

// workerJobsShown is the number of jobs of a worker on a page.
const workerJobsShown = 25

// A workerData is a worker with its jobs.
type workerData struct {
	Worker  string               `json:"worker"`
	Counts  inspect.WorkerStatus `json:"counts"`
	Listed  bool                 `json:"listed"`
	Running int                  `json:"running"`
	Stalled int                  `json:"stalled"`
	Jobs    []inspect.Row        `json:"jobs"` // jobs with expired locks first
	Rows    rows                 `json:"-"`
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
	if !data.Listed && jobs.Total == 0 {
		return unknown(q.name,
			"No worker of this name is listed: it was not seen lately, or was forgotten."), nil
	}
	s.redactAll(jobs.Items)
	data.Jobs = jobs.Items
	data.Stalled = min(data.Counts.Stalled, jobs.Total)
	data.Running = jobs.Total - data.Stalled
	data.Rows = rows{q.from(), len(jobs.Items), jobs.Total, workerJobsShown}
	runs, err := s.readRuns(ctx, data.Jobs)
	return &view{Title: q.name, Data: data, runs: runs}, err
}

// The number of usual runs read with each view, and their maximum age.
const (
	usualAtOnce = 5
	usualAge    = time.Minute
)

// readRuns returns the runs of a list, by jid. It reads some of the missing usual times.
func (s *site) readRuns(ctx context.Context, rows []inspect.Row) (map[string]jobRun, error) {
	since := map[string]time.Time{}
	var jids []string
	var klasses []queueKlass
	for i := range rows {
		row := &rows[i]
		if of := (queueKlass{row.Queue, row.Klass}); row.State == qless.StateRunning {
			jids, since[row.JID] = append(jids, row.JID), row.Since
			if !slices.Contains(klasses, of) {
				klasses = append(klasses, of)
			}
		}
	}
	if len(jids) == 0 {
		return nil, nil
	}
	now := time.Now()
	isOld := func(_ queueKlass, at time.Time) bool { return now.Sub(at) >= usualAge }
	for _, of := range s.usual.due(klasses, usualAtOnce, isOld) {
		usual, long, err := doctor.UsualRun(ctx, s.Client, of.queue, of.klass, now)
		if err != nil {
			return nil, err
		}
		s.usual.set(of, usualRun{usual, long}, now, maxKnownGroups)
	}
	jobs, err := s.Client.Jobs(ctx, jids...)
	runs := map[string]jobRun{}
	for _, job := range jobs {
		s.redact(job)
		known, _ := s.usual.get(queueKlass{job.Queue, job.Klass})
		runs[job.JID] = jobRun{job, since[job.JID], known.value}
	}
	return runs, err
}

// program formats the client of a worker: "go v1.2.0".
func program(info *inspect.WorkerInfo) string {
	if info.Version == "" || strings.HasPrefix(info.Version, "v0.0.0-0") { // a build without a tag
		return info.Language
	}
	return info.Language + " " + info.Version
}

// process formats the process of a worker: "host:pid".
func process(info *inspect.WorkerInfo) string {
	if info.PID == 0 {
		return info.Host
	}
	return info.Host + ":" + strconv.Itoa(info.PID)
}
