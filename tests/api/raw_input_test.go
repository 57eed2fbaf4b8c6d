package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/scripts"
)

// calls are commands that succeed on a stage. The first character of an argument gives its kind: #
// a number, % an integer, + a non-negative integer, @ an array of names, $ JSON, ~ a name that is
// not empty.
var calls = []string{
	"put|w1|~q|~new|K|$[]|#0|priority|#1|retries|#2|tags|@[\"a\"]|depends|@[\"parent\"]",
	"put|w1|~q|~running|K|$[]|#0|priority|#1|retries|#2|tags|@[\"a\"]|depends|@[\"parent\"]",
	"requeue|w1|~q|waiting|K|$[]|#0|priority|#1|retries|#2|tags|@[\"a\"]|depends|@[\"parent\"]",
	"put.many|w1||~q|~new|K|$[]|#0|+4|priority|#1|tags|@[\"a\"]|~q2|~other|K|$[]|#0|+2|depends|@[\"parent\"]",
	"schedule|s|#1|+2|w1|~q|~new|K|$[]|#0|priority|#1",
	"schedule.last|s",
	"schedule.last|s|w1|~digest",
	"schedule.register|~s|~digest|0 0 * * *|once|q|K||{}|[]",
	"schedule.leave|w1|s",
	"schedule.forget|s",
	"schedules|s",
	"schedules|+0|+25",
	"recur|~q|~r|K|$[]|interval|#60|#0|priority|#1|tags|@[]|retries|#2|backlog|#3",
	"recur.update|r|priority|#1|interval|#60|retries|#2|data|$[]|klass|K|queue|~q2|backlog|#3|tags|@[\"a\"]",
	"complete|running|w1|q|$[]|next|q|delay|#1|depends|@[\"parent\"]",
	"complete|running|w1|q|{}|result|$[]",
	"fail|running|w1|g|m|$[]|$[]",
	"heartbeat|running|w1|$[]",
	"retry|running|q|w1|#1|g|m",
	"retry|running|q|w1|#1|||here||$[]|$[]",
	"result|running",
	"await|running",
	"progress|w1|~running||#1|#2|n",
	"worker.register|~w1|#1|$[]",
	"rates.add|~run|+1|#0",
	"rates|#0|+1",
	"queue.history|#0|~q",
	"queues.record",
	"put|w1|~q|~new|K|$[]|#0|batch|~batch",
	"relations|waiting|dependents|~0",
	"withdraw|running",
	"end|running|complete|||+0|$[]",
	"end|running|failed|~g|m|+2",
	"forget|running",
	"finish|w1|complete|running|q|[]|+6|next|q|delay|#1|depends|@[\"parent\"]",
	"finish|w1|fail|running|q|[]|+4|group|g|message|m",
	"finish|w1|complete|running|q|[]|+2|result|$[]",
	"finish|w1|retry|running|q|[]|+6|delay|#1|group|g|message|m",
	"finish|w1|release|running|q|[]|+2|delay|#1",
	"finish|w1|release|running|q|[]|+4|delay|#1|place|+1",
	"finish|w1|release|running|q|[]|+4|delay|#1|throttled|@[\"api\"]",
	"limit.set|~api|+1|+1|#1",
	"limit.hold|~api|#1",
	"limit.delete|~api",
	"limit.info|~api",
	"queue.settings|q",
	"overview|+0|+1|+1|~q",
	"pop|q|w1|+1",
	"peek|q|+1",
	"reserve|w1|+1|#1|+4|order|round-robin|cursor|+0|~q",
	"reserve|w1|+1|#1|+6|ahead|+1|owner|~w2|lock|#5|~q",
	"priority|waiting|#1",
	"unfail|q|g|+1",
	"repair|unfail||failed|g|@[\"failed\"]|+1|+0|retries|+1|ttl|60",
	"repair|unfail||jids||@[\"failed\"]|+1|+0|retries|+1",
	"list|waiting|q|+0|+1|+9",
	"find|waiting|q||+1|+0|+9|K|a|b|c|1",
	"failures|g||+1",
	"repair|cancel||failed|g|@[\"failed\"]|+1|+0",
	"repair|cancel||waiting|q|@[\"waiting\"]|+1|+5|K||||",
	"repair|priority|#1|jids||@[\"waiting\"]|+1|+0",
	"repair|tag|@[\"a\"]|jids||@[\"waiting\"]|+1|+0",
	"repair|move|~q|jids||@[\"waiting\"]|+1|+0|worker|w1|delay|#0|priority|#1",
	"reschedule|waiting|#1",
	"log|waiting|m|$[]",
	"depends|child|on|waiting",
	"tag|get|a|%0|%1",
	"tag|top|%0|%1",
	"failed|g|%0|%1",
	"jobs|waiting|q|%0|%1",
	"jobs|scheduled|q|%0|%1",
	"jobs|complete|0|%1",
	"jobs|complete|q|%0|%1",
	"popByJid|q|waiting|w1",
	"subscription|q|add|a.b",
	"tags|+0|+1",
	"stats|q|#0",
	"config.set|heartbeat|1",
	"config.unset|heartbeat",
}

// badBySign has invalid values for arguments of each kind.
var badBySign = map[byte][]string{
	'#': {"", "x", "nan", "NaN", "-nan", "inf", "-inf", "infinity", "1e400", "-1e400", "1,5", "1 2", "{}", "\x00"},
	'%': {"", "x", "nan", "inf", "1e400", "1.5", "4294967296", "-4294967296", "1e300"},
	'+': {"", "x", "nan", "inf", "1e400", "-1", "1.5", "4294967296", "1e300"},
	'@': {"", "x", "5", "true", "null", `"a"`, `{"a":1}`, `{"1":"a"}`, "[{}]", "[[]]", "[null]", "[true]", `["a",{}]`, `["a"`, `["a"] x`},
	'$': {"", "{", "[1,]", "x", "{}{}", "'a'", "\x00"},
	'~': {""},
}

// split returns a call's words without the signs, and the signs of its arguments.
func split(call string) (words []string, signs []byte) {
	for _, word := range strings.Split(call, "|") {
		sign := byte(0)
		if word != "" && strings.IndexByte("#%+@$~", word[0]) >= 0 {
			sign, word = word[0], word[1:]
		}
		words, signs = append(words, word), append(signs, sign)
	}
	return words, signs
}

// refused requires that both surfaces refuse a line, for a reason given by the scripts, and that it
// changes nothing.
func (e *env) refused(line string) {
	e.T.Helper()
	e.Unchanged(func() {
		command, args := arguments(line)
		_, err := e.Run(e.T.Context(), command, "", args...)
		require.ErrorIs(e.T, err, qless.ErrInvalid, "%q", line)
		require.ErrorContains(e.T, e.dropIn(line), "(): ", "%q", line)
	})
}

func TestBadArgumentsOfScriptsChangeNothing(t *testing.T) {
	e := stage(t)
	for _, call := range calls {
		words, signs := split(call)
		for i, sign := range signs {
			for _, bad := range badBySign[sign] {
				line := append([]string(nil), words...)
				line[i] = bad
				e.refused(strings.Join(line, "|"))
			}
		}
	}
}

func TestTheCallsSucceedAsTheyAre(t *testing.T) {
	e := newEnv(t)
	for _, call := range calls {
		words, _ := split(call)
		e.stage()
		command, args := arguments(strings.Join(words, "|"))
		require.NoError(t, errOf(e.Run(t.Context(), command, "", args...)), call)
		e.stage()
		require.NoError(t, e.dropIn(strings.Join(words, "|")), call)
	}
}

// A call whose last arguments are missing is refused, unless they are optional.
func TestMissingArgumentsAreRefusedOrHaveDefaults(t *testing.T) {
	e := newEnv(t)
	for _, call := range calls {
		words, _ := split(call)
		e.stage()
		for length := 1; length < len(words); length++ {
			line := strings.Join(words[:length], "|")
			before := e.Dump()
			command, args := arguments(line)
			_, err := e.Run(t.Context(), command, "", args...)
			if err != nil {
				require.NotErrorIs(t, err, qless.ErrServer, line)
				require.Equal(t, before, e.Dump(), line)
			} else {
				e.stage()
			}
		}
		e.drain("q")
	}
}

// drain pops a queue until it is empty, which shows that nothing blocks it.
func (e *env) drain(queue string) {
	e.T.Helper()
	for {
		jobs := e.Pops(queue, 10)
		if len(jobs) == 0 {
			return
		}
		for _, job := range jobs {
			require.NoError(e.T, job.Complete(e.T.Context()))
		}
	}
}

func TestABadNowChangesNothing(t *testing.T) {
	e := stage(t)
	for _, call := range calls {
		words, _ := split(call)
		for _, now := range []string{"x", "nan", "inf", "1e400", "{}"} {
			args := []any{words[0], now}
			for _, word := range words[1:] {
				args = append(args, word)
			}
			e.Unchanged(func() {
				_, err := scripts.RunDropIn(t.Context(), e.Redis, args...)
				require.ErrorContains(t, err, `Arg "now" missing or not a number`, call)
			})
		}
	}
	require.ErrorContains(t, e.dropIn("nonsense|1"), "Unknown command nonsense")
}
