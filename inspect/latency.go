package inspect

import (
	"context"
	"encoding/json"
	"time"

	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/internal/wire"
)

// A Latency holds the waiting times of a queue.
type Latency struct {
	// Oldest is the longest wait of a job ready to pop, or 0 without such jobs.
	Oldest time.Duration `json:"oldest"`

	// ByPriority holds the same for each priority, highest first, at most 16 of them.
	ByPriority []PriorityLatency `json:"by_priority"`

	// More reports that lower priorities have jobs, too.
	More bool `json:"more,omitempty"`

	// NextDue is the time at which the next scheduled or recurring job is due, or zero. It is in the
	// past if no worker has asked the queue for jobs since.
	NextDue time.Time `json:"next_due,omitzero"`
}

// A PriorityLatency holds the longest wait of the jobs of one priority.
type PriorityLatency struct {
	Priority int
	Oldest   time.Duration
}

type latencyJSON struct {
	Oldest     units.Text     `json:"oldest"`
	ByPriority []priorityJSON `json:"by_priority"`
	More       bool           `json:"more,omitempty"`
	NextDue    time.Time      `json:"next_due,omitzero"`
}

type priorityJSON struct {
	Priority int        `json:"priority"`
	Oldest   units.Text `json:"oldest"`
}

// MarshalJSON writes durations as text.
func (l Latency) MarshalJSON() ([]byte, error) {
	written := latencyJSON{
		Oldest: units.Text(l.Oldest), ByPriority: []priorityJSON{}, More: l.More, NextDue: l.NextDue,
	}
	for _, p := range l.ByPriority {
		written.ByPriority = append(written.ByPriority, priorityJSON{p.Priority, units.Text(p.Oldest)})
	}
	return json.Marshal(written)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (l *Latency) UnmarshalJSON(text []byte) error {
	var read latencyJSON
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	*l = Latency{
		Oldest: time.Duration(read.Oldest), ByPriority: []PriorityLatency{}, More: read.More,
		NextDue: read.NextDue,
	}
	for _, p := range read.ByPriority {
		l.ByPriority = append(l.ByPriority, PriorityLatency{p.Priority, time.Duration(p.Oldest)})
	}
	return nil
}

// Latency returns the waiting times of a queue's jobs that could be popped if the queue is not
// paused and no limit holds them back. Scheduled and recurring jobs count from their due times.
// Jobs with expired locks don't count.
//
// A job that was released, timed out or given another priority counts from the put or the last pop,
// whichever came later; only eight such jobs are read in each priority. Among jobs that take turns
// ([qless.Fair]), the next one counts.
func (in *Inspector) Latency(ctx context.Context, queue string) (Latency, error) {
	const command = "latency"
	if err := checkName(command, "queue name", queue); err != nil {
		return Latency{}, err
	}
	replies, err := do[wire.List[struct {
		Bands wire.List[struct {
			Priority wire.Number `json:"priority"`
			Waited   wire.Number `json:"waited"`
		}] `json:"bands"`
		Next wire.Number `json:"next"`
		More bool        `json:"more"`
	}]](ctx, in.client, command, queue)
	if err != nil {
		return Latency{}, err
	}
	if len(replies) != 1 {
		return Latency{}, unexpected(command, replies)
	}
	r := replies[0]
	l := Latency{NextDue: r.Next.Time(), More: r.More, ByPriority: []PriorityLatency{}}
	for _, band := range r.Bands {
		waited := band.Waited.Duration()
		l.Oldest = max(l.Oldest, waited)
		l.ByPriority = append(l.ByPriority, PriorityLatency{band.Priority.LargeInt(), waited})
	}
	return l, nil
}
