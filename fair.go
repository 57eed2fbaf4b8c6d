package qless

import (
	"encoding/json"

	"github.com/qless/qless-go/internal/wire"
)

// A FairOption is returned by [Fair] and [FairWeight].
type FairOption struct {
	tenant string
	weight float64
}

// Fair shares a queue between tenants, such as customers: the waiting jobs of each are handed out
// in turns, whichever tenant put its jobs first or put more of them. The jobs of a tenant keep
// their order.
//
// Priorities come first: turns are taken by the jobs of one priority, which must be from -10000 to
// 10000, or the error is [ErrInvalid]. Jobs of the same priority without the option go before
// them, and so do jobs that are retried or released. A job with a [Delay], or one that waits for
// others, gets its turn when it is ready. It keeps its tenant in all queues that it goes through;
// each queue shares by itself.
//
// Only the job's place in the queue is chosen, so clients of other languages hand out the jobs in
// the same order.
func Fair(tenant string) FairOption { return FairOption{tenant, 1} }

// FairWeight is [Fair] with a weight, from 0.01 to 100: a tenant of weight 2 gets two turns for
// each of one with weight 1, which is the weight that Fair gives. Each job says its own weight.
func FairWeight(tenant string, weight float64) FairOption { return FairOption{tenant, weight} }

func (o FairOption) applyPut(c *callOptions) { c.fair = &o }

// The limits of [Fair].
const (
	maxTenant       = 512
	minWeight       = 0.01
	maxWeight       = 100
	maxFairPriority = 10000
)

// check returns an error if the option can't be used with this priority.
func (o *FairOption) check(op, jid string, priority *int) error {
	if o == nil {
		return nil
	}
	if err := checkName(op, "tenant of Fair", o.tenant); err != nil {
		return err
	}
	switch {
	case len(o.tenant) > maxTenant:
		return invalid(op, jid, "the tenant of Fair has %d bytes, which is more than %d",
			len(o.tenant), maxTenant)
	case !(o.weight >= minWeight && o.weight <= maxWeight):
		return invalid(op, jid, "the weight %v of FairWeight is not from %v to %v",
			o.weight, minWeight, maxWeight)
	case priority != nil && (*priority < -maxFairPriority || *priority > maxFairPriority):
		return invalid(op, jid, "Fair can't be used with the Priority %d: it is not from %d to %d",
			*priority, -maxFairPriority, maxFairPriority)
	}
	return nil
}

// A fairShare is what a job with the option stores: see lua/lib/fair.lua.
type fairShare struct {
	Tenant wire.Text   `json:"t"`
	Weight wire.Number `json:"w,omitempty"`
}

// UnmarshalJSON reads what can be read.
func (s *fairShare) UnmarshalJSON(raw []byte) error {
	type plain fairShare
	*s = fairShare{}
	_ = json.Unmarshal(raw, (*plain)(s))
	return nil
}

// share returns what a job with the option stores, or nil.
func (o *FairOption) share() *fairShare {
	if o == nil {
		return nil
	}
	s := &fairShare{Tenant: wire.Text(o.tenant)}
	if o.weight != 1 {
		s.Weight = wire.Number(o.weight)
	}
	return s
}
