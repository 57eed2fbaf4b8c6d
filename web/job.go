package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/stacks"
	"github.com/qless/qless-go/web/internal/actions"
	"github.com/qless/qless-go/web/internal/charts"
	"github.com/qless/qless-go/web/internal/words"
)

// A jobData is a job with its relations and links.
type jobData struct {
	*qless.Job
	Data    json.RawMessage // always valid JSON, unlike the job's data
	Result  json.RawMessage
	Related []relatedJob
	Links   []Link
	Batch   *batch        // the batch with this job as callback, or nil
	Members []inspect.Row // some pending members, the failed ones first
	Limits  []limitData

	now  time.Time
	zoom string // of the timeline
}

// maxRelated is the maximum number of related jobs of each kind shown with a job.
const maxRelated = 50

// MarshalJSON includes the fields of the job.
func (j *jobData) MarshalJSON() ([]byte, error) {
	type fields qless.Job
	job := fields(*j.Job)
	job.Data = j.Data
	return json.Marshal(struct {
		fields
		Result  json.RawMessage `json:"result,omitempty"`
		Related []relatedJob    `json:"related,omitempty"`
		Links   []Link          `json:"links,omitempty"`
	}{job, j.Result, j.Related, j.Links})
}

// A relatedJob is a dependency or a dependent of a job.
type relatedJob struct {
	JID   string      `json:"jid"`
	Klass string      `json:"klass,omitempty"`
	Queue string      `json:"queue,omitempty"`
	State qless.State `json:"state,omitempty"` // empty if the job is gone
}

// IsBatch reports whether j stands for an uncommitted batch.
func (j relatedJob) IsBatch() bool { return j.JID == charts.OpenBatch }

// job shows a job.
func (s *site) job(ctx context.Context, q query) (*view, error) {
	data, err := s.readJob(ctx, q.name)
	if err != nil {
		return nil, err
	}
	data.zoom = q.Get("zoom")
	limits, err := s.readLimits(ctx, data.Options.Limits)
	if err != nil {
		return nil, err
	}
	for i := range limits {
		data.Limits = append(data.Limits, limitData{LimitInfo: limits[i]})
	}
	return &view{Title: q.name, Data: data}, nil
}

func (s *site) readJob(ctx context.Context, jid string) (*jobData, error) {
	job, err := s.Client.Job(ctx, jid)
	if err != nil {
		return nil, err
	}
	data := &jobData{Job: job, now: time.Now()}
	if data.Related, err = s.readRelated(ctx, job); err != nil {
		return nil, err
	}
	if job.BatchSize != nil {
		if data.Batch, err = s.readBatch(ctx, jid); err != nil {
			return nil, err
		}
		if data.Members, err = s.rowsOf(ctx, part(job.Dependencies, 0, maxRelated)); err != nil {
			return nil, err
		}
		slices.SortStableFunc(data.Members, func(a, b inspect.Row) int {
			return rank(a) - rank(b)
		})
	}
	if err := s.addResult(ctx, data); err != nil {
		return nil, err
	}
	if links := s.handler.options.Links; links != nil {
		data.Links = links(job)
	}
	s.redact(job)
	data.Data = validJSON(job.Data)
	for _, entry := range job.History {
		for name, detail := range entry.Details {
			entry.Details[name] = validJSON(detail)
		}
	}
	return data, nil
}

// rank returns the place of a member of a batch by its state.
func rank(job inspect.Row) int {
	if job.State == qless.StateFailed {
		return 0
	}
	return 1
}

// addResult adds the result set by the job's worker, if it may be shown.
func (s *site) addResult(ctx context.Context, data *jobData) error {
	if s.IsRedacted() || data.State != qless.StateComplete && data.State != qless.StateFailed {
		return nil
	}
	result, err := s.Client.Result(ctx, data.JID)
	if errors.Is(err, qless.ErrUnfinished) || errors.Is(err, qless.ErrNotFound) {
		return nil // changed meanwhile
	}
	data.Result = validJSON(result.Data)
	return err
}

// stack asks for the stack of a job. A stack reveals code, so only users who may take a running job
// from its worker may ask.
func (s *site) stack(r *http.Request) (*view, error) {
	if err := s.check(r, string(ActionJobTimeout)); err != nil {
		return nil, err
	}
	job, err := s.Client.Job(r.Context(), nameOf(r))
	if err != nil {
		return nil, err
	}
	answer, err := stacks.Ask(r.Context(), s.Client, job.JID, string(job.State), job.Worker)
	return &view{
		template: "stack", Title: job.JID, Section: "find", Data: answer, isStill: true,
	}, err
}

// readRelated reads the states of a job's first dependencies and dependents.
func (s *site) readRelated(ctx context.Context, job *qless.Job) ([]relatedJob, error) {
	var jids []string
	for _, kind := range [][]string{job.Dependencies, job.Dependents, job.Options.Parents} {
		for _, jid := range part(kind, 0, maxRelated) {
			if !slices.Contains(jids, jid) {
				jids = append(jids, jid)
			}
		}
	}
	jobs, err := s.Client.Jobs(ctx, slices.DeleteFunc(slices.Clone(jids), func(jid string) bool {
		return jid == charts.OpenBatch
	})...)
	if err != nil {
		return nil, err
	}
	known := map[string]relatedJob{}
	for _, one := range jobs {
		known[one.JID] = relatedJob{one.JID, one.Klass, one.Queue, one.State}
	}
	related := make([]relatedJob, len(jids))
	for i, jid := range jids {
		related[i] = known[jid]
		related[i].JID = jid
	}
	return related, nil
}

// validJSON returns text unchanged if it is JSON, and otherwise as a JSON string.
func validJSON(text json.RawMessage) json.RawMessage {
	if len(text) == 0 || json.Valid(text) {
		return text
	}
	quoted, _ := json.Marshal(string(text))
	return quoted
}

// A relation is a kind of related jobs: the first jobs, and the number of the others.
type relation struct {
	Title string
	Jobs  []relatedJob
	More  int
}

// Relations returns the job's dependencies and dependents.
func (j *jobData) Relations() (all []relation) {
	add := func(title string, jids []string) {
		r := relation{Title: title, More: max(0, len(jids)-maxRelated)}
		for _, one := range j.Related {
			if slices.Contains(part(jids, 0, maxRelated), one.JID) {
				r.Jobs = append(r.Jobs, one)
			}
		}
		if len(r.Jobs) > 0 {
			all = append(all, r)
		}
	}
	if j.Batch == nil {
		add("Waits for", j.Dependencies)
	}
	add("Was put to wait for", j.Options.Parents)
	add("Blocks", j.Dependents)
	return all
}

// LastQueue returns the present or last queue of the job.
func (j *jobData) LastQueue() string { return actions.QueueOf(j.Job) }

// RetriesLeft describes the remaining retries, or the used retries if the job has ended.
func (j *jobData) RetriesLeft() string {
	used := max(0, j.Retries-j.Remaining)
	switch {
	case j.State != qless.StateComplete && j.State != qless.StateFailed:
		return fmt.Sprintf("%d of %d left", max(0, j.Remaining), j.Retries)
	case used == 0:
		return fmt.Sprintf("none of %d used", j.Retries)
	}
	return fmt.Sprintf("%d of %d used", min(used, j.Retries), j.Retries)
}

// Percent returns the progress of the job, or -1 if it is unknown.
func (j *jobData) Percent() int {
	if j.Progress == nil || j.Progress.Total <= 0 {
		return -1
	}
	return int(100 * min(1, float64(j.Progress.Done)/float64(j.Progress.Total)))
}

// A pair is a name and a text.
type pair struct{ Name, Text string }

// Rules returns the options of the job, and other rare properties.
func (j *jobData) Rules() []pair {
	var all []pair
	options := j.Options
	options.Limits = nil // limits have links
	style := jobopts.Style{Duration: words.Took, Time: words.Clock}
	for _, option := range style.Show(options) {
		all = append(all, pair{option.Label, option.Text})
	}
	if !j.Until.IsZero() {
		all = append(all, pair{"Its life ends", words.Clock(j.Until)})
	}
	if n := inside.Ends(j.Job); n > 0 {
		all = append(all, pair{"Ends by other programs", words.Number(n)})
	}
	return all
}

// SafeLinks returns the links to the web or to a path.
func (j *jobData) SafeLinks() []Link {
	return slices.DeleteFunc(slices.Clone(j.Links), func(link Link) bool {
		target, err := url.Parse(link.URL)
		return err != nil || !slices.Contains([]string{"", "http", "https"}, target.Scheme)
	})
}

// Timeline returns the job's path through its queues.
func (j *jobData) Timeline() *charts.Timeline { return charts.ReadTimeline(j.Job, j.now, j.zoom) }

// LatestAttempts returns the attempts, the latest first.
func (j *jobData) LatestAttempts() []qless.Attempt {
	return slices.SortedFunc(slices.Values(j.Attempts), func(a, b qless.Attempt) int {
		return b.Began.Compare(a.Began)
	})
}

// Zoom returns the part of the timeline around an attempt.
func (j *jobData) Zoom(a qless.Attempt) string { return charts.ZoomOn(a.Began, a.Began.Add(a.Ran)) }

// graphAge is the maximum age of a graph.
const graphAge = 3 * time.Second

// graph shows the jobs that a job waits for, and the jobs waiting for it.
func (s *site) graph(ctx context.Context, q query) (*view, error) {
	graph, err := sampledFor(ctx, &s.samples, graphAge, "graph "+q.name,
		func(ctx context.Context) (*charts.Graph, error) {
			return charts.ReadGraph(ctx, s.Client, q.name)
		})
	return &view{Title: "Graph of " + q.name, Data: graph}, err
}

// Graph draws a graph. Its jobs are links.
func (s *site) Graph(g *charts.Graph) template.HTML {
	return g.Draw(func(jid string) string { return s.Sub("jobs", jid, "graph") })
}
