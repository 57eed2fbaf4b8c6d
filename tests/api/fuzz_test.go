package api

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// FuzzPut puts a job with any values: it is refused without writing anything, or it reads back
// equal.
func FuzzPut(f *testing.F) {
	f.Add("q", "K", "j", `{"a": 1}`, int64(0), 0, 5, "a,b")
	f.Add("", "", "", "", int64(-1), -1, -1, "")
	f.Add("q\x00", "\u2028", "all", `[ ]`, int64(1), 1<<31-1, 0, "a,a,é,%s")
	f.Add("*", "a\nb", "j-history", `"\ud800"`, int64(time.Hour), -1<<31, 1<<31-1, "null,\xff")
	f.Add("{tag}", `"`, `\`, `12345678901234567890`, int64(1<<62), 1<<31, 1<<31, `"],["`)
	f.Add("q", "K", "j", strings.Repeat("[", 1100)+strings.Repeat("]", 1100), int64(0), 0, 5, "-")
	f.Add("q", "K", "j", `{"\u0000":"\u0000\n","a":[1e400,-0,1.0]}`, int64(0), 0, 5, "\x00")
	e := newEnv(f)
	f.Fuzz(func(t *testing.T, queue, klass, jid, data string, delay int64, priority, retries int, tags string) {
		require.NoError(t, e.Redis.FlushDB(t.Context()).Err())
		options := []qless.PutOption{
			qless.JID(jid), qless.Delay(time.Duration(delay)), qless.Priority(priority), qless.Retries(retries),
		}
		var list []string
		if tags != "" {
			list = strings.Split(tags, ",")
			options = append(options, qless.Tags(list))
		}
		jid, err := e.Queue(queue).Put(t.Context(), klass, raw(data), options...)
		if err != nil {
			require.True(t, errors.Is(err, qless.ErrInvalid), "%v", err)
			require.Zero(t, e.Redis.DBSize(t.Context()).Val())
			return
		}
		job := must(e.Job(t.Context(), jid))(t)
		require.Equal(t, jid, job.JID)
		require.Equal(t, queue, job.Queue)
		require.Equal(t, klass, job.Klass)
		require.Equal(t, data, string(job.Data))
		require.Equal(t, priority, job.Priority)
		require.Equal(t, retries, job.Retries)
		require.Equal(t, retries, job.Remaining)
		require.Equal(t, qless.Tags(list), job.Tags)
		require.Equal(t, queue, job.History[0].Queue)
		if delay > 0 {
			require.Equal(t, qless.StateScheduled, job.State)
			return
		}
		popped := must(e.Queue(queue).Pop(t.Context(), 1))(t)
		require.Len(t, popped, 1)
		require.NoError(t, popped[0].Complete(t.Context()))
		require.Equal(t, data, string(popped[0].Data))
	})
}
