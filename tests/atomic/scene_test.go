package atomic

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/scripts"
)

func TestMain(m *testing.M) {
	testkit.Main(m)
}

// start is the start time of the scene, in seconds.
const start = 1_700_000_000

// A bench is a server with a quickly restorable scene.
type bench struct {
	server *testkit.Server
	rdb    *redis.Client
	saved  []any // the keys of the scene and their contents
}

func newBench(t *testing.T) *bench {
	t.Helper()
	server := testkit.Start(t)
	b := &bench{server: server, rdb: server.Client(t)}
	for _, line := range scene {
		_, err := b.run(t.Context(), line)
		require.NoError(t, err, line)
	}
	// Reserves remember empty queues for a while, which must not end while the scene is the same.
	require.NoError(t, b.rdb.HSet(t.Context(), "ql:x:empty", "a\x00nowhere", "01").Err())
	require.NoError(t, b.rdb.SAdd(t.Context(), "ql:x:filled", "another").Err())
	b.saved = b.save(t)
	return b
}

// scene creates jobs in every state, in two queues, for two workers. Each line is a command, the
// time after the start, and arguments.
var scene = []string{
	"config.set|0|grace-period|10",
	"config.set|0|b-max-concurrency|5",
	"put|1|w1|a|parent|K|{}|0|priority|1|tags|[\"red\"]",
	"put|1|w1|a|other parent|K|{}|0|o|u¦{\"u\":{\"k\":\"other\"}}",
	"pop|2|a|w1|2",
	"put|3|w1|a|child|K|{}|0|depends|[\"parent\"]",
	"put|3|w1|b|grandchild|K|{}|0|tags|[\"red\"]|depends|[\"child\"]",
	"put|3|w1|b|waits for two|K|{}|0|depends|[\"parent\", \"other parent\"]",
	"put|4|w1|b|stale|K|{}|0|tags|[\"blue\"]",
	"pop|5|b|w2|1",
	"timeout|6|stale",
	"put|7|w1|b|in b|K|{}|0",
	"pop|8|b|w1|2",
	"put|9|w1|a|failed|K|{}|0|tags|[\"red\", \"blue\"]",
	"pop|10|a|w1|1",
	"fail|11|failed|w1|group|message",
	"put|12|w1|a|failed too|K|{}|0",
	"pop|13|a|w1|1",
	"fail|14|failed too|w1|group|message",
	"put|15|w1|a|complete|K|{}|0|tags|[\"red\"]",
	"pop|16|a|w1|1",
	"complete|17|complete|w1|a|{}",
	"put|18|w1|a|lost|K|{}|0",
	"put|18|w1|a|lost once too often|K|{}|0|retries|0",
	"pop|19|a|w2|2",
	"heartbeat|20|lost|w2",
	"put|21|w1|a|waiting|K|{}|0|priority|2|tags|[\"red\"]",
	"put|22|w1|a|waiting too|K|{}|0",
	"put|23|w1|a|later|K|{}|5000",
	"put|23|w1|b|later in b|K|{}|5000",
	"put|23|w1|a|soon|K|{}|100",
	"put|23|w1|b|batch|K|{}|0|depends|[\"x:open\"]|o|bf¦{\"b\":{\"n\":0},\"f\":{\"do\":\"run\"}}",
	"put|23|w1|b|batch of one|K|{}|0|depends|[\"x:open\"]|o|bf¦{\"b\":{\"n\":0},\"f\":{\"do\":\"run\"}}",
	"put|23|w1|b|member|K|{}|5000|batch|batch of one",
	"recur|24|a|r|K|{}|interval|60|20|tags|[\"blue\"]",
	"recur|24|b|r in b|K|{}|interval|60|9000",
	"track|25|track|parent",
	"track|25|track|waiting",
	"subscription|26|a|add|y.*",
	"put|27|w1|b|unique|K|{}|9000|o|u¦{\"u\":{\"k\":\"k\"}}",
	"put|28|w1|c|forgotten|K|{}|0|o|kt¦{\"k\":0,\"t\":500}|tags|[\"red\"]",
	"put|28|w1|c|remembered|K|{}|0|o|kK¦{\"k\":60,\"K\":60}",
	"pop|29|c|w1|2",
	"put|29|w1|c|mortal|K|{}|0|o|s¦{\"s\":100}|tags|[\"red\"]|priority|3",
	"put|29|w1|c|mortal too|K|{}|0|o|t¦{\"t\":100}|priority|2",
	"put|29|w1|c|needed|K|{}|0|o|s¦{\"s\":100}|priority|1",
	"put|29|w1|c|needs it|K|{}|0|depends|[\"needed\"]|o|f¦{\"f\":{\"do\":\"run\"}}",
	"put|29|w1|c|immortal|K|{}|0",
	"put|29|w1|emptied|canceled|K|{}|0",
	"cancel|29|canceled",
	"worker.register|29|w1|4|{\"queues\":[\"a\"]}",
	"queues.record|29",
	"rates.add|29|run|1|0|a|K|1,0,0¦3:1¦4:1",
}

// run runs a line: a command, the seconds after the start, and its arguments, with ¦ for a bar.
func (b *bench) run(ctx context.Context, line string) (any, error) {
	words := strings.Split(line, "|")
	seconds, err := strconv.Atoi(words[1])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", line, err)
	}
	var args []any
	for _, word := range words[2:] {
		args = append(args, strings.ReplaceAll(word, "¦", "|"))
	}
	return scripts.Run(ctx, b.rdb, "ql:", time.Unix(start+int64(seconds), 0), words[0], args...)
}

const saveScript = `
local all = {}
for _, key in ipairs(redis.call('keys', '*')) do
  all[#all + 1] = key
  all[#all + 1] = redis.call('dump', key)
end
return all`

// restoreScript restores keys, damages one of them, and returns the damaged key's digest.
const restoreScript = `
redis.call('flushdb')
for i = 3, #ARGV, 2 do
  redis.call('restore', ARGV[i], 0, ARGV[i + 1])
end
local key, field = ARGV[1], ARGV[2]
if field ~= '' then
  redis.call('hdel', key, field)
elseif key ~= '' then
  redis.call('set', key, 'damaged')
end
local dump = redis.call('dump', key)
return dump and redis.sha1hex(dump) or ''`

func (b *bench) save(t *testing.T) []any {
	t.Helper()
	saved, err := b.rdb.Eval(t.Context(), saveScript, nil).Slice()
	require.NoError(t, err)
	require.Greater(t, len(saved), 60)
	return saved
}

// restore sets the scene up again.
func (b *bench) restore(t *testing.T) {
	t.Helper()
	b.restoreWith(t, damage{})
}

// restoreWith sets the scene up with a damage. It returns the digest of the damaged key, or nothing
// if the key is gone.
func (b *bench) restoreWith(t *testing.T, d damage) string {
	t.Helper()
	args := append([]any{d.key, d.field}, b.saved...)
	digest, err := b.rdb.Eval(t.Context(), restoreScript, nil, args...).Text()
	require.NoError(t, err)
	return digest
}
