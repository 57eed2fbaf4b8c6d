package cli_test

import (
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
		f := e.begin(words)
		times := 0
		testkit.Until(t, "the second time", func() bool {
			if strings.Contains(f.next(), "mail") {
				times++
			}
			return times == 2
		})
		require.Equal(t, 0, f.interrupt(), words)
	}
	e.exits(2, "status --watch=-1s")
}

func TestAJobIsFollowedToItsEnd(t *testing.T) {
	e := newLiveEnv(t)
	jid := e.fail("mail", "Welcome", "timeout", "no answer")
	out := e.ok("job", "show", jid, "--follow")
	require.Regexp(t, `(?s)put +mail.*popped.*failed.*timeout\n$`, out)
	e.exits(2, "job show a b --follow")
	e.exits(3, "job show nope --follow")
}

func TestTheHistoryOfAQueueHasALineADay(t *testing.T) {
	e := newStill(t)
	must(e.Client().Queue("mail").Put(t.Context(), "Welcome", nil, qless.Retries(0)))(t)
	e.pop("mail", 1)
	today := e.Clock().Now().UTC()
	out := e.ok("queue", "history", "mail", "--days", "3")
	require.Equal(t, 4, strings.Count(out, "\n"))
	require.Regexp(t, today.Format(time.DateOnly)+` +1 `, out)
	require.Contains(t, out, today.AddDate(0, 0, -2).Format(time.DateOnly))
	e.exits(2, "queue history mail --days 0")
}

func TestTheFiguresOfAQueueHaveALineAMinute(t *testing.T) {
	e := newStill(t)
	must(e.Client().Queue("mail").Put(t.Context(), "Welcome", nil))(t)
	require.NoError(t, inspect.New(e.Client()).RecordHistory(t.Context()))
	now := e.Clock().Now().UTC()
	out := e.ok("queue", "history", "mail", "--since", "1m")
	require.Regexp(t, `^TIME +WAITING +OLDEST +RUNNING +WORKERS +FAILED\n`+
		now.Format("2006-01-02 15:04")+` +1 .* 0 +0\n$`, out)
	require.Contains(t, e.fields("queue history mail --since 1m").errors, "1m of 2m are known")
	before := e.fields("queue history mail --since 3h --until 2h")
	require.Equal(t, "nothing is known of this time\n", before.out)
	require.Regexp(t, `^0s of 1h(5m)? are known\n$`, before.errors)
	e.exits(2, "queue history mail --since yesterday")
}

func TestAQueueThatIsNotKnownHasNoList(t *testing.T) {
	e := newStill(t)
	r := e.fields("job ls -q nosuch")
	require.Equal(t, run{3, "", "qless: no such queue: nosuch\n"}, r)
}
