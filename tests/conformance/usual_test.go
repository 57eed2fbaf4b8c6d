package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
	own "github.com/qless/qless-go/tests/scripts"
)

// A call has the arguments for a script to take the usual steps of one job, and equivalent
// arguments for the general steps.
type call struct {
	command        string
	usual, general []any
}

// argsOf returns arguments separated by spaces, with data in the place of DATA, and
// nothing in that of NONE.
func argsOf(text, data string) []any {
	var args []any
	for _, word := range strings.Fields(text) {
		args = append(args, strings.NewReplacer("DATA", data, "NONE", "").Replace(word))
	}
	return args
}

// lives returns calls that put, take and complete a job, in two ways.
func lives(jid, data string) [][]call {
	put := call{"put", argsOf("w q "+jid+" K DATA 0 new 1", data),
		argsOf("w q "+jid+" K DATA 0 retries 5 new 1", data)}
	return [][]call{
		{
			put,
			{"reserve", argsOf("w 10 10 4 brief 1 ahead 16 q", ""), argsOf("w 10 10 4 ahead 16 brief 1 q", "")},
			{"finish", argsOf("w completed q 1 "+jid, ""), argsOf("w complete "+jid+" q NONE 0", "")},
		},
		{
			put,
			{"reserve", argsOf("w 1 10 4 brief 1 ahead 0 q", ""), argsOf("w 1 10 4 ahead 0 brief 1 q", "")},
			{"reserve", argsOf("w 1 10 4 brief 1 ahead 0 q", ""), argsOf("w 1 10 4 ahead 0 brief 1 q", "")},
		},
		{
			put,
			{"pop", argsOf("q w 1 timed", ""), argsOf("q w 1", "")},
			{"complete", argsOf(jid+" w q DATA checked 1", data), argsOf(jid+" w q DATA", data)},
		},
	}
}

// scenes are states of a queue before such calls, as lines of COMMAND SECONDS ARGUMENTS, or of
// server commands, between semicolons.
var scenes = map[string]string{
	"empty":         ``,
	"settings":      `config.set 0 q-heartbeat 30; config.set 0 max-job-history 2; config.set 0 jobs-history 100`,
	"no lock time":  `config.set 0 heartbeat -5`,
	"old jobs":      `config.set 0 jobs-history-count 0; put 0 w q a K {} 0; pop 0 q w 1; complete 0 a w q {}`,
	"a running job": `put 0 w q a K {} 0; pop 0 q v 1`,
	"a lost job":    `put -100 w q a K {} 0; pop -90 q v 1`,
	"a job ahead":   `put 0 w q a K {} 0`,
	"no slot":       `config.set 0 q-max-concurrency 1; put 0 w q a K {} 0; pop 0 q v 1`,
	"no rate":       `config.set 0 q-max-rate 1/60; put 0 w q a K {} 0; pop 0 q v 1`,
	"paused":        `pause 0 q`,
	"tracked":       `put 0 w q a K {} 0; track 0 track a`,
	"a due job":     `put -20 w q a K {} 15`,
	"a coming job":  `put 0 w q a K {} 5`,
	"a schedule":    `recur 0 q r K {} interval 60 0`,
	"an idle one":   `reserve 0 v 1 10 0 q`,
	"itself idle":   `reserve 0 w 1 10 0 q`,
	"idle for p":    `reserve 0 w 1 10 0 p`,
	"empty queues":  `reserve 0 v 1 10 0 q p`,
	"free slots":    `config.set 0 q-max-concurrency 5; reserve 0 v 1 10 0 q`,
	"a relay gone":  `depart 0 v NONE 1 p`,
	"a rest":        `redis zadd ql:x:rest 1 ghost`,
	"put before":    `put 0 w q JID K {"old":1} 0; pop 0 q w 1; complete 0 JID w q {}`,
	"retried":       `put -50 w q JID K {} 0; pop -40 q w 1; retry -30 JID q w 0 g m`,
	"dependents":    `put 0 w q JID K {} 3600; put 0 w q d K {} 0 depends ["JID"]`,
	"options":       `put 0 w q JID K {} 0 o l|{"l":7}`,
	"headers":       `put 0 w q JID K {} 0 o h|{"h":{"a":"b"}}`,
}

// The usual steps write the same as the general steps, in every scene. Unusual scenes are left to
// the general steps.
func TestUsualStepsWriteWhatTheGeneralOnesDo(t *testing.T) {
	server := testkit.Start(t)
	rdb := server.Client(t)
	play := func(scene, jid string, calls []call, general bool) (states []keyspace, replies []any) {
		require.NoError(t, rdb.FlushAll(t.Context()).Err())
		at := func(seconds float64) string { return fmt.Sprintf("%.6f", 1_800_000_000.000_007+seconds) }
		for line := range strings.SplitSeq(scene, ";") {
			parts := argsOf(strings.ReplaceAll(line, "JID", jid), "")
			switch {
			case len(parts) == 0:
			case parts[0] == "redis":
				require.NoError(t, rdb.Do(t.Context(), parts[1:]...).Err())
			default:
				var seconds float64
				_, err := fmt.Sscan(parts[1].(string), &seconds)
				require.NoError(t, err)
				_, err = own.RunAt(t.Context(), rdb, "ql:", at(seconds), parts[0].(string), parts[2:]...)
				require.NoError(t, err, line)
			}
		}
		for i, c := range calls {
			args := c.usual
			if general {
				args = c.general
			}
			reply, err := own.RunAt(t.Context(), rdb, "ql:", at(1.5*float64(i+1)), c.command, args...)
			if err != nil {
				reply = err.Error()
			}
			if c.command == "pop" || c.command == "finish" {
				reply = nil // these say the same in other forms
			}
			state, err := readKeyspace(t.Context(), rdb, "ql:")
			require.NoError(t, err)
			states, replies = append(states, state), append(replies, reply)
		}
		return states, replies
	}
	for name, scene := range scenes {
		for _, jid := range []string{"1f", "a-b", strings.Repeat("0", 32)} {
			for _, data := range []string{"{}", `{"x":"` + strings.Repeat("x", 600) + `"}`, "\"\x01\""} {
				for i, calls := range lives(jid, data) {
					states, replies := play(scene, jid, calls, false)
					others, answers := play(scene, jid, calls, true)
					about := fmt.Sprintf("%s, jid %s, %d bytes, life %d", name, jid, len(data), i)
					require.Equal(t, answers, replies, about)
					require.Equal(t, others, states, about)
				}
			}
		}
	}
}

// A usual job takes the usual steps: they read and write less.
func TestAUsualJobTakesTheUsualSteps(t *testing.T) {
	server := testkit.Start(t)
	rdb := server.Client(t)
	for i, calls := range lives("1f", "{}") {
		var sent [2][]int
		for form := range sent {
			require.NoError(t, rdb.FlushAll(t.Context()).Err())
			for _, c := range calls {
				args := [][]any{c.usual, c.general}[form]
				commands := server.Commands(t, func() {
					_, err := own.RunAt(t.Context(), rdb, "ql:", "1800000000.000007", c.command, args...)
					require.NotErrorIs(t, err, redis.ErrClosed)
				})
				sent[form] = append(sent[form], len(commands))
			}
		}
		require.Negative(t, slices.Compare(sent[0], sent[1]), "life %d: %v, %v", i, sent[0], sent[1])
	}
}
