package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go"
)

// A fileJob is a job as a line of a file has it.
type fileJob struct {
	JID      string            `json:"jid"`
	Queue    string            `json:"queue"`
	Klass    string            `json:"klass"`
	Data     json.RawMessage   `json:"data"`
	Priority *int              `json:"priority"`
	Delay    *seconds          `json:"delay"`
	Retries  *int              `json:"retries"`
	Tags     []string          `json:"tags"`
	Depends  []string          `json:"depends"`
	Headers  map[string]string `json:"headers"`
	Limits   []string          `json:"limits"`
	LockTime *seconds          `json:"lock_time"`
	RunFor   *seconds          `json:"run_for"`
	Tenant   string            `json:"tenant"`
	Weight   *float64          `json:"weight"`
	At       *time.Time        `json:"at"`

	OnFailure qless.OnFailure `json:"on_failure"`
	OnLost    qless.Place     `json:"on_lost"`
	Unique    []any           `json:"unique"`

	StartBy       *seconds `json:"start_by"`
	TTL           *seconds `json:"ttl"`
	KeepFor       *seconds `json:"keep_for"`
	KeepFailedFor *seconds `json:"keep_failed_for"`

	shown *qless.Job // if it was printed by qless job show
	line  int
	raw   []byte
	wrong error
	isNew bool // the jid was made for it
	done  bool // it was put, or is there

	before []*fileJob // jobs in the same file that it waits for
	level  int        // one more than theirs
}

// seconds are a time as a number of seconds, or as text such as "90s".
type seconds time.Duration

func (s *seconds) UnmarshalJSON(text []byte) error {
	var words string
	if json.Unmarshal(text, &words) == nil {
		d, err := time.ParseDuration(words)
		*s = seconds(d)
		return err
	}
	n, err := strconv.ParseFloat(string(text), 64)
	*s = seconds(n * float64(time.Second))
	if err != nil {
		return fmt.Errorf("%s is no time: want seconds, or a text such as \"90s\"", text)
	}
	return nil
}

// parseJobs reads the jobs of a file: one a line, or as qless job show --json prints them.
func parseJobs(text []byte) []*fileJob {
	first, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	switch first = bytes.TrimSpace(first); {
	case len(first) == 0:
		return nil
	case first[0] == '[', string(first) == "{":
		return parsePretty(text)
	}
	var jobs []*fileJob
	for i, line := range bytes.Split(text, []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			jobs = append(jobs, newFileJob(i+1, line))
		}
	}
	return jobs
}

// parsePretty reads objects that take several lines, or an array of objects.
func parsePretty(text []byte) []*fileJob {
	decoder := json.NewDecoder(bytes.NewReader(text))
	var jobs []*fileJob
	if bytes.TrimSpace(text)[0] == '[' {
		_, _ = decoder.Token()
	}
	for {
		line := lineAt(text, decoder.InputOffset())
		var raw json.RawMessage
		if !decoder.More() {
			return append(jobs, trailing(decoder, text)...)
		}
		if err := decoder.Decode(&raw); err != nil {
			return append(jobs, &fileJob{line: line, raw: compact(text[decoder.InputOffset():]),
				wrong: fmt.Errorf("no JSON, nor is what follows looked at: %w", err)})
		}
		jobs = append(jobs, newFileJob(line, compact(raw)))
	}
}

// trailing returns what comes after an array, which should be nothing.
func trailing(decoder *json.Decoder, text []byte) []*fileJob {
	if _, err := decoder.Token(); err == nil || errors.Is(err, io.EOF) {
		rest := bytes.TrimSpace(text[decoder.InputOffset():])
		if len(rest) == 0 {
			return nil
		}
	}
	rest := text[decoder.InputOffset():]
	return []*fileJob{{line: lineAt(text, decoder.InputOffset()), raw: compact(rest),
		wrong: errors.New("no JSON, nor is what follows looked at")}}
}

// lineAt returns the number of the line in which the next value begins.
func lineAt(text []byte, offset int64) int {
	rest := text[offset:]
	skipped := len(rest) - len(bytes.TrimLeft(rest, ", \t\r\n"))
	return 1 + bytes.Count(text[:int(offset)+skipped], []byte("\n"))
}

// compact returns JSON in one line. What is no JSON stays as it is.
func compact(text []byte) []byte {
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		return text
	}
	return line.Bytes()
}

// newFileJob reads a job. One that has a state was printed by qless job show.
func newFileJob(line int, raw []byte) *fileJob {
	job := &fileJob{}
	var shown struct {
		State *qless.State `json:"state"`
	}
	err := json.Unmarshal(raw, &shown)
	switch {
	case err == nil && shown.State != nil:
		err = job.copyOf(raw)
	case err == nil:
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(job)
	}
	job.line, job.raw = line, raw
	if err != nil {
		job.wrong = err
	}
	return job
}

// copyOf makes the job one that was printed.
func (j *fileJob) copyOf(raw []byte) error {
	var shown qless.Job
	if err := json.Unmarshal(raw, &shown); err != nil {
		return err
	}
	*j = fileJob{
		JID: shown.JID, Queue: shown.Queue, Klass: shown.Klass, shown: &shown,
		Depends: slices.Concat(shown.Parents, shown.Dependencies),
	}
	return lifeError(&shown)
}

// lifeError returns an error if the life of a job that was shown is over by now: the server would
// refuse it, and with it all jobs of its page.
func lifeError(job *qless.Job) error {
	if job.State == qless.StateFailed || job.State == qless.StateComplete {
		return nil
	}
	for _, end := range []time.Time{job.StartBy, job.GoneBy} {
		if !end.IsZero() && end.Before(time.Now()) {
			return fmt.Errorf("its life ended at %s", end.Format(time.RFC3339))
		}
	}
	return nil
}

// fill gives the job the queue and the klass that it does not have.
func (j *fileJob) fill(queue, klass string) {
	if j.Queue == "" {
		j.Queue = queue
	}
	if j.Klass == "" {
		j.Klass = klass
	}
	switch {
	case j.wrong != nil:
	case j.Queue == "":
		j.wrong = errors.New("no queue")
	case j.Klass == "":
		j.wrong = errors.New("no klass")
	}
}

// The levels of a job whose own is being looked for, and of one that has none yet.
const (
	levelUnknown = 0
	levelOpen    = -1
)

// setLevel gives a job a higher level than the jobs in the file that it waits for. A job that would
// wait for itself is an error.
func (j *fileJob) setLevel(byJID map[string]*fileJob) {
	if j.level != levelUnknown {
		return
	}
	j.level = levelOpen
	highest := levelUnknown
	for _, jid := range j.Depends {
		other := byJID[jid]
		if other == nil {
			continue
		}
		other.setLevel(byJID)
		if other.level == levelOpen && j.wrong == nil {
			j.wrong = fmt.Errorf("it would wait for itself, by way of %s", jid)
		}
		j.before = append(j.before, other)
		highest = max(highest, other.level)
	}
	j.level = highest + 1
	j.checkBefore()
}

// checkBefore has a job be wrong that waits for one that is: it would not wait for that.
func (j *fileJob) checkBefore() {
	for _, other := range j.before {
		if other.wrong != nil && j.wrong == nil {
			j.wrong = fmt.Errorf("it waits for that of line %d, which is wrong", other.line)
		}
	}
}

// spec returns the job to be put, unless there is one with its jid.
func (j *fileJob) spec() qless.JobSpec {
	if j.shown == nil {
		return j.lineSpec()
	}
	j.shown.JID, j.shown.Klass = j.JID, j.Klass
	spec := j.shown.Spec()
	spec.Options = append(spec.Options, qless.IfAbsent())
	return spec
}

func (j *fileJob) lineSpec() qless.JobSpec {
	options := []qless.PutOption{qless.JID(j.JID), qless.IfAbsent()}
	add := func(isSet bool, option func() qless.PutOption) {
		if isSet {
			options = append(options, option())
		}
	}
	add(j.Priority != nil, func() qless.PutOption { return qless.Priority(*j.Priority) })
	add(j.Delay != nil, func() qless.PutOption { return qless.Delay(*j.Delay) })
	add(j.Retries != nil, func() qless.PutOption { return qless.Retries(*j.Retries) })
	add(len(j.Tags) > 0, func() qless.PutOption { return qless.Tags(j.Tags...) })
	add(len(j.Depends) > 0, func() qless.PutOption { return qless.DependsOn(j.Depends...) })
	add(len(j.Headers) > 0, func() qless.PutOption { return qless.Headers(j.Headers) })
	add(len(j.Limits) > 0, func() qless.PutOption { return qless.Limits(j.Limits...) })
	add(j.LockTime != nil, func() qless.PutOption { return qless.LockTime(*j.LockTime) })
	add(j.RunFor != nil, func() qless.PutOption { return qless.RunFor(*j.RunFor) })
	add(j.Tenant != "", func() qless.PutOption { return qless.FairWeight(j.Tenant, j.weight()) })
	add(j.At != nil, func() qless.PutOption { return qless.At(*j.At) })
	add(j.OnFailure != "", func() qless.PutOption { return j.OnFailure })
	add(j.OnLost != "", func() qless.PutOption { return qless.OnLost(j.OnLost) })
	add(len(j.Unique) > 0, func() qless.PutOption { return qless.Unique(j.Unique...) })
	add(j.StartBy != nil, func() qless.PutOption { return qless.StartBy(*j.StartBy) })
	add(j.TTL != nil, func() qless.PutOption { return qless.TTL(*j.TTL) })
	add(j.KeepFor != nil, func() qless.PutOption { return qless.KeepFor(*j.KeepFor) })
	add(j.KeepFailedFor != nil, func() qless.PutOption { return j.keepFailed() })
	spec := qless.JobSpec{Klass: j.Klass, Options: options}
	if len(j.Data) > 0 {
		spec.Data = j.Data
	}
	return spec
}

func (j *fileJob) weight() float64 {
	if j.Weight == nil {
		return 1
	}
	return *j.Weight
}

// keepFailed returns for how long the job is kept once it has failed. A negative number of seconds
// means for ever.
func (j *fileJob) keepFailed() qless.PutOption {
	if *j.KeepFailedFor < 0 {
		return qless.KeepFailedFor(qless.Forever)
	}
	return qless.KeepFailedFor(*j.KeepFailedFor)
}

// rawWithJID returns the job's line, with its jid if that was made for it.
func (j *fileJob) rawWithJID() []byte {
	if !j.isNew || j.wrong != nil {
		return j.raw
	}
	field := fmt.Sprintf(`{"jid":%q`, j.JID)
	if rest := bytes.TrimSpace(j.raw[1:]); rest[0] != '}' {
		field += ","
	}
	return append([]byte(field), j.raw[1:]...)
}
