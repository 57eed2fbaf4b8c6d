package doctor

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/keys"
	"github.com/qless/qless-go/internal/redisx"
)

// codeFailed is the result of the check of a failed job.
const codeFailed ReasonCode = "?failed"

// An exam is one pass over a namespace.
type exam struct {
	Options
	rdb    redis.UniversalClient // of the namespace's server
	report *Report

	batches map[check][]item
	filed   map[member]bool // failed jobs found in their groups
	failed  []item          // failed jobs not found in a group so far
	inner   map[string]bool // namespaces found within this one
}

// A member is an entry of a failure group.
type member struct{ key, jid string }

// newExam prepares an exam. On a cluster, the exam reads from the namespace's master.
func newExam(ctx context.Context, rdb redis.UniversalClient, options Options) (*exam, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	if rdb == nil {
		return nil, invalid("no redis client")
	}
	server, err := redisx.ServerOf(ctx, rdb, options.Namespace)
	e := &exam{
		Options: options, rdb: server,
		report:  &Report{Namespace: options.Namespace, Findings: []Reason{}, Skipped: []string{}},
		batches: map[check][]item{}, filed: map[member]bool{}, inner: map[string]bool{},
	}
	return e, coded(err)
}

// pace waits between two steps. If the context has ended, pace returns the error.
func (e *exam) pace(ctx context.Context) error {
	e.report.Steps++
	if e.Pause <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(e.Pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lookAtKey examines a key of a given type and its members.
func (e *exam) lookAtKey(ctx context.Context, key, kind string) error {
	name := strings.TrimPrefix(key, e.Namespace)
	if inner, is := keys.Inner(name); is {
		e.hasInner(inner)
		return nil
	}
	e.report.Keys++
	c := classOf(name, kind)
	switch {
	case kind == "none":
		return nil // by now
	case c.Kind == nil:
		e.record(newFinding(e.Namespace, ReasonUnknownKey, name, "", "", false))
		return nil
	case c.Type != kind:
		e.record(newFinding(e.Namespace, ReasonDamaged, name, "", "a "+kind+", not a "+c.Type, false))
		return nil
	}
	if c.itself == checkJob {
		e.report.Jobs++
	}
	if c.itself != "" {
		if err := e.add(ctx, c.itself, c.own(name)); err != nil {
			return err
		}
	}
	if c.members == "" {
		return nil
	}
	return e.members(ctx, key, kind, func(member, _ string) error {
		return e.lookAtMember(ctx, c.members, item{name, member})
	})
}

// hasInner reports, once, another namespace that begins with the name of this one.
func (e *exam) hasInner(rest string) {
	if !e.inner[rest] && !e.report.Truncated {
		e.inner[rest] = true
		e.record(newFinding(e.Namespace, ReasonInnerNamespace, rest, "", "", false))
	}
}

// lookAtMember examines a member of a key.
func (e *exam) lookAtMember(ctx context.Context, c check, i item) error {
	if strings.HasPrefix(i.key, "f:") {
		entry := member{i.key, i.member}
		if e.filed[entry] {
			return e.add(ctx, c, item{i.key, twice + i.member})
		}
		e.filed[entry] = true
	}
	return e.add(ctx, c, i)
}

// members calls visit for each member of a key, in steps, with the value if the key is a hash.
// While entries leave a list, others may be read twice. These do not count as duplicates.
func (e *exam) members(
	ctx context.Context, key, kind string, visit func(member, value string) error,
) error {
	scan, stride := e.rdb.SScan, 1
	switch kind {
	case keys.List:
		scan = e.listScan
	case keys.ZSet:
		scan, stride = e.rdb.ZScan, 2
	case keys.Hash:
		scan, stride = e.rdb.HScan, 2
	}
	for cursor := uint64(0); ; {
		found, next, err := scan(ctx, key, cursor, "", int64(e.Step)).Result()
		if err != nil {
			return err
		}
		if err := e.pace(ctx); err != nil {
			return err
		}
		for i := 0; i < len(found); i += stride {
			if err := visit(found[i], found[i+stride-1]); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// listScan is SSCAN for a list. Reading starts at the end, because new entries enter at the head.
func (e *exam) listScan(
	ctx context.Context, key string, read uint64, _ string, count int64,
) *redis.ScanCmd {
	end := -1 - int64(read)
	found, err := e.rdb.LRange(ctx, key, end-count+1, end).Result()
	if read += uint64(count); len(found) < int(count) {
		read = 0
	}
	return redis.NewScanCmdResult(found, read, err)
}

// itemsAtOnce is the number of items to check in one script, in about a thousand commands.
const itemsAtOnce = 100

// add queues an item for a check.
func (e *exam) add(ctx context.Context, c check, i item) error {
	e.batches[c] = append(e.batches[c], i)
	if len(e.batches[c]) < itemsAtOnce {
		return nil
	}
	return e.flush(ctx, c)
}

// flush checks the queued items.
func (e *exam) flush(ctx context.Context, c check) error {
	items := e.batches[c]
	e.batches[c] = items[:0]
	if len(items) == 0 {
		return nil
	}
	found, err := c.run(ctx, e, "", items)
	if err != nil {
		return err
	}
	for _, f := range found {
		if f.Code == codeFailed {
			e.failed = append(e.failed, item{strings.TrimPrefix(f.Key, e.Namespace), f.Member})
		} else {
			e.record(f)
		}
	}
	return e.pace(ctx)
}

// finish checks the remaining items, and then the failed jobs not found in any group.
func (e *exam) finish(ctx context.Context) error {
	all := []check{
		checkPlace, checkJob, checkDepends, checkTags, checkWorkers, checkLimits, checkNotes,
		checkFigures,
	}
	for _, c := range all {
		if err := e.flush(ctx, c); err != nil {
			return err
		}
	}
	for _, i := range e.failed {
		if e.filed[member{i.member, strings.TrimPrefix(i.key, "j:")}] {
			continue
		}
		if err := e.add(ctx, checkJob, item{i.key, inGroup}); err != nil {
			return err
		}
	}
	return e.flush(ctx, checkJob)
}

// record adds a finding to the report.
func (e *exam) record(f Reason) {
	if len(e.report.Findings) >= e.MaxFindings {
		e.report.Truncated = true
		return
	}
	e.report.Findings = append(e.report.Findings, f)
}

// skip records a check that could not run.
func (e *exam) skip(what string, err error) {
	e.report.Skipped = append(e.report.Skipped, what+": "+err.Error())
}
