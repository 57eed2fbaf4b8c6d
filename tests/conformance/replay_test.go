package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A deviation is a difference from the trace.
type deviation struct {
	step int // the number of steps stands for the keyspace after the last one
	text string
}

// replay runs a trace in an empty database, and returns its deviations in order.
func (g *target) replay(ctx context.Context, tr trace) ([]deviation, error) {
	return g.replayBy(ctx, tr, outcome.deviations)
}

// replayBy runs a trace, and compares each outcome with the trace's.
func (g *target) replayBy(
	ctx context.Context, tr trace, compare func(want, got outcome) []string,
) ([]deviation, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := g.client.FlushDB(ctx).Err(); err != nil {
		return nil, err
	}
	var found []deviation
	for i, want := range tr.Steps {
		got, err := g.run(ctx, want.Command)
		if err != nil {
			return nil, fmt.Errorf("step %d %s: %w", i, want, err)
		}
		for _, text := range compare(inAnyOrder(want.Command, want.outcome), inAnyOrder(want.Command, got)) {
			found = append(found, deviation{i, fmt.Sprintf("step %d %s: %s", i, want, text)})
		}
	}
	got, err := readKeyspace(ctx, g.client, g.prefix)
	if err != nil {
		return nil, err
	}
	tr.dropFree(tr.Keys)
	tr.dropFree(got)
	for _, text := range differences(tr.Keys, got) {
		found = append(found, deviation{len(tr.Steps), "in the end: " + text})
	}
	return found, nil
}

// deviations describes how an outcome differs from the trace.
func (want outcome) deviations(got outcome) []string {
	var found []string
	switch {
	case want.Area == "" && got.Area != "":
		found = append(found, fmt.Sprintf("error %q, want the reply %q", got.Message, want.Reply))
	case want.Area != "" && got.Area == "":
		found = append(found, fmt.Sprintf("reply %q, want the error %q", got.Reply, want.Message))
	case want.Area != "" && want.Area != "?" && want.Area != got.Area:
		found = append(found, fmt.Sprintf("error %q, want one of %s", got.Message, want.Area))
	case want.Area == "" && !same(want.Reply, got.Reply):
		found = append(found, fmt.Sprintf("reply %q, want %q", got.Reply, want.Reply))
	}
	if wanted, heard := canonical(want.Events), canonical(got.Events); !slices.Equal(wanted, heard) {
		found = append(found, fmt.Sprintf("events %q, want %q", heard, wanted))
	}
	return found
}

// canonical returns events in a comparable form: sorted, with canonical JSON.
func canonical(events []event) []event {
	var list []event
	for _, e := range events {
		if !ours(e[0]) {
			list = append(list, event{e[0], canonicalText(e[1])})
		}
	}
	slices.SortFunc(list, func(a, b event) int { return slices.Compare(a[:], b[:]) })
	return list
}

// canonicalText returns JSON with its fields in order, and any other text unchanged.
func canonicalText(text string) string {
	var written bytes.Buffer
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(decoded(text)) != nil {
		return text
	}
	return strings.TrimSuffix(written.String(), "\n")
}

// replayAll runs a subtest for each trace.
func (g *target) replayAll(t *testing.T, traces []trace) {
	for _, tr := range traces {
		t.Run(tr.Name, func(t *testing.T) {
			found, err := g.replay(t.Context(), tr)
			require.NoError(t, err)
			report(t, found)
		})
	}
}

// report fails the test with the first deviations, from which the others mostly follow.
func report(t *testing.T, found []deviation) {
	t.Helper()
	const enough = 3
	for i, d := range found {
		if i == enough {
			t.Errorf("and %d more deviations", len(found)-enough)
			return
		}
		t.Error(d.text)
	}
}

func TestDeviations(t *testing.T) {
	log := event{"ql:log", `{"event":"put","jid":"j"}`}
	again := event{"ql:log", `{"jid": "j", "event": "put"}`}
	extension := event{"ql:x:new", "j"}
	for _, pair := range [][2]outcome{
		{{Reply: "j"}, {Reply: "j"}},
		{{Area: "Put()"}, {Area: "Put()", Message: "in other words"}},
		{{Area: "?"}, {Area: "Put()"}},
		{{Events: []event{log, {"ql:put", "j"}}}, {Events: []event{{"ql:put", "j"}, extension, again}}},
	} {
		assert.Empty(t, pair[0].deviations(pair[1]), pair)
	}
	for _, pair := range [][2]outcome{
		{{Reply: "j"}, {Reply: "k"}},
		{{Reply: "j"}, {}},
		{{Reply: "j"}, {Area: "Put()"}},
		{{Area: "Put()"}, {Reply: "j"}},
		{{Area: "?"}, {}},
		{{Area: "Put()"}, {Area: "Pop()"}},
		{{Area: "Put()"}, {Area: "?"}},
		{{}, {Events: []event{log}}},
		{{Events: []event{log}}, {}},
		{{Events: []event{log}}, {Events: []event{log, log}}},
		{{Events: []event{log}}, {Events: []event{{"ql:other", log[1]}}}},
	} {
		assert.Len(t, pair[0].deviations(pair[1]), 1, pair)
	}
}
