package web

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// A gradual caches values. Of many, each view of a page reads a few: missing ones first, then the
// oldest. The zero value is ready to use.
type gradual[K comparable, V any] struct {
	mu  sync.Mutex
	all map[K]reading[V]
}

// A reading is a value with the time at which it was read.
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

// set stores a value. If there are more than most, it drops the one read longest ago.
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

// due returns up to n keys that are missing or have to be read again.
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
