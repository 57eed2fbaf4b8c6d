// Package dump copies the keys of a namespace to a file, and from there into another namespace.
//
// A dump is lines of JSON: a header, a line for each key, and the number of keys. The names of keys
// and their values do not contain the namespace, which may therefore change.
package dump

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/keys"
	"github.com/qless/qless-go/internal/redisx"
)

// version is the version of the format.
const version = 1

// A header is the first line of a dump.
type header struct {
	Version   int  `json:"qless_dump"`
	Namespace text `json:"namespace"`
}

// An end is the last line.
type end struct {
	Keys *int `json:"keys"`
}

// An entry is the content of a key. The values of a hash are fields and their values, and the
// values of a sorted set are members and their scores.
type entry struct {
	Key     text   `json:"key"`
	Kind    string `json:"type"`
	Expires int64  `json:"expires,omitempty"` // in Unix milliseconds
	Values  []text `json:"values"`
}

// A text may have any bytes. Text that is not UTF-8 is {"base64": "..."} in JSON.
type text string

type encoded struct {
	Base64 []byte `json:"base64"`
}

func (t text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(encoded{[]byte(t)})
}

func (t *text) UnmarshalJSON(raw []byte) error {
	if raw[0] != '{' {
		return json.Unmarshal(raw, (*string)(t))
	}
	var bytes encoded
	err := json.Unmarshal(raw, &bytes)
	*t = text(bytes.Base64)
	return err
}

// first is the first key of a dump, so that a paused queue is never active during a restore.
const first = "paused_queues"

// unfinished is the key for restoring a large key before renaming it.
const unfinished = "x:restored"

// isPassing reports whether running workers write a key again, or Restore has left it behind.
func isPassing(name string) bool {
	key, known := keys.Of(name, "")
	return known && key.Passing || name == unfinished
}

// A Namespace is a namespace on a server.
type Namespace struct {
	prefix string
	rdb    redis.UniversalClient // of the namespace's server
	step   func()
	inner  map[string]bool // the rest of the names of namespaces left out
}

// Open returns a namespace. It calls step after each answer of the server.
func Open(
	ctx context.Context, rdb redis.UniversalClient, prefix string, step func(),
) (*Namespace, error) {
	server, err := redisx.ServerOf(ctx, rdb, prefix)
	return &Namespace{prefix, server, step, map[string]bool{}}, err
}

// Inner returns the namespaces that begin with the name of this one. Write and Compare leave out
// their keys.
func (n *Namespace) Inner() []string {
	var names []string
	for rest := range n.inner {
		names = append(names, n.prefix+rest)
	}
	slices.Sort(names)
	return names
}

// atOnce is the number of keys to read or write at once.
const atOnce = 100

// Write writes a dump, and returns its number of keys.
func (n *Namespace) Write(ctx context.Context, to io.Writer) (int, error) {
	names, err := n.names(ctx)
	if err != nil {
		return 0, err
	}
	out := bufio.NewWriter(to)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(header{version, text(n.prefix)}); err != nil {
		return 0, err
	}
	written := 0
	for e, err := range n.read(ctx, names) {
		if err != nil {
			return written, err
		}
		if e.Kind == "none" {
			continue // gone by now
		}
		if err := encoder.Encode(e); err != nil {
			return written, err
		}
		written++
	}
	if err := encoder.Encode(end{&written}); err != nil {
		return written, err
	}
	return written, out.Flush()
}

// names returns the names of all keys to dump, in order.
func (n *Namespace) names(ctx context.Context) ([]string, error) {
	var names []string
	pattern := redisx.EscapeGlob(n.prefix) + "*"
	for cursor := uint64(0); ; {
		found, next, err := n.rdb.Scan(ctx, cursor, pattern, 10*atOnce).Result()
		if err != nil {
			return nil, err
		}
		n.step()
		for _, key := range found {
			name := key[len(n.prefix):]
			if inner, is := keys.Inner(name); is {
				n.inner[inner] = true
			} else if !isPassing(name) {
				names = append(names, name)
			}
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		switch {
		case a == b:
			return 0
		case a == first || b != first && a < b:
			return -1
		}
		return 1
	})
	return slices.Compact(names), nil
}

// A FormatError reports an error in a dump.
type FormatError struct {
	Line   int
	Reason string
}

func (e *FormatError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// each calls a function with the keys of a dump, some at a time, and large keys by themselves.
func each(from io.Reader, visit func([]*entry) error) error {
	decoder := json.NewDecoder(bufio.NewReader(from))
	decoder.DisallowUnknownFields()
	var h header
	if err := decoder.Decode(&h); err != nil || h.Version == 0 {
		return &FormatError{1, "this is not a dump"}
	}
	if h.Version != version {
		return &FormatError{1, fmt.Sprintf("the format is version %d, not %d", h.Version, version)}
	}
	b := batch{visit: visit}
	for number := 2; ; number++ {
		var l struct {
			entry
			end
		}
		switch err := decoder.Decode(&l); {
		case err == io.EOF:
			return &FormatError{number, "the dump ends too early"}
		case err != nil:
			return &FormatError{number, err.Error()}
		case l.Keys != nil && *l.Keys != number-2:
			return &FormatError{number, fmt.Sprintf("%d keys are there, not %d", number-2, *l.Keys)}
		case l.Keys != nil:
			if _, err := decoder.Token(); err != io.EOF {
				return &FormatError{number + 1, "there is more after the end of the dump"}
			}
			return b.flush()
		case !l.valid():
			return &FormatError{number, "this is not a key"}
		}
		if err := b.add(&l.entry); err != nil {
			return err
		}
	}
}

// A batch collects keys for a function.
type batch struct {
	visit   func([]*entry) error
	entries []*entry
	bytes   int
}

func (b *batch) add(e *entry) error {
	if e.isLarge() {
		if err := b.flush(); err != nil {
			return err
		}
	}
	b.entries, b.bytes = append(b.entries, e), b.bytes+e.size()
	if len(b.entries) == atOnce || b.bytes >= enough || e.isLarge() {
		return b.flush()
	}
	return nil
}

func (b *batch) flush() error {
	if len(b.entries) == 0 {
		return nil
	}
	err := b.visit(b.entries)
	b.entries, b.bytes = nil, 0
	return err
}

// valid reports whether a key can be restored.
func (e *entry) valid() bool {
	switch e.Kind {
	case "string":
		return len(e.Values) == 1
	case "zset":
		for i := 1; i < len(e.Values); i += 2 {
			if _, err := strconv.ParseFloat(string(e.Values[i]), 64); err != nil {
				return false
			}
		}
		fallthrough
	case "hash":
		return len(e.Values) > 0 && len(e.Values)%2 == 0
	case "list", "set":
		return len(e.Values) > 0
	}
	return false
}
