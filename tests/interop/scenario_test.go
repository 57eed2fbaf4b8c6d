//go:build interop

package interop

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

//go:embed scenarios.txt
var scenarioFile string

// A scenario is a sequence of operations of two sides, a and b.
type scenario struct {
	name  string
	steps []step
}

// A step is one operation of one side, with its expected outcome.
type step struct {
	line  int
	side  string // a or b
	until bool   // repeated until it succeeds
	op    string
	args  args
	want  any    // the expected part of the reply
	wants bool   // a reply is expected
	fails string // the expected kind of error
}

// stepSyntax is: SIDE [until] OPERATION [ARGUMENTS] [-> REPLY | fails KIND]
var stepSyntax = regexp.MustCompile(`^([ab]) (until )?([a-z_]+)(?: (\{.*?\}))?(?: -> (.+)| fails (.+))?$`)

// readScenarios reads the file shared by both languages.
func readScenarios(t *testing.T) []scenario {
	var all []scenario
	for i, line := range strings.Split(scenarioFile, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if name, ok := strings.CutPrefix(line, "scenario "); ok {
			all = append(all, scenario{name: name})
			continue
		}
		s, err := parseStep(line)
		require.NoError(t, err, "scenarios.txt:%d: %s", i+1, line)
		s.line = i + 1
		last := &all[len(all)-1]
		last.steps = append(last.steps, s)
	}
	return all
}

func parseStep(line string) (step, error) {
	m := stepSyntax.FindStringSubmatch(line)
	if m == nil {
		return step{}, fmt.Errorf("it is not a step")
	}
	s := step{side: m[1], until: m[2] != "", op: m[3], args: args{}, wants: m[5] != "", fails: m[6]}
	if m[4] != "" {
		if err := json.Unmarshal([]byte(m[4]), &s.args); err != nil {
			return step{}, err
		}
	}
	if s.wants {
		return s, json.Unmarshal([]byte(m[5]), &s.want)
	}
	return s, nil
}

// Every scenario is played twice: with us as a, and with us as b.
func TestScenarios(t *testing.T) {
	scenarios := readScenarios(t)
	withOthers(t, func(t *testing.T, server *testkit.Server, them side) {
		us := &ours{rdb: server.Client(t)}
		t.Cleanup(func() { _ = us.begin("nobody") }) // ends the scenario's subscription
		for _, s := range scenarios {
			for _, sides := range []map[string]side{{"a": us, "b": them}, {"a": them, "b": us}} {
				t.Run(fmt.Sprintf("%s/%s first", s.name, sides["a"]), func(t *testing.T) {
					require.NoError(t, us.rdb.FlushAll(t.Context()).Err())
					err := s.play(t.Context(), sides)
					if why := knownFaults[t.Name()]; why != "" {
						require.Error(t, err, "it is no longer true that %s", why)
						return
					}
					require.NoError(t, err)
				})
			}
		}
	})
}

// knownFaults are the scenarios failed by others, with the reasons. A fault that no longer exists
// must be removed from the list.
var knownFaults = map[string]string{
	"TestScenarios/stock_script/a_recurring_job_is_made_here_and_popped_there/ours_first": "" +
		"its pop fails on recurring jobs that have no field throttles, those of all other clients",
}

// play plays a scenario, up to the first step with an unexpected outcome.
func (s scenario) play(ctx context.Context, sides map[string]side) error {
	for name, side := range sides {
		if _, err := side.do(ctx, "begin", args{"worker": name}); err != nil {
			return err
		}
	}
	for _, step := range s.steps {
		side := sides[step.side]
		attempt := func() error {
			reply, err := side.do(ctx, step.op, step.args)
			return step.check(reply, err)
		}
		err := attempt()
		if step.until && err != nil {
			err = until(attempt)
		}
		if err != nil {
			return fmt.Errorf("scenarios.txt:%d: %s: %s %v: %w", step.line, side, step.op, step.args, err)
		}
	}
	return nil
}

// check returns an error unless a reply is as expected.
func (s step) check(reply any, err error) error {
	switch {
	case s.fails != "":
		return isKind(s.fails, err)
	case err != nil:
		return err
	case s.wants && !within(s.want, reply):
		text, _ := json.Marshal(reply)
		want, _ := json.Marshal(s.want)
		return fmt.Errorf("reply %s, want %s", text, want)
	}
	return nil
}

// isKind returns an error unless err is of the given kind.
func isKind(kind string, err error) error {
	words, known := refusals[kind]
	switch e := err.(type) {
	case nil:
		return fmt.Errorf("it did not fail, want %q", kind)
	case *qless.Error:
		if string(e.Code) == kind {
			return nil
		}
	case refusal:
		if known && words.MatchString(e.Error()) {
			return nil
		}
	}
	return fmt.Errorf("error %w, want %q", err, kind)
}

// within reports whether a reply contains everything in want. An object may have more fields; {}
// and [] are the same, because Lua can't distinguish them.
func within(want, reply any) bool {
	switch want := want.(type) {
	case map[string]any:
		fields, ok := reply.(map[string]any)
		for name, value := range want {
			if !ok || !within(value, fields[name]) {
				return false
			}
		}
		return ok || len(want) == 0 && isEmpty(reply)
	case []any:
		list, ok := reply.([]any)
		if !ok || len(list) != len(want) {
			return len(want) == 0 && isEmpty(reply)
		}
		for i := range want {
			if !within(want[i], list[i]) {
				return false
			}
		}
		return true
	}
	return want == reply
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return false
}

func TestWithin(t *testing.T) {
	for _, pair := range [][2]string{
		{`{"a":1}`, `{"a":1,"b":2}`}, {`[]`, `{}`}, {`[{"a":[]}]`, `[{"a":{},"b":1}]`}, {`null`, `null`}, {`1`, `1.0`},
	} {
		assert.True(t, within(decode(pair[0]), decode(pair[1])), pair)
	}
	for _, pair := range [][2]string{
		{`{"a":1}`, `{"a":2}`}, {`{"a":1}`, `{}`}, {`[1]`, `[1,2]`}, {`[]`, `[1]`}, {`[]`, `null`}, {`1`, `"1"`}, {`{}`, `1`},
	} {
		assert.False(t, within(decode(pair[0]), decode(pair[1])), pair)
	}
}

func decode(text string) any {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		panic(err)
	}
	return value
}
