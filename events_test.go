package qless_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// A relay wakes a worker for a put unless the script has done so.
func TestMessagesShowWhetherTheirScriptWakesAWorker(t *testing.T) {
	for payload, wakes := range map[string]bool{
		`{"queue":"q","event":"put","jid":"j"}`:                       true,
		`{"queue":"q","to":"q2","event":"advanced","jid":"j"}`:        true,
		`{"jid":"j","event":"put","queue":"q"}`:                       false,
		`{"jid":"j","event":"put","queue":"q"} `:                      false,
		`{"jid":"j","to":"q2","event":"advanced","queue":"q"}`:        false,
		`{"event":"put","jid":"{\"queue\":","queue":"{\"queue\":"}`:   false,
		`{"jid":"{\"queue\":","event":"put","queue":"{\"queue\":\""}`: false,
	} {
		require.Equal(t, wakes, qless.Wakes(payload), payload)
	}
}
