package mixed

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// left matches the keys that may exist in the end: settings, statistics, histories of queues,
// complete jobs with their histories and ends of life, known queues and workers, notes about idle
// workers, and the lease of a relay.
var left = regexp.MustCompile(`^ql:(config|queues|workers|completed|s:(wait|run|stats):\d+:.+|` +
	`j:[^:]+|x:(until|empty|filled|history.*|recorded|rates:.+|relay|unrelayed|worker:.+|idle|idle:.+|due:.+|swept.*))$`)

// verifyKeys checks that no other keys were left behind, and that the keys of jobs agree.
func verifyKeys(t *testing.T, rdb *redis.Client) {
	t.Helper()
	var odd []string
	jobs, histories := map[string]bool{}, map[string]bool{}
	keys := rdb.Scan(t.Context(), 0, "*", 1000).Iterator()
	for keys.Next(t.Context()) {
		jid, isJob := strings.CutPrefix(keys.Val(), "ql:j:")
		base, isHistory := strings.CutSuffix(jid, "-history")
		switch {
		case !left.MatchString(keys.Val()):
			odd = append(odd, keys.Val())
		case isJob && isHistory:
			histories[base] = true
		case isJob:
			jobs[jid] = true
		}
	}
	require.NoError(t, keys.Err())
	assert.Empty(t, odd, "keys that were left behind")
	assert.Empty(t, without(histories, jobs), "histories without jobs")
	completed := members(t, rdb, "ql:completed")
	assert.Empty(t, without(jobs, completed), "jobs that are not in ql:completed")
	assert.Empty(t, without(completed, jobs), "jobs in ql:completed that do not exist")
	assert.Empty(t, without(members(t, rdb, "ql:x:until"), jobs), "lives of jobs that do not exist")
	verifyFields(t, rdb, jobs)
}

// without returns the elements of one set that are not in another.
func without(set, other map[string]bool) (list []string) {
	for item := range set {
		if !other[item] {
			list = append(list, item)
		}
	}
	return list
}

// members returns the members of a sorted set.
func members(t *testing.T, rdb *redis.Client, key string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	scan := rdb.ZScan(t.Context(), key, 0, "", 1000).Iterator()
	for scan.Next(t.Context()) {
		found[scan.Val()] = true
		scan.Next(t.Context()) // skip the score
	}
	require.NoError(t, scan.Err())
	return found
}

// verifyFields checks that jobs are complete, and belong to no worker.
func verifyFields(t *testing.T, rdb *redis.Client, jobs map[string]bool) {
	t.Helper()
	for some := range slices.Chunk(slices.Collect(maps.Keys(jobs)), 500) {
		pipe := rdb.Pipeline()
		var answers []*redis.SliceCmd
		for _, jid := range some {
			answers = append(answers, pipe.HMGet(t.Context(), "ql:j:"+jid, "state", "worker"))
		}
		_, err := pipe.Exec(t.Context())
		require.NoError(t, err)
		for i, answer := range answers {
			assert.Equal(t, []any{"complete", ""}, answer.Val(), some[i])
		}
	}
}
