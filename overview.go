package qless

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// An OverviewQuery says what [Client.Overview] reads.
type OverviewQuery struct {
	// From is how many queues to pass over, of those that were seen first.
	From int

	// Queues is how many queues to read at most, of those after From that were seen first. Defaults to
	// 1000. The special value -1 means none.
	Queues int

	// StatsOf are the queues whose statistics of today to read. A queue with jobs costs about twice
	// as much with them.
	StatsOf []string
}

// An Overview has the figures that are worth watching, as they were at one time.
type Overview struct {
	// Time is when they were read, by the server's clock.
	Time time.Time `json:"time"`

	// Queues are the queues, in the order in which they were first seen, and Total is how many
	// there are.
	Queues []QueueOverview `json:"queues"`
	Total  int             `json:"total"`

	// Stats are the statistics of today (UTC) of the queues that were named.
	Stats map[string]Stats `json:"stats"`

	// Workers is how many workers were seen within [ConfigMaxWorkerAge], in any language.
	Workers int `json:"workers"`

	// FailureGroups is how many jobs each failure group has, of at most 1000 groups.
	FailureGroups map[string]int `json:"failure_groups"`

	// Limits are the first 100 limits that have a definition, by name.
	Limits []LimitOverview `json:"limits"`

	// Damaged are the keys that are not what they should be. What would be read from them is left
	// out, or -1 where it is a number.
	Damaged []string `json:"damaged,omitempty"`
}

// A QueueOverview has the figures of a queue.
type QueueOverview struct {
	// QueueCounts count jobs that have fallen due as waiting. The Latency is nil.
	QueueCounts

	// Oldest is for how long the oldest job has been waiting that could be popped, as
	// [Latency.Oldest], to the millisecond, or -1 if that can't be told.
	Oldest time.Duration `json:"oldest"`

	// MaxConcurrency is how many jobs of the queue may run at a time, or 0 for any number.
	MaxConcurrency int `json:"max_concurrency"`
}

// A LimitOverview has the figures of a limit.
type LimitOverview struct {
	NamedLimit

	// Used is how many slots of its Concurrency are taken. A job that has lost its lock has one
	// until another job needs it.
	Used int `json:"used"`

	// Parked is how many jobs wait for room.
	Parked int `json:"parked"`
}

// overviewPage is how many queues a script reads, and of how many it reads the statistics.
const (
	overviewPage  = 200
	overviewStats = 50
)

// Overview returns the figures of queues, workers, failures and limits, for metrics and dashboards.
// It changes nothing, and a damaged key costs only its own figures. One script reads up to 200
// queues, or the statistics of 50.
func (c *Client) Overview(ctx context.Context, query OverviewQuery) (Overview, error) {
	const op = "overview"
	if query.Queues < -1 {
		return Overview{}, invalid(op, "", "the number of queues %d is less than -1", query.Queues)
	}
	if query.From < 0 {
		return Overview{}, invalid(op, "", "the first queue %d is negative", query.From)
	}
	if len(query.StatsOf) > 0 {
		if err := checkNames(op, "queue name", query.StatsOf); err != nil {
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
	return c.readOverview(ctx, query.From, limit, query.StatsOf)
}

func (c *Client) readOverview(
	ctx context.Context, from, limit int, statsOf []string,
) (Overview, error) {
	o := Overview{
		Queues: []QueueOverview{}, Stats: map[string]Stats{}, FailureGroups: map[string]int{},
		Limits: []LimitOverview{},
	}
	more := "1"
	for read := 0; ; read += overviewPage {
		queues := max(0, min(overviewPage, limit-read))
		stats := statsOf[:min(overviewStats, len(statsOf))]
		statsOf = statsOf[len(stats):]
		args := []any{strconv.Itoa(from + read), strconv.Itoa(queues), more}
		more = "0"
		reply, err := c.run(ctx, "overview", "", anys(args, stats...)...)
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

// The parts of a reply of the script overview, by their places. Only the first reply has those from
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
)

// add adds a reply. It returns whether the reply is what it should be.
func (o *Overview) add(reply []any) bool {
	if len(reply) <= overviewDamaged {
		return false
	}
	if len(reply) > overviewLimits {
		o.Time = wire.AsNumber(reply[overviewTime]).Time()
		o.Workers = figure(reply[overviewWorkers])
		o.addGroups(items(reply[overviewGroups]))
		o.addLimits(items(reply[overviewLimits]))
	}
	o.Total = figure(reply[overviewTotal])
	o.Queues = append(o.Queues, queuesOf(reply)...)
	for _, day := range items(reply[overviewDays]) {
		o.addStats(items(day))
	}
	for _, key := range items(reply[overviewDamaged]) {
		o.Damaged = append(o.Damaged, wire.AsString(key))
	}
	return true
}

// figure reads a count, or returns -1 if there is none because its key is damaged.
func figure(part any) int {
	if n, ok := part.(int64); ok {
		return int(n)
	}
	return -1
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

// overviewQueueParts is how many figures a reply has of a queue, the first of which is its place.
const overviewQueueParts = 8

func (q *QueueOverview) addFigures(parts []any) {
	q.Waiting, q.Running, q.Stalled = figure(parts[1]), figure(parts[2]), figure(parts[3])
	q.Scheduled, q.Depends = figure(parts[4]), figure(parts[5])
	q.Recurring, q.Oldest = figure(parts[6]), -1
	if oldest := figure(parts[7]); oldest >= 0 {
		q.Oldest = time.Duration(oldest) * time.Millisecond
	}
}

// addStats adds the statistics of a queue, unless one of their keys is damaged.
func (o *Overview) addStats(parts []any) {
	if len(parts) < 7 || parts[1] == nil || parts[5] == nil || parts[6] == nil {
		return
	}
	o.Stats[wire.AsString(parts[0])] = Stats{
		Retries:  wire.AsNumber(parts[1]).Int(),
		Failed:   wire.AsNumber(parts[2]).Int(),
		Failures: wire.AsNumber(parts[3]).Int(),
		Expired:  wire.AsNumber(parts[4]).Int(),
		Wait:     summaryOf(items(parts[5])),
		Run:      summaryOf(items(parts[6])),
	}
}

func (o *Overview) addGroups(parts []any) {
	for i := 0; i+1 < len(parts); i += 2 {
		if parts[i+1] != nil {
			o.FailureGroups[wire.AsString(parts[i])] = figure(parts[i+1])
		}
	}
}

func (o *Overview) addLimits(limits []any) {
	for _, limit := range limits {
		parts := items(limit)
		if len(parts) < 4 {
			continue
		}
		o.Limits = append(o.Limits, LimitOverview{
			NamedLimit: NamedLimit{wire.AsString(parts[0]), parseLimit(wire.AsString(parts[1]))},
			Used:       figure(parts[2]),
			Parked:     figure(parts[3]),
		})
	}
}
