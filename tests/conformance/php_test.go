package conformance

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"

	"github.com/qless/qless-go/internal/testkit"
)

// The drop-in also has the additions of qless-php's script.
func TestDropInServesPHP(t *testing.T) {
	t.Parallel()
	newTarget(t, testkit.Start(t).Addr(), "ql:", dropIn).replayAll(t, readFile(t, "testdata/php.jsonl.gz"))
}

func TestCommandsServePHP(t *testing.T) {
	t.Parallel()
	newTarget(t, testkit.Start(t).Addr(), "{t}:ql:", scripts).replayAll(t, keyless(readFile(t, "testdata/php.jsonl.gz")))
}

func TestMiniredisServesPHP(t *testing.T) {
	t.Parallel()
	newTarget(t, miniredis.RunT(t).Addr(), "ql:", dropIn).replayAll(t, readFile(t, "testdata/php.jsonl.gz"))
}

// keyless removes the traces with the name of a key in a reply, because the key's prefix is always
// "ql:".
func keyless(traces []trace) []trace {
	return slices.DeleteFunc(traces, func(tr trace) bool {
		return slices.ContainsFunc(tr.Steps, func(s step) bool {
			return s.Command[0] == "subscription" && s.Command[3] == "get"
		})
	})
}

// phpOnly are the keys kept by qless-php's script but not needed by ours.
var phpOnly = []string{"ql:failed-jobs-list", "ql:q:*-completed"}

// dropFree removes the keys not compared in a trace.
func (tr trace) dropFree(keys keyspace) {
	if tr.PHP == nil {
		return
	}
	for _, pattern := range slices.Concat(phpOnly, tr.Free) {
		for name := range keys {
			if free, _ := path.Match(pattern, name); free {
				delete(keys, name)
			}
		}
	}
}

// inAnyOrder sorts the reply of a command with sets in its replies.
func inAnyOrder(command []string, o outcome) outcome {
	switch reply := decoded(o.Reply).(type) {
	case []any:
		if command[0] == "tags" {
			o.Reply = sortedTexts(reply)
		}
	case map[string]any:
		if command[0] == "subscription" && len(command) > 3 && command[3] == "all" {
			for topic, queues := range reply {
				if list, ok := queues.([]any); ok {
					reply[topic] = sortedTexts(list)
				}
			}
			o.Reply = reply
		}
	}
	return o
}

func sortedTexts(list []any) []any {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return list
}

func TestInAnyOrder(t *testing.T) {
	tags, all := []string{"tags", "1", "0", "9"}, []string{"subscription", "1", "q", "all"}
	assert.Equal(t, []any{"a", "b"}, inAnyOrder(tags, outcome{Reply: `["b","a"]`}).Reply)
	assert.Equal(t, map[string]any{"x": []any{"p", "q"}}, inAnyOrder(all, outcome{Reply: `{"x":["q","p"]}`}).Reply)
	assert.Equal(t, `["b","a"]`, inAnyOrder([]string{"tracked", "1"}, outcome{Reply: `["b","a"]`}).Reply)
}
