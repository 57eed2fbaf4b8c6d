package conformance

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// odd has commands seldom sent by clients, and the stock script's reply to the last of each list.
// No trace has them.
var odd = map[string]struct {
	commands []string
	want     any
}{
	"a heartbeat below 0 locks for no time": {[]string{
		"config.set 100 heartbeat -10", "config.set 100 grace-period 0", "put 100 w q j K {} 0",
		"pop 100 q w 1", "pop 100 q w2 1", "complete 100 j w2 q {}",
	}, "complete"},
	"a heartbeat below 0 is reported": {[]string{
		"config.set 100 heartbeat -10", "put 100 w q j K {} 0", "pop 100 q w 1", "heartbeat 100 j w",
	}, int64(90)},
	"a queue's heartbeat of 0 counts": {[]string{
		"config.set 100 heartbeat 30", "config.set 100 q-heartbeat 0", "put 100 w q j K {} 0",
		"pop 100 q w 1", "heartbeat 100 j w",
	}, int64(100)},
	"a lock that ends at once has its grace": {[]string{
		"config.set 100 heartbeat -10", "put 100 w q j K {} 0", "pop 100 q w 1", "pop 100 q w2 1",
		"pop 109 q w2 1", "complete 109 j w q {}",
	}, "complete"},
	"a job of one's own is popped by its jid": {[]string{
		"config.set 100 heartbeat 0", "put 100 w q j K {} 0", "popByJid 100 q j w", "heartbeat 105 j w",
	}, int64(105)},
	"a queue that has jobs by unfail": {[]string{
		"put 100 w q j K {} 0", "pop 100 q w 1", "fail 100 j w g m", "unfail 100 other g", "queues 100",
	}, `[{"name":"q","waiting":0,"stalled":0,"running":0,"scheduled":0,"depends":0,"recurring":0,"paused":false}]`},
	"completed jobs of a known queue": {[]string{
		"put 100 w q j K {} 0", "pop 100 q w 1", "complete 100 j w q {}", "jobs 100 complete q",
	}, []any{"j"}},
}

func TestOddCommands(t *testing.T) {
	t.Parallel()
	addr := testkit.Start(t).Addr()
	for _, g := range []*target{newTarget(t, addr, "ql:", dropIn), newTarget(t, addr, "ql:", scripts)} {
		for name, c := range odd {
			t.Run(name, func(t *testing.T) {
				require.NoError(t, g.client.FlushDB(t.Context()).Err())
				var last outcome
				for _, line := range c.commands {
					got, err := g.run(t.Context(), strings.Fields(line))
					require.NoError(t, err)
					require.Empty(t, got.Message, line)
					last = got
				}
				assert.True(t, same(c.want, last.Reply), "%v", last.Reply)
			})
		}
	}
}

// A job timed out in its grace period has no grace period in its next run, as with the stock
// script, regardless of its new priority.
func TestAGracePeriodIsKeptByATimeout(t *testing.T) {
	t.Parallel()
	g := newTarget(t, testkit.Start(t).Addr(), "ql:", dropIn)
	start := []string{"put 100 w q j K {} 0", "pop 100 q w 1", "pop 161 q w 1", "timeout 162 j"}
	for _, between := range [][]string{nil, {"priority 163 j 5"}} {
		require.NoError(t, g.client.FlushDB(t.Context()).Err())
		for _, line := range slices.Concat(start, between, []string{"pop 164 q w 1"}) {
			_, err := g.run(t.Context(), strings.Fields(line))
			require.NoError(t, err)
		}
		require.Equal(t, "1", g.client.HGet(t.Context(), "ql:j:j", "grace").Val(), between)
	}
}
