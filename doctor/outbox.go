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

// An Outbox is the last report of an outbox's relays.
type Outbox struct {
	Name     string         `json:"name"`
	Reported time.Time      `json:"reported"`           // by the server's clock
	Rows     int            `json:"rows"`               // waiting rows; 10,000 if there are more
	Oldest   time.Duration  `json:"oldest"`             // the age of the oldest waiting row
	Problems map[string]int `json:"problems,omitempty"` // rows set aside, by kind
}

// MarshalJSON writes Oldest as text.
func (o Outbox) MarshalJSON() ([]byte, error) { return units.Marshal(o) }

// UnmarshalJSON reads the output of MarshalJSON.
func (o *Outbox) UnmarshalJSON(text []byte) error { return units.Unmarshal(text, o) }

// Aside returns the number of rows set aside.
func (o *Outbox) Aside() (n int) {
	for _, some := range o.Problems {
		n += some
	}
	return n
}

// relaysSilent is the time without a report after which an outbox has no relay.
const relaysSilent = 3 * time.Minute

// maxOutboxes is the maximum number of outboxes in a status.
const maxOutboxes = 50

// readOutboxes reads the reports of relays. The user may lack the permission.
func (s *Status) readOutboxes(ctx context.Context, r *StatusReader) error {
	reports, _ := r.Client.Redis().HGetAll(ctx, s.Namespace+"x:outbox").Result()
	for _, name := range slices.Sorted(maps.Keys(reports)) {
		var report struct {
			Time, Oldest int64 // in seconds
			Rows         int
			Problems     map[string]int
		}
		err := json.Unmarshal([]byte(reports[name]), &report)
		if err == nil && len(s.Outboxes) < maxOutboxes {
			age := time.Duration(report.Oldest) * time.Second
			s.Outboxes = append(s.Outboxes,
				Outbox{name, time.Unix(report.Time, 0).UTC(), report.Rows, age, report.Problems})
		}
	}
	return ctx.Err()
}

// outboxProblems returns the problems of the outboxes.
func (s *Status) outboxProblems(late time.Duration) (found []Reason) {
	for i := range s.Outboxes {
		o := &s.Outboxes[i]
		silent := s.asOf.Sub(o.Reported)
		add := func(urgent bool, jobs int, sentence string, args ...any) {
			found = append(found, Reason{Code: ReasonOutbox, Jobs: jobs, Gravity: grave(urgent),
				Outbox: o.Name, details: fmt.Sprintf(sentence, args...)})
		}
		if aside := o.Aside(); aside > 0 {
			add(false, aside, "has set %s aside, which wait for Relay.Retry or Drop", count(aside, "job"))
		}
		switch {
		case silent > relaysSilent:
			add(true, o.Rows, "has no relay: the last report is %s old, with %s",
				units.Age(silent), count(o.Rows, "row"))
		case o.Oldest >= late:
			add(true, o.Rows, "is late: %s, the oldest for %s", waits(o.Rows), units.Age(o.Oldest))
		}
	}
	return found
}
