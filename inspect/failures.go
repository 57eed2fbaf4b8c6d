package inspect

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// FailureGroups returns the number of failed jobs in each group. It reads about 500 groups at a
// time.
func (in *Inspector) FailureGroups(ctx context.Context) (map[string]int, error) {
	groups := map[string]int{}
	for cursor := ""; ; {
		part, err := do[struct {
			Cursor wire.Text              `json:"cursor"`
			Groups map[string]wire.Number `json:"groups"`
		}](ctx, in.client, "failed", "", 0, 0, "from", cursor)
		if err != nil {
			return nil, err
		}
		for group, count := range part.Groups {
			groups[group] = count.Int()
		}
		if cursor = string(part.Cursor); cursor == "" {
			return groups, nil
		}
	}
}

// A FailureSummary counts the failed jobs of a group.
type FailureSummary struct {
	Klasses  []KlassFailures `json:"klasses"`  // most failures first
	Examined int             `json:"examined"` // the number of jobs examined, latest first
	Total    int             `json:"total"`    // the number of jobs in the group
}

// KlassFailures counts the failed jobs of one klass.
type KlassFailures struct {
	Klass   string    `json:"klass"`
	Count   int       `json:"count"`
	First   time.Time `json:"first,omitzero"`   // the earliest failure
	Last    time.Time `json:"last,omitzero"`    // the latest failure
	Message string    `json:"message"`          // of the latest failure, at most 256 bytes
	Sample  string    `json:"sample,omitempty"` // the jid of the latest failure
}

// summarizedByDefault is the number of failed jobs that Failures examines by default.
const summarizedByDefault = 1000

// Failures counts up to limit of the latest failed jobs of a group by klass, 1000 at a time. A
// limit of 0 means 1000, and -1 means all: jobs that leave the group in the meantime may then be
// missed or counted twice.
func (in *Inspector) Failures(
	ctx context.Context, group string, limit int,
) (FailureSummary, error) {
	const command = "failures"
	if err := checkName(command, "group", group); err != nil {
		return FailureSummary{}, err
	}
	if limit < -1 {
		return FailureSummary{}, invalid(command, "the limit %d is less than -1", limit)
	}
	limit = cmp.Or(limit, summarizedByDefault)
	sum := FailureSummary{Klasses: []KlassFailures{}}
	for cursor := ""; ; {
		count := lookedAtOnce
		if limit > 0 {
			count = min(count, limit-sum.Examined)
		}
		part, err := do[failuresReply](ctx, in.client, command, group, cursor, count)
		if err != nil {
			return FailureSummary{}, err
		}
		sum.add(&part)
		cursor = string(part.Cursor)
		if cursor == "" || sum.Examined == limit {
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

// add adds the counts of earlier failures.
func (s *FailureSummary) add(part *failuresReply) {
	s.Total = part.Total.Int()
	s.Examined += part.Looked.Int()
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

// Tags returns the tags of at least two jobs, most used first. A range of more than 5000 tags is
// read in steps.
func (in *Inspector) Tags(ctx context.Context, r Range) (Page[string], error) {
	offset, limit, err := r.bounds("tag")
	if err != nil {
		return Page[string]{}, err
	}
	page := Page[string]{Items: []string{}}
	for {
		n := min(limit-len(page.Items), listedAtOnce)
		part, err := do[struct {
			Total wire.Number          `json:"total"`
			Tags  wire.List[wire.Text] `json:"tags"`
		}](ctx, in.client, "tag", "top", offset+len(page.Items), n, "total")
		if err != nil {
			return Page[string]{}, err
		}
		page.Total = part.Total.Int()
		page.Items = append(page.Items, wire.Strings(part.Tags)...)
		if len(part.Tags) < n || len(page.Items) == limit {
			return page, nil
		}
	}
}
