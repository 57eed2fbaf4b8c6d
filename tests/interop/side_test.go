//go:build interop

package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"time"
)

// A side is one of the two that share a Redis. It does what README.md lists, each in its own way,
// and reports it in the same words: JSON, as encoding/json decodes it.
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

// json returns an argument as JSON, an empty object when there is none.
func (a args) json(name string) json.RawMessage {
	value, ok := a[name]
	if !ok {
		value = map[string]any{}
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // it came from JSON
	}
	return text
}

// plain turns a value into what encoding/json decodes of its JSON.
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

// A refusal is an error that the other side had: the words of the script, or what its client
// made of them.
type refusal struct{ class, text string }

func (r refusal) Error() string { return r.class + ": " + r.text }

// refusals holds the words by which the other side recognizes each kind of error.
var refusals = map[string]*regexp.Regexp{
	"lock_lost":      regexp.MustCompile(`(handed|given) out to another worker|running with another worker|LostLockException`),
	"not_found":      regexp.MustCompile(`does not exist|LostLockException`),
	"not_running":    regexp.MustCompile(`not currently running|LostLockException`),
	"has_dependents": regexp.MustCompile(`is a dependency of`),
	"not_depending":  regexp.MustCompile(`not in the depends state`),
	"invalid":        regexp.MustCompile(`Put\(\)|Recur\(\)`),
}

// until runs a function again and again until it returns nil, or patience ends. It is for what
// ends by time alone, such as a lock; what the function asks for takes time enough.
func until(attempt func() error) error {
	deadline := time.Now().Add(patience)
	for {
		err := attempt()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}
