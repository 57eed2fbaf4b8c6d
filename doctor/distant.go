package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// The number of queues whose last scheduled job is read, and the delays at which it is distant. A
// longer delay is more likely a wrong unit of time than a plan.
const (
	maxDistantQueues = 10
	distant          = 365 * 24 * time.Hour
)

// A distantJob is the last scheduled job of a queue, due in the distant future.
type distantJob struct {
	jid string
	due time.Time
}

// readDistant finds the queues whose last scheduled job is distant. A damaged key excludes only its
// own queue.
func (s *Status) readDistant(ctx context.Context, r *StatusReader) error {
	in := inspect.New(r.Client)
	for _, q := range s.mostly(maxDistantQueues, func(q *QueueStatus) int { return q.Scheduled }) {
		last, err := in.Queue(q.Name, inspect.Scheduled).List(ctx,
			inspect.Range{Offset: q.Scheduled - 1, Limit: 1})
		if err != nil && !errors.Is(err, qless.ErrServer) {
			return err
		}
		if len(last.Items) > 0 && last.Items[0].Due.Sub(s.asOf) >= distant {
			q.distant = &distantJob{last.Items[0].JID, last.Items[0].Due}
		}
	}
	return nil
}
