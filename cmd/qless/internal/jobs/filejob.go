package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/qless/qless-go"
)

// A fileJob is a job in a file.
type fileJob struct {
	JID     string   `json:"jid"`
	Queue   string   `json:"queue"`
	Klass   string   `json:"klass"`
	Depends []string `json:"depends"`

	Data json.RawMessage `json:"data"`

	job   qless.JobSpec // with the options of the line
	shown *qless.Job    // if printed by qless job show
	line  int
	raw   []byte
	wrong error
	isNew bool // the jid was generated
	done  bool // put, or already existing

	before []*fileJob // parents in the same file
	level  int        // higher than the parents' levels
}

// parseJobs parses the jobs of a file: one per line, or as printed by qless job show --json.
func parseJobs(text []byte) []*fileJob {
	text = bytes.TrimPrefix(text, []byte("\ufeff")) // the byte order mark of some editors
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

// parsePretty parses objects over several lines, or an array of objects.
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
				wrong: fmt.Errorf("not JSON; the rest of the file is not read: %w", err)})
		}
		jobs = append(jobs, newFileJob(line, compact(raw)))
	}
}

// trailing returns an invalid job if anything follows an array.
func trailing(decoder *json.Decoder, text []byte) []*fileJob {
	if _, err := decoder.Token(); err == nil || errors.Is(err, io.EOF) {
		rest := bytes.TrimSpace(text[decoder.InputOffset():])
		if len(rest) == 0 {
			return nil
		}
	}
	rest := text[decoder.InputOffset():]
	return []*fileJob{{line: lineAt(text, decoder.InputOffset()), raw: compact(rest),
		wrong: errors.New("not JSON; the rest of the file is not read")}}
}

// lineAt returns the number of the line on which the next value begins.
func lineAt(text []byte, offset int64) int {
	rest := text[offset:]
	skipped := len(rest) - len(bytes.TrimLeft(rest, ", \t\r\n"))
	return 1 + bytes.Count(text[:int(offset)+skipped], []byte("\n"))
}

// compact returns JSON in one line. Invalid JSON is returned unchanged.
func compact(text []byte) []byte {
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		return text
	}
	return line.Bytes()
}

// newFileJob parses a job. A job with a state was printed by qless job show.
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
		err = job.read(raw)
	}
	job.line, job.raw = line, raw
	if err != nil {
		job.wrong = err
	}
	return job
}

// read parses a line.
func (j *fileJob) read(raw []byte) error {
	if err := json.Unmarshal(raw, j); err != nil {
		return err
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		return err
	}
	delete(values, "queue")
	rest, err := json.Marshal(values)
	if err != nil {
		return err
	}
	j.job, err = readSpec(rest)
	if j.Data != nil {
		j.job.Data = j.Data // byte for byte
	}
	return err
}

// copyOf makes the job a copy of a printed one.
func (j *fileJob) copyOf(raw []byte) error {
	var shown qless.Job
	if err := json.Unmarshal(raw, &shown); err != nil {
		return err
	}
	*j = fileJob{
		JID: shown.JID, Queue: shown.Queue, Klass: shown.Klass, shown: &shown,
		Depends: slices.Concat(shown.Options.Parents, shown.Dependencies),
	}
	return lifeError(&shown)
}

// lifeError returns an error if the life of a printed job is over: the server would refuse all jobs
// of its page.
func lifeError(job *qless.Job) error {
	if job.State == qless.StateFailed || job.State == qless.StateComplete {
		return nil
	}
	for _, end := range []time.Time{job.Options.StartBy, job.Options.TTL} {
		if !end.IsZero() && end.Before(time.Now()) {
			return fmt.Errorf("its life ended at %s", end.Format(time.RFC3339))
		}
	}
	return nil
}

// fill sets the job's missing queue and klass.
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

// The levels of a job before and during the determination of its level.
const (
	levelUnknown = 0
	levelOpen    = -1
)

// setLevel gives a job a higher level than its parents in the file. A job that would wait for
// itself is wrong.
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

// checkBefore makes a job with a wrong parent wrong, too.
func (j *fileJob) checkBefore() {
	for _, other := range j.before {
		if other.wrong != nil && j.wrong == nil {
			j.wrong = fmt.Errorf("it waits for that of line %d, which is wrong", other.line)
		}
	}
}

// spec returns the job to put, on condition that its jid is free.
func (j *fileJob) spec() qless.JobSpec {
	spec := j.job
	if j.shown != nil {
		spec = j.shown.Spec()
	}
	spec.Klass = j.Klass
	spec.Options = append(slices.Clip(spec.Options), qless.JID(j.JID), qless.IfAbsent)
	return spec
}

// rawWithJID returns the job's line, with the generated jid, if any.
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
