package web

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/holders"
	"github.com/qless/qless-go/internal/redisx"
)

// A limitsData holds a page of the defined limits.
type limitsData struct {
	Total  int                 `json:"total"`
	Limits []inspect.LimitInfo `json:"limits"`
	Keys   *keysData           `json:"keys"`
	Rows   rows                `json:"-"`
}

// The maximum numbers of rows on the pages about limits. Each row costs a call.
const (
	limitsShown    = 20
	limitJobsShown = 25
)

// limitOrders are the columns for sorting limits.
var limitOrders = orders[inspect.LimitInfo]{
	"limit":   func(one *inspect.LimitInfo) any { return one.Name },
	"running": func(one *inspect.LimitInfo) any { return one.Used },
	"waiting": func(one *inspect.LimitInfo) any { return one.Parked },
}

// limits lists the defined limits.
func (s *site) limits(ctx context.Context, q query) (*view, error) {
	page, err := s.in.Limits(ctx, inspect.Range{Offset: q.from(), Limit: limitsShown})
	if err != nil {
		return nil, err
	}
	data := &limitsData{
		Total: page.Total, Rows: rows{q.from(), len(page.Items), page.Total, limitsShown},
	}
	var names []string
	for _, limit := range page.Items {
		names = append(names, limit.Name)
	}
	if data.Limits, err = s.readLimits(ctx, names); err != nil {
		return nil, err
	}
	by := limitOrders.sortWhole(data.Limits, data.Rows, q)
	data.Keys, err = s.readKeys(ctx, "")
	return &view{Title: "Limits", Data: data, order: by, isPart: err == nil && data.Keys.HasMore}, err
}

// readLimits returns some limits.
func (s *site) readLimits(ctx context.Context, names []string) ([]inspect.LimitInfo, error) {
	limits := []inspect.LimitInfo{}
	for _, name := range names {
		info, err := s.in.Limit(ctx, name)
		if err != nil {
			return nil, err
		}
		limits = append(limits, info)
	}
	return limits, nil
}

// A limitData is a limit with some of its jobs.
type limitData struct {
	inspect.LimitInfo
	Family string        `json:"family,omitempty"` // the limit with the definition that applies
	Jobs   []inspect.Row `json:"jobs"`             // some running jobs, then the next waiting jobs
	Keys   *keysData     `json:"keys,omitempty"`

	Holders holders.Sum `json:"holders"`
}

// IsSet reports whether the limit, or its family, has a definition.
func (d *limitData) IsSet() bool { return d.Config != qless.LimitConfig{} }

// IsKnown reports whether the limit has a page: it is set, on hold, or has jobs.
func (d *limitData) IsKnown() bool {
	return d.IsSet() || d.Parked+len(d.Running) > 0 || !d.HeldUntil.IsZero()
}

// IsFull reports whether a job can start only after another job ends.
func (d *limitData) IsFull() bool {
	return d.Config.Concurrency > 0 && d.Used >= d.Config.Concurrency
}

// Hidden returns the number of jobs missing in the list.
func (d *limitData) Hidden() int {
	return max(0, len(d.Running)-limitJobsShown) + max(0, d.Parked-limitJobsShown)
}

// limit shows a limit.
func (s *site) limit(ctx context.Context, q query) (*view, error) {
	info, err := s.in.Limit(ctx, q.name)
	if err != nil {
		return nil, err
	}
	data := &limitData{LimitInfo: info}
	if !data.IsKnown() {
		return unknown(q.name, "No limit of this name is set, and no job waits for it."), nil
	}
	family, _, isKey := strings.Cut(q.name, "/")
	if isKey && !info.Own && data.IsSet() {
		data.Family = family
	} else if !isKey {
		if data.Keys, err = s.readKeys(ctx, q.name); err != nil {
			return nil, err
		}
	}
	running, err := s.rowsOf(ctx, part(info.Running, 0, holders.Most))
	if err != nil {
		return nil, err
	}
	data.Holders = holders.Of(running, len(info.Running))
	waiting, err := s.rowsOf(ctx, part(info.Waiting, 0, limitJobsShown))
	data.Jobs = slices.Concat(part(running, 0, limitJobsShown), waiting)
	return &view{Title: q.name, Data: data}, err
}

// keysData has the keys, held or waited for, of one or all families: most waiting jobs first, then
// most running jobs.
type keysData struct {
	Total   int                 `json:"total"` // of the known keys
	Shown   []inspect.LimitInfo `json:"shown"`
	HasMore bool                `json:"has_more,omitzero"` // the scan is not over
	NoRedis bool                `json:"no_redis,omitempty"`
}

// readKeys returns the keys of a family, or of all families if family is empty.
func (s *site) readKeys(ctx context.Context, family string) (*keysData, error) {
	if s.Redis == nil {
		return &keysData{Shown: []inspect.LimitInfo{}, NoRedis: true}, nil
	}
	sizes, err := sampled(ctx, &s.samples, "limit keys", s.scanKeys)
	if err != nil {
		return nil, err
	}
	names := busiest(sizes, family)
	keys := &keysData{Total: len(names), HasMore: s.keys.isFirst()}
	keys.Shown, err = s.readLimits(ctx, part(names, 0, limitsShown))
	return keys, err
}

// busiest returns the keys of a family, from the sizes of their sets.
func busiest(sizes map[string]int64, family string) []string {
	var names []string
	for set := range sizes {
		name := set[:strings.LastIndex(set, ":")]
		if of, _, _ := strings.Cut(name, "/"); family == "" || of == family {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(sizes[b+":wait"], sizes[a+":wait"]),
			cmp.Compare(sizes[b+":held"], sizes[a+":held"]))
	})
	return names
}

// isFirst reports whether the first pass is not over.
func (k *keyScan) isFirst() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known == nil
}

// keySteps is the number of steps of a scan with each view.
const keySteps = 40

// scanKeys looks for further sets, and returns the sizes of the known sets.
func (s *site) scanKeys(ctx context.Context) (map[string]int64, error) {
	k, begin := &s.keys, s.Client.Namespace()+"x:limit:"
	k.mu.Lock()
	defer k.mu.Unlock()
	server, err := redisx.ServerOf(ctx, s.Redis, begin)
	if err != nil {
		return nil, err
	}
	steps := 0
	sets, next, err := scan(ctx, server, literal(begin)+"*/*", k.cursor, func(int) bool {
		steps++
		return steps < keySteps
	})
	if err != nil {
		return nil, err
	}
	if k.found == nil {
		k.found = map[string]int64{}
	}
	measure(ctx, server, begin, sets, k.found)
	all := map[string]int64{}
	maps.Copy(all, k.known)
	maps.Copy(all, k.found)
	if k.cursor = next; next == 0 {
		all, k.known, k.found = k.found, k.found, nil
	}
	return all, nil
}

// measure adds the sizes of the sets of jobs that hold a key or wait for it. A damaged set counts
// as empty.
func measure(
	ctx context.Context, server redis.Cmdable, begin string, sets []string, sizes map[string]int64,
) {
	pipe, counts := server.Pipeline(), map[string]*redis.IntCmd{}
	for _, set := range sets {
		if strings.HasSuffix(set, ":held") || strings.HasSuffix(set, ":wait") {
			counts[strings.TrimPrefix(set, begin)] = pipe.ZCard(ctx, set)
		}
	}
	_, _ = pipe.Exec(ctx)
	for name, count := range counts {
		sizes[name] = count.Val()
	}
}
