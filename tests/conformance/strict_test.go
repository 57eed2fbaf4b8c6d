package conformance

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// The replies and messages of the drop-in are exactly the stock script's, without exception.
func TestTheDropInIsExact(t *testing.T) {
	t.Parallel()
	g := newTarget(t, testkit.Start(t).Addr(), "ql:", dropIn)
	exactly := outcome.exactDeviations
	if !ordersAsRecorded(t, g.client) {
		exactly = outcome.exactButForMembers
	}
	both := func(want, got outcome) []string {
		return append(want.deviations(got), exactly(want, got)...)
	}
	for _, tr := range readTraces(t) {
		t.Run(tr.Name, func(t *testing.T) {
			found, err := g.replayBy(t.Context(), tr, both)
			require.NoError(t, err)
			report(t, found)
		})
	}
}

// ordersAsRecorded reports whether the server's cjson orders the members of an object like the
// server that recorded the traces. The messages of the stock script have this order.
func ordersAsRecorded(t *testing.T, client *redis.Client) bool {
	t.Helper()
	const message = `return cjson.encode({jid = 'j', event = 'canceled', worker = 'w', queue = 'q'})`
	text, err := client.Eval(t.Context(), message, nil).Text()
	require.NoError(t, err)
	require.JSONEq(t, `{"jid":"j","event":"canceled","worker":"w","queue":"q"}`, text)
	return text == `{"jid":"j","queue":"q","event":"canceled","worker":"w"}`
}

// exactButForMembers is exactDeviations, but the members of events that are JSON are in any order.
func (want outcome) exactButForMembers(got outcome) []string {
	want.Events, got.Events = withMembersInOrder(want.Events), withMembersInOrder(got.Events)
	return want.exactDeviations(got)
}

// withMembersInOrder sorts the members of the events that are JSON.
func withMembersInOrder(events []event) []event {
	var all []event
	for _, e := range events {
		all = append(all, event{e[0], canonicalText(e[1])})
	}
	return all
}

// exactDeviations describes how an outcome differs from the trace. It distinguishes {} from [], and
// numbers by value and type, and compares the order and the exact text of events, including
// extensions.
func (want outcome) exactDeviations(got outcome) []string {
	var found []string
	if want.Area != got.Area && (want.Area != "?" || got.Area == "") {
		found = append(found, fmt.Sprintf("error %q, want one of %q", got.Message, want.Area))
	}
	if want.Area == "" && !reflect.DeepEqual(exact("", want.Reply), exact("", got.Reply)) {
		found = append(found, fmt.Sprintf("reply %q, want %q", got.Reply, want.Reply))
	}
	if !slices.Equal(want.Events, got.Events) {
		found = append(found, fmt.Sprintf("events %q, want %q", got.Events, want.Events))
	}
	return found
}

// exact returns the value of a field in a comparable form: decoded JSON with sets in order, except
// for data, which clients read as text.
func exact(field string, value any) any {
	if field == "data" {
		return value
	}
	switch value := inOrder(field, decoded(value)).(type) {
	case map[string]any:
		object := map[string]any{}
		for name, member := range value {
			object[name] = exact(name, member)
		}
		return object
	case []any:
		list := []any{}
		for _, member := range value {
			list = append(list, exact("", member))
		}
		return list
	case json.Number, int64:
		n, _ := number(value)
		return n
	default:
		return value
	}
}

func TestExactDeviations(t *testing.T) {
	put, lost := event{"ql:log", `{"jid":"j","event":"put"}`}, event{"ql:log", `{"jid":"j","event":"lost"}`}
	for _, pair := range [][2]outcome{
		{{Reply: `{"a":1,"b":[]}`}, {Reply: `{"b":[],"a":1}`}},
		{{Reply: `{"dependents":["a","b"]}`}, {Reply: `{"dependents":["b","a"]}`}},
		{{Reply: json.Number("1")}, {Reply: int64(1)}},
		{{Reply: `{"priority":0.1}`}, {Reply: `{"priority":0.10000000000000001}`}},
		{{Area: "Put()"}, {Area: "Put()", Message: "in other words"}},
		{{Area: "?"}, {Area: "Put()"}},
		{{Events: []event{put, lost}}, {Events: []event{put, lost}}},
	} {
		assert.Empty(t, pair[0].exactDeviations(pair[1]), pair)
	}
	for _, pair := range [][2]outcome{
		{{Reply: `{}`}, {Reply: `[]`}},
		{{Reply: `{"tags":{}}`}, {Reply: `{"tags":[]}`}},
		{{Reply: `{"data":"[]"}`}, {Reply: `{"data":"{}"}`}},
		{{Reply: `{"data":"{\"a\":1}"}`}, {Reply: `{"data":"{\"a\": 1}"}`}},
		{{Reply: "1"}, {Reply: int64(1)}},
		{{Reply: `{"a":1}`}, {Reply: `{"a":"1"}`}},
		{{Reply: nil}, {Reply: ""}},
		{{Area: "Put()"}, {Area: "Pop()"}},
		{{Area: "?"}, {}},
		{{Reply: "j"}, {Area: "Put()"}},
		{{Events: []event{put, lost}}, {Events: []event{lost, put}}},
		{{Events: []event{put}}, {Events: []event{{put[0], `{"event":"put","jid":"j"}`}}}},
		{{Events: []event{put}}, {Events: []event{{put[0], put[1] + " "}}}},
		{{Events: []event{put}}, {Events: []event{put, {"ql:x:queues", "q"}}}},
	} {
		assert.NotEmpty(t, pair[0].exactDeviations(pair[1]), pair)
	}
	again := event{put[0], `{"event":"put","jid":"j"}`}
	assert.Empty(t, outcome{Events: []event{put, lost}}.exactButForMembers(outcome{Events: []event{again, lost}}))
	for _, pair := range [][2]outcome{
		{{Events: []event{put, lost}}, {Events: []event{lost, again}}},
		{{Events: []event{put}}, {Events: []event{again, {"ql:x:queues", "q"}}}},
		{{Events: []event{put}}, {Events: []event{{put[0], `{"event":"put","jid":1}`}}}},
		{{Events: []event{put}}, {Events: []event{{put[0], `{"event":"put","jid":"j","queue":false}`}}}},
	} {
		assert.NotEmpty(t, pair[0].exactButForMembers(pair[1]), pair)
	}
}
