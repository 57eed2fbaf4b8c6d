package cli_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// redisOf returns a go-redis client of an env's server.
func redisOf(t *testing.T, e *env) *redis.Client {
	options, err := redis.ParseURL(e.url)
	require.NoError(t, err)
	rdb := redis.NewClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func TestASweepLooksAtAllFailedJobs(t *testing.T) {
	e, client := newReal(t)
	rdb, mail := redisOf(t, e), client.Queue("mail")
	put := func(jid string, options ...qless.PutOption) {
		_, err := mail.Put(t.Context(), "Welcome", nil, append(options, qless.JID(jid))...)
		require.NoError(t, err)
	}
	for i := range 250 {
		jid := fmt.Sprint("bad", i)
		put(jid)
		if i%100 == 0 {
			put("after-"+jid, qless.DependsOn{jid}, qless.OnFailureRun)
		}
		failSilently(t, rdb, client, jid)
	}
	require.JSONEq(t, `{"swept": 3}`, e.ok("sweep", "--json"))
	counts, err := mail.Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{3, 0}, []int{counts.Waiting, counts.Depends})
	require.Equal(t, "swept 0 jobs\n", e.run("", "sweep", "mail").errors)
}
