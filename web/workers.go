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

// A workersData is a part of the workers.
type workersData struct {
	Sum     doctor.Workforce `json:"sum"` // of all workers
	Queue   string           `json:"queue,omitempty"`
	Total   int              `json:"total"`
	Workers []inspect.Worker `json:"workers"`
	Rows    rows             `json:"-"`

	isSorted bool
	runs     map[string]workerRun
}

// A workerRun is the job of a worker whose lock ends first, or nil.
type workerRun struct{ Job *qless.Job }

// A workerGroup has workers that are alike.
type workerGroup struct {
	Info    *inspect.WorkerInfo // of the first, or nil
	IsGone  bool
	Workers []inspect.Worker
}

// Groups are the workers of the page: equal ones together, unless the page sorts them.
func (d *workersData) Groups() []workerGroup {
	var groups []workerGroup
	at := map[string]int{}
	for _, worker := range d.Workers {
		kind := ""
		info := cmp.Or(worker.Info, worker.Gone)
		if info != nil && !d.isSorted {
			kind = fmt.Sprint(worker.Gone != nil, info.Queues, info.Klasses, info.Slots, program(info))
		}
		i, isKnown := at[kind]
		if !isKnown {
			i, at[kind] = len(groups), len(groups)
			groups = append(groups, workerGroup{Info: info, IsGone: worker.Gone != nil})
		}
		groups[i].Workers = append(groups[i].Workers, worker)
	}
	if d.isSorted && len(groups) > 0 {
		groups[0].Info = nil
	}
	slices.SortStableFunc(groups, func(a, b workerGroup) int { return cmp.Compare(rank(b), rank(a)) })
	return groups
}

// rank puts the workers that are gone first, and those without details last.
func rank(g workerGroup) int {
	switch {
	case g.IsGone:
		return 2
	case g.Info != nil:
		return 1
	}
	return 0
}

// Run is the job that a worker runs, as far as it was read.
func (d *workersData) Run(worker string) *qless.Job { return d.runs[worker].Job }

// few writes the first of some names: "mail*, sms +17".
func few(names []string) string {
	const shown = 3
	if len(names) <= shown+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s +%d", strings.Join(names[:shown], ", "), len(names)-shown)
}

// workerOrders are the columns by which workers are sorted.
var workerOrders = orders[inspect.Worker]{
	"worker":  func(w *inspect.Worker) any { return w.Name },
	"busy":    func(w *inspect.Worker) any { return w.Jobs },
	"stalled": func(w *inspect.Worker) any { return w.Stalled },
	"up":      func(w *inspect.Worker) any { return -float64(sinceOf(w).Started.Unix()) },
	"seen":    func(w *inspect.Worker) any { return -float64(sinceOf(w).Seen.Unix()) },
}

func sinceOf(w *inspect.Worker) *inspect.WorkerInfo {
	return cmp.Or(w.Info, w.Gone, &inspect.WorkerInfo{})
}

// workers lists the workers: the dead ones, the registered ones, then the others.
func (s *site) workers(ctx context.Context, q query) (*view, error) {
	listed, err := s.listed(ctx)
	if err != nil {
		return nil, err
	}
	data := &workersData{Queue: q.Get("queue"), runs: map[string]workerRun{}}
	all := []inspect.Worker{}
	for _, worker := range listed {
		addWorker(&data.Sum, &worker)
		if data.Queue == "" || worker.Info != nil && worker.Info.TakesFrom(data.Queue) {
			all = append(all, worker)
		}
	}
	by := order{}
	if data.isSorted = q.Get("sort") != ""; data.isSorted {
		by = workerOrders.sort(all, q, "worker")
	} else {
		slices.SortStableFunc(all, func(a, b inspect.Worker) int {
			return rank(groupOf(&b)) - rank(groupOf(&a))
		})
	}
	data.Total, data.Workers = len(all), part(all, q.from(), pageSize)
	data.Rows = rows{q.from(), len(data.Workers), len(all), pageSize}
	if err := s.addRuns(ctx, data); err != nil {
		return nil, err
	}
	return &view{Title: "Workers", Data: data, order: by}, nil
}

func groupOf(w *inspect.Worker) workerGroup {
	return workerGroup{Info: w.Info, IsGone: w.Gone != nil}
}

// How many workers are asked for what they run with each view, and how old an answer may be.
const (
	runsAtOnce = 5
	runsAge    = 3 * time.Second
)

// addRuns adds what the workers run, as far as it is known. It reads some that are not known, or
// the oldest ones.
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
		var run workerRun
		if len(held.Items) > 0 {
			jobs, err := s.Client.Jobs(ctx, held.Items[0].JID)
			if err != nil {
				return err
			}
			if len(jobs) > 0 {
				run.Job = jobs[0]
				s.redact(run.Job)
			}
		}
		s.runs.set(name, run, now, maxKnownGroups)
	}
	for _, name := range names {
		if known, isKnown := s.runs.get(name); isKnown {
			data.runs[name] = known.value
		}
	}
	return nil
}

// listed returns the workers that were seen lately.
func (s *site) listed(ctx context.Context) ([]inspect.Worker, error) {
	return sampled(ctx, &s.samples, "workers", s.in.Workers)
}

// addWorker adds a worker to what workers are, all together.
func addWorker(sum *doctor.Workforce, worker *inspect.Worker) {
	sum.Held += worker.Jobs
	sum.Stalled += worker.Stalled
	if worker.Gone != nil {
		sum.Gone++
		return
	}
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
	if info.Version == "" || strings.HasPrefix(info.Version, "v0.0.0-0") { // a build without a tag
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
