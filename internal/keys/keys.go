// Package keys describes the keys of a namespace: their kinds, and the names in them.
//
// A name may contain anything, so a key alone does not always show its kind: j:a-history is the
// history of the job a, or the job a-history. Its type decides. Nor does it always show its
// namespace: ql:t:queues is the tag queues of ql:, or the list of queues of ql:t:. It belongs to
// the shorter one, if that exists.
package keys

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Kind is a kind of keys, such as the records of jobs.
type Kind struct {
	// Pattern is a key after the prefix, with the names in angle brackets.
	Pattern string

	// Type is string, hash, list, set or zset.
	Type string

	// Members is jid if the key holds jids.
	Members string

	// Lasts is the longest that a key may last before it expires. 0 means any time.
	Lasts time.Duration

	// Passing means that running workers write the key again, so that a copy does not need it.
	Passing bool

	first, last string   // the pattern before and after the names
	names       []string // of the names, which are separated by colons
}

// Kinds returns all kinds of keys.
func Kinds() []Kind { return slices.Clone(kinds) }

// newKind parses a pattern.
func newKind(k Kind) Kind {
	k.first, k.last, _ = strings.Cut(k.Pattern, "<")
	if end := strings.LastIndexByte(k.last, '>'); end >= 0 {
		k.names = strings.Split(k.last[:end], ">:<")
		k.last = k.last[end+1:]
	}
	return k
}

// Names returns what the names in a key are, such as jid.
func (k *Kind) Names() []string { return slices.Clone(k.names) }

// Key returns the key with some names. It panics if their number is wrong.
func (k *Kind) Key(names ...string) string {
	if len(names) != len(k.names) {
		panic("keys: wrong number of names for " + k.Pattern)
	}
	return k.first + strings.Join(names, ":") + k.last
}

// Example returns a key of this kind.
func (k *Kind) Example() string {
	names := k.Names()
	for i, name := range names {
		if isNumber[name] {
			names[i] = "60"
		}
	}
	return k.Key(names...)
}

// isNumber has the names that are numbers.
var isNumber = map[string]bool{"day": true, "minute": true, "priority": true}

// match returns the names in a key of this kind.
func (k *Kind) match(key string) (names []string, ok bool) {
	rest, ok := strings.CutPrefix(key, k.first)
	if !ok || len(k.names) == 0 {
		return nil, ok && rest == ""
	}
	if rest, ok = strings.CutSuffix(rest, k.last); !ok {
		return nil, false
	}
	names = strings.SplitN(rest, ":", len(k.names))
	if len(names) < len(k.names) {
		return nil, false
	}
	for i, name := range k.names {
		if isNumber[name] {
			if _, err := strconv.ParseFloat(names[i], 64); err != nil {
				return nil, false
			}
		}
	}
	return names, true
}

// A Key is a key that was taken apart.
type Key struct {
	*Kind
	values []string
}

// Name returns a name in the key, such as its jid. If it has none of that sort, it is empty.
func (k Key) Name(of string) string {
	if k.Kind != nil {
		if i := slices.Index(k.names, of); i >= 0 {
			return k.values[i]
		}
	}
	return ""
}

// Of takes a key apart, which is given without the prefix. If it may be of several kinds, its type
// decides; if that is unknown, or none of theirs, the kind with the longest suffix. It returns
// false for a key of no kind.
func Of(key, typ string) (Key, bool) {
	var found Key
	for i := range kinds {
		k := &kinds[i]
		names, ok := k.match(key)
		switch {
		case !ok:
		case k.Type == typ:
			return Key{k, names}, true
		case found.Kind == nil:
			found = Key{k, names}
		}
	}
	return found, found.Kind != nil
}

// Readings takes a key apart, with its prefix, in each possible way: as a key of each namespace
// with whose name it begins. It yields the shortest namespace first.
func Readings(key, typ string) iter.Seq2[string, Key] {
	return func(yield func(string, Key) bool) {
		for i := 1; i < len(key); i++ {
			if k, ok := Of(key[i:], typ); ok && !yield(key[:i], k) {
				return
			}
		}
	}
}

// Inner reports whether a key, which is given without the prefix of a namespace, belongs to another
// one, whose name begins with that prefix. It returns the rest of that name, which usually ends
// with a colon.
func Inner(key string) (rest string, ok bool) {
	if _, known := Of(key, ""); known || strings.HasPrefix(key, extension) {
		return "", false
	}
	for namespace := range Readings(key, "") {
		if strings.HasSuffix(namespace, ":") {
			return namespace, true
		}
		if !ok {
			rest, ok = namespace, true
		}
	}
	return rest, ok
}
