package doctor

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// Fix repairs findings and returns the repaired ones. One script repairs each finding, after it has
// checked that the finding still holds. Findings that no longer hold or are not Fixable are
// skipped.
//
// The record of a job decides: the job is moved to the place that it names and removed from all
// others. If several keys disagree on when a lock expires, the latest time is kept. A job that
// waited for others, and now waits for none, can run; workers notice at their next poll. Nothing is
// run, failed or deleted, except for histories that belong to no job.
//
// If it fails or the context ends, it returns the findings repaired so far with the error. A repair
// that the server refuses, such as because of a key of a wrong type, does not stop the others. Fix
// ignores the options Step, MaxFindings and Progress.
func Fix(
	ctx context.Context, rdb redis.UniversalClient, options Options, findings ...Reason,
) ([]Reason, error) {
	e, err := newExam(ctx, rdb, options)
	if err != nil {
		return nil, err
	}
	findings = slices.Clone(findings)
	rank := func(r Reason) uint { return uint(slices.Index(order, r.Code)) } // of -1, the largest
	slices.SortStableFunc(findings, func(a, b Reason) int { return cmp.Compare(rank(a), rank(b)) })
	var fixed []Reason
	var refused error
	for i := range findings {
		done, err := e.fix(ctx, &findings[i])
		fixed = append(fixed, done...)
		switch {
		case err == nil:
		case redisx.IsAnswer(err) && !redisx.IsServerWide(err):
			refused = cmp.Or(refused, err)
		default:
			return fixed, coded(err)
		}
	}
	return fixed, coded(refused)
}

// order is the order of repairs. Repairs that others need come first, and kinds not listed last.
var order = []ReasonCode{
	ReasonClaimDead, ReasonClaimLacking,
	ReasonDependencyOneSided, ReasonDependencyLeft, ReasonDependencyOver, ReasonWaitsForNothing,
	ReasonLost, ReasonMisplaced, ReasonGhost, ReasonTagLacking, ReasonTagExtra, ReasonTagCount,
}

// fix repairs a finding if it is fixable.
func (e *exam) fix(ctx context.Context, f *Reason) ([]Reason, error) {
	if !f.Fixable || !strings.HasPrefix(f.Key, e.Namespace) {
		return nil, nil
	}
	i := f.item(e.Namespace)
	c := checkOf(i, f.Code)
	if c == "" {
		return nil, nil
	}
	fixed, err := c.run(ctx, e, f.Code, []item{i})
	if err != nil {
		return nil, err
	}
	return fixed, e.pace(ctx)
}
