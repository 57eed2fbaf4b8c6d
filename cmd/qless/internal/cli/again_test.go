package cli_test

import (
	"bufio"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
)

func TestWatchPrintsAgain(t *testing.T) {
	e := newLiveEnv(t)
	e.put("mail", "Welcome", 0)
	for _, words := range []string{"status --watch=1ms", "queue show mail --watch=1ms"} {
		command := e.command(strings.Fields(words)...)
		out, err := command.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, command.Start())
		seen := make(chan int, 1)
		go func() {
			times := 0
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if strings.Contains(lines.Text(), "mail") {
					if times++; times == 2 {
						seen <- times
					}
				}
			}
		}()
		testkit.Soon(t, "the second time", seen)
		require.NoError(t, command.Process.Signal(os.Interrupt))
		require.NoError(t, command.Wait(), words)
	}
	require.Equal(t, 2, e.fields("status --watch=-1s").status)
}

func TestAJobIsFollowedToItsEnd(t *testing.T) {
	e := newLiveEnv(t)
	jid := e.put("mail", "Welcome", 0)
	job, err := e.Client().Queue("mail").Pop(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, job[0].Fail(t.Context(), "timeout", "no answer"))
	out := e.ok("job", "show", jid, "--follow")
	require.Regexp(t, `(?s)put +mail.*popped.*failed.*timeout\n$`, out)
	require.Equal(t, 2, e.fields("job show a b --follow").status)
	require.Equal(t, 3, e.fields("job show nope --follow").status)
}

func TestTheHistoryOfAQueueHasALineADay(t *testing.T) {
	e := newStill(t)
	_, err := e.Client().Queue("mail").Put(t.Context(), "Welcome", nil, qless.Retries(0))
	require.NoError(t, err)
	_, err = e.Client().Queue("mail").Pop(t.Context(), 1)
	require.NoError(t, err)
	today := e.Clock().Now().UTC()
	out := e.ok("queue", "history", "mail", "--days", "3")
	require.Equal(t, 4, strings.Count(out, "\n"))
	require.Regexp(t, today.Format(time.DateOnly)+` +1 `, out)
	require.Contains(t, out, today.AddDate(0, 0, -2).Format(time.DateOnly))
	require.Equal(t, 2, e.fields("queue history mail --days 0").status)
}

func TestTheFiguresOfAQueueHaveALineAMinute(t *testing.T) {
	e := newStill(t)
	_, err := e.Client().Queue("mail").Put(t.Context(), "Welcome", nil)
	require.NoError(t, err)
	require.NoError(t, inspect.New(e.Client()).RecordHistory(t.Context()))
	now := e.Clock().Now().UTC()
	out := e.ok("queue", "history", "mail", "--since", "1m")
	require.Regexp(t, `^TIME +WAITING +OLDEST +RUNNING +WORKERS +FAILED\n`+
		now.Format("2006-01-02 15:04")+` +1 .* 0 +0\n$`, out)
	require.Contains(t, e.fields("queue history mail --since 1m").errors, "1m of 2m are known")
	before := e.fields("queue history mail --since 3h --until 2h")
	require.Equal(t, "nothing is known of this time\n", before.out)
	require.Regexp(t, `^0s of 1h(5m)? are known\n$`, before.errors)
	require.Equal(t, 2, e.fields("queue history mail --since yesterday").status)

}

func TestAQueueThatIsNotKnownHasNoList(t *testing.T) {
	e := newStill(t)
	r := e.fields("job ls -q nosuch")
	require.Equal(t, run{3, "", "qless: no such queue: nosuch\n"}, r)
}

func TestSettingsAreCompleted(t *testing.T) {
	e := newStill(t)
	_, err := e.Client().Queue("mail").Put(t.Context(), "Welcome", nil)
	require.NoError(t, err)
	require.Contains(t, e.ok("__complete", "config", "set", "heart"), "heartbeat\n")
	require.Contains(t, e.ok("__complete", "config", "set", "mail-"), "mail-max-rate\n")
}
