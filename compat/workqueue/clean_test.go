package workqueue_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/workqueue"
	"github.com/qless/qless-go/internal/testkit"
)

// Items without a lease go to the end of the queue, leased items stay, and ids without data are
// removed.
func TestLightClean(t *testing.T) {
	for _, kind := range []string{"P:lease:", "P:leased_by_session:"} {
		t.Run(kind, func(t *testing.T) {
			e := newEnv(t)
			e.add("old", "older?", "leased", "waiting")
			for _, id := range []string{"old", "older?", "leased"} {
				e.taken(id)
				e.endLease(id)
			}
			e.cli("SETEX " + kind + "leased 100 somebody")
			e.cli("LPUSH P:processing ghost")
			require.Equal(t, workqueue.Cleaned{
				Reset:   []string{"old", "older?"},
				Dropped: []string{"ghost"},
			}, e.light())
			require.Equal(t, []string{"older?", "old", "waiting"}, e.list("P:queue"))
			require.Equal(t, []string{"leased"}, e.list("P:processing"))
			require.Equal(t, "data of old", e.cli("GET P:item:old"))
			require.Empty(t, e.light())
		})
	}
}

// Wherever a cleaning is interrupted, no id is in both lists: scripts remove it from one before
// they add it to the other.
func TestLightCleanRemovesBeforeItPuts(t *testing.T) {
	e := newEnv(t)
	e.expire("a")
	e.light() // loads the script
	e.taken("a")
	e.endLease("a")
	names := e.server.Commands(t, func() { e.light() })
	require.Equal(t, []string{"exists", "lrem", "exists", "lpush"}, names)
}

func TestLightCleanOfAnIDThatIsThereTwice(t *testing.T) {
	e := newEnv(t)
	e.expire("a")
	e.cli("LPUSH P:processing a")
	require.Equal(t, workqueue.Cleaned{Reset: []string{"a"}}, e.light())
	require.Equal(t, []string{"a"}, e.list("P:queue"))
	require.Empty(t, e.list("P:processing"))
}

func TestLightCleanOfManyItems(t *testing.T) {
	e := newEnv(t)
	var ids []string
	for i := range 1001 {
		ids = append(ids, fmt.Sprint(i))
	}
	e.expire(ids...)
	require.Equal(t, ids, e.light().Reset)
	for _, id := range ids {
		e.taken(id)
	}
}

// Only one of several cleaners requeues an item.
func TestConcurrentCleanersResetOnce(t *testing.T) {
	e := newEnv(t)
	for range 20 {
		e.expire("a", "b", "c")
		var cleaners sync.WaitGroup
		for i := range 6 {
			cleaners.Go(func() {
				if i%2 == 0 {
					_, _ = e.LightClean(t.Context(), e.rdb)
				} else {
					_, _ = e.DeepClean(t.Context(), e.rdb)
				}
			})
		}
		cleaners.Wait()
		require.ElementsMatch(t, []string{"a", "b", "c"}, e.list("P:queue"))
		require.Empty(t, e.list("P:processing"))
		e.cli("FLUSHALL")
	}
}

// Items in no list are found, leased or not, as are items in the processing list without a lease.
// Ids without data and leases are left alone.
func TestDeepClean(t *testing.T) {
	e := newEnv(t)
	e.add("waiting")
	e.cli("SET P:item:lost data")
	e.cli("SET P:item:expired data")
	e.cli("LPUSH P:processing expired")
	e.cli("SET P:item:held data")
	e.cli("SETEX P:lease:held 100 somebody")
	e.cli("SET P:item:old data")
	e.cli("SETEX P:leased_by_session:old 100 somebody")
	e.cli("SETEX P:lease:nothing 100 somebody")
	e.cli("LPUSH P:processing ghost")
	e.cli("LPUSH P:queue ghost2")

	require.Equal(t, workqueue.Cleaned{Reset: []string{"expired", "lost"}}, e.deep())
	require.Equal(t, []string{"lost", "expired", "ghost2", "waiting"}, e.list("P:queue"))
	require.Equal(t, []string{"held", "ghost"}, e.list("P:processing"))
	require.Equal(t, "somebody", e.cli("GET P:lease:nothing"))
	require.Empty(t, e.deep())
}

// A 0.1.5 client died while its cleaner held the item.
func TestDeepCleanFindsWhatAnOldCleanerHeld(t *testing.T) {
	e := newEnv(t)
	e.add("a")
	e.cli("RPOPLPUSH P:queue P:cleaning")
	require.Equal(t, []string{"a"}, e.deep().Reset)
	e.taken("a")
}

// An item was removed from the processing list before its lease ended, as by a cleaner that died,
// and its worker died, too. The deep cleaning runs before the lease ends, light ones after it.
func TestDeepCleanListsWhatIsLeased(t *testing.T) {
	e := newEnv(t)
	e.add("a", "b")
	e.cli("RPOPLPUSH P:queue P:processing")
	e.cli("SETEX P:lease:a 100 somebody")
	e.cli("LREM P:processing 0 a")

	require.Empty(t, e.deep(), "nothing must be requeued")
	require.Equal(t, []string{"a"}, e.list("P:processing"))
	require.Empty(t, e.light())
	require.Empty(t, e.deep())
	require.Equal(t, []string{"a"}, e.list("P:processing"), "it is there once")

	e.endLease("a")
	require.Equal(t, []string{"a"}, e.light().Reset)
	require.Equal(t, []string{"a", "b"}, e.list("P:queue"))
}

// A 0.1.5 client completes an item by removing it from the processing list, and then deletes its
// data and its lease. The item is not put back in between: another client might complete it again.
func TestDeepCleanLeavesWhatOldClientsComplete(t *testing.T) {
	e := newEnv(t)
	e.cli("SET P:item:a data")
	e.cli("SETEX P:leased_by_session:a 100 somebody")
	require.Empty(t, e.deep())
	require.Empty(t, e.list("P:processing"))
}

// Items completed or leased after the cleaner has seen their keys are left alone.
func TestDeepCleanLooksAgain(t *testing.T) {
	e := newEnv(t)
	e.add("completed", "leased")
	client := e.hooked(func(cmd redis.Cmder, done bool) {
		if cmd.Name() == "scan" && done {
			e.take()
			require.True(t, e.complete("completed"))
			e.taken("leased")
		}
	})
	require.Empty(t, must(e.DeepClean(t.Context(), client))(t))
	require.Empty(t, e.list("P:queue"))
}

func TestDeepCleanOfManyItems(t *testing.T) {
	e := newEnv(t)
	for i := range 2500 {
		e.add(fmt.Sprintf("%04d", i))
	}
	e.cli("LTRIM P:queue 0 1249")
	require.Len(t, e.deep().Reset, 1250)
	require.Len(t, e.list("P:queue"), 2500)
}

func TestPrefixesWithPatternCharacters(t *testing.T) {
	e := newEnv(t)
	prefixes := []string{"", "*", "P", "P*", "P?", "P[12]", "P[^1]", `P\`, `P\*`, "P1", "PP", "P]", "P:item:"}
	for _, prefix := range prefixes {
		must(workqueue.New(prefix).AddItem(t.Context(), e.rdb, item("a")))(t)
		require.NoError(t, e.rdb.Del(t.Context(), prefix+":queue").Err())
	}
	for i, prefix := range prefixes {
		cleaned := must(workqueue.New(prefix).DeepClean(t.Context(), e.rdb))(t)
		if prefix == "P" {
			// The other queue's item keys also begin with "P:item:".
			require.Subset(t, cleaned.Reset, []string{"a"})
		} else {
			require.Equal(t, []string{"a"}, cleaned.Reset, prefix)
		}
		require.Equal(t, int64(1+i), e.queues(), "no other queue was touched")
	}
}

// queues returns the number of queues.
func (e *env) queues() int64 {
	keys := must(e.rdb.Keys(e.t.Context(), "*:queue").Result())(e.t)
	return int64(len(keys))
}

func TestCleanerCleansAtOnceAndAtItsIntervals(t *testing.T) {
	e := newEnv(t)
	other := workqueue.New("other")
	logged := make(chan string, 100)
	cleaner := workqueue.NewCleaner(e.rdb, workqueue.CleanerConfig{Logger: slog.New(logTo(logged))}, e.Queue, other)
	ctx, stop := context.WithCancel(t.Context())
	light, deep := make(chan time.Time), make(chan time.Time)
	done := make(chan struct{})

	e.expire("expired")
	e.cli("SET other:item:lost data")
	go func() { defer close(done); cleaner.Follow(ctx, light, deep) }()
	require.Contains(t, testkit.Soon(t, "light", logged), `queue=P kind=light id=expired`)
	require.Contains(t, testkit.Soon(t, "deep", logged), `queue=other kind=deep id=lost`)

	e.cli("LPUSH P:processing ghost")
	light <- time.Time{}
	require.Contains(t, testkit.Soon(t, "light", logged), `queue=P kind=light id=ghost`)
	e.cli("SET P:item:lost2 data")
	deep <- time.Time{}
	require.Contains(t, testkit.Soon(t, "deep", logged), `queue=P kind=deep id=lost2`)

	e.cli("SET other:processing text")
	light <- time.Time{}
	line := testkit.Soon(t, "the error", logged)
	require.Contains(t, line, `level=WARN msg="workqueue: cleaning failed"`)
	stop()
	testkit.Soon(t, "the end", done)
}

// logTo returns a log handler that sends its lines to a channel.
func logTo(lines chan<- string) slog.Handler {
	return slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		lines <- string(p)
		return len(p), nil
	}), nil)
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestCleanerRuns(t *testing.T) {
	e := newEnv(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	cleaner := workqueue.NewCleaner(e.rdb, workqueue.CleanerConfig{LightInterval: time.Millisecond, Logger: quiet}, e.Queue)
	go func() { done <- cleaner.Run(ctx) }()
	for range 3 {
		e.expire("a")
		got := must(e.Lease(t.Context(), e.rdb, true, 0, lease))(t)
		require.Equal(t, "a", got.ID)
		require.True(t, e.complete("a"))
	}
	stop()
	require.NoError(t, testkit.Soon(t, "the end", done))

	bad := workqueue.NewCleaner(e.rdb, workqueue.CleanerConfig{DeepInterval: -1})
	require.ErrorIs(t, bad.Run(t.Context()), workqueue.ErrInvalid)
}

// The protocol's test suite controls cleaners by lines of text.
func TestServeCleaner(t *testing.T) {
	e := newEnv(t)
	e.expire("expired")
	e.cli("SET a:b:item:lost data")

	commands, input := io.Pipe()
	output, answers := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- workqueue.ServeCleaner(t.Context(), e.rdb, commands, answers) }()
	say := func(line, answer string) {
		must(fmt.Fprintln(input, line))(t)
		got := make([]byte, len(answer)+1)
		must(io.ReadFull(output, got))(t)
		require.Equal(t, answer+"\n", string(got))
	}
	say("light:P", "light cleaned P")
	require.Equal(t, []string{"expired"}, e.list("P:queue"))
	say("deep:a:b", "deep cleaned a:b")
	require.Equal(t, []string{"lost"}, e.list("a:b:queue"))
	require.NoError(t, input.Close())
	require.NoError(t, testkit.Soon(t, "the end", done))

	var out bytes.Buffer
	err := workqueue.ServeCleaner(t.Context(), e.rdb, strings.NewReader("light:P\nheavy:P\n"), &out)
	require.ErrorIs(t, err, workqueue.ErrInvalid)
	require.Equal(t, "light cleaned P\n", out.String())
}
