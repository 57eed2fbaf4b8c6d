package doctor

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// Fix repairs findings and returns the repaired ones. A script per finding checks that the finding
// still holds and repairs it. Fix skips findings that no longer hold or are not Fixable.
//
// The job's record decides: Fix moves a job to the place in its record and removes it from all
// other places. If several keys disagree on a lock's expiry, the latest time is kept. A job without
// remaining dependencies becomes runnable; workers notice at their next poll. Fix runs, fails and
// deletes nothing, except for histories without a job.
//
// If a repair fails or the context ends, Fix returns the findings repaired so far with the error. A
// repair that the server refuses, such as because of a key of a wrong type, does not stop the
// others. Fix ignores the options Step, MaxFindings and Progress.
func Fix(
	ctx context.Context, rdb redis.UniversalClient, options Options, findings ...Reason,
) ([]Reason, error) {
	e, err := newExam(ctx, rdb, options)
	if err != nil {
		return nil, err
	}
	findings = slices.Clone(findings)
	rank := func(r Reason) uint { return uint(slices.Index(order, r.Code)) } // -1: largest
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

// order is the order of repairs. Repairs that others need come first, and unlisted kinds last.
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
