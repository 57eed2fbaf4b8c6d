package qless

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// A Latency says for how long jobs of a queue have been waiting that could be popped.
type Latency struct {
	// Oldest is for how long the oldest of them has been waiting, or 0 if there is none.
	Oldest time.Duration `json:"oldest"`

	// ByPriority is the same for each priority, the highest first. There are at most 16 of those
	// that the waiting jobs have.
	ByPriority []PriorityLatency `json:"by_priority"`

	// More says that there are jobs with lower priorities than those in ByPriority, which count
	// nowhere.
	More bool `json:"more,omitempty"`

	// NextDue is when the next scheduled or recurring job falls due, or zero if there is none. It is
	// past if that job has fallen due, and no worker has asked its queue for jobs since.
	NextDue time.Time `json:"next_due,omitzero"`
}

// A PriorityLatency is the latency of the jobs of one priority.
type PriorityLatency struct {
	Priority int           `json:"priority"`
	Oldest   time.Duration `json:"oldest"`
}

// MarshalJSON writes the duration in seconds.
func (l Latency) MarshalJSON() ([]byte, error) {
	type fields Latency
	return json.Marshal(struct {
		fields
		Oldest float64 `json:"oldest"`
	}{fields(l), secondsOf(l.Oldest)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (l *Latency) UnmarshalJSON(text []byte) error {
	type fields Latency
	read := struct {
		fields
		Oldest float64 `json:"oldest"`
	}{fields(*l), secondsOf(l.Oldest)}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	*l = Latency(read.fields)
	l.Oldest = durationOf(read.Oldest)
	return nil
}

// MarshalJSON writes the duration in seconds.
func (l PriorityLatency) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Priority int     `json:"priority"`
		Oldest   float64 `json:"oldest"`
	}{l.Priority, secondsOf(l.Oldest)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (l *PriorityLatency) UnmarshalJSON(text []byte) error {
	read := struct {
		Priority int     `json:"priority"`
		Oldest   float64 `json:"oldest"`
	}{l.Priority, secondsOf(l.Oldest)}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	*l = PriorityLatency{read.Priority, durationOf(read.Oldest)}
	return nil
}

// Latency returns for how long the jobs of the queue have been waiting that could be popped, if it
// is not paused and no limit holds them back. It changes nothing: scheduled and recurring jobs that
// have fallen due count from then. Jobs whose locks have ended don't count.
//
// A job that was released, timed out or given another priority counts from its put or its last pop,
// whichever came later, and of those only eight in each priority are read. Among jobs that take
// turns ([Fair]), the one counts that is next.
func (q *Queue) Latency(ctx context.Context) (Latency, error) {
	if err := q.check("latency"); err != nil {
		return Latency{}, err
	}
	all, err := q.client.latencies(ctx, []string{q.name})
	if err != nil {
		return Latency{}, err
	}
	return all[0], nil
}

// queuesAtOnce is how many queues a script looks at for their latency.
const queuesAtOnce = 100

// latencies returns the latencies of queues, in their order.
func (c *Client) latencies(ctx context.Context, queues []string) ([]Latency, error) {
	all := make([]Latency, 0, len(queues))
	for part := range slices.Chunk(queues, queuesAtOnce) {
		reply, err := c.run(ctx, "latency", "", anys(nil, part...)...)
		if err != nil {
			return nil, err
		}
		replies, err := decode[wire.List[latencyReply]]("latency", reply)
		if err != nil {
			return nil, err
		}
		if len(replies) != len(part) {
			return nil, unexpected("latency", reply)
		}
		for _, r := range replies {
			all = append(all, r.latency())
		}
	}
	return all, nil
}

type latencyReply struct {
	Bands wire.List[struct {
		Priority wire.Number `json:"priority"`
		Waited   wire.Number `json:"waited"`
	}] `json:"bands"`
	Next wire.Number `json:"next"`
	More bool        `json:"more"`
}

func (r *latencyReply) latency() Latency {
	l := Latency{NextDue: r.Next.Time(), More: r.More, ByPriority: []PriorityLatency{}}
	for _, band := range r.Bands {
		l.add(PriorityLatency{band.Priority.LargeInt(), band.Waited.Duration()})
	}
	return l
}

// add counts the latency of a priority.
func (l *Latency) add(one PriorityLatency) {
	l.Oldest = max(l.Oldest, one.Oldest)
	at := slices.IndexFunc(l.ByPriority, func(p PriorityLatency) bool { return p.Priority <= one.Priority })
	switch {
	case at < 0:
		l.ByPriority = append(l.ByPriority, one)
	case l.ByPriority[at].Priority == one.Priority:
		l.ByPriority[at].Oldest = max(l.ByPriority[at].Oldest, one.Oldest)
	default:
		l.ByPriority = slices.Insert(l.ByPriority, at, one)
	}
}

// plus returns the latency of two parts of a queue. Either may be nil.
func (l *Latency) plus(other *Latency) *Latency {
	if l == nil || other == nil {
		if l == nil {
			return other
		}
		return l
	}
	sum := *l
	sum.ByPriority = slices.Clone(l.ByPriority)
	for _, one := range other.ByPriority {
		sum.add(one)
	}
	sum.More = l.More || other.More
	sum.NextDue = earliest(l.NextDue, other.NextDue)
	return &sum
}

// A CountsOption is an option for [Client.Queues], [Queue.Counts] and the same methods of shards:
// [IncludeLatency].
type CountsOption interface{ applyCounts(*callOptions) }

// An Include says what else to read.
type Include string

// IncludeLatency reads the [Latency] of each queue as well, by another script for each 100 queues.
const IncludeLatency Include = "latency"

func (o Include) applyCounts(c *callOptions) { c.include = append(c.include, o) }

// countsOptions checks the options of a call that counts.
func countsOptions(options []CountsOption) (callOptions, error) {
	var o callOptions
	if err := applyOptions("queues", &o, options, CountsOption.applyCounts); err != nil {
		return o, err
	}
	for _, what := range o.include {
		if what != IncludeLatency {
			return o, invalid("queues", "", "there is nothing called %q to include", string(what))
		}
	}
	return o, nil
}

// addLatencies sets the latencies of queues, if the options say so.
func (c *Client) addLatencies(ctx context.Context, counts []QueueCounts, o *callOptions) error {
	if len(o.include) == 0 {
		return nil
	}
	names := make([]string, len(counts))
	for i := range counts {
		names[i] = counts[i].Name
	}
	all, err := c.latencies(ctx, names)
	for i := range all {
		counts[i].Latency = &all[i]
	}
	return err
}
