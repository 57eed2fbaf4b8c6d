package inspect

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/internal/wire"
)

// A HistoryQuery selects a period of at most 30 days.
type HistoryQuery struct {
	From   time.Time // the beginning; defaults to an hour before now
	To     time.Time // the end, exclusive; defaults to now
	Queues []string  // to read in addition to all queues together
}

// A History holds the figures of a queue over time.
type History struct {
	Queue  string         `json:"queue,omitempty"` // empty for all queues together
	Step   time.Duration  `json:"step"`            // a minute, five, or an hour
	Points []HistoryPoint `json:"points"`          // one for each step, oldest first
	Known  time.Duration  `json:"known"`           // the minutes with known figures
	Period time.Duration  `json:"period"`          // all minutes, including the present one
	Failed int            `json:"failed"`          // jobs that failed in the known minutes
}

// A HistoryPoint holds the highest figures in a step, and the number of failures. All are 0 if
// nothing is known.
type HistoryPoint struct {
	Time    time.Time     `json:"time"`  // the beginning of the step
	Known   time.Duration `json:"known"` // how long figures are known
	Waiting int           `json:"waiting"`
	Oldest  time.Duration `json:"oldest"`  // the longest wait, in seconds
	Running int           `json:"running"` // busy slots of workers
	Workers int           `json:"workers"` // running Go workers that take from the queue
	Failed  int           `json:"failed"`  // jobs that failed, as in [qless.Stats.Failures]
}

type historyFields History

// MarshalJSON writes durations as text.
func (h History) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		historyFields
		Step   units.Text `json:"step"`
		Known  units.Text `json:"known"`
		Period units.Text `json:"period"`
	}{historyFields(h), units.Text(h.Step), units.Text(h.Known), units.Text(h.Period)})
}

type pointFields HistoryPoint

// MarshalJSON writes durations as text.
func (p HistoryPoint) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		pointFields
		Known  units.Text `json:"known"`
		Oldest units.Text `json:"oldest"`
	}{pointFields(p), units.Text(p.Known), units.Text(p.Oldest)})
}

// historiesAtOnce is the maximum number of queues that a script reads.
const historiesAtOnce = 100

// History returns the history of all queues together, then of each queue in the query. The steps
// are minutes if the period begins within the last three hours, five minutes within the last day,
// and otherwise hours.
//
// Workers, open dashboards and [Inspector.RecordHistory] record each minute. Without any of them, a
// minute is unknown. The server keeps 20 kB for each of the first 1000 queues that had jobs or
// workers within the last 31 days.
func (in *Inspector) History(ctx context.Context, query HistoryQuery) ([]History, error) {
	const command = "queue.history"
	if err := query.check(command); err != nil {
		return nil, err
	}
	from := query.from()
	all := []History{{}}
	for some := range chunks(query.Queues, historiesAtOnce) {
		args := []any{strconv.FormatFloat(from, 'f', -1, 64)}
		for _, queue := range some {
			args = append(args, queue)
		}
		reply, err := in.client.Do(ctx, command, args...)
		if err != nil {
			return nil, err
		}
		parts := items(reply)
		if len(parts) != 3+len(some) || ringSizes[figure(parts[1])] == 0 {
			return nil, unexpected(command, reply)
		}
		p := newPast(parts, from, query.To)
		all[0] = p.history("", p.all)
		for i, queue := range some {
			all = append(all, p.history(queue, wire.AsString(parts[3+i])))
		}
	}
	return all, nil
}

func (q HistoryQuery) check(command string) error {
	switch {
	case !q.To.IsZero() && !q.From.IsZero() && q.To.Before(q.From):
		return invalid(command, "to %v is before from %v", q.To, q.From)
	case len(q.Queues) > 0:
		return checkNames(command, "queue name", q.Queues)
	}
	return nil
}

// from returns the beginning for the script: a time, or minus the seconds since then.
func (q HistoryQuery) from() float64 {
	if q.From.IsZero() {
		return -time.Hour.Seconds()
	}
	return float64(max(0, q.From.Unix()))
}

// chunks is slices.Chunk, but returns one empty chunk for an empty list.
func chunks(list []string, n int) iter.Seq[[]string] {
	if len(list) == 0 {
		return slices.Values([][]string{nil})
	}
	return slices.Chunk(list, n)
}

// A past reads histories of a period.
type past struct {
	now         time.Time
	step        int64 // in seconds
	records     int64 // of a ring
	first, last int64 // the numbers of the first and the last step since 1970
	all         string
}

// recordSize is the number of bytes of a record, in the format of lua/lib/past.lua.
const recordSize = 17

// ringSizes are the numbers of records in a ring, by their steps in seconds.
var ringSizes = map[int]int64{60: 180, 300: 288, 3600: 720}

func newPast(parts []any, from float64, to time.Time) *past {
	p := &past{
		now: wire.AsNumber(parts[0]).Time(), step: int64(figure(parts[1])),
		records: ringSizes[figure(parts[1])], all: wire.AsString(parts[2]),
	}
	if from < 0 {
		from += float64(p.now.Unix())
	}
	if to.IsZero() {
		to = p.now.Add(1)
	}
	present := p.now.Unix() / p.step
	p.last = min(to.Add(-1).Unix()/p.step, present)
	p.first = max(int64(from)/p.step, present-p.records+1)
	if p.last == present && p.record(p.all, present) == nil {
		p.last-- // not recorded yet
	}
	return p
}

// history reads a ring of a queue.
func (p *past) history(queue, ring string) History {
	h := History{Queue: queue, Step: time.Duration(p.step) * time.Second, Points: []HistoryPoint{}}
	for n := p.first; n <= p.last; n++ {
		one := HistoryPoint{Time: time.Unix(n*p.step, 0)}
		whole := min(h.Step, p.now.Sub(one.Time).Truncate(time.Minute)+time.Minute)
		if known := p.record(p.all, n); known != nil {
			one.Known = min(whole, time.Duration(number(known[:2])%64)*time.Minute)
			if r := p.record(ring, n); r != nil {
				one.Waiting, one.Oldest = number(r[2:6]), time.Duration(number(r[6:9]))*time.Second
				one.Running, one.Workers, one.Failed = number(r[9:12]), number(r[12:14]), number(r[14:17])
			}
		}
		h.Points = append(h.Points, one)
		h.Known, h.Period, h.Failed = h.Known+one.Known, h.Period+whole, h.Failed+one.Failed
	}
	return h
}

// record returns the record of a step in a ring, or nil.
func (p *past) record(ring string, n int64) []byte {
	if int64(len(ring)) != p.records*recordSize {
		return nil
	}
	at := n % p.records * recordSize
	record := []byte(ring[at : at+recordSize])
	if head := number(record[:2]); head%64 == 0 || int64(head/64) != n/p.records%1024 {
		return nil
	}
	return record
}

// number reads big-endian bytes.
func number(bytes []byte) (n int) {
	for _, b := range bytes {
		n = n<<8 + int(b)
	}
	return n
}

// RecordHistory records this minute's figures in the histories of queues, unless recorded already.
// Workers and an open dashboard do the same. Read-only users record nothing.
func (in *Inspector) RecordHistory(ctx context.Context) error {
	for next := []any(nil); ; {
		reply, err := in.client.Do(ctx, "queues.record", next...)
		if err != nil {
			return err
		}
		if next = items(reply); len(next) == 0 {
			return nil
		}
	}
}
