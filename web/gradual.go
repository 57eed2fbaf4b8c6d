package web

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// A gradual caches values. Each view of a page reads a few of many: missing values first, then the
// oldest. The zero value is ready to use.
type gradual[K comparable, V any] struct {
	mu  sync.Mutex
	all map[K]reading[V]
}

// A reading is a value with the time of reading.
type reading[V any] struct {
	value V
	at    time.Time
}

// get returns the value of a key.
func (g *gradual[K, V]) get(key K) (got reading[V], isKnown bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	got, isKnown = g.all[key]
	return got, isKnown
}

// set stores a value. Beyond most values, it drops the oldest reading.
func (g *gradual[K, V]) set(key K, value V, at time.Time, most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = map[K]reading[V]{}
	}
	g.all[key] = reading[V]{value, at}
	if len(g.all) > most {
		delete(g.all, slices.MinFunc(slices.Collect(maps.Keys(g.all)), func(one, other K) int {
			return g.all[one].at.Compare(g.all[other].at)
		}))
	}
}

// due returns up to n keys with missing values, or with values to read again.
func (g *gradual[K, V]) due(keys []K, n int, isOld func(key K, at time.Time) bool) []K {
	var due []K
	at := map[K]time.Time{}
	for _, key := range keys {
		got, isKnown := g.get(key)
		if !isKnown || isOld(key, got.at) {
			due, at[key] = append(due, key), got.at
		}
	}
	slices.SortStableFunc(due, func(a, b K) int { return at[a].Compare(at[b]) })
	return due[:min(n, len(due))]
}

// forget drops all values after a change.
func (g *gradual[K, V]) forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = nil
}
