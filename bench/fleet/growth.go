package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// size is how large everything is at one moment, by name.
type size map[string]float64

// A growthLimit says by how much something may grow.
type growthLimit struct {
	name, unit string
	most       float64
}

// growthLimits returns the limits for a time. Rates are kept for three days: for each minute, and
// for each worker a text that says what it has counted last. They are not among the keys.
func growthLimits(from size, d time.Duration) []growthLimit {
	return []growthLimit{
		{"keys", "", 20},
		{"elements", "", 200},
		{"server memory", "KB", 1000 + from["server memory"]/20 + 20*d.Minutes()},
		{"channels", "", 5},
		{"connections", "", 20},
		{"goroutines", "", 10},
		{"heap", "KB", 2000 + from["heap"]/10},
	}
}

// sizeOf measures the server and this process.
func sizeOf(ctx context.Context, s *server) (size, error) {
	keys, elements, err := s.count(ctx)
	if err != nil {
		return nil, err
	}
	reading, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	process := inUse()
	return size{
		"keys": float64(keys), "elements": float64(elements),
		"server memory": float64(reading.Memory) / 1e3,
		"channels":      float64(reading.Channels),
		"connections":   float64(reading.Connections),
		"goroutines":    float64(process.goroutines),
		"heap":          float64(process.heap) / 1e3,
	}, nil
}

// count returns how many keys the server has, but for rates, and how many elements their lists,
// sets and hashes have, but for those of jobs.
func (s *server) count(ctx context.Context) (keys, elements int64, err error) {
	var names []string
	scan := s.admin.Scan(ctx, 0, "*", 1000).Iterator()
	for scan.Next(ctx) {
		if !strings.HasPrefix(scan.Val(), "ql:x:rates:") {
			names = append(names, scan.Val())
		}
	}
	slices.Sort(names)
	names = slices.Compact(names) // SCAN may name a key twice
	for batch := range slices.Chunk(names, 1000) {
		n, err := s.countElements(ctx, batch)
		if err != nil {
			return 0, 0, err
		}
		elements += n
	}
	return int64(len(names)), elements, scan.Err()
}

func (s *server) countElements(ctx context.Context, keys []string) (int64, error) {
	keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		return strings.HasPrefix(key, "ql:j:")
	})
	types := make([]*redis.StatusCmd, len(keys))
	_, err := s.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			types[i] = p.Type(ctx, key)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	counts := make([]*redis.IntCmd, 0, len(keys))
	_, err = s.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		commands := map[string]func(context.Context, string) *redis.IntCmd{
			"list": p.LLen, "set": p.SCard, "zset": p.ZCard, "hash": p.HLen,
		}
		for i, key := range keys {
			if count, ok := commands[types[i].Val()]; ok {
				counts = append(counts, count(ctx, key))
			}
		}
		return nil
	})
	var all int64
	for _, count := range counts {
		all += count.Val()
	}
	return all, err
}

// growth reports by how much everything has grown, and returns an error if it is more than it may.
func growth(r *report, from, to size, d time.Duration) error {
	var grown []string
	for _, limit := range growthLimits(from, d) {
		more := to[limit.name] - from[limit.name]
		r.bound(limit.name, more, limit.unit, limit.most)
		if more > limit.most {
			by := fmt.Sprintf("%s by %.0f %s", limit.name, more, limit.unit)
			grown = append(grown, strings.TrimSpace(by))
		}
	}
	if len(grown) > 0 {
		return fmt.Errorf("these have grown: %s", strings.Join(grown, ", "))
	}
	return nil
}
