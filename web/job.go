package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go"
)

const (
	// maxRelated is how many jobs of each kind are shown that a job depends on, or that depend on it.
	maxRelated = 50

	// maxShownText is how much is shown of data, results and failures. The JSON has all of it.
	maxShownText = 256 << 10
)

// A jobData is a job, with what leads from it.
type jobData struct {
	*qless.Job
	Data    json.RawMessage // always JSON, unlike that of the job
	Result  json.RawMessage
	Related []relatedJob
	Links   []Link

	now time.Time
}

// MarshalJSON writes the fields of the job, too.
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

// A relatedJob is a job that another one depends on, or that depends on it.
type relatedJob struct {
	JID   string      `json:"jid"`
	Klass string      `json:"klass,omitempty"`
	Queue string      `json:"queue,omitempty"`
	State qless.State `json:"state,omitempty"` // empty if there is no such job any more
}

// openBatch is the jid that the callback of an open batch depends on, which no job has.
const openBatch = "x:open"

// IsBatch reports whether it stands for a batch that is not committed.
func (j relatedJob) IsBatch() bool { return j.JID == openBatch }

// job shows a job.
func (s *site) job(r *http.Request) (*view, error) {
	jid := nameOf(r, "jid")
	key := "job " + strconv.Quote(jid)
	data, err := sampled(r.Context(), &s.samples, key, func(ctx context.Context) (*jobData, error) {
		return s.readJob(ctx, jid)
	})
	if err != nil {
		return nil, err
	}
	return &view{template: "job", title: jid, section: "find", data: data}, nil
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
	if err := s.addResult(ctx, data); err != nil {
		return nil, err
	}
	if links := s.handler.options.Links; links != nil {
		data.Links = links(job)
	}
	if redact := s.handler.options.Redact; redact != nil {
		redact(job)
	}
	data.Data = validJSON(job.Data)
	for _, entry := range job.History {
		for name, detail := range entry.Details {
			entry.Details[name] = validJSON(detail)
		}
	}
	return data, nil
}

// addResult adds what the job's worker has set as its result, if that may be shown.
func (s *site) addResult(ctx context.Context, data *jobData) error {
	if s.IsRedacted() || data.State != qless.StateComplete && data.State != qless.StateFailed {
		return nil
	}
	result, err := s.Client.Result(ctx, data.JID)
	if errors.Is(err, qless.ErrUnfinished) || errors.Is(err, qless.ErrNotFound) {
		return nil // it has changed meanwhile
	}
	data.Result = validJSON(result.Data)
	return err
}

// readRelated reads the states of the first jobs that a job depends on, and that depend on it.
func (s *site) readRelated(ctx context.Context, job *qless.Job) ([]relatedJob, error) {
	var jids []string
	for _, kind := range [][]string{job.Dependencies, job.Dependents, job.Parents} {
		for _, jid := range kind[:min(len(kind), maxRelated)] {
			if !slices.Contains(jids, jid) {
				jids = append(jids, jid)
			}
		}
	}
	jobs, err := s.Client.Jobs(ctx, realJobs(jids)...)
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

// realJobs returns the jids that jobs can have.
func realJobs(jids []string) []string {
	return slices.DeleteFunc(slices.Clone(jids), func(jid string) bool { return jid == openBatch })
}

// validJSON returns a text as JSON: as it is, or as a string if it is something else.
func validJSON(text json.RawMessage) json.RawMessage {
	if len(text) == 0 || json.Valid(text) {
		return text
	}
	quoted, _ := json.Marshal(string(text))
	return quoted
}

// A kin is a kind of related jobs.
type kin struct {
	Title string
	Jobs  []relatedJob
	More  int // how many are not shown
}

// Kin are the jobs that the job depends on, and those that depend on it.
func (j *jobData) Kin() []kin {
	known := map[string]relatedJob{}
	for _, one := range j.Related {
		known[one.JID] = one
	}
	var all []kin
	for _, kind := range []struct {
		title string
		jids  []string
	}{
		{"It waits for", j.Dependencies}, {"It was put to wait for", j.Parents},
		{"These wait for it", j.Dependents},
	} {
		shown := kind.jids[:min(len(kind.jids), maxRelated)]
		if len(shown) == 0 {
			continue
		}
		one := kin{Title: kind.title, More: len(kind.jids) - len(shown)}
		for _, jid := range shown {
			one.Jobs = append(one.Jobs, known[jid])
		}
		all = append(all, one)
	}
	return all
}

// HasGraph reports whether jobs depend on each other.
func (j *jobData) HasGraph() bool { return len(j.Related) > 0 }

// PrettyData and PrettyResult are the job's data and result, indented.
func (j *jobData) PrettyData() string   { return pretty(j.Data) }
func (j *jobData) PrettyResult() string { return pretty(j.Result) }

// Trace is the message of the failure, which often has a stack.
func (j *jobData) Trace() string { return shortened(j.Failure.Message) }

// pretty indents JSON. It leaves numbers and strings as they are written.
func pretty(text json.RawMessage) string {
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		return shortened(string(text))
	}
	return shortened(indented.String())
}

func shortened(text string) string {
	if len(text) <= maxShownText {
		return text
	}
	return strings.ToValidUTF8(text[:maxShownText], "") + "\n… The rest is in the JSON of this page."
}

// A pair is a name and a text.
type pair struct{ Name, Text string }

// HeaderPairs are the headers by name.
func (j *jobData) HeaderPairs() []pair {
	var pairs []pair
	for _, name := range slices.Sorted(maps.Keys(j.Headers)) {
		pairs = append(pairs, pair{name, j.Headers[name]})
	}
	return pairs
}

// DetailsOf writes the details of an entry of the history.
func (j *jobData) DetailsOf(entry qless.HistoryEntry) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(entry.Details)) {
		parts = append(parts, name+": "+string(entry.Details[name]))
	}
	return shortened(strings.Join(parts, ", "))
}

// Percent is how much of the job is done, or -1 if that is not known.
func (j *jobData) Percent() int {
	if j.Progress == nil || j.Progress.Total <= 0 {
		return -1
	}
	return int(100 * min(1, float64(j.Progress.Done)/float64(j.Progress.Total)))
}

// Rules are what holds for the job besides its facts: lifetimes, limits and such.
func (j *jobData) Rules() []pair {
	var all []pair
	add := func(isSet bool, name, text string) {
		if isSet {
			all = append(all, pair{name, text})
		}
	}
	add(!j.StartBy.IsZero(), "Started by", clock(j.StartBy))
	add(!j.GoneBy.IsZero(), "Gone by", clock(j.GoneBy))
	add(!j.Until.IsZero(), "Its life ends", clock(j.Until))
	add(j.KeepFor != nil, "Kept when complete for", keptFor(j.KeepFor))
	add(j.KeepFailedFor != nil, "Kept when failed for", keptFor(j.KeepFailedFor))
	add(j.LockTime > 0, "Each lock lasts", took(j.LockTime))
	add(j.RunFor > 0, "May run for", took(j.RunFor))
	add(j.OnLost != "", "After a lost lock", string(j.OnLost))
	add(j.OnFailure != "", "If one that it waits for fails", string(j.OnFailure))
	add(j.Tenant != "", "Tenant", j.Tenant)
	add(j.Weight > 0, "Turns of the tenant", strconv.FormatFloat(j.Weight, 'g', -1, 64))
	if j.Unique != nil {
		add(true, "Unique key", j.Unique.Key)
		add(j.Unique.UntilStarted, "Holds the key", "until it is started")
		add(j.Unique.For > 0, "Holds the key for", took(j.Unique.For))
	}
	if j.BatchSize != nil {
		add(true, "Jobs of its batch", number(*j.BatchSize))
	}
	add(j.Ends > 0, "Ends by other programs", number(j.Ends))
	return all
}

func keptFor(d *time.Duration) string {
	switch {
	case d == nil:
		return ""
	case *d == qless.Forever:
		return "ever"
	}
	return took(*d)
}

// SafeLinks are the links that lead to the web or to a path.
func (j *jobData) SafeLinks() []Link {
	return slices.DeleteFunc(slices.Clone(j.Links), func(link Link) bool {
		target, err := url.Parse(link.URL)
		return err != nil || !slices.Contains([]string{"", "http", "https"}, target.Scheme)
	})
}

// Timeline draws the job's way through its queues.
func (j *jobData) Timeline() template.HTML { return timelineOf(j.Job, j.now).draw() }
