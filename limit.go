package qless

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/qless/qless-go/internal/wire"
)

// A LimitsOption is returned by [Limits].
type LimitsOption struct{ names []string }

// Limits names the limits of a job, from 1 to 8 of them: it is started only while each has room, and
// then takes a place in all of them. [Limit.Set] says how many places a limit has; one that nobody
// has set has any number. A name such as "shopify/42" has the definition of "shopify", unless it has
// one of its own, so that one definition serves many keys.
//
// A job without room is parked: it is scheduled until there is room, and then gets back the place
// that it had in its queue. That uses up no retry.
//
// The limits stay with the job in all queues that it goes through. A put that names others replaces
// them. A name has 1 to 200 bytes, without spaces or control characters.
func Limits(names ...string) LimitsOption { return LimitsOption{names} }

func (o LimitsOption) applyPut(c *callOptions) { c.limits = &o }

// What limits may be.
const (
	maxLimits      = 8
	maxLimitName   = 200
	maxConcurrency = math.MaxInt32
	maxRate        = 1_000_000
	maxPer         = 366 * 24 * time.Hour
)

// check returns an error if the limits can't be used.
func (o *LimitsOption) check(op, jid string) error {
	if o == nil {
		return nil
	}
	if n := len(o.names); n < 1 || n > maxLimits {
		return invalid(op, jid, "a job has 1 to %d Limits, not %d", maxLimits, n)
	}
	for i, name := range o.names {
		if err := checkLimitName(op, name); err != nil {
			return err
		}
		if slices.Contains(o.names[:i], name) {
			return invalid(op, jid, "Limits names %q twice", name)
		}
	}
	return nil
}

// stored returns what a job with the option stores.
func (o *LimitsOption) stored() wire.List[wire.Text] {
	if o == nil {
		return nil
	}
	var names wire.List[wire.Text]
	for _, name := range o.names {
		names = append(names, wire.Text(name))
	}
	return names
}

func checkLimitName(op, name string) error {
	if err := checkName(op, "name of a limit", name); err != nil {
		return err
	}
	if len(name) > maxLimitName {
		return invalid(op, "", "the name of a limit has %d bytes, which is more than %d",
			len(name), maxLimitName)
	}
	odd := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	if strings.ContainsFunc(name, odd) {
		return invalid(op, "", "the name of a limit, %q, has a space or a control character", name)
	}
	return nil
}

// A LimitConfig says what a limit allows. At least one of Concurrency and Rate is set.
type LimitConfig struct {
	// Concurrency is how many jobs may run at a time. 0 means any number.
	Concurrency int

	// Rate is how many jobs may be started in any time of the length Per. 0 means any number. It is
	// at most 1,000,000; the server keeps the time of each start that still counts.
	Rate int

	// Per is the time that Rate refers to. It is from 1 ms to 366 days, and only set with Rate.
	Per time.Duration
}

// MarshalJSON writes Per in seconds.
func (c LimitConfig) MarshalJSON() ([]byte, error) {
	return json.Marshal(limitJSON{c.Concurrency, c.Rate, secondsOf(c.Per)})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *LimitConfig) UnmarshalJSON(raw []byte) error {
	var read limitJSON
	if err := json.Unmarshal(raw, &read); err != nil {
		return err
	}
	*c = LimitConfig{read.Concurrency, read.Rate, wire.Number(read.Per).Duration()}
	return nil
}

type limitJSON struct {
	Concurrency int     `json:"concurrency,omitempty"`
	Rate        int     `json:"rate,omitempty"`
	Per         float64 `json:"per,omitempty"`
}

func (c LimitConfig) check(op string) error {
	switch {
	case c.Concurrency < 0 || c.Concurrency > maxConcurrency:
		return invalid(op, "", "LimitConfig.Concurrency %d is not from 0 to %d", c.Concurrency,
			maxConcurrency)
	case c.Rate < 0 || c.Rate > maxRate:
		return invalid(op, "", "LimitConfig.Rate %d is not from 0 to %d", c.Rate, maxRate)
	case c.Concurrency == 0 && c.Rate == 0:
		return invalid(op, "", "neither LimitConfig.Concurrency nor Rate is set")
	case c.Rate > 0 && c.Per == 0:
		return invalid(op, "", "LimitConfig.Rate needs Per")
	case c.Rate == 0 && c.Per != 0:
		return invalid(op, "", "LimitConfig.Per needs Rate")
	case c.Rate > 0 && (c.Per < time.Millisecond || c.Per > maxPer):
		return invalid(op, "", "LimitConfig.Per is %v, not from 1ms to %v", c.Per, maxPer)
	}
	return nil
}

// parseLimitConfig reads the fields of a definition.
func parseLimitConfig(concurrency, rate, per string) LimitConfig {
	return LimitConfig{
		Concurrency: wire.AsNumber(concurrency).Int(), Rate: wire.AsNumber(rate).Int(),
		Per: wire.AsNumber(per).Duration(),
	}
}

// parseLimit reads a definition.
func parseLimit(text string) LimitConfig {
	fields := append(strings.Fields(text), "", "", "")
	return parseLimitConfig(fields[0], fields[1], fields[2])
}

// A Limit is a handle to a named limit, which jobs refer to by [Limits]. It is safe for concurrent
// use.
type Limit struct {
	client *Client
	name   string
}

// Limit returns a handle to a limit, which need not be set yet.
func (c *Client) Limit(name string) *Limit { return &Limit{c, name} }

// Name returns the limit's name.
func (l *Limit) Name() string { return l.name }

// Set defines the limit, or changes its definition. If that makes room, parked jobs are started at
// once; jobs that run are left alone. What it allows is counted from then on: jobs that were started
// while it had no Concurrency, or no Rate, don't count for that.
//
// The definition of a family is also that of its keys: see [Limits]. Their parked jobs notice a
// change when a job of the same key ends, or within about a minute.
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

// Delete removes the definition of the limit, and ends its hold. If it is a key, that of its family
// then holds; otherwise its parked jobs are started: 100 at once, and others within about a minute.
// It is no error if the limit has no definition.
func (l *Limit) Delete(ctx context.Context) error {
	const op = "limit.delete"
	if err := checkLimitName(op, l.name); err != nil {
		return err
	}
	_, err := l.client.run(ctx, op, "", l.name)
	return err
}

// Hold has no job with the limit be started for some time, in place of what was held before, whether
// the limit has a definition or not. It is meant for a service that asks to be left alone, such as
// one that answers "429 Too Many Requests"; in a handler, see [Throttled]. 0 ends the hold.
//
// Only the limit of this name is held, not the keys of a family.
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

// A LimitInfo says what a limit allows, and who uses it.
type LimitInfo struct {
	Name string `json:"name"`

	// Config is the definition, or that of the limit's family. It is zero if there is neither.
	Config LimitConfig `json:"config"`

	// Own reports whether the definition is the limit's own.
	Own bool `json:"own"`

	// HeldUntil is until when no job is started because of [Limit.Hold] or [Throttled], or zero.
	HeldUntil time.Time `json:"held_until,omitzero"`

	// Next is when the next job may start, by the rate or the hold. It is zero if that is now, or
	// when a running one ends.
	Next time.Time `json:"next,omitzero"`

	// Running are the jids of the jobs that run with the limit, at most 1000 of them. They are only
	// known of a limit with a Concurrency.
	Running []string `json:"running"`

	// Parked is how many jobs wait for room.
	Parked int `json:"parked"`
}

// opLimitInfo is the command that tells what a limit allows.
const opLimitInfo = "limit.info"

// Info returns what the limit allows, and who uses it.
func (l *Limit) Info(ctx context.Context) (LimitInfo, error) {
	if err := checkLimitName(opLimitInfo, l.name); err != nil {
		return LimitInfo{}, err
	}
	return l.client.limitInfo(ctx, l.name)
}

// limitInfo returns what is known of a limit, or, with an empty name, of the max-rate of a queue.
func (c *Client) limitInfo(ctx context.Context, name string, queue ...string) (LimitInfo, error) {
	reply, err := c.run(ctx, opLimitInfo, "", anys([]any{name}, queue...)...)
	if err != nil {
		return LimitInfo{}, err
	}
	items, ok := reply.([]any)
	if !ok || len(items) < limitInfoHead {
		return LimitInfo{}, unexpected(opLimitInfo, reply)
	}
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = wire.AsString(item)
	}
	return LimitInfo{
		Name:      name,
		Config:    parseLimitConfig(texts[0], texts[1], texts[2]),
		Own:       texts[3] == "1",
		HeldUntil: wire.AsNumber(texts[4]).Time(),
		Next:      wire.AsNumber(texts[5]).Time(),
		Parked:    wire.AsNumber(texts[6]).Int(),
		Running:   texts[limitInfoHead:],
	}, nil
}

// limitInfoHead is how many items precede the jids in a reply of the script limit.info.
const limitInfoHead = 7

// A NamedLimit is a limit that has a definition.
type NamedLimit struct {
	Name   string      `json:"name"`
	Config LimitConfig `json:"config"`
}

// Limits returns the limits that have a definition, by name. Each call reads all of them, about 500 in
// a step.
func (c *Client) Limits(ctx context.Context, r Range) (Page[NamedLimit], error) {
	offset, limit, err := r.bounds("limit.list")
	if err != nil {
		return Page[NamedLimit]{}, err
	}
	found := map[string]LimitConfig{}
	for cursor := ""; ; {
		if cursor, err = c.limitsFrom(ctx, cursor, found); err != nil {
			return Page[NamedLimit]{}, err
		}
		if cursor == "" {
			break
		}
	}
	names := slices.Sorted(maps.Keys(found))
	page := Page[NamedLimit]{Items: []NamedLimit{}, Total: len(names)}
	for _, name := range pageOf(names, offset, limit) {
		page.Items = append(page.Items, NamedLimit{name, found[name]})
	}
	return page, nil
}

// limitsFrom adds some of the limits, and returns where the next ones begin.
func (c *Client) limitsFrom(
	ctx context.Context, cursor string, found map[string]LimitConfig,
) (next string, err error) {
	const op = "limit.list"
	reply, err := c.run(ctx, op, "", cursor)
	if err != nil {
		return "", err
	}
	texts, err := decodeStrings(op, reply)
	if err != nil {
		return "", err
	}
	if len(texts)%2 == 0 {
		return "", unexpected(op, reply)
	}
	for i := 1; i < len(texts); i += 2 {
		found[texts[i]] = parseLimit(texts[i+1])
	}
	return texts[0], nil
}

// Throttled is returned by a handler whose job met a limit of somebody else, such as an answer "429
// Too Many Requests". The job goes back for nothing: it uses up no retry, its data is saved, and it
// is the next one to start when its limits have room. Those of its limits that are named, or all if
// none are, are held for the time d, so that no other job with them is started before: see
// [Limit.Hold]. A limit that is held for longer stays so.
//
// A job that has no such limit is put back for this time, as by [Snooze]. A time of 0 or less means
// 1 s.
func Throttled(d time.Duration, names ...string) error {
	if d <= 0 {
		d = minSnooze
	}
	return &Outcome{Action: ActionRelease, Delay: d, Limits: append([]string{}, names...)}
}
