package inspect

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/histogram"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/internal/wire"
)

// An OverviewQuery selects the figures of an [Overview]. The zero value selects the first 1000
// queues without statistics.
type OverviewQuery struct {
	From    int      // the number of queues to skip
	Queues  int      // the maximum number of queues; defaults to 1000; -1 means none
	StatsOf []string // queues with today's statistics, at about twice the cost of a queue
}

// An Overview holds the figures of a namespace at one time.
type Overview struct {
	Time          time.Time              `json:"time"`              // by the server's clock
	Queues        []QueueOverview        `json:"queues"`            // earliest seen first
	Total         int                    `json:"total"`             // the number of all queues
	Stats         map[string]qless.Stats `json:"stats"`             // of today (UTC), by queue
	Workers       int                    `json:"workers"`           // seen within max-worker-age
	FailureGroups map[string]int         `json:"failure_groups"`    // sizes of up to 1000 groups
	Limits        []LimitOverview        `json:"limits"`            // the first 100, by name
	Damaged       []DamagedKey           `json:"damaged,omitempty"` // unreadable keys
	Memory        Memory                 `json:"memory"`            // zero if the server refuses it
}

// A DamagedKey is a key with a value of the wrong kind.
type DamagedKey struct {
	Key  string `json:"key"`
	Kind string `json:"kind"` // as named by the Redis command TYPE
}

// A Memory holds the figures of a server's memory.
type Memory struct {
	Used   int64  `json:"used"`             // in bytes
	Max    int64  `json:"max"`              // maxmemory in bytes; 0 means no limit
	Policy string `json:"policy,omitempty"` // maxmemory-policy
}

// A QueueOverview holds the figures of a queue. A figure is -1 if its key is damaged.
type QueueOverview struct {
	qless.QueueCounts

	// Oldest is the longest wait of a job ready to pop, to the millisecond. If unknown, it is -1, and
	// null in JSON.
	Oldest time.Duration `json:"oldest"`

	// MaxConcurrency is the maximum number of jobs that may run at once, or 0 for no limit.
	MaxConcurrency int `json:"max_concurrency"`
}

type queueFields QueueOverview

type queueJSON struct {
	*queueFields
	Oldest *units.Text `json:"oldest"`
}

// MarshalJSON writes Oldest as text.
func (q QueueOverview) MarshalJSON() ([]byte, error) {
	return json.Marshal(queueJSON{(*queueFields)(&q), units.Known(q.Oldest)})
}

// UnmarshalJSON reads the output of MarshalJSON.
func (q *QueueOverview) UnmarshalJSON(text []byte) error {
	read := queueJSON{(*queueFields)(q), nil}
	err := json.Unmarshal(text, &read)
	if q.Oldest = -1; read.Oldest != nil {
		q.Oldest = time.Duration(*read.Oldest)
	}
	return err
}

// The number of queues that a script reads without and with statistics.
const (
	overviewPage  = 200
	overviewStats = 50
)

// Overview returns the figures of queues, workers, failures and limits, for metrics and dashboards.
// A damaged key affects only its own figures. One script reads up to 200 queues, or the statistics
// of 50.
func (in *Inspector) Overview(ctx context.Context, query OverviewQuery) (Overview, error) {
	const command = "overview"
	if query.Queues < -1 {
		return Overview{}, invalid(command, "the number of queues %d is less than -1", query.Queues)
	}
	if query.From < 0 {
		return Overview{}, invalid(command, "the first queue %d is negative", query.From)
	}
	if len(query.StatsOf) > 0 {
		if err := checkNames(command, "queue name", query.StatsOf); err != nil {
			return Overview{}, err
		}
	}
	limit := query.Queues
	switch limit {
	case -1:
		limit = 0
	case 0:
		limit = 1000
	}
	return in.readOverview(ctx, query.From, limit, query.StatsOf)
}

func (in *Inspector) readOverview(
	ctx context.Context, from, limit int, statsOf []string,
) (Overview, error) {
	o := Overview{
		Queues: []QueueOverview{}, Stats: map[string]qless.Stats{}, FailureGroups: map[string]int{},
		Limits: []LimitOverview{},
	}
	more := 1
	for read := 0; ; read += overviewPage {
		queues := max(0, min(overviewPage, limit-read))
		stats := statsOf[:min(overviewStats, len(statsOf))]
		statsOf = statsOf[len(stats):]
		args := []any{from + read, queues, more}
		for _, queue := range stats {
			args = append(args, queue)
		}
		more = 0
		reply, err := in.client.Do(ctx, "overview", args...)
		if err != nil {
			return Overview{}, err
		}
		if !o.add(items(reply)) {
			return Overview{}, unexpected("overview", reply)
		}
		if len(statsOf) == 0 && min(limit, o.Total-from) <= read+overviewPage {
			return o, nil
		}
	}
}

// The parts of a reply of the command overview, by place. Only the first reply has the parts from
// overviewWorkers on.
const (
	overviewTime = iota
	overviewTotal
	overviewNames
	overviewMax
	overviewPaused
	overviewFigures
	overviewDays
	overviewDamaged
	overviewWorkers
	overviewGroups
	overviewLimits
	overviewMemory
)

// add adds a reply and reports whether the reply has the right shape.
func (o *Overview) add(reply []any) bool {
	if len(reply) <= overviewDamaged {
		return false
	}
	if len(reply) > overviewMemory {
		o.Time = wire.AsNumber(reply[overviewTime]).Time()
		o.Workers = figure(reply[overviewWorkers])
		o.addGroups(items(reply[overviewGroups]))
		if parts := items(reply[overviewMemory]); len(parts) == 3 {
			o.Memory.Used = int64(wire.AsNumber(parts[0]))
			o.Memory.Max = int64(wire.AsNumber(parts[1]))
			o.Memory.Policy = wire.AsString(parts[2])
		}
		for _, limit := range items(reply[overviewLimits]) {
			if parts := items(limit); len(parts) >= limitParts {
				o.Limits = append(o.Limits, limitOverview(parts))
			}
		}
	}
	o.Total = figure(reply[overviewTotal])
	o.Queues = append(o.Queues, queuesOf(reply)...)
	for _, day := range items(reply[overviewDays]) {
		o.addStats(items(day))
	}
	for pair := range slices.Chunk(items(reply[overviewDamaged]), 2) {
		o.Damaged = append(o.Damaged, DamagedKey{wire.AsString(pair[0]), wire.AsString(pair[1])})
	}
	return true
}

// queuesOf returns the queues of a reply.
func queuesOf(reply []any) []QueueOverview {
	names, limits := items(reply[overviewNames]), items(reply[overviewMax])
	paused := map[string]bool{}
	for _, name := range items(reply[overviewPaused]) {
		paused[wire.AsString(name)] = true
	}
	queues := make([]QueueOverview, len(names))
	for i := range names {
		q := &queues[i]
		q.Name = wire.AsString(names[i])
		q.Paused = paused[q.Name]
		if i < len(limits) {
			q.MaxConcurrency = max(0, wire.AsNumber(limits[i]).Int())
		}
	}
	for part := range slices.Chunk(items(reply[overviewFigures]), overviewQueueParts) {
		if i := figure(part[0]) - 1; i >= 0 && i < len(queues) && len(part) == overviewQueueParts {
			queues[i].addFigures(part)
		}
	}
	return queues
}

// overviewQueueParts is the number of figures of a queue in a reply, starting with its index.
const overviewQueueParts = 8

func (q *QueueOverview) addFigures(parts []any) {
	q.Waiting, q.Running, q.Stalled = figure(parts[1]), figure(parts[2]), figure(parts[3])
	q.Scheduled, q.Depends = figure(parts[4]), figure(parts[5])
	q.Recurring, q.Oldest = figure(parts[6]), -1
	if oldest := figure(parts[7]); oldest >= 0 {
		q.Oldest = time.Duration(oldest) * time.Millisecond
	}
}

// addStats adds the statistics of a queue, unless one of its keys is damaged.
func (o *Overview) addStats(parts []any) {
	if len(parts) < 7 || parts[1] == nil || parts[5] == nil || parts[6] == nil {
		return
	}
	o.Stats[wire.AsString(parts[0])] = qless.Stats{
		Retries:  wire.AsNumber(parts[1]).Int(),
		Failed:   wire.AsNumber(parts[2]).Int(),
		Failures: wire.AsNumber(parts[3]).Int(),
		Expired:  wire.AsNumber(parts[4]).Int(),
		Wait:     summaryOf(items(parts[5])),
		Run:      summaryOf(items(parts[6])),
	}
}

// summaryOf reads a stored summary.
func summaryOf(fields []any) qless.Summary {
	d := histogram.ReadDay(fields)
	s := qless.Summary{Count: d.Count, Mean: d.Mean, Std: d.Std}
	for _, b := range d.Buckets {
		s.Histogram = append(s.Histogram, qless.Bucket(b))
	}
	return s
}

func (o *Overview) addGroups(parts []any) {
	for i := 0; i+1 < len(parts); i += 2 {
		if parts[i+1] != nil {
			o.FailureGroups[wire.AsString(parts[i])] = figure(parts[i+1])
		}
	}
}
