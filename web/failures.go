package web

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/qless/qless-go"
)

// What the pages about failures read at most, so that many failed jobs cost no more than a few.
const (
	groupsShown   = 20  // groups on a page
	groupsAtOnce  = 5   // of these, how many are looked into with each look at the page
	groupsLooked  = 10  // jobs of each of them: the latest
	failureLooked = 200 // jobs of the group that has a page of its own
)

// groupAge is how old a look at the jobs of a group may be. Their number is newer.
const groupAge = 10 * time.Second

// A failuresData is a part of the failure groups.
type failuresData struct {
	Jobs   int        `json:"jobs"`  // in all groups
	Total  int        `json:"total"` // groups
	Groups []groupRow `json:"groups"`
	Search string     `json:"search,omitempty"`
	Rows   sizedRows  `json:"-"`

	// HasMore says that not all groups of the page were looked into yet.
	HasMore bool `json:"has_more,omitzero"`
}

// A groupRow is a failure group.
type groupRow struct {
	Name    string                `json:"name"`
	Jobs    int                   `json:"jobs"`
	First   time.Time             `json:"first,omitzero"` // of the oldest failure
	Last    time.Time             `json:"last,omitzero"`
	Message string                `json:"message,omitempty"` // of the latest failure
	Sample  string                `json:"sample,omitempty"`  // the jid of that job
	Klasses []qless.KlassFailures `json:"klasses"`           // of the latest failures
	Looked  int                   `json:"looked"`            // how many these are
	Growth  *growing              `json:"growth,omitempty"`
}

// knownGroups are the groups that were looked into lately.
type knownGroups struct {
	mu  sync.Mutex
	all map[string]knownGroup
}

type knownGroup struct {
	groupRow
	at time.Time
}

// maxKnownGroups is how many groups are kept.
const maxKnownGroups = 1000

func (k *knownGroups) get(name string) (group knownGroup, isKnown bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	group, isKnown = k.all[name]
	return group, isKnown
}

// forget drops what is known, because something has been changed.
func (k *knownGroups) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = nil
}

func (k *knownGroups) add(group groupRow, at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil || len(k.all) >= maxKnownGroups {
		k.all = map[string]knownGroup{}
	}
	k.all[group.Name] = knownGroup{group, at}
}

// failures lists the failure groups, the largest first.
func (s *site) failures(r *http.Request) (*view, error) {
	from, search := fromOf(r), r.URL.Query().Get("q")
	data, err := sampled(r.Context(), &s.samples, fmt.Sprintf("failures %q %d", search, from),
		func(ctx context.Context) (*failuresData, error) { return s.readFailures(ctx, search, from) })
	if err != nil {
		return nil, err
	}
	return &view{
		template: "failures", title: "Failures", section: "failures", data: data, isPart: data.HasMore,
	}, nil
}

func (s *site) readFailures(ctx context.Context, search string, from int) (*failuresData, error) {
	counts, err := s.Client.FailureGroups(ctx)
	if err != nil {
		return nil, err
	}
	s.growth.add(sizes{time.Now(), counts})
	data := &failuresData{Groups: []groupRow{}, Search: search}
	var all []groupRow
	for name, jobs := range counts {
		data.Jobs += jobs
		if strings.Contains(strings.ToLower(name), strings.ToLower(search)) {
			all = append(all, groupRow{Name: name, Jobs: jobs})
		}
	}
	slices.SortFunc(all, func(a, b groupRow) int {
		return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Name, b.Name))
	})
	data.Total = len(all)
	data.Groups = part(all, from, groupsShown)
	data.Rows = sizedRows{rows{from, len(data.Groups), data.Total}, groupsShown}
	return data, s.lookInto(ctx, data)
}

// lookInto adds what is known of the groups of a page. It reads some that are not known, or those
// that were read first.
func (s *site) lookInto(ctx context.Context, data *failuresData) error {
	now := time.Now()
	var old []knownGroup
	for _, group := range data.Groups {
		known, isKnown := s.groups.get(group.Name)
		if !isKnown || now.Sub(known.at) >= groupAge {
			known.Name = group.Name
			old = append(old, known)
		}
	}
	slices.SortStableFunc(old, func(a, b knownGroup) int { return a.at.Compare(b.at) })
	for _, group := range part(old, 0, groupsAtOnce) {
		read, err := s.readGroup(ctx, group.Name)
		if err != nil {
			return err
		}
		s.groups.add(read, now)
	}
	for i := range data.Groups {
		known, isKnown := s.groups.get(data.Groups[i].Name)
		known.Name, known.Jobs = data.Groups[i].Name, data.Groups[i].Jobs
		known.Growth = s.growth.of(known.Name)
		data.Groups[i] = known.groupRow
		data.HasMore = data.HasMore || !isKnown
	}
	return nil
}

// readGroup reads of what klasses a group's latest failures are, and when it began.
func (s *site) readGroup(ctx context.Context, name string) (groupRow, error) {
	group := groupRow{Name: name}
	sum, err := s.Client.SummarizeFailures(ctx, name, groupsLooked)
	if err != nil {
		return group, err
	}
	s.redactKlasses(name, sum.Klasses)
	group.Klasses, group.Looked = sum.Klasses, sum.Looked
	for _, klass := range sum.Klasses {
		if group.First.IsZero() || klass.First.Before(group.First) {
			group.First = klass.First
		}
		if klass.Last.After(group.Last) {
			group.Last, group.Message, group.Sample = klass.Last, klass.Message, klass.Sample
		}
	}
	if sum.Total > sum.Looked {
		group.First, err = s.firstFailure(ctx, name, sum.Total)
	}
	return group, err
}

// firstFailure returns when the oldest failure of a group was, or zero if that is gone meanwhile.
func (s *site) firstFailure(ctx context.Context, group string, total int) (time.Time, error) {
	oldest, err := s.Client.ListFailed(ctx, group, qless.Range{Offset: total - 1, Limit: 1})
	if err != nil || len(oldest.Items) == 0 {
		return time.Time{}, err
	}
	return oldest.Items[0].Since, nil
}

// redactKlasses leaves of what failures say what may be shown.
func (s *site) redactKlasses(group string, klasses []qless.KlassFailures) {
	for i := range klasses {
		klass := &klasses[i]
		shown := s.redactedFailure(&qless.JobSummary{
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
	Group   string               `json:"group"`
	Summary qless.FailureSummary `json:"summary"`
	First   time.Time            `json:"first,omitzero"` // of the oldest failure
	Sample  *failedJob           `json:"sample,omitempty"`
	*jobList
}

// A failedJob is one of the jobs of a group, with all that its failure says.
type failedJob struct {
	JID     string         `json:"jid"`
	Klass   string         `json:"klass"`
	Failure *qless.Failure `json:"failure"`
}

// failure shows a failure group.
func (s *site) failure(r *http.Request) (*view, error) {
	group := nameOf(r, "group")
	jobs, err := s.readJobs(r, s.failedJobs(group))
	if err != nil {
		return nil, err
	}
	klass := jobs.Filter.Klass
	key := fmt.Sprintf("failure %q %q", group, klass)
	read, err := sampledFor(r.Context(), &s.samples, groupAge, key,
		func(ctx context.Context) (*failureData, error) { return s.readFailure(ctx, group, klass) })
	if err != nil {
		return nil, err
	}
	data := *read
	data.jobList = jobs
	return &view{
		template: "failure", title: group, section: "failures", data: &data,
		isStill: jobs.Search != nil,
	}, nil
}

func (s *site) readFailure(ctx context.Context, group, klass string) (*failureData, error) {
	data := &failureData{Group: group}
	var err error
	if data.Summary, err = s.Client.SummarizeFailures(ctx, group, failureLooked); err != nil {
		return nil, err
	}
	s.redactKlasses(group, data.Summary.Klasses)
	if data.Summary.Total > 0 {
		if data.First, err = s.firstFailure(ctx, group, data.Summary.Total); err != nil {
			return nil, err
		}
	}
	data.Sample, err = s.sampleOf(ctx, &data.Summary, klass)
	return data, err
}

func (s *site) failedJobs(group string) jobSource {
	return jobSource{
		key: "failed " + strconv.Quote(group),
		list: func(ctx context.Context, r qless.Range) (qless.Page[qless.JobSummary], error) {
			return s.Client.ListFailed(ctx, group, r)
		},
		find: func(ctx context.Context, f qless.Filter, after qless.Cursor) (qless.Finding, error) {
			return s.Client.FindFailed(ctx, group, f, after)
		},
	}
}

// sampleOf returns the job of a group, or of one of its klasses, that failed last, or nil if it is
// gone.
func (s *site) sampleOf(
	ctx context.Context, sum *qless.FailureSummary, klass string,
) (*failedJob, error) {
	var latest qless.KlassFailures
	for _, one := range sum.Klasses {
		if (klass == "" || one.Klass == klass) && one.Last.After(latest.Last) {
			latest = one
		}
	}
	if latest.Sample == "" {
		return nil, nil
	}
	jobs, err := s.Client.Jobs(ctx, latest.Sample)
	if err != nil || len(jobs) == 0 || jobs[0].Failure == nil {
		return nil, err
	}
	if redact := s.handler.options.Redact; redact != nil {
		redact(jobs[0])
	}
	return &failedJob{JID: jobs[0].JID, Klass: jobs[0].Klass, Failure: jobs[0].Failure}, nil
}

// part returns at most n items of a list, from one on.
func part[T any](all []T, from, n int) []T {
	from = min(from, len(all))
	return all[from:min(from+n, len(all))]
}

// sizedRows are rows of a page that has another number of them.
type sizedRows struct {
	rows
	Size int
}

// Next and Previous are the first rows of the pages after and before.
func (r sizedRows) Next() string     { return strconv.Itoa(r.From + r.Size) }
func (r sizedRows) Previous() string { return strconv.Itoa(max(0, r.From-r.Size)) }
