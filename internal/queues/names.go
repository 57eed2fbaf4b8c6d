package queues

import (
	"hash/maphash"
	"slices"
)

// Names are known names of queues. They are kept as hashes, in order, to take less memory.
type Names []uint64

// hashSeed is what all hashes begin with.
var hashSeed = maphash.MakeSeed()

// NewNames returns some names.
func NewNames(texts []string) Names {
	h := make(Names, len(texts))
	for i, text := range texts {
		h[i] = maphash.String(hashSeed, text)
	}
	slices.Sort(h)
	return h
}

// Add adds a name, and reports whether it was not there.
func (h *Names) Add(text string) bool {
	hash := maphash.String(hashSeed, text)
	i, found := slices.BinarySearch(*h, hash)
	if !found {
		*h = slices.Insert(*h, i, hash)
	}
	return !found
}
