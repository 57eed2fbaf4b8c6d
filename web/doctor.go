package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/web/internal/words"
)

// exams holds the last exam of a namespace, and the current exam.
type exams struct {
	mu       sync.Mutex
	stop     context.CancelFunc // nil unless an exam is running
	progress string
	report   *doctor.Report
	at       time.Time
	repaired int // by the last exam
	problem  string
}

// A doctorData is the last exam.
type doctorData struct {
	Report   *doctor.Report  `json:"report,omitempty"`
	At       time.Time       `json:"at,omitzero"`
	Repaired int             `json:"repaired,omitempty"`
	Running  string          `json:"running,omitempty"` // progress of the running exam
	Problem  string          `json:"problem,omitempty"` // why the last exam ended early
	NoRedis  bool            `json:"no_redis,omitempty"`
	Findings []doctor.Reason `json:"-"` // findings on the page
	Rows     rows            `json:"-"`
}

// Fixable returns the number of findings that can be repaired.
func (d *doctorData) Fixable() (n int) {
	for _, finding := range d.Report.Findings {
		if finding.Fixable {
			n++
		}
	}
	return n
}

// Kind returns the number of findings of a gravity.
func (d *doctorData) Kind(gravity string) int {
	return len(d.Report.With(doctor.Gravity(gravity)))
}

// doctor shows the last exam.
func (s *site) doctor(_ context.Context, q query) (*view, error) {
	data := s.exams.data()
	data.NoRedis = s.Redis == nil
	if data.Report != nil {
		all := slices.Clone(data.Report.Findings)
		rank := []doctor.Gravity{doctor.Broken, doctor.Warning, doctor.Leftover}
		slices.SortStableFunc(all, func(a, b doctor.Reason) int {
			return cmp.Compare(slices.Index(rank, a.Gravity), slices.Index(rank, b.Gravity))
		})
		data.Findings = part(all, q.from(), pageSize)
		data.Rows = rows{q.from(), len(data.Findings), len(all), pageSize}
	}
	v := &view{Title: "Doctor", Data: data}
	if data.Running != "" {
		v.refresh = 2
	}
	return v, nil
}

func (e *exams) data() *doctorData {
	e.mu.Lock()
	defer e.mu.Unlock()
	data := &doctorData{Report: e.report, At: e.at, Repaired: e.repaired, Problem: e.problem}
	if e.stop != nil {
		data.Running = e.progress
	}
	return data
}

// serious returns the number of findings that need attention.
func (e *exams) serious() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.report == nil {
		return 0
	}
	return len(e.report.With(doctor.Broken)) + len(e.report.With(doctor.Warning))
}

// halt makes the exam end soon.
func (e *exams) halt() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stop != nil {
		e.stop()
	}
}

// examine starts an exam of the namespace. With repair, it repairs the findings and then examines
// the namespace again.
func (s *site) examine(repair bool) error {
	if s.Redis == nil {
		return invalid("the dashboard has no connection for it: its Source has no Redis")
	}
	e := &s.exams
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stop != nil {
		return invalid("an exam runs already")
	}
	ctx, stop := context.WithCancel(context.Background())
	e.stop, e.progress = stop, "It has begun."
	s.handler.background.Go(func() {
		report, repaired, err := s.runExam(ctx, repair)
		stop()
		e.mu.Lock()
		defer e.mu.Unlock()
		e.stop, e.report, e.at, e.repaired, e.problem = nil, report, time.Now(), repaired, ""
		if err != nil {
			e.problem = err.Error()
		}
	})
	return nil
}

func (s *site) runExam(
	ctx context.Context, repair bool,
) (report *doctor.Report, repaired int, err error) {
	options := doctor.Options{Namespace: s.Client.Namespace(), Progress: func(p doctor.Progress) {
		s.exams.mu.Lock()
		defer s.exams.mu.Unlock()
		s.exams.progress = fmt.Sprintf("%s and %s so far.",
			words.Plural(p.Keys, "key"), words.Plural(p.Findings, "finding"))
	}}
	report, err = doctor.Examine(ctx, s.Redis, options)
	if err != nil || !repair {
		return report, 0, err
	}
	fixed, err := doctor.Fix(ctx, s.Redis, options, report.Findings...)
	if err == nil {
		report, err = doctor.Examine(ctx, s.Redis, options)
	}
	return report, len(fixed), err
}

// adviceOn returns the advice on a finding.
func adviceOn(finding doctor.Reason) string {
	return cmp.Or(finding.Advice,
		"It can't be repaired here. The page on the doctor in the documentation has more.")
}
