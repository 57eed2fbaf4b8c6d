// Package keys describes the keys of a namespace: their kinds, and the names in them.
//
// A name may contain anything, so a key alone does not always show its kind: j:a-history is the
// history of the job a, or the job a-history. The key's type decides. Nor does a key always show
// its namespace: ql:t:queues is the tag queues of ql:, or the list of queues of ql:t:. The shorter
// namespace takes precedence, if it exists.
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

	// Lasts is the longest time that a key may last before expiry. 0 means any time.
	Lasts time.Duration

	// Passing means that running workers write the key again, so a copy does not need it.
	Passing bool

	first, last string   // the pattern before and after the names
	names       []string // of the names, separated by colons
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

// Names returns the kinds of names in a key, such as jid.
func (k *Kind) Names() []string { return slices.Clone(k.names) }

// Key returns the key with some names. It panics on a wrong number of names.
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

// isNumber contains the names that are numbers.
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

// A Key is a parsed key.
type Key struct {
	*Kind
	values []string
}

// Name returns a name in the key, such as its jid, or the empty string without such a name.
func (k Key) Name(of string) string {
	if k.Kind != nil {
		if i := slices.Index(k.names, of); i >= 0 {
			return k.values[i]
		}
	}
	return ""
}

// Of parses a key without the prefix. If several kinds match, the type decides; if the type is
// unknown or does not match, the kind with the longest suffix wins. It returns false for an unknown
// key.
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

// Readings parses a key with its prefix in each possible way: as a key of each namespace that
// begins it. It yields the shortest namespace first.
func Readings(key, typ string) iter.Seq2[string, Key] {
	return func(yield func(string, Key) bool) {
		for i := 1; i < len(key); i++ {
			if k, ok := Of(key[i:], typ); ok && !yield(key[:i], k) {
				return
			}
		}
	}
}

// Inner reports whether a key, without the prefix of a namespace, belongs to another namespace that
// begins with that prefix. It returns the rest of that namespace's name, usually ending in a colon.
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
