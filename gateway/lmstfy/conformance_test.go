package lmstfy_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/gateway/lmstfy"
)

// The conversations in testdata were recorded from lmstfy's own server. TestARedisThatIsAway
// replays conversations during an outage of Redis.
func TestConversationsWithTheOtherServer(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to replay them")
	}
	second := func(config *lmstfy.Config) {
		config.SkipTokens = false
		options := config.Admin.(*redis.Client).Options()
		rdb := redis.NewClient(&redis.Options{Addr: options.Addr, DB: 2})
		client := must(qless.New(rdb, nil))(t)
		config.Pools["second"] = lmstfy.Pool{Client: client}
		t.Cleanup(func() { _ = rdb.Close() })
	}
	g := start(t, second)
	protected := start(t, func(config *lmstfy.Config) {
		config.Accounts = map[string]string{"admin": "secret"}
	})
	replay := exec.CommandContext(t.Context(), python, "testdata/lmstfy.py", "replay",
		"--addr", g.api, "--admin", g.admin, "--jobs", "8", "--pool", "second",
		"--auth-admin", protected.admin, "--auth-user", "admin:secret",
		"--slack", "1000", "--retries", "3", // tolerates delays on a busy machine
		"testdata/lmstfy-public.jsonl.gz")
	out, err := replay.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, strings.TrimSpace(string(out)), "442 passed, 0 failed")
}
