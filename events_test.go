package qless_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// A relay wakes a worker for a put unless the script has done so.
func TestMessagesShowWhetherTheirScriptWakesAWorker(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	client, err := qless.New(rdb)
	require.NoError(t, err)
	for payload, wakes := range map[string]bool{
		`{"queue":"q","event":"put","jid":"j"}`:                       true,
		`{"queue":"q","to":"q2","event":"advanced","jid":"j"}`:        true,
		`{"jid":"j","event":"put","queue":"q"}`:                       false,
		`{"jid":"j","event":"put","queue":"q"} `:                      false,
		`{"jid":"j","to":"q2","event":"advanced","queue":"q"}`:        false,
		`{"event":"put","jid":"{\"queue\":","queue":"{\"queue\":"}`:   false,
		`{"jid":"{\"queue\":","event":"put","queue":"{\"queue\":\""}`: false,
	} {
		require.Equal(t, wakes, client.DecodeEvent("ql:log", payload).Wakes(), payload)
	}
}
