package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/units"
)

// A Status is a snapshot of a namespace's state.
type Status struct {
	Time      time.Time `json:"time"`
	Namespace string    `json:"namespace"`

	// Attention holds the problems that need a person, the most urgent first.
	Attention []Reason `json:"attention"`

	// Remarks are dangers that are harmless so far and may be intended.
	Remarks []Reason `json:"remarks,omitempty"`

	// Queues are the queues by name: the first 1000 seen, if there are more. Total counts them all.
	Queues []QueueStatus `json:"queues"`
	Total  int           `json:"total"`

	Workers Workforce  `json:"workers"`
	Rates   Throughput `json:"rates"`

	// RatesFrom and RatesTo are the bounds of the period of the rates.
	RatesFrom time.Time `json:"rates_from"`
	RatesTo   time.Time `json:"rates_to"`

	Failures []Group `json:"failures"` // the largest groups first

	// FullLimits are the limits that keep jobs waiting, among the first 100 defined, and some of the
	// keys that the first scheduled jobs of a queue wait for.
	FullLimits []inspect.LimitInfo `json:"full_limits"`

	// Outboxes are the outboxes with a relay's report in the last day, by name, up to 50.
	Outboxes []Outbox `json:"outboxes,omitempty"`

	// Damaged are the keys with values of a wrong type. Figures that need them are missing.
	Damaged []inspect.DamagedKey `json:"damaged,omitempty"`

	Memory inspect.Memory `json:"memory"` // of the server

	// Refuses is the reason why the server refuses every change: MISCONF while unable to write data to
	// disk, NOREPLICAS while too few replicas follow, or READONLY on a replica. It is empty if the
	// server accepts changes.
	Refuses string `json:"refuses,omitempty"`

	// Listed are the workers, one by one.
	Listed []inspect.WorkerStatus `json:"-"`

	asOf    time.Time // by the server's clock
	master  string    // the address of the master if the server is a replica
	failing string    // the failure group of most of the failing jobs
	found   []Reason  // problems of single jobs and schedules
}

// Failed returns the number of failed jobs, in all groups.
func (s *Status) Failed() int {
	sum := 0
	for _, group := range s.Failures {
		sum += max(0, group.Jobs)
	}
	return sum
}

// statusWindow is the period of the rates in a status.
const statusWindow = 5 * time.Minute

// A QueueStatus is a queue with its rates and the number of workers known to take its jobs.
type QueueStatus struct {
	inspect.QueueOverview
	Workers int        `json:"workers"`
	Rates   Throughput `json:"rates"`

	settings  qless.QueueSettings // read only if jobs wait for long
	idle      int                 // paused or stopping workers of the queue
	silent    int                 // workers with unknown queues
	meant     string              // a queue with workers and nearly the same name
	unhandled string              // a klass of jobs released by the queue's workers
	found     []Reason            // problems of its jobs
}

// MarshalJSON writes the fields of the overview beside its own.
func (q QueueStatus) MarshalJSON() ([]byte, error) {
	type overview inspect.QueueOverview
	return json.Marshal(struct {
		overview
		Oldest  *units.Text `json:"oldest"`
		Workers int         `json:"workers"`
		Rates   Throughput  `json:"rates"`
	}{overview(q.QueueOverview), units.Known(q.Oldest), q.Workers, q.Rates})
}

// Throughput is the average number of jobs that ended per minute over the last few minutes.
type Throughput struct {
	Completed float64 `json:"completed_per_minute"`
	Failed    float64 `json:"failed_per_minute"`
	Retried   float64 `json:"retried_per_minute"`
}

// Add adds other to r.
func (r *Throughput) Add(other Throughput) {
	r.Completed += other.Completed
	r.Failed += other.Failed
	r.Retried += other.Retried
}

// A Workforce summarizes the workers of a namespace.
type Workforce struct {
	Registered int `json:"registered"` // registered workers
	Silent     int `json:"silent"`     // workers without registration
	Gone       int `json:"gone"`       // dead workers
	Slots      int `json:"slots"`      // of the registered workers
	Busy       int `json:"busy"`       // jobs held by these workers
	Held       int `json:"held"`       // jobs held by all workers
	Stalled    int `json:"stalled"`    // held jobs with expired locks
}

// A Group is a failure group.
type Group struct {
	Name string `json:"name"`
	Jobs int    `json:"jobs"`
}

// A StatusReader reads the status of a namespace, once or repeatedly.
type StatusReader struct {
	Client *qless.Client

	// Late is the longest that the oldest job of a queue may wait before the queue needs attention.
	Late time.Duration

	// Rates, if set, returns the number of jobs of each queue that ended recently. A program that
	// reads the status often may cache the counts of past minutes. By default, each call reads the
	// last 5 minutes.
	Rates func(ctx context.Context) (QueueRates, error)
}

// QueueRates counts the jobs of each queue that ended between two times. A queue may occur more
// than once.
type QueueRates struct {
	From, To time.Time
	Queues   []inspect.RateGroup
}

// ReadStatus reads the status of the client's namespace. See [StatusReader.Read].
func ReadStatus(
	ctx context.Context, client *qless.Client, late time.Duration,
) (*Status, error) {
	return (&StatusReader{Client: client, Late: late}).Read(ctx)
}

// Read reads the status of the namespace without changing anything. The server runs up to four
// commands, one script per 200 queues ([inspect.Inspector.Overview]), three commands per worker,
// one per minute of the rates, and one script per limit or key that keeps jobs waiting. More calls
// depend on the state: one for each of the 20 queues with the longest waits, three for each of the
// 10 with the most jobs with dependencies, two for each of the 10 with the most scheduled jobs, one
// for each of the 10 with the most running jobs, three more while one has been running for an hour,
// one for each of the 10 with the most recurring jobs and, while jobs fail, one for each of the 5
// largest failure groups. Jobs with unique keys that have refused puts cost a command and a script,
// and outboxes a command.
func (r *StatusReader) Read(ctx context.Context) (*Status, error) {
	s := &Status{Time: time.Now(), Namespace: r.Client.Namespace()}
	for _, step := range []func(context.Context, *StatusReader) error{
		s.readOverview, s.readServer, s.readWorkers, s.readRates, s.readMaxRates, s.readDependencies,
		s.readFailing, s.readJobs, s.readKeys, s.readUnlocked, s.readOutboxes,
	} {
		if err := step(ctx, r); err != nil {
			return nil, coded(err)
		}
	}
	s.Attention = s.problems(r.Late)
	return s, nil
}

// readServer checks whether the server accepts changes, and keeps them on disk. While unable to
// write to its disk, the server does not even answer a PING. INFO counts the replicas if the server
// requires any. Other errors do not matter here: the user may lack permission for INFO, or another
// master may have taken over.
func (s *Status) readServer(ctx context.Context, r *StatusReader) error {
	server, err := redisx.ServerOf(ctx, r.Client.Redis(), r.Client.Namespace())
	if err != nil {
		return err
	}
	pipe := server.Pipeline()
	ping, info := pipe.Ping(ctx), pipe.Info(ctx, "replication")
	disk := pipe.Info(ctx, "persistence")
	_, _ = pipe.Exec(ctx)
	fields := redisx.ParseInfo(info.Val())
	switch {
	case fields["role"] == "slave":
		s.Refuses, s.master = readOnly, net.JoinHostPort(fields["master_host"], fields["master_port"])
	case fields["min_slaves_good_slaves"] == "0":
		s.Refuses = noReplicas
	case redis.HasErrorPrefix(ping.Err(), misconf):
		s.Refuses = misconf
	}
	persistence, config := redisx.ParseInfo(disk.Val()), map[string]string(nil)
	if persistence["aof_enabled"] == "0" {
		config = server.ConfigGet(ctx, "save").Val()
	}
	if keepsNothing(persistence, config, time.Now()) {
		s.Remarks = append(s.Remarks, Reason{Code: ReasonNoPersistence}.inStatus())
	}
	return ctx.Err()
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
	s.Failures = GroupsOf(seen.FailureGroups)
	return s.readLimits(ctx, r.Client, seen.Limits)
}

// GroupsOf returns failure groups from their sizes, the largest first.
func GroupsOf(sizes map[string]int) []Group {
	groups := make([]Group, 0, len(sizes))
	for name, jobs := range sizes {
		groups = append(groups, Group{name, jobs})
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Name, b.Name))
	})
	return groups
}

func (s *Status) readLimits(
	ctx context.Context, client *qless.Client, limits []inspect.LimitOverview,
) error {
	s.FullLimits = []inspect.LimitInfo{}
	for _, limit := range limits {
		if limit.Parked <= 0 {
			continue
		}
		if err := s.addLimit(ctx, client, limit.Name); err != nil {
			return err
		}
	}
	return nil
}

// maxKeyJobs is the number of scheduled jobs per queue to ask for the limit keys that keep them
// waiting. There is no list of these keys.
const maxKeyJobs = 10

// readKeys adds limit keys that keep jobs waiting.
func (s *Status) readKeys(ctx context.Context, r *StatusReader) error {
	seen := map[string]bool{"": true}
	for _, limit := range s.FullLimits {
		seen[limit.Name] = true
	}
	scheduled := func(q *QueueStatus) int { return q.Scheduled }
	return s.search(ctx, r, maxSearched, search{scheduled, func(
		l *look, ctx context.Context,
	) ([]Reason, error) {
		first, err := l.in.Queue(l.Name, inspect.Scheduled).List(ctx, inspect.Range{Limit: maxKeyJobs})
		for _, job := range first.Items {
			if !seen[job.Parked] && err == nil {
				seen[job.Parked] = true
				err = s.addLimit(ctx, r.Client, job.Parked)
			}
		}
		return nil, err
	}})
}

func (s *Status) addLimit(ctx context.Context, client *qless.Client, name string) error {
	info, err := inspect.New(client).Limit(ctx, name)
	if err == nil && info.Parked > 0 {
		s.FullLimits = append(s.FullLimits, info)
	}
	return err
}

func (s *Status) readWorkers(ctx context.Context, r *StatusReader) error {
	workers, err := inspect.New(r.Client).Workers(ctx)
	if err != nil {
		return err
	}
	s.Listed = workers
	for i := range workers {
		s.Workers.Count(&workers[i])
	}
	served := servedQueues(workers)
	for i := range s.Queues {
		q := &s.Queues[i]
		force := newWorkforce(workers, q.Name)
		q.setWorkers(&force, served)
	}
	return nil
}

// setWorkers records the workers in the state of a queue, given the queues with workers.
func (q *QueueStatus) setWorkers(force *workforce, served []string) {
	q.Workers, q.idle, q.silent = len(force.takers), len(force.idle), len(force.silent)
	q.unhandled = force.unhandled(q.Name)
	if q.Workers == 0 {
		q.meant = nearly(q.Name, served)
	}
}

// Add adds the workers of another namespace to w.
func (w *Workforce) Add(other Workforce) {
	w.Registered += other.Registered
	w.Silent += other.Silent
	w.Gone += other.Gone
	w.Slots += other.Slots
	w.Busy += other.Busy
	w.Held += other.Held
	w.Stalled += other.Stalled
}

// Count adds a worker.
func (w *Workforce) Count(worker *inspect.WorkerStatus) {
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
	var last QueueRates
	err := guard.Try(func() (err error) { last, err = read(ctx); return err })
	if err != nil {
		return err
	}
	s.RatesFrom, s.RatesTo = last.From, last.To
	minutes := max(1, last.To.Sub(last.From).Minutes())
	byQueue := map[string]Throughput{}
	for _, group := range last.Queues {
		rates := Throughput{
			Completed: float64(group.Completed) / minutes,
			Failed:    float64(group.Failed) / minutes,
			Retried:   float64(group.Retried) / minutes,
		}
		sum := byQueue[group.Name]
		sum.Add(rates)
		byQueue[group.Name] = sum
		s.Rates.Add(rates)
	}
	for i := range s.Queues {
		s.Queues[i].Rates = byQueue[s.Queues[i].Name]
	}
	return nil
}

// lastRates reads the rates of the last few minutes.
func (r *StatusReader) lastRates(ctx context.Context) (QueueRates, error) {
	now := time.Now()
	from := now.Add(-statusWindow).Truncate(time.Minute)
	groups, err := inspect.New(r.Client).RatesByQueue(ctx, inspect.RateQuery{From: from, To: now})
	return QueueRates{from, now, groups}, err
}

// The numbers of queues and groups to examine more closely, and the shortest wait for which to
// examine a queue's max-rate.
const (
	maxRatedQueues   = 20
	maxFailingGroups = 5
	ratedFrom        = 10 * time.Second
)

// search makes a search in up to n queues with a figure above 0, the largest first. A damaged key
// excludes only its own queue.
func (s *Status) search(ctx context.Context, r *StatusReader, n int, one search) error {
	var queues []*QueueStatus
	for i := range s.Queues {
		if one.figure(&s.Queues[i]) > 0 {
			queues = append(queues, &s.Queues[i])
		}
	}
	slices.SortStableFunc(queues, func(a, b *QueueStatus) int { return one.figure(b) - one.figure(a) })
	for _, q := range queues[:min(n, len(queues))] {
		l := &look{QueueStatus: *q, client: r.Client, in: inspect.New(r.Client), now: s.asOf}
		found, err := one.find(l, ctx)
		if err := unlessDamaged(err); err != nil {
			return err
		}
		q.settings, q.found = l.settings, append(q.found, found...)
	}
	return nil
}

// unlessDamaged returns an error unless it comes from the server, as for a damaged key, or means
// that a job is gone.
func unlessDamaged(err error) error {
	if errors.Is(err, qless.ErrServer) || errors.Is(err, qless.ErrNotFound) {
		return nil
	}
	return err
}

// readMaxRates looks for queues that wait because of their max-rates.
func (s *Status) readMaxRates(ctx context.Context, r *StatusReader) error {
	waits := func(q *QueueStatus) int {
		if q.Waiting <= 0 || q.Paused || q.Oldest < ratedFrom {
			return 0
		}
		return int(q.Oldest / time.Second)
	}
	return s.search(ctx, r, maxRatedQueues, search{waits, func(
		l *look, ctx context.Context,
	) ([]Reason, error) {
		return nil, l.readSettings(ctx)
	}})
}

// readDependencies looks for jobs that wait for failed parents, for each other, or for a batch.
func (s *Status) readDependencies(ctx context.Context, r *StatusReader) error {
	depends := func(q *QueueStatus) int { return q.Depends }
	return s.search(ctx, r, maxSearched, search{depends, (*look).stuck})
}

// readFailing looks for a failure group with more than half of the recently failed jobs.
func (s *Status) readFailing(ctx context.Context, r *StatusReader) error {
	if s.Rates.Failed == 0 {
		return nil
	}
	in := inspect.New(r.Client)
	minutes := max(1, s.RatesTo.Sub(s.RatesFrom).Minutes())
	half := int(math.Round(s.Rates.Failed*minutes)) / 2
	for _, group := range s.Failures[:min(maxFailingGroups, len(s.Failures))] {
		last, err := in.Failed(group.Name).List(ctx, inspect.Range{Offset: half, Limit: 1})
		if err := unlessDamaged(err); err != nil {
			return err
		}
		if len(last.Items) > 0 && !last.Items[0].Since.Before(s.RatesFrom) {
			s.failing = group.Name
			return nil
		}
	}
	return nil
}
