package model

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/qless/qless-go"
)

// A share describes a job's turns in a queue.
type share struct {
	Tenant string  `json:"t"`
	Weight float64 `json:"w,omitempty"`
}

// share returns the step's share, or nil.
func (s step) share() *share {
	tenant, weight, ok := strings.Cut(s.Fair, " ")
	if tenant == "" {
		return nil
	}
	own := &share{Tenant: tenant}
	if ok {
		own.Weight, _ = strconv.ParseFloat(weight, 64)
	}
	return own
}

// option returns a share as a put option.
func (s *share) option() qless.PutOption {
	if s.Weight == 0 {
		return qless.Fair(s.Tenant)
	}
	return qless.Fair(s.Tenant, qless.Weight(s.Weight))
}

// drawShare draws a tenant, mostly none, and perhaps a weight.
func (d *dice) drawShare(s *step) {
	if d.chance(12) {
		s.Fair = pick(d, []string{"x", "y", "z", "x 2", "y 0.5"})
	}
}

// turns identifies the jobs of a priority in a queue, among which tenants take turns.
type turns struct {
	priority int
	queue    string
}

// key returns the name of the server's key for the turns, without our prefix.
func (t turns) key() string { return fmt.Sprintf("fair:%d:%s", t.priority, t.queue) }

// takeTurns gives jobs that begin to wait together their places among the jobs with turns.
func (m *queues) takeTurns(jobs ...*job) {
	before := map[turns]float64{}
	for _, j := range jobs {
		if j.options.share != nil && j.state == qless.StateWaiting {
			j.score = m.fairScore(j, before)
		}
	}
}

// fairScore returns the score with which a job waits, and notes when its tenant's next turn begins.
// before has the first turns of the queues before the call.
func (m *queues) fairScore(j *job, before map[turns]float64) float64 {
	own, tenant := turns{j.priority, j.queue}, j.options.share.Tenant
	turn, known := before[own]
	var passed []string
	if !known {
		var waits bool
		turn, waits = m.firstTurn(own)
		if waits {
			passed = first(m.passed(own, turn), 2)
		} else {
			m.fair[own] = map[string]float64{}
		}
		before[own] = turn
	}
	turn = min(max(turn, m.fair[own][tenant]), 0.49)
	for _, other := range passed {
		delete(m.fair[own], other)
	}
	_, exponent := math.Frexp(math.Abs(float64(j.priority)) + 1)
	m.fair[own][tenant] = turn + math.Ldexp(1, exponent-45)/cmp.Or(j.options.share.Weight, 1)
	return float64(j.priority) - 0.5 - turn
}

// passed returns the tenants whose turns are over before a turn, in order.
func (m *queues) passed(own turns, turn float64) []string {
	return slices.DeleteFunc(byTime(m.fair[own]), func(tenant string) bool {
		return m.fair[own][tenant] > turn
	})
}

// firstTurn returns the turn of the first waiting job with one, or false if there is none.
func (m *queues) firstTurn(own turns) (float64, bool) {
	base := float64(own.priority) - 0.5
	for _, j := range m.work(own.queue) {
		if j.score <= base && j.score > base-0.5 {
			return max(base-j.score, 0), true
		}
	}
	return 0, false
}

// compareTurns compares the ends of tenants' turns.
func (m *queues) compareTurns(p *problems, k *keyspace) {
	names := map[string]bool{}
	for own, ends := range m.fair {
		if _, waits := m.firstTurn(own); !waits {
			delete(m.fair, own) // the last job has left
			continue
		}
		names[own.key()] = true
		compareScores(p, "turns of "+own.key(), in(k.ours, own.key()).scores, ends)
	}
	for name := range maps.Keys(k.ours) {
		if strings.HasPrefix(name, "fair:") && !names[name] {
			p.add("the server has %s, the model has not", name)
		}
	}
}

// tenant returns the tenant whose turn a job takes; empty for none.
func (o *options) tenant() string {
	if o.share == nil {
		return ""
	}
	return o.share.Tenant
}

// checkShares checks that jobs with turns wait behind all others of their priority, before the jobs
// of the next priority, and with no other jobs among them.
func checkShares(p *problems, k *keyspace, _ *queues) {
	for jid, h := range k.jobs {
		t := &h.job
		if t.state != "waiting" {
			continue
		}
		behind := t.priority - k.of(t.queue, "work").scores[jid]
		isFair := strings.Contains(t.options, `"g":`)
		if behind >= 1 || behind >= 0.5 && !isFair {
			p.add("%sj:%s has priority %g, but is %g behind it", prefix, jid, t.priority, behind)
		}
	}
}
