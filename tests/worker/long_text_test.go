package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/repairs"
)

// maxText is the bound of each text of a failure, in bytes.
const maxText = 16 << 10

// longTexts are texts of which a job must not keep everything.
func longTexts() map[string]string {
	return map[string]string{
		"one line": "first " + strings.Repeat("ä", 3<<20) + " last",
		"lines":    "first\n" + strings.Repeat("<p>\n", 1<<20) + "last",
		"no UTF-8": "first " + strings.Repeat("\xff", 1<<20) + " last",
	}
}

// requireCut checks the stored text of a failure.
func requireCut(t *testing.T, f *qless.Failure) {
	t.Helper()
	require.NotNil(t, f)
	require.LessOrEqual(t, len(f.Message), maxText)
	require.LessOrEqual(t, len(f.Group), maxText)
	require.True(t, utf8.ValidString(f.Message))
	require.True(t, utf8.ValidString(f.Group))
	require.Contains(t, f.Message, "first")
}

func TestTheLongTextOfAFailureIsCut(t *testing.T) {
	ways := map[string]func(ctx context.Context, job *qless.Job, text string) error{
		"error": func(_ context.Context, _ *qless.Job, text string) error { return errors.New(text) },
		"FailWith": func(_ context.Context, _ *qless.Job, text string) error {
			return qless.FailWith(text, errors.New(text))
		},
		"panic": func(_ context.Context, _ *qless.Job, text string) error { panic(text) },
		"Fail":  func(ctx context.Context, job *qless.Job, text string) error { return job.Fail(ctx, group(text), text) },
		"Retry": func(ctx context.Context, job *qless.Job, text string) error {
			_, err := job.Retry(ctx, 0, group(text), text)
			return err
		},
	}
	for what, text := range longTexts() {
		for way, fail := range ways {
			t.Run(way+"/"+what, func(t *testing.T) {
				e := newLiveEnv(t)
				w := e.worker(qless.WorkerConfig{})
				w.Handle("K", func(ctx context.Context, job *qless.Job) error { return fail(ctx, job, text) })
				w.start()
				jid := e.Put("q", qless.Retries(0))
				until(t, "it has failed", func() bool { return e.state(jid) == "failed" })
				requireCut(t, e.Read(jid).Failure)
				size, err := e.Redis.MemoryUsage(t.Context(), "ql:j:"+jid, 0).Result()
				require.NoError(t, err)
				require.Less(t, size, int64(8*maxText), "nothing else keeps it")
				w.stop()
			})
		}
	}
}

// group returns a text as the name of a group, which must be UTF-8.
func group(text string) string { return strings.ToValidUTF8(text, "?") }

func TestALongTextThatEndsAJobIsCut(t *testing.T) {
	e := newLiveEnv(t)
	for what, text := range longTexts() {
		jid := e.Put("q")
		_, err := repairs.End(t.Context(), e.Client, jid, repairs.Ending{
			State: qless.StateFailed, Group: group(text), Message: text,
		})
		require.NoError(t, err, what)
		requireCut(t, e.Read(jid).Failure)
	}
}

// The stack of a panic is stored even if its value is long.
func TestAPanicWithALongValueKeepsItsStack(t *testing.T) {
	e := newLiveEnv(t)
	job, _ := e.works(qless.WorkerConfig{}, func(context.Context, *qless.Job) error {
		explode("first " + strings.Repeat("x", 1<<20))
		return nil
	})
	requireCut(t, job.Failure)
	require.Contains(t, job.Failure.Message, "explode")
	require.Contains(t, job.Failure.Message, " bytes are left out]")
}

func TestALogEntryIsBounded(t *testing.T) {
	e := newLiveEnv(t)
	job := e.Read(e.Put("q"))
	require.NoError(t, job.Log(t.Context(), "first "+strings.Repeat("x", 1<<20), nil))
	require.NoError(t, job.Refresh(t.Context()))
	what := job.History[len(job.History)-1].What
	require.LessOrEqual(t, len(what), maxText)
	require.Contains(t, what, "first")
	tooLong := map[string]string{"k": strings.Repeat("x", 8<<20)}
	requireCode(t, qless.ErrInvalid, job.Log(t.Context(), "message", tooLong))
}
