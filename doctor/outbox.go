package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/qless/qless-go/internal/units"
)

// An outbox is the last report of the relays of an outbox.
type outbox struct {
	name     string
	Time     int64          `json:"time"`
	Rows     int            `json:"rows"`   // 10,000 if there are more
	Oldest   int            `json:"oldest"` // the age of the oldest row, in seconds
	Problems map[string]int `json:"problems"`
}

// relaysSilent is the time after which an outbox without a report has no relay.
const relaysSilent = 3 * time.Minute

// readOutboxes reads the reports of relays. The user may lack the permission.
func (s *Status) readOutboxes(ctx context.Context, r *StatusReader) error {
	reports, _ := r.Client.Redis().HGetAll(ctx, s.Namespace+"x:outbox").Result()
	for _, name := range slices.Sorted(maps.Keys(reports)) {
		o := outbox{name: name}
		if json.Unmarshal([]byte(reports[name]), &o) == nil {
			s.outboxes = append(s.outboxes, o)
		}
	}
	return ctx.Err()
}

// outboxProblems returns the problems of the outboxes.
func (s *Status) outboxProblems(late time.Duration) (found []Problem) {
	for _, o := range s.outboxes {
		silent, age := s.asOf.Sub(time.Unix(o.Time, 0)), time.Duration(o.Oldest)*time.Second
		add := func(urgent bool, jobs int, sentence string, args ...any) {
			found = append(found, Problem{Code: "outbox", Jobs: jobs, Urgent: urgent,
				Sentence: "the outbox " + o.name + " " + fmt.Sprintf(sentence, args...)})
		}
		aside := 0
		for _, n := range o.Problems {
			aside += n
		}
		if aside > 0 {
			add(false, aside, "has set %s aside, which wait for Relay.Retry or Drop", count(aside, "job"))
		}
		switch {
		case silent > relaysSilent:
			add(true, o.Rows, "has no relay: the last report is %s old, with %s",
				units.Age(silent), count(o.Rows, "row"))
		case age >= late:
			add(true, o.Rows, "is late: %s, the oldest for %s", waits(o.Rows), units.Age(age))
		}
	}
	return found
}
