package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/web/internal/find"
	"github.com/qless/qless-go/web/internal/rates"
)

// A failuresData holds a page of the failure groups.
type failuresData struct {
	Jobs   int        `json:"jobs"`  // in all groups
	Total  int        `json:"total"` // groups
	Groups []groupRow `json:"groups"`
	Search string     `json:"search,omitempty"`
	Most   int        `json:"-"` // in the largest group
	period
	Rows rows `json:"-"`

	History past       `json:"history"` // of all queues
	Over    rates.Span `json:"-"`

	// HasMore is true if some groups of the page have not been read yet.
	HasMore bool `json:"has_more,omitzero"`
}

// Limits of reads, to keep the cost of many failed jobs low.
const (
	groupsShown   = 20  // groups on a page
	groupsAtOnce  = 5   // groups read with each view of the page
	groupsInTime  = 100 // the same if only groups of a period are listed
	groupsLooked  = 10  // the latest jobs of each of these groups
	failureLooked = 200 // jobs on the page of a group
)

// groupAge is the maximum age of a reading of a group's jobs. The number of jobs is more recent.
const groupAge = 10 * time.Second

// maxKnownGroups is the number of groups kept.
const maxKnownGroups = 1000

// failures lists the failure groups, the largest first.
func (s *site) failures(ctx context.Context, q query) (*view, error) {
	counts, err := s.in.FailureGroups(ctx)
	if err != nil {
		return nil, err
	}
	data := &failuresData{Search: q.Get("q")}
	if data.Over, _, err = spanOf(q); err != nil {
		return nil, err
	}
	if data.period, err = q.period(); err != nil {
		return nil, err
	}
	all := []groupRow{}
	for name, jobs := range counts {
		data.Jobs += jobs
		data.Most = max(data.Most, jobs)
		if find.HasText(name, data.Search) {
			all = append(all, groupRow{Name: name, Jobs: jobs})
		}
	}
	slices.SortFunc(all, func(a, b groupRow) int { return cmp.Compare(a.Name, b.Name) })
	by := groupOrders.sort(all, q, "jobs")
	if all, err = s.groupsWithin(ctx, data, all); err != nil {
		return nil, err
	}
	data.Total = len(all)
	data.Groups = part(all, q.from(), groupsShown)
	data.Rows = rows{q.from(), len(data.Groups), data.Total, groupsShown}
	if err := s.addDetails(ctx, data); err != nil {
		return nil, err
	}
	pasts, err := s.pasts(ctx, q)
	if err != nil {
		return nil, err
	}
	data.History = pasts[0]
	return &view{Title: "Failures", Data: data, isPart: data.HasMore, order: by}, nil
}

// groupOrders are the columns for sorting failure groups.
var groupOrders = orders[groupRow]{
	"group": func(g *groupRow) any { return g.Name },
	"jobs":  func(g *groupRow) any { return g.Jobs },
}

// addDetails adds the known details of the groups of a page. It reads some missing details, or the
// oldest.
func (s *site) addDetails(ctx context.Context, data *failuresData) error {
	if err := s.readGroups(ctx, data.Groups, groupsAtOnce); err != nil {
		return err
	}
	for i := range data.Groups {
		group := &data.Groups[i]
		known, isKnown := s.groups.get(group.Name)
		known.value.Name, known.value.Jobs = group.Name, group.Jobs
		*group = known.value
		data.HasMore = data.HasMore || !isKnown
	}
	return nil
}

// readGroups reads at most n of the groups with unknown or old details.
func (s *site) readGroups(ctx context.Context, groups []groupRow, n int) error {
	now := time.Now()
	var names []string
	for _, group := range groups {
		names = append(names, group.Name)
	}
	isOld := func(_ string, at time.Time) bool { return now.Sub(at) >= groupAge }
	for _, name := range s.groups.due(names, n, isOld) {
		read, err := s.readGroup(ctx, name)
		if err != nil {
			return err
		}
		s.groups.set(name, read, now, maxKnownGroups)
	}
	return nil
}

// groupsWithin returns the groups that have, or may have, failures in the period of a page: the
// first failure is before its end, and the last failure after its beginning.
func (s *site) groupsWithin(
	ctx context.Context, data *failuresData, all []groupRow,
) ([]groupRow, error) {
	if data.Period == (units.Period{}) {
		return all, nil
	}
	if err := s.readGroups(ctx, all, groupsInTime); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(group groupRow) bool {
		known, isKnown := s.groups.get(group.Name)
		data.HasMore = data.HasMore || !isKnown
		return !isKnown || !data.Overlaps(known.value.First, known.value.Last)
	}), nil
}

// readGroup reads the klasses of a group's latest failures, and the time of the first failure.
func (s *site) readGroup(ctx context.Context, name string) (groupRow, error) {
	sum, first, err := s.summary(ctx, name, groupsLooked)
	latest := latestOf(sum.Klasses, "")
	group := groupRow{
		Name: name, Klasses: sum.Klasses, Examined: sum.Examined, First: first,
		Last: latest.Last, Message: latest.Message, Sample: latest.Sample,
	}
	if err != nil || group.Sample == "" {
		return group, err
	}
	rows, err := s.rowsOf(ctx, []string{group.Sample})
	if len(rows) > 0 {
		group.Queue = rows[0].Queue
	}
	return group, err
}

// summary reads the latest failures of a group, and the time of the oldest.
func (s *site) summary(
	ctx context.Context, group string, limit int,
) (sum inspect.FailureSummary, first time.Time, err error) {
	if sum, err = s.in.Failures(ctx, group, limit); err != nil {
		return sum, first, err
	}
	s.redactKlasses(group, sum.Klasses)
	if sum.Total > sum.Examined {
		first, err = s.firstFailure(ctx, group, sum.Total)
		return sum, first, err
	}
	for _, klass := range sum.Klasses {
		if first.IsZero() || klass.First.Before(first) {
			first = klass.First
		}
	}
	return sum, first, nil
}

// latestOf returns the klass with the latest failure: any klass, if klass is "".
func latestOf(klasses []inspect.KlassFailures, klass string) (latest inspect.KlassFailures) {
	for _, one := range klasses {
		if (klass == "" || one.Klass == klass) && one.Last.After(latest.Last) {
			latest = one
		}
	}
	return latest
}

// firstFailure returns the time of the oldest failure of a group, or zero if gone by now.
func (s *site) firstFailure(ctx context.Context, group string, total int) (time.Time, error) {
	oldest, err := s.in.Failed(group).List(ctx, inspect.Range{Offset: total - 1, Limit: 1})
	if err != nil || len(oldest.Items) == 0 {
		return time.Time{}, err
	}
	return oldest.Items[0].Since, nil
}

// redactKlasses removes the parts of failures that may not be shown.
func (s *site) redactKlasses(group string, klasses []inspect.KlassFailures) {
	for i := range klasses {
		klass := &klasses[i]
		shown := s.redactedFailure(&inspect.Row{
			JID: klass.Sample, Klass: klass.Klass, State: qless.StateFailed,
			Failure: &qless.Failure{Group: group, Message: klass.Message, When: klass.Last},
		})
		klass.Message = ""
		if shown != nil {
			klass.Message = shown.Message
		}
	}
}

// A failureData is a failure group with its jobs.
type failureData struct {
	Group   string                 `json:"group"`
	Summary inspect.FailureSummary `json:"summary"`
	First   time.Time              `json:"first,omitzero"` // of the oldest failure
	Sample  *failedJob             `json:"sample,omitempty"`
	Times   *failureTimes          `json:"times,omitempty"`
	*jobList
}

// A failedJob is a job of a group with the details of its failure.
type failedJob struct {
	JID     string         `json:"jid"`
	Klass   string         `json:"klass"`
	Queue   string         `json:"queue"`
	Failure *qless.Failure `json:"failure"`
}

// failure shows a failure group.
func (s *site) failure(ctx context.Context, q query) (*view, error) {
	jobs, err := s.readJobs(ctx, q, s.in.Failed(q.name))
	if err != nil {
		return nil, err
	}
	key := fmt.Sprintf("failure %q %q %q %q", q.name, jobs.Query.Klass, q.Get("since"), q.Get("until"))
	read, err := sampledFor(ctx, &s.samples, groupAge, key,
		func(ctx context.Context) (failureData, error) {
			return s.readFailure(ctx, q.name, jobs.Query)
		})
	read.jobList = jobs
	return &view{
		Title: q.name, Data: &read, isStill: jobs.Search != nil, search: jobs.Search, order: jobs.order,
	}, err
}

func (s *site) readFailure(
	ctx context.Context, group string, filter find.Query,
) (data failureData, err error) {
	data.Group = group
	if data.Summary, data.First, err = s.summary(ctx, group, failureLooked); err != nil {
		return data, err
	}
	if sum := data.Summary; sum.Total > 0 {
		latest := latestOf(sum.Klasses, "").Last
		data.Times, err = s.failureTimes(ctx, group, filter.Period, sum.Total, data.First, latest)
		if err != nil {
			return data, err
		}
	}
	data.Sample, err = s.sampleOf(ctx, &data.Summary, filter.Klass)
	return data, err
}

// sampleOf returns the job that failed last in a group, or in a klass of the group, or nil if the
// job is gone.
func (s *site) sampleOf(
	ctx context.Context, sum *inspect.FailureSummary, klass string,
) (*failedJob, error) {
	latest := latestOf(sum.Klasses, klass)
	if latest.Sample == "" {
		return nil, nil
	}
	jobs, err := s.Client.Jobs(ctx, latest.Sample)
	if err != nil || len(jobs) == 0 || jobs[0].Failure == nil {
		return nil, err
	}
	job := jobs[0]
	s.redact(job)
	return &failedJob{JID: job.JID, Klass: job.Klass, Queue: job.Queue, Failure: job.Failure}, nil
}
