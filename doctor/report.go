package doctor

import (
	"time"

	"github.com/qless/qless-go"
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
