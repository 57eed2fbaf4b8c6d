// Package rendezvous assigns names to places, such as jobs to shards. An added place takes its
// share of the names from each other place; all other names stay where they are.
package rendezvous

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// Pick returns the place of a name. The order of the places does not matter. nameOf must return
// distinct names, and there must be at least one place.
func Pick[P any](places []P, nameOf func(place P) string, name string) P {
	return slices.MaxFunc(places, func(a, b P) int {
		return cmp.Compare(weight(nameOf(a), name), weight(nameOf(b), name))
	})
}

// weight ranks the places for a name. The name goes to the place with the greatest weight.
func weight(place, name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(place))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(name))
	w := h.Sum64()
	w = (w ^ w>>33) * 0xff51afd7ed558ccd // mix: similar names have similar sums
	w = (w ^ w>>33) * 0xc4ceb9fe1a85ec53
	return w ^ w>>33
}
