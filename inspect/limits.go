package inspect

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/wire"
)

// A LimitOverview holds the figures of a limit. A figure is -1 if its key is damaged.
type LimitOverview struct {
	Name   string            `json:"name"`
	Config qless.LimitConfig `json:"config"`

	// Used is the number of occupied slots of the Concurrency. A job that has lost its lock keeps its
	// slot until another job needs it.
	Used int `json:"used"`

	// Parked is the number of jobs that wait for room.
	Parked int `json:"parked"`
}

// A LimitInfo is a snapshot of a limit.
type LimitInfo struct {
	LimitOverview

	// Own reports that the config belongs to this limit, not to its family.
	Own bool `json:"own"`

	// HeldUntil is the end of a hold: see [qless.Limit.Hold]. It is zero without a hold.
	HeldUntil time.Time `json:"held_until,omitzero"`

	// Next is the time at which the rate or the hold lets the next job start. It is zero if the next
	// job may start now, or when a running job ends.
	Next time.Time `json:"next,omitzero"`

	// Running are the jids of the jobs that hold a slot, at most 1000. They are known only for a limit
	// with a Concurrency.
	Running []string `json:"running"`

	// Waiting are the jids of the first 100 jobs that wait for room, the next one first.
	Waiting []string `json:"waiting"`
}

// limitInfoHead is the number of items before the jids in a reply of the command limit.info.
const limitInfoHead = 8

// Limit returns the config and the usage of a limit, with or without a config.
func (in *Inspector) Limit(ctx context.Context, name string) (LimitInfo, error) {
	const command = "limit.info"
	if err := checkName(command, "name of the limit", name); err != nil {
		return LimitInfo{}, err
	}
	reply, err := in.client.Do(ctx, command, name)
	if err != nil {
		return LimitInfo{}, err
	}
	parts := items(reply)
	if len(parts) < limitInfoHead {
		return LimitInfo{}, unexpected(command, reply)
	}
	texts := wire.AsStrings(parts)
	running := texts[limitInfoHead:]
	return LimitInfo{
		LimitOverview: LimitOverview{
			Name: name, Config: limitConfig(texts[0], texts[1], texts[2]),
			Used: len(running), Parked: wire.AsNumber(texts[6]).Int(),
		},
		Own:       texts[3] == "1",
		HeldUntil: wire.AsNumber(texts[4]).Time(),
		Next:      wire.AsNumber(texts[5]).Time(),
		Running:   running,
		Waiting:   wire.AsStrings(items(parts[7])),
	}, nil
}

// Limits returns the limits with a config, with their usage, sorted by name. Each call reads all
// limits, about 500 at a time.
func (in *Inspector) Limits(ctx context.Context, r Range) (Page[LimitOverview], error) {
	offset, limit, err := r.bounds("limit.list")
	if err != nil {
		return Page[LimitOverview]{}, err
	}
	found := map[string]LimitOverview{}
	for cursor := ""; ; {
		if cursor, err = in.limitsFrom(ctx, cursor, found); err != nil {
			return Page[LimitOverview]{}, err
		}
		if cursor == "" {
			break
		}
	}
	all := make([]LimitOverview, 0, len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		all = append(all, found[name])
	}
	return pageOf(all, offset, limit), nil
}

// limitParts is the number of items per limit in a reply of the command limit.list.
const limitParts = 4

// limitsFrom adds some of the limits, and returns the cursor of the next ones.
func (in *Inspector) limitsFrom(
	ctx context.Context, cursor string, found map[string]LimitOverview,
) (next string, err error) {
	reply, err := in.client.Do(ctx, "limit.list", cursor)
	if err != nil {
		return "", err
	}
	parts := items(reply)
	if len(parts)%limitParts != 1 {
		return "", unexpected("limit.list", reply)
	}
	for limit := range slices.Chunk(parts[1:], limitParts) {
		l := limitOverview(limit)
		found[l.Name] = l
	}
	return wire.AsString(parts[0]), nil
}

// limitOverview reads the name, the config, and the numbers of used slots and of parked jobs.
func limitOverview(parts []any) LimitOverview {
	fields := append(strings.Fields(wire.AsString(parts[1])), "", "", "")
	return LimitOverview{
		Name:   wire.AsString(parts[0]),
		Config: limitConfig(fields[0], fields[1], fields[2]),
		Used:   figure(parts[2]),
		Parked: figure(parts[3]),
	}
}

// limitConfig reads the fields of a config.
func limitConfig(concurrency, rate, per string) qless.LimitConfig {
	return qless.LimitConfig{
		Concurrency: wire.AsNumber(concurrency).Int(), Rate: wire.AsNumber(rate).Int(),
		Per: wire.AsNumber(per).Duration(),
	}
}

// figure reads a count, or returns -1 if a damaged key left none.
func figure(part any) int {
	if n, ok := part.(int64); ok {
		return int(n)
	}
	return -1
}
