package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/wire"
)

// A unique key needs attention if its job is not due for heldFor, and the key has refused a put
// within refusedWithin.
const (
	heldFor       = 10 * time.Minute
	refusedWithin = 24 * time.Hour
)

// readHeld reads the scheduled jobs whose unique keys have refused puts, the last one due first.
func (s *Status) readHeld(ctx context.Context, r *StatusReader) error {
	const name = "x:refused"
	jids, err := r.Client.Redis().ZRangeByScore(ctx, s.Namespace+name, &redis.ZRangeBy{
		Min: wire.FormatTime(s.asOf.Add(-refusedWithin)), Max: "+inf",
	}).Result()
	if err != nil {
		s.isDamaged(ctx, r.Client, name, "zset")
		return ctx.Err()
	}
	jobs, err := r.Client.Jobs(ctx, jids...)
	if err != nil && !errors.Is(err, qless.ErrServer) {
		return err
	}
	for _, job := range jobs {
		unique := job.Options.Unique
		holds := job.State == qless.StateScheduled && unique != nil && unique.For == 0
		if holds && job.Due.Sub(s.asOf) >= heldFor {
			s.held = append(s.held, job)
		}
	}
	slices.SortStableFunc(s.held, func(a, b *qless.Job) int { return b.Due.Compare(a.Due) })
	return nil
}

// heldKeys returns the problem of unique keys that are held for long and refuse puts.
func (s *Status) heldKeys() []Reason {
	if len(s.held) == 0 {
		return nil
	}
	last := s.held[0]
	r := Reason{Code: CodeUniqueHeld, Queue: last.Queue, JID: last.JID, Until: last.Due}
	if n := len(s.held); n > 1 {
		r.details = fmt.Sprint(n)
	}
	return []Reason{r}
}
