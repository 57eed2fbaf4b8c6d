package doctor

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/keys"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/units"
)

// Options configure [Examine], [Fix] and [EstimateExam]. The zero value is fine.
type Options struct {
	// Clock is the source of the time, as in a [qless.ClientConfig]. Defaults to the server's clock.
	Clock func() time.Time

	// MaxFindings is the maximum number of findings to keep. Defaults to 10,000.
	MaxFindings int

	// Namespace is the prefix of the keys. Defaults to [qless.DefaultNamespace].
	Namespace string

	// Pause is the time to wait after each step, to leave the server to others. Defaults to 1 ms. The
	// value -1 means no pause.
	Pause time.Duration

	// Progress, if set, is called from time to time. A panic in Progress or Clock ends the exam with
	// an error.
	Progress func(Progress)

	// Step is the number of keys, or members of a key, to read at once, from 10 to 1000. Defaults to
	// 200.
	Step int
}

// The limits of Options.
const (
	defaultStep     = 200
	minStep         = 10
	maxStep         = 1000
	defaultPause    = time.Millisecond
	defaultFindings = 10_000
	noPause         = -1
)

func (o Options) withDefaults() (Options, error) {
	if o.Namespace == "" {
		o.Namespace = qless.DefaultNamespace
	}
	if o.Step == 0 {
		o.Step = defaultStep
	}
	if o.Step < minStep || o.Step > maxStep {
		return o, invalid("the step is not from 10 to 1000")
	}
	if o.Pause == 0 {
		o.Pause = defaultPause
	}
	if o.Pause < noPause {
		return o, invalid("the pause is negative")
	}
	if o.MaxFindings == 0 {
		o.MaxFindings = defaultFindings
	}
	if o.MaxFindings < 0 {
		return o, invalid("the number of findings is negative")
	}
	return o, nil
}

// Progress is the progress of an exam.
type Progress struct {
	Keys     int `json:"keys"`  // examined
	Total    int `json:"total"` // all keys of the database, in any namespace
	Jobs     int `json:"jobs"`
	Findings int `json:"findings"`
}

// A Report is the result of an exam.
type Report struct {
	Namespace string `json:"namespace"`

	// Keys and Jobs are counts within the namespace. Total counts all keys of the database.
	Keys  int `json:"keys"`
	Jobs  int `json:"jobs"`
	Total int `json:"total"`

	// Steps is the number of steps taken.
	Steps int `json:"steps"`

	// Findings are the problems found, never nil.
	Findings []Reason `json:"findings"`

	// Truncated is true if the exam found more than MaxFindings problems.
	Truncated bool `json:"truncated,omitempty"`

	// Skipped lists the checks that could not run, with the reasons. It is never nil.
	Skipped []string `json:"skipped"`

	Took time.Duration `json:"took"` // in JSON, text such as "1m30s"
}

// MarshalJSON writes Took as text.
func (r Report) MarshalJSON() ([]byte, error) { return units.Marshal(r) }

// UnmarshalJSON reads the output of MarshalJSON.
func (r *Report) UnmarshalJSON(text []byte) error { return units.Unmarshal(text, r) }

// With returns the findings with a severity.
func (r *Report) With(severity Gravity) []Reason {
	var found []Reason
	for _, f := range r.Findings {
		if f.Gravity == severity {
			found = append(found, f)
		}
	}
	return found
}

// codeFailed is the result of the check of a failed job.
const codeFailed ReasonCode = "?failed"

// Examine reads a whole namespace and reports damage and dangers: misplaced jobs, set members
// without jobs, inconsistent locks, dependencies, tags and failure groups, leftovers of workers and
// jobs that are gone, and dangerous settings of the namespace and the server.
//
// Examine may run on a server in use. Keys are read by SCAN and similar commands, a Step at a time
// with a Pause after each, and one script checks up to 100 jobs. That script reads all facts behind
// a finding atomically, so concurrent work is never mistaken for damage. A job that keeps moving
// may be examined twice, or only in some of its places.
//
// A plain job costs about 10 commands on the server. [EstimateExam] estimates the time of a whole
// exam. Examine keeps the jid of each failed job in memory and changes nothing. The user needs
// permission for SCAN, TYPE and other commands: see the page docs/doctor.md.
//
// If the exam fails or the context ends, Examine returns the report so far with the error:
// [qless.ErrUnavailable] if the server can't be reached, [qless.ErrInvalid] for invalid options.
func Examine(ctx context.Context, rdb redis.UniversalClient, options Options) (*Report, error) {
	reports, err := ExamineAll(ctx, rdb, options, options.Namespace)
	if len(reports) == 0 {
		return nil, err
	}
	return reports[0], err
}

// ExamineAll is [Examine] for several namespaces, such as the results of inspect.Namespaces. It
// returns one report per namespace, in the same order, and walks through the keys of each server
// once. Findings about a server are in the report of the server's first namespace.
// Options.Namespace is ignored, and MaxFindings applies to each namespace.
func ExamineAll(
	ctx context.Context, rdb redis.UniversalClient, options Options, namespaces ...string,
) ([]*Report, error) {
	var reports []*Report
	var servers []redis.UniversalClient
	byServer := map[redis.UniversalClient][]*exam{}
	for _, namespace := range namespaces {
		options.Namespace = namespace
		e, err := newExam(ctx, rdb, options)
		if err != nil {
			return reports, err
		}
		reports = append(reports, e.report)
		if byServer[e.rdb] == nil {
			servers = append(servers, e.rdb)
		}
		byServer[e.rdb] = append(byServer[e.rdb], e)
	}
	for _, server := range servers {
		began := time.Now()
		err := newWalk(byServer[server]).all(ctx)
		for _, e := range byServer[server] {
			e.report.Took = time.Since(began)
		}
		if err != nil {
			return reports, coded(err)
		}
	}
	return reports, nil
}

// skip records a check that could not run.
func (e *exam) skip(what string, err error) {
	e.report.Skipped = append(e.report.Skipped, what+": "+err.Error())
}

// An Estimate predicts the time of an exam.
type Estimate struct {
	Keys  int           `json:"keys"` // of the database, in any namespace
	Steps int           `json:"steps"`
	Took  time.Duration `json:"took"` // in JSON, text such as "1m30s"
}

// MarshalJSON writes Took as text.
func (e Estimate) MarshalJSON() ([]byte, error) { return units.Marshal(e) }

// UnmarshalJSON reads the output of MarshalJSON.
func (e *Estimate) UnmarshalJSON(text []byte) error { return units.Unmarshal(text, e) }

// EstimateExam estimates how long [Examine] will take from the number of keys in the database, a
// sample of keys, and the round-trip time. The estimate is right within a factor of about three. It
// costs about ten commands, and one per sampled key with statistics or rates, at most 2 * Step.
func EstimateExam(
	ctx context.Context, rdb redis.UniversalClient, options Options,
) (Estimate, error) {
	e, err := newExam(ctx, rdb, options)
	if err != nil {
		return Estimate{}, err
	}
	total, err := e.rdb.DBSize(ctx).Result()
	if err != nil {
		return Estimate{}, coded(err)
	}
	const pings = 4 // with TIME, because a server that can't save its data refuses PING
	began := time.Now()
	for range pings {
		if err := e.rdb.Time(ctx).Err(); err != nil {
			return Estimate{}, coded(err)
		}
	}
	trip := time.Since(began) / pings
	seen, err := e.sample(ctx)
	if err != nil {
		return Estimate{}, coded(err)
	}
	// Two steps for each Step of keys, and one per 100 items: a key has about one item.
	steps := 2*(int(total)/e.Step+1) + int(total)/itemsAtOnce + seen.steps(int(total), e.Step) + 10
	perStep := trip + max(e.Pause, 0) + stepTime
	return Estimate{Keys: int(total), Steps: steps, Took: time.Duration(steps) * perStep}, nil
}

// stepTime is roughly the server's time for a step.
const stepTime = 500 * time.Microsecond

// A sample describes some keys of the database.
type sample struct {
	keys    int // in any namespace
	walked  int // keys with members that an exam reads, a step each
	figures int // fields of statistics or rates
}

// steps returns the number of steps needed for the members of keys, if the sample is typical. The
// members of other keys are jobs, and count as keys.
func (s sample) steps(keys, step int) int {
	if s.keys == 0 {
		return 0
	}
	found := float64(s.walked) + float64(s.figures)/float64(step) + float64(s.figures)/itemsAtOnce
	return int(found * float64(keys) / float64(s.keys))
}

// maxSampleScans is the maximum number of scans for a sample: a shrunken table has empty slots.
const maxSampleScans = 5

// sample reads up to Step keys. SCAN returns keys in the order of their hashes, as good as random.
func (e *exam) sample(ctx context.Context) (sample, error) {
	var seen sample
	var figures []string
	cursor := uint64(0)
	for range maxSampleScans {
		found, next, err := e.rdb.Scan(ctx, cursor, "", int64(e.Step)).Result()
		if err != nil {
			return seen, err
		}
		seen.keys += len(found)
		for _, key := range found {
			name, is := strings.CutPrefix(key, e.Namespace)
			if c := classOf(name, ""); is && c.members != "" {
				seen.walked++
				if c.members == checkFigures && c.Type == keys.Hash {
					figures = append(figures, key)
				}
			}
		}
		if cursor = next; cursor == 0 || seen.keys >= e.Step {
			break
		}
	}
	var err error
	seen.figures, err = e.fields(ctx, figures)
	return seen, err
}

// fields returns the total number of fields in the hashes that the user may read.
func (e *exam) fields(ctx context.Context, hashes []string) (total int, err error) {
	pipe := e.rdb.Pipeline()
	lengths := make([]*redis.IntCmd, len(hashes))
	for i, key := range hashes {
		lengths[i] = pipe.HLen(ctx, key)
	}
	if _, err := pipe.Exec(ctx); redisx.IsUnanswered(err) {
		return 0, err
	}
	for _, length := range lengths {
		total += int(length.Val())
	}
	return total, nil
}
