package qless

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/settings"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/internal/wire"
)

// Limits names the limits of a job, from 1 to 8. The job is started only while each has room, and
// then takes a place in all of them. [Limit.Set] defines a limit; a limit that was never set always
// has room. A name such as "shopify/42" without a definition has that of "shopify", so that one
// definition serves many keys.
//
// A job without room is parked: scheduled until there is room, and then put back into its place in
// the queue, without using up a retry. The limits stay with the job in all queues. A name has 1 to
// 200 bytes, without spaces or control characters.
type Limits []string

func (o Limits) applyPut(given *jobopts.Options) {
	given.Limits = wire.List[wire.Text]{}
	for _, name := range o {
		given.Limits = append(given.Limits, wire.Text(name))
	}
}

// The ranges of a [LimitConfig].
const (
	maxConcurrency = math.MaxInt32
	maxRate        = settings.MaxRate
	maxPer         = settings.MaxPer
)

func checkLimitName(op, name string) error { return asInvalid(op, "", jobopts.CheckLimit(name)) }

// A LimitConfig configures a limit. At least one of Concurrency and Rate must be set.
type LimitConfig struct {
	// Concurrency is the maximum number of jobs at once. 0 means no maximum.
	Concurrency int `json:"concurrency,omitempty"`

	// Per is the period of Rate, from 1 ms to 366 days. It can be set only with Rate.
	Per time.Duration `json:"per,omitempty"`

	// Rate is the maximum number of starts in any period of length Per, up to 1,000,000. 0 means no
	// maximum.
	Rate int `json:"rate,omitempty"`
}

// MarshalJSON writes Per as text.
func (c LimitConfig) MarshalJSON() ([]byte, error) { return units.Marshal(c) }

// UnmarshalJSON reads the output of MarshalJSON.
func (c *LimitConfig) UnmarshalJSON(text []byte) error { return units.Unmarshal(text, c) }

func (c LimitConfig) check(op string) error {
	switch {
	case c.Concurrency < 0 || c.Concurrency > maxConcurrency:
		return invalid(op, "", "the concurrency %d is not from 0 to %d", c.Concurrency,
			maxConcurrency)
	case c.Rate < 0 || c.Rate > maxRate:
		return invalid(op, "", "the rate %d is not from 0 to %d", c.Rate, maxRate)
	case c.Concurrency == 0 && c.Rate == 0:
		return invalid(op, "", "the limit has neither a concurrency nor a rate")
	case c.Rate > 0 && c.Per == 0:
		return invalid(op, "", "the rate has no period")
	case c.Rate == 0 && c.Per != 0:
		return invalid(op, "", "the period has no rate")
	case c.Rate > 0 && (c.Per < time.Millisecond || c.Per > maxPer):
		return invalid(op, "", "the period %v is not from 1ms to %v", c.Per, maxPer)
	}
	return nil
}

// A Limit is a handle to a named limit, for jobs with the option [Limits], and safe for concurrent
// use.
type Limit struct {
	client *Client
	name   string
}

// Limit returns a handle to a limit, which need not be set yet.
func (c *Client) Limit(name string) *Limit { return &Limit{c, name} }

// Name returns the limit's name.
func (l *Limit) Name() string { return l.name }

// Set defines the limit or changes its definition. If that makes room, parked jobs can start at
// once; running jobs are left alone. Jobs that started while the limit had no Concurrency, or no
// Rate, do not count toward it. Jobs parked by a key of a family may notice a change a minute
// later.
func (l *Limit) Set(ctx context.Context, config LimitConfig) error {
	const op = "limit.set"
	if err := checkLimitName(op, l.name); err != nil {
		return err
	}
	if err := config.check(op); err != nil {
		return err
	}
	_, err := l.client.run(ctx, op, "", l.name, strconv.Itoa(config.Concurrency),
		strconv.Itoa(config.Rate), wire.FormatSeconds(config.Per))
	return err
}

// Unset removes the definition of the limit and ends the hold. A key then has the definition of its
// family; otherwise its parked jobs can start, some within about a minute.
func (l *Limit) Unset(ctx context.Context) error {
	const op = "limit.delete"
	if err := checkLimitName(op, l.name); err != nil {
		return err
	}
	_, err := l.client.run(ctx, op, "", l.name)
	return err
}

// Hold keeps all jobs with the limit from starting for the duration d, whether or not the limit has
// a definition. An earlier hold is replaced; 0 ends the hold. The keys of a family are not held. In
// a handler, see [Throttled].
func (l *Limit) Hold(ctx context.Context, d time.Duration) error {
	const op = "limit.hold"
	if err := checkLimitName(op, l.name); err != nil {
		return err
	}
	if d < 0 || d > maxPer {
		return invalid(op, "", "the time %v of a hold is not from 0 to %v", d, maxPer)
	}
	_, err := l.client.run(ctx, op, "", l.name, wire.FormatSeconds(d))
	return err
}

// Throttled is returned by a handler at the limit of another service, for instance a "429 Too Many
// Requests". The job is released without using up a retry, its data is saved, and it is the next to
// start when its limits have room. The named limits of the job, or all, are held for the duration
// d, as by [Limit.Hold]. A longer hold stays in place. A job without such a limit is put back for
// d, as by [Snooze].
func Throttled(d time.Duration, names ...string) error {
	if d <= 0 {
		d = minSnooze
	}
	return &Outcome{Action: ActionRelease, Delay: d, Limits: append([]string{}, names...)}
}

// A FairOption is returned by [Fair].
type FairOption struct {
	tenant string
	weight float64
}

// A Weight is the number of turns that a tenant gets for each turn of one with weight 1, from 0.01
// to 100. Each job has its own, as an argument of [Fair]. Defaults to 1.
type Weight float64

// Fair shares a queue between tenants, such as customers: their waiting jobs are popped in turn,
// whichever tenant put jobs first, or more of them. The jobs of a tenant keep their order.
//
// Priorities come first: tenants take turns among the jobs of one priority, which must be from
// -10000 to 10000. Jobs without the option precede them, and so do jobs that are retried or
// released. A job keeps its tenant in all queues. Clients in other languages pop jobs in the same
// order.
func Fair(tenant string, weight ...Weight) FairOption {
	o := FairOption{tenant, 1}
	for _, w := range weight {
		o.weight = float64(w)
	}
	return o
}

func (o FairOption) applyPut(given *jobopts.Options) {
	given.Fair = &jobopts.Fair{Tenant: wire.Text(o.tenant), Weight: wire.Number(o.weight)}
}
