package doctor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// A Status is what a namespace does at the moment.
type Status struct {
	Time      time.Time `json:"time"`
	Namespace string    `json:"namespace"`

	// Attention is what a person should look at, the most urgent first.
	Attention []Problem `json:"attention"`

	// Queues are the queues by name: the ones first seen, if there are more than 1000. Total is how
	// many there are.
	Queues []QueueStatus `json:"queues"`
	Total  int           `json:"total"`

	Workers Workforce `json:"workers"`
	Rates   Rates     `json:"rates"`

	// RatesFrom and RatesTo are the time that the rates are of.
	RatesFrom time.Time `json:"rates_from"`
	RatesTo   time.Time `json:"rates_to"`

	Failures []Group `json:"failures"` // the largest groups first

	// FullLimits are the limits that keep jobs waiting, of the first 100 that are defined.
	FullLimits []inspect.LimitInfo `json:"full_limits"`

	// Damaged are the keys that are not what they should be, so that figures are missing.
	Damaged []inspect.DamagedKey `json:"damaged,omitempty"`

	Memory inspect.Memory `json:"memory"` // of the server

	// Listed are the workers one by one.
	Listed []inspect.Worker `json:"-"`

	asOf    time.Time // by the clock of the server
	overdue []inspect.Schedule
	failing string // the largest of the failure groups that jobs come into
}

// Failed returns how many jobs have failed, in all groups.
func (s *Status) Failed() int {
	sum := 0
	for _, group := range s.Failures {
		sum += max(0, group.Jobs)
	}
	return sum
}

// statusWindow is the time that the rates of a status are of.
const statusWindow = 5 * time.Minute

// A QueueStatus is a queue with its rates, and how many workers are known to take its jobs.
type QueueStatus struct {
	inspect.QueueOverview
	Workers int   `json:"workers"`
	Rates   Rates `json:"rates"`

	rated   bool   // its max-rate allows no job at the moment
	blocked *Cause // it has jobs that wait for failed ones
	distant *distantJob
}

// Rates are how many jobs end in a minute, on the average of the last minutes.
type Rates struct {
	Completed float64 `json:"completed_per_minute"`
	Failed    float64 `json:"failed_per_minute"`
	Retried   float64 `json:"retried_per_minute"`
}

func (r *Rates) add(other Rates) {
	r.Completed += other.Completed
	r.Failed += other.Failed
	r.Retried += other.Retried
}

// A Workforce is what the workers are, all together.
type Workforce struct {
	Registered int `json:"registered"` // registered workers
	Silent     int `json:"silent"`     // workers that never register
	Gone       int `json:"gone"`       // workers that have died
	Slots      int `json:"slots"`      // how many jobs the registered ones run at once
	Busy       int `json:"busy"`       // how many jobs these have
	Held       int `json:"held"`       // how many jobs all workers have
	Stalled    int `json:"stalled"`    // how many of these have lost their locks
}

// A Group is a failure group.
type Group struct {
	Name string `json:"name"`
	Jobs int    `json:"jobs"`
}

// A StatusReader reads what a namespace does, perhaps again and again.
type StatusReader struct {
	Client *qless.Client

	// Late is for how long the oldest job of a queue may wait before the queue needs attention.
	Late time.Duration

	// Rates, if set, returns how many jobs of each queue have ended lately. A program that reads
	// the status often may keep what was counted in minutes that are over. By default the last 5
	// minutes are read each time.
	Rates func(ctx context.Context) (QueueRates, error)
}

// QueueRates are how many jobs of each queue have ended in a time. A queue may be there more than
// once.
type QueueRates struct {
	From, To time.Time
	Queues   []inspect.RateGroup
}

// ReadStatus reads what the namespace does, as [StatusReader.Read].
func ReadStatus(
	ctx context.Context, client *qless.Client, late time.Duration,
) (*Status, error) {
	return (&StatusReader{Client: client, Late: late}).Read(ctx)
}

// Read reads what the namespace does, without changing anything. It costs the server one script for
// 200 queues ([inspect.Inspector.Overview]), three commands a worker, one for each minute of the
// rates, and one script a limit that keeps jobs waiting; one for each of the 20 queues that wait
// longest, three for each of the 10 with the most jobs that depend on others, and when jobs fail
// one for each of the 5 largest failure groups.
func (r *StatusReader) Read(ctx context.Context) (*Status, error) {
	s := &Status{Time: time.Now(), Namespace: r.Client.Namespace()}
	steps := []func(context.Context, *StatusReader) error{
		s.readOverview, s.readWorkers, s.readRates, s.readSchedules,
		s.readMaxRates, s.readDependencies, s.readFailing, s.readDistant,
	}
	for _, step := range steps {
		if err := step(ctx, r); err != nil {
			return nil, err
		}
	}
	s.Attention = s.problems(r.Late)
	return s, nil
}

func (s *Status) readOverview(ctx context.Context, r *StatusReader) error {
	seen, err := inspect.New(r.Client).Overview(ctx, inspect.OverviewQuery{})
	if err != nil {
		return err
	}
	s.asOf = seen.Time
	s.Total, s.Damaged, s.Memory = seen.Total, seen.Damaged, seen.Memory
	s.Queues = make([]QueueStatus, len(seen.Queues))
	for i, queue := range seen.Queues {
		s.Queues[i].QueueOverview = queue
	}
	slices.SortFunc(s.Queues, func(a, b QueueStatus) int { return cmp.Compare(a.Name, b.Name) })
	s.addFailures(seen.FailureGroups)
	return s.readLimits(ctx, r.Client, seen.Limits)
}

func (s *Status) addFailures(groups map[string]int) {
	s.Failures = []Group{}
	for name, jobs := range groups {
		s.Failures = append(s.Failures, Group{name, jobs})
	}
	slices.SortFunc(s.Failures, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Name, b.Name))
	})
}

func (s *Status) readLimits(
	ctx context.Context, client *qless.Client, limits []inspect.LimitOverview,
) error {
	s.FullLimits = []inspect.LimitInfo{}
	for _, limit := range limits {
		if limit.Parked <= 0 {
			continue
		}
		info, err := inspect.New(client).Limit(ctx, limit.Name)
		if err != nil {
			return err
		}
		s.FullLimits = append(s.FullLimits, info)
	}
	return nil
}

func (s *Status) readWorkers(ctx context.Context, r *StatusReader) error {
	workers, err := inspect.New(r.Client).Workers(ctx)
	if err != nil {
		return err
	}
	s.Listed = workers
	for i := range workers {
		s.Workers.add(&workers[i])
	}
	for i := range s.Queues {
		q := &s.Queues[i]
		for j := range workers {
			if info := workers[j].Info; info != nil && info.TakesFrom(q.Name) {
				q.Workers++
			}
		}
	}
	return nil
}

func (w *Workforce) add(worker *inspect.Worker) {
	w.Held += worker.Jobs
	w.Stalled += worker.Stalled
	switch {
	case worker.Gone != nil:
		w.Gone++
		return
	case worker.Info == nil:
		w.Silent++
		return
	}
	w.Registered++
	w.Slots += worker.Info.Slots
	w.Busy += worker.Jobs
}

func (s *Status) readRates(ctx context.Context, r *StatusReader) error {
	read := r.Rates
	if read == nil {
		read = r.lastRates
	}
	last, err := read(ctx)
	if err != nil {
		return err
	}
	s.RatesFrom, s.RatesTo = last.From, last.To
	minutes := max(1, last.To.Sub(last.From).Minutes())
	byQueue := map[string]Rates{}
	for _, group := range last.Queues {
		rates := Rates{
			Completed: float64(group.Completed) / minutes,
			Failed:    float64(group.Failed) / minutes,
			Retried:   float64(group.Retried) / minutes,
		}
		sum := byQueue[group.Name]
		sum.add(rates)
		byQueue[group.Name] = sum
		s.Rates.add(rates)
	}
	for i := range s.Queues {
		s.Queues[i].Rates = byQueue[s.Queues[i].Name]
	}
	return nil
}

// lastRates reads the rates of the last minutes.
func (r *StatusReader) lastRates(ctx context.Context) (QueueRates, error) {
	now := time.Now()
	from := now.Add(-statusWindow).Truncate(time.Minute)
	groups, err := inspect.New(r.Client).RatesByQueue(ctx, inspect.RateQuery{From: from, To: now})
	return QueueRates{from, now, groups}, err
}

func (s *Status) readSchedules(ctx context.Context, r *StatusReader) error {
	schedules, err := inspect.New(r.Client).Schedules(ctx, inspect.Range{Limit: 100})
	if errors.Is(err, qless.ErrServer) && s.isDamaged(ctx, r.Client, "x:schedule-ids", "zset") {
		return nil
	} else if err != nil {
		return err
	}
	for _, schedule := range schedules.Items {
		if schedule.Overdue > 0 {
			s.overdue = append(s.overdue, schedule)
		}
	}
	return nil
}

// isDamaged reports whether a key has another kind of value than it should have, and notes it.
func (s *Status) isDamaged(ctx context.Context, client *qless.Client, name, want string) bool {
	key := s.Namespace + name
	kind, err := client.Redis().Type(ctx, key).Result()
	if err != nil || kind == want || kind == "none" {
		return false
	}
	s.Damaged = append(s.Damaged, inspect.DamagedKey{Key: key, Kind: kind})
	return true
}

// How many queues and groups are looked at more closely, and the wait from which a queue is.
const (
	maxRatedQueues   = 20
	maxBlockedQueues = 10
	maxFailingGroups = 5
	ratedFrom        = 10 * time.Second
)

// mostly returns the queues with a figure above 0, the largest first, at most n.
func (s *Status) mostly(n int, figure func(*QueueStatus) int) []*QueueStatus {
	var found []*QueueStatus
	for i := range s.Queues {
		if figure(&s.Queues[i]) > 0 {
			found = append(found, &s.Queues[i])
		}
	}
	slices.SortStableFunc(found, func(a, b *QueueStatus) int { return figure(b) - figure(a) })
	return found[:min(n, len(found))]
}

// readMaxRates finds the queues that wait because of their max-rates.
func (s *Status) readMaxRates(ctx context.Context, r *StatusReader) error {
	queues := s.mostly(maxRatedQueues, func(q *QueueStatus) int {
		if q.Waiting <= 0 || q.Paused || q.Oldest < ratedFrom {
			return 0
		}
		return int(q.Oldest / time.Second)
	})
	for _, q := range queues {
		settings, err := r.Client.Queue(q.Name).Settings(ctx)
		if err != nil && !errors.Is(err, qless.ErrServer) {
			return err
		}
		q.rated = !settings.NextStart.IsZero()
	}
	return nil
}

// readDependencies finds the queues with jobs that wait for failed ones. A damaged key keeps only
// its own queue out.
func (s *Status) readDependencies(ctx context.Context, r *StatusReader) error {
	for _, q := range s.mostly(maxBlockedQueues, func(q *QueueStatus) int { return q.Depends }) {
		l := newLook(ctx, r.Client, q.Name)
		l.counts.Depends = q.Depends
		err := l.readLists()
		if err == nil {
			err = l.readNeeded()
		}
		if err != nil && !errors.Is(err, qless.ErrServer) {
			return err
		}
		if causes := l.failedDependencies(); err == nil && len(causes) > 0 {
			q.blocked = &causes[0]
		}
	}
	return nil
}

// readFailing finds the largest failure group that jobs have come into lately.
func (s *Status) readFailing(ctx context.Context, r *StatusReader) error {
	if s.Rates.Failed == 0 {
		return nil
	}
	in := inspect.New(r.Client)
	for _, group := range s.Failures[:min(maxFailingGroups, len(s.Failures))] {
		last, err := in.Failed(group.Name).List(ctx, inspect.Range{Limit: 1})
		if err != nil && !errors.Is(err, qless.ErrServer) {
			return err
		}
		if len(last.Items) > 0 && !last.Items[0].Since.Before(s.RatesFrom) {
			s.failing = group.Name
			return nil
		}
	}
	return nil
}
