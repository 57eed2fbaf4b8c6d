package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// How many queues are asked for their last scheduled job, and from which delay on it is distant:
// more of it is likelier a wrong unit of time than a plan.
const (
	maxDistantQueues = 10
	distant          = 365 * 24 * time.Hour
	distantClaim     = 30 * 24 * time.Hour // of a job that holds a unique key all the time
)

// A distantJob is the last scheduled job of a queue, whose time is far away.
type distantJob struct {
	jid    string
	due    time.Time
	claims bool // it holds a unique key
}

// readDistant finds the queues whose last scheduled job is distant. A damaged key keeps only its
// own queue out.
func (s *Status) readDistant(ctx context.Context, r *StatusReader) error {
	in := inspect.New(r.Client)
	for _, q := range s.mostly(maxDistantQueues, func(q *QueueStatus) int { return q.Scheduled }) {
		last, err := in.Queue(q.Name, inspect.Scheduled).List(ctx,
			inspect.Range{Offset: q.Scheduled - 1, Limit: 1})
		if err != nil && !errors.Is(err, qless.ErrServer) {
			return err
		}
		if len(last.Items) == 0 || last.Items[0].Due.Sub(s.asOf) < distantClaim {
			continue
		}
		job, err := r.Client.Job(ctx, last.Items[0].JID)
		if errors.Is(err, qless.ErrNotFound) || errors.Is(err, qless.ErrServer) {
			continue
		} else if err != nil {
			return err
		}
		far := distantJob{job.JID, last.Items[0].Due, job.Options.Unique != nil}
		if far.claims || far.due.Sub(s.asOf) >= distant {
			q.distant = &far
		}
	}
	return nil
}

// sentence says what the queue of the job has.
func (d *distantJob) sentence() string {
	text := fmt.Sprintf("has a job that is due only at %s: is that meant?",
		d.due.UTC().Format(time.DateOnly))
	if d.claims {
		text += " It holds a unique key until then"
	}
	return text
}
