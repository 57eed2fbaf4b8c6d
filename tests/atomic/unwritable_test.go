package atomic

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/luasrc"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/scripts"
)

// looks are read-only commands. They work on any server, because their tidying can wait.
var looks = []string{"get", "multiget", "queues", "workers"}

// A server that takes no writes refuses every command with something to change, regardless of the
// states of the named jobs: otherwise, a command that merely tries its writes reports success.
func TestAServerThatTakesNoWritesIsNoSuccess(t *testing.T) {
	for refusal, lines := range map[string][]string{
		"MISCONF":    commands,
		"NOREPLICAS": inEveryState(),
		"READONLY":   commands,
	} {
		t.Run(refusal, func(t *testing.T) {
			t.Parallel()
			healthy, refusing := newBench(t), newBench(t)
			scene, before := healthy.keys(t), healthy.changes(t)
			refusing.rdb = refusing.withoutRetries(t)
			t.Cleanup(refusing.server.Refuse(t, refusal))
			done := 0
			for _, line := range lines {
				if slices.Contains(looks, commandOf(line)) {
					continue
				}
				if _, err := refusing.run(t.Context(), line); err != nil {
					continue
				}
				done++
				_, err := healthy.run(t.Context(), line)
				require.NoError(t, err, line)
				if healthy.changes(t) != before {
					requireSame(t, scene, healthy.keys(t), line+": reported as done, but not done")
					healthy.restore(t)
					before = healthy.changes(t)
				}
			}
			require.Positive(t, done, "some lines have nothing to change")
		})
	}
}

// withoutRetries returns a client that returns each error at once.
func (b *bench) withoutRetries(t *testing.T) *redis.Client {
	t.Helper()
	options := *b.rdb.Options()
	options.MaxRetries = -1
	rdb := redis.NewClient(&options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// changes returns how many changes the server has made since last saving its data.
func (b *bench) changes(t *testing.T) string {
	t.Helper()
	info := b.rdb.InfoMap(t.Context(), "persistence")
	require.NoError(t, info.Err())
	return info.Item("Persistence", "rdb_changes_since_last_save")
}

func commandOf(line string) string {
	command, _, _ := strings.Cut(line, "|")
	return command
}

// inEveryState returns the lines of commands, and the same lines with each job of the scene in
// place of each named job.
func inEveryState() []string {
	jids := map[string]bool{}
	for _, line := range scene {
		if words := strings.Split(line, "|"); words[0] == "put" {
			jids[words[4]] = true
		}
	}
	lines := slices.Clone(commands)
	for _, line := range commands {
		words := strings.Split(line, "|")
		for i, word := range words {
			if i < 2 || !jids[word] {
				continue
			}
			for words[i] = range jids {
				lines = append(lines, strings.Join(words, "|"))
			}
			words[i] = word
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// A new command is tried on damaged keys and on refusing servers.
func TestEveryCommandThatWritesIsTried(t *testing.T) {
	server, err := testkit.Start(t).Client(t).Command(t.Context()).Result()
	require.NoError(t, err)
	all, err := luasrc.FactsOf(scripts.Sources())
	require.NoError(t, err)
	tried := map[string]bool{}
	for _, line := range commands {
		tried[commandOf(line)] = true
	}
	for command, facts := range all {
		writes := slices.ContainsFunc(facts.Needs, func(name string) bool {
			return server[name] != nil && slices.Contains(server[name].Flags, "write")
		})
		if writes && !tried[command] && !slices.Contains(looks, command) {
			t.Errorf("%s can write, and is not in commands", command)
		}
	}
}
