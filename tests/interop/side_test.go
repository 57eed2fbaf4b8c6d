//go:build interop

package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"time"
)

// A side is one of the two parties that share a Redis. Each side runs the operations in README.md
// in its own way, and reports the results in the same form: JSON, as decoded by encoding/json.
type side interface {
	fmt.Stringer
	do(ctx context.Context, op string, args args) (any, error)
}

// args are the named arguments of an operation.
type args map[string]any

func (a args) text(name string) string {
	text, _ := a[name].(string)
	return text
}

func (a args) texts(name string) []string {
	list, _ := a[name].([]any)
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = item.(string)
	}
	return texts
}

func (a args) number(name string, otherwise int) int {
	if n, ok := a[name].(float64); ok {
		return int(n)
	}
	return otherwise
}

func (a args) seconds(name string) time.Duration {
	n, _ := a[name].(float64)
	return time.Duration(n * float64(time.Second))
}

// json returns an argument as JSON, or an empty object if missing.
func (a args) json(name string) json.RawMessage {
	value, ok := a[name]
	if !ok {
		value = map[string]any{}
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // the value came from JSON
	}
	return text
}

// plain encodes a value as JSON and decodes it again.
func plain(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	var decoded any
	if err := json.Unmarshal(text, &decoded); err != nil {
		panic(err)
	}
	return decoded
}

// A refusal is an error of the other side: the script's words, or its client's.
type refusal struct{ class, text string }

func (r refusal) Error() string { return r.class + ": " + r.text }

// refusals has the other side's words for each kind of error.
var refusals = map[string]*regexp.Regexp{
	"lock_lost":      regexp.MustCompile(`(handed|given) out to another worker|running with another worker|LostLockException`),
	"not_found":      regexp.MustCompile(`does not exist|LostLockException`),
	"not_running":    regexp.MustCompile(`not currently running|LostLockException`),
	"has_dependents": regexp.MustCompile(`is a dependency of`),
	"not_depending":  regexp.MustCompile(`not in the depends state`),
	"invalid":        regexp.MustCompile(`Put\(\)|Recur\(\)`),
}

// until calls a function repeatedly until it returns nil, or patience ends. It waits for changes
// brought only by time, such as lock expiry. The calls themselves take long enough to need no
// pause.
func until(attempt func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := attempt()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
