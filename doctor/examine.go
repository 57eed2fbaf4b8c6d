package doctor

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
)

// Options are the options of [Examine], [Fix] and [EstimateExam]. The zero value is fine.
type Options struct {
	// Namespace is the prefix of the keys. Defaults to [qless.DefaultNamespace].
	Namespace string

	// Step is how many keys, or members of a key, are read at once, from 10 to 1000. Defaults to 200.
	Step int

	// Pause is how long to wait after each step, so that others have the server for themselves.
	// Defaults to 1 ms. The value -1 means no time.
	Pause time.Duration

	// MaxFindings is how many findings are kept. Defaults to 10,000.
	MaxFindings int

	// Progress is called from time to time, unless it is nil.
	Progress func(Progress)

	// Clock is the source of the time, as in a [qless.ClientConfig]. Defaults to the server's clock.
	Clock func() time.Time
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
		return o, invalid("Options.Step is not from 10 to 1000")
	}
	if o.Pause == 0 {
		o.Pause = defaultPause
	}
	if o.Pause < noPause {
		return o, invalid("Options.Pause is negative")
	}
	if o.MaxFindings == 0 {
		o.MaxFindings = defaultFindings
	}
	if o.MaxFindings < 0 {
		return o, invalid("Options.MaxFindings is negative")
	}
	return o, nil
}

// Progress is the progress of an exam.
type Progress struct {
	Keys     int `json:"keys"`  // looked at
	Total    int `json:"total"` // in the database, of which the namespace may have only some
	Jobs     int `json:"jobs"`
	Findings int `json:"findings"`
}

// A Report is what an exam has found.
type Report struct {
	Namespace string `json:"namespace"`

	// Keys and Jobs is how many there are in the namespace, and Total how many keys in the database.
	Keys  int `json:"keys"`
	Jobs  int `json:"jobs"`
	Total int `json:"total"`

	// Steps is how often the server was asked.
	Steps int `json:"steps"`

	// Findings are what is wrong. It is not nil.
	Findings []Finding `json:"findings"`

	// Truncated is true if there are more than MaxFindings.
	Truncated bool `json:"truncated,omitempty"`

	// Skipped lists the checks that were not possible, and why. It is not nil.
	Skipped []string `json:"skipped"`

	Took time.Duration `json:"took"` // in nanoseconds
}

// With returns the findings of a severity.
func (r *Report) With(severity Severity) []Finding {
	var found []Finding
	for _, f := range r.Findings {
		if f.Severity == severity {
			found = append(found, f)
		}
	}
	return found
}

// kindFailed is the result of the check of a failed job.
const kindFailed Kind = "?failed"

// Examine reads everything in a namespace, and reports damage: jobs that are not where they should
// be, sets that name jobs which are gone, locks, dependencies, tags and failure groups that do not
// agree, leftovers of workers and jobs that are gone, settings and the server.
//
// It may run on a server that is in use. Keys are read by SCAN and the like, a Step at a time with
// a Pause after each, and scripts check up to 100 jobs at once. Whatever a finding is about was
// read by one script, in one step of the server, so concurrent work is never taken for damage. A
// job that moves all the time may be looked at twice, or only in some of the places where it is.
//
// A plain job costs about 10 commands on the server; [EstimateExam] estimates the time of a whole
// exam. Examine keeps the jid of each failed job in memory. It changes nothing. The user needs
// SCAN, TYPE and the like: see the page docs/doctor.md.
//
// If it fails, or the context ends, it returns what it has found so far with the error:
// [qless.ErrUnavailable] without a server, [qless.ErrInvalid] for wrong options.
func Examine(ctx context.Context, rdb redis.UniversalClient, options Options) (*Report, error) {
	e, err := newExam(ctx, rdb, options)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	err = e.all()
	e.report.Took = time.Since(began)
	return e.report, coded(err)
}

// all does everything that there is to do.
func (e *exam) all() error {
	total, err := e.rdb.DBSize(e.ctx).Result()
	if err != nil {
		e.skip("the number of keys", err)
	}
	e.report.Total = int(total)
	for _, step := range []func() error{e.server, e.settings, e.clocks, e.scan} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// skip notes that something could not be checked.
func (e *exam) skip(what string, err error) {
	e.report.Skipped = append(e.report.Skipped, what+": "+err.Error())
}

// An Estimate is how long an exam will take.
type Estimate struct {
	Keys  int           `json:"keys"` // in the database: the namespace may have only some
	Steps int           `json:"steps"`
	Took  time.Duration `json:"took"` // in nanoseconds
}

// EstimateExam estimates how long [Examine] will take, from the number of keys in the database, a
// sample of them and the time of a round trip. It is right within a factor of about three. It costs
// about ten commands, and one for each key of the sample that has statistics or rates, at most 2 *
// Step.
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
	const pings = 4 // by TIME: a server that can't save its data refuses PING
	began := time.Now()
	for range pings {
		if err := e.rdb.Time(ctx).Err(); err != nil {
			return Estimate{}, coded(err)
		}
	}
	trip := time.Since(began) / pings
	seen, err := e.sample()
	if err != nil {
		return Estimate{}, coded(err)
	}
	// Two steps for each Step of keys, and one for each 100 items, of which a key has about one.
	steps := 2*(int(total)/e.Step+1) + int(total)/itemsAtOnce + seen.steps(int(total), e.Step) + 10
	perStep := trip + max(e.Pause, 0) + stepTime
	return Estimate{Keys: int(total), Steps: steps, Took: time.Duration(steps) * perStep}, nil
}

// stepTime is about how long the server takes for a step.
const stepTime = 500 * time.Microsecond
