package qless

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// KlassFailures are the failed jobs of one klass in a failure group.
type KlassFailures struct {
	Klass   string    `json:"klass"`
	Count   int       `json:"count"`
	First   time.Time `json:"first,omitzero"`   // the earliest failure
	Last    time.Time `json:"last,omitzero"`    // the latest failure
	Message string    `json:"message"`          // of the latest failure, at most 256 bytes
	Sample  string    `json:"sample,omitempty"` // the jid of that job
}

// FailureSummary is what the failed jobs of a group are.
type FailureSummary struct {
	// Klasses are their klasses, those with the most failures first.
	Klasses []KlassFailures `json:"klasses"`

	// Looked is how many of the jobs were looked at, from the latest failure on.
	Looked int `json:"looked"`

	// Total is how many jobs the group has.
	Total int `json:"total"`
}

// summarizedByDefault is how many failed jobs [Client.SummarizeFailures] looks at by default.
const summarizedByDefault = 1000

// SummarizeFailures counts the jobs of a failure group by klass. It looks at the latest limit of
// them, a thousand in one script. A limit of 0 means 1000. The special value -1 means all of them:
// jobs that leave the group meanwhile may then be missed, or counted twice.
func (c *Client) SummarizeFailures(
	ctx context.Context, group string, limit int,
) (FailureSummary, error) {
	const op = "failures"
	if err := checkName(op, "group", group); err != nil {
		return FailureSummary{}, err
	}
	if limit < -1 {
		return FailureSummary{}, invalid(op, "", "the limit %d is less than -1", limit)
	}
	limit = cmp.Or(limit, summarizedByDefault)
	sum := FailureSummary{Klasses: []KlassFailures{}}
	for cursor := ""; ; {
		count := lookedAtOnce
		if limit > 0 {
			count = min(count, limit-sum.Looked)
		}
		reply, err := c.run(ctx, op, "", group, cursor, strconv.Itoa(count))
		if err != nil {
			return FailureSummary{}, err
		}
		part, err := decode[failuresReply](op, reply)
		if err != nil {
			return FailureSummary{}, err
		}
		sum.add(&part)
		cursor = string(part.Cursor)
		if cursor == "" || sum.Looked == limit {
			break
		}
	}
	slices.SortFunc(sum.Klasses, func(a, b KlassFailures) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Klass, b.Klass))
	})
	return sum, nil
}

type failuresReply struct {
	Total   wire.Number `json:"total"`
	Looked  wire.Number `json:"looked"`
	Cursor  wire.Text   `json:"cursor"`
	Klasses wire.List[struct {
		Klass   wire.Text   `json:"klass"`
		Count   wire.Number `json:"count"`
		First   wire.Number `json:"first"`
		Last    wire.Number `json:"last"`
		Message wire.Text   `json:"message"`
		JID     wire.Raw    `json:"jid"`
	}] `json:"klasses"`
}

// add adds what a script has found among later failures' predecessors.
func (s *FailureSummary) add(part *failuresReply) {
	s.Total = part.Total.Int()
	s.Looked += part.Looked.Int()
	for _, r := range part.Klasses {
		s.addKlass(KlassFailures{
			Klass: string(r.Klass), Count: r.Count.Int(), First: r.First.Time(), Last: r.Last.Time(),
			Message: beginning(string(r.Message), len(r.Message)), Sample: string(r.JID),
		})
	}
}

func (s *FailureSummary) addKlass(more KlassFailures) {
	for i := range s.Klasses {
		known := &s.Klasses[i]
		if known.Klass != more.Klass {
			continue
		}
		known.Count += more.Count
		known.First = earliest(known.First, more.First)
		if more.Last.After(known.Last) {
			known.Last, known.Message, known.Sample = more.Last, more.Message, more.Sample
		}
		return
	}
	s.Klasses = append(s.Klasses, more)
}
