package health

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/place"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
)

// A sum is the status of several namespaces.
type sum struct {
	Time       time.Time            `json:"time"`
	Namespace  string               `json:"namespace"` // the pattern
	Namespaces []string             `json:"namespaces"`
	Attention  []*spaceProblem      `json:"attention"`
	Remarks    []doctor.Reason      `json:"remarks,omitempty"` // on the server
	Queues     []*place.QueueSum    `json:"queues"`            // by name
	Workers    doctor.Workforce     `json:"workers"`
	Rates      doctor.Throughput    `json:"rates"`
	Failures   []doctor.Group       `json:"failures"` // the largest groups first
	FullLimits []spaceLimit         `json:"full_limits"`
	Damaged    []inspect.DamagedKey `json:"damaged,omitempty"`
	Unread     []place.UnreadSpace  `json:"unread,omitempty"`

	causes map[cause]*spaceProblem
}

// A spaceProblem is a problem of one or more namespaces. The embedded Reason is from Namespace,
// where the problem harms the most jobs, but Jobs is the sum of all namespaces.
type spaceProblem struct {
	doctor.Reason
	Namespace  string   `json:"namespace"`
	Namespaces []string `json:"namespaces"` // all namespaces with the problem

	most int // the number of harmed jobs in Namespace
}

// A spaceLimit is a full limit of one of the namespaces.
type spaceLimit struct {
	inspect.LimitInfo
	Namespace string `json:"namespace"`
}

// showSum shows the status of several namespaces.
func (a *app) showSum(
	ctx context.Context, clients []*qless.Client, old time.Duration, all bool,
) error {
	s := &sum{
		Time: time.Now(), Namespace: a.NamespaceName(), Attention: []*spaceProblem{},
		FullLimits: []spaceLimit{}, causes: map[cause]*spaceProblem{},
	}
	queues, groups := place.QueueSums{}, map[string]int{}
	s.Unread = place.ReadSpaces(ctx, clients,
		func(ctx context.Context, client *qless.Client) (*doctor.Status, error) {
			return doctor.ReadStatus(ctx, client, old)
		}, func(namespace string, one *doctor.Status) {
			s.add(namespace, one)
			for i := range one.Queues {
				q := queues.Of(one.Queues[i].Name)
				q.Add(namespace, &one.Queues[i].QueueOverview)
				q.Workers += one.Queues[i].Workers
				q.Rates.Add(one.Queues[i].Rates)
			}
			for _, group := range one.Failures {
				groups[group.Name] += max(0, group.Jobs)
			}
		})
	s.Queues, s.Failures = queues.Sorted(), doctor.GroupsOf(groups)
	slices.SortStableFunc(s.Attention, func(a, b *spaceProblem) int {
		return doctor.CompareReasons(&a.Reason, &b.Reason)
	})
	failed := errors.Join(out.Damage(s.Damaged), place.UnreadError(s.Unread))
	if a.JSON {
		return errors.Join(a.Print(s, nil), failed)
	}
	screen := statusScreen{out: a.Out, style: text.StyleOf(a.Out)}
	screen.sum(a.ServerName(), s, all)
	return errors.Join(screen.err, failed)
}

func (s *sum) add(namespace string, one *doctor.Status) {
	s.Namespaces = append(s.Namespaces, namespace)
	for i := range one.Attention {
		s.addProblem(namespace, &one.Attention[i])
	}
	s.Remarks = one.Remarks
	s.Workers.Add(one.Workers)
	s.Rates.Add(one.Rates)
	for i := range one.FullLimits {
		s.FullLimits = append(s.FullLimits, spaceLimit{one.FullLimits[i], namespace})
	}
	s.Damaged = append(s.Damaged, one.Damaged...)
}

// A cause identifies the same problem in several namespaces.
type cause struct {
	code                                       doctor.ReasonCode
	queue, limit, schedule, outbox, group, key string
}

// addProblem adds a problem of a namespace to the same problem of other namespaces, such as a queue
// of the same name without workers.
func (s *sum) addProblem(namespace string, p *doctor.Reason) {
	c := cause{p.Code, p.Queue, p.Limit, p.Schedule, p.Outbox, p.Group, p.Key}
	known := s.causes[c]
	if known == nil {
		known = &spaceProblem{most: -1}
		s.causes[c] = known
		s.Attention = append(s.Attention, known)
	}
	jobs, isUrgent := known.Jobs+p.Jobs, known.Urgent() || p.Urgent()
	if p.Jobs > known.most {
		known.Reason, known.Namespace, known.most = *p, namespace, p.Jobs
		known.Command = place.InNamespace(p.Command, namespace)
	}
	known.Jobs = jobs
	if isUrgent {
		known.Gravity = doctor.Urgent
	}
	known.Namespaces = append(known.Namespaces, namespace)
}

// sentence describes the problem with its namespace.
func (p *spaceProblem) sentence() string {
	text := p.Namespace + " " + p.Sentence
	others := len(p.Namespaces) - 1
	switch {
	case others == 0:
		return text
	case p.Jobs > p.most:
		return fmt.Sprintf("%s; %d more like it, with %d jobs in all", text, others, p.Jobs)
	}
	return fmt.Sprintf("%s; %d more like it", text, others)
}

// sum prints the status of several namespaces.
func (s *statusScreen) sum(server string, sum *sum, all bool) {
	s.line("%s  %s like %s  %s", s.style.Bold(server),
		text.Count(len(sum.Namespaces), "namespace"), text.Clean(sum.Namespace),
		sum.Time.UTC().Format("2006-01-02 15:04:05 UTC"))
	problems := make([]doctor.Reason, len(sum.Attention))
	for i, p := range sum.Attention {
		problems[i] = p.Reason
		problems[i].Sentence = p.sentence()
	}
	s.attention(problems, all)
	s.remarks(sum.Remarks)
	s.workforce(sum.Workers)
	if sum.Workers.Gone > 0 {
		s.line("         %d gone", sum.Workers.Gone)
	}
	s.rates(sum.Rates)
	s.line("")
	t := out.NewTable("QUEUE  NAMESPACES  WAITING  OLDEST  RUNNING  STALLED  SCHEDULED  "+
		"DEPENDS  DONE/M  FAIL/M  WORKERS  STATE  OLDEST IN", "no queues")
	for _, q := range sum.Queues {
		t.Add(q.Name, q.Namespaces, q.Waiting, units.Age(time.Duration(q.Oldest)), q.Running,
			out.Alarming(q.Stalled), q.Scheduled, q.Depends, units.Rate(q.Rates.Completed),
			units.Rate(q.Rates.Failed), q.Workers, q.State(), out.Dash(q.OldestIn))
	}
	if s.err == nil {
		s.err = t.Write(s.out)
	}
	s.failures(sum.Failures)
	if len(sum.FullLimits) == 0 {
		return
	}
	s.line("\n%s", s.style.Bold("FULL LIMITS"))
	for i := range sum.FullLimits {
		l := &sum.FullLimits[i]
		s.line("%7d  %s %s", l.Parked, text.Clean(l.Namespace), text.Clean(l.Name))
	}
}
