package hub

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/redisx"
)

func TestWorkersComeTogether(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	for range 1000 {
		interval := time.Millisecond + time.Duration(dice.Int64N(int64(time.Hour)))
		now := time.Duration(dice.Int64N(int64(24 * time.Hour)))
		wait := time.Duration(float64(interval) * (0.9 + dice.Float64()/10))
		got := inStep(now, wait, interval)
		require.Zero(t, (now+got)%(interval/20))
		require.LessOrEqual(t, got, wait)
		require.Greater(t, got, wait-interval/20)
	}
}

// A relay wakes a worker for a put unless the script has done so.
func TestMessagesShowWhetherTheirScriptWakesAWorker(t *testing.T) {
	for payload, expected := range map[string]bool{
		`{"queue":"q","event":"put","jid":"j"}`:                       true,
		`{"queue":"q","to":"q2","event":"advanced","jid":"j"}`:        true,
		`{"jid":"j","event":"put","queue":"q"}`:                       false,
		`{"jid":"j","event":"put","queue":"q"} `:                      false,
		`{"jid":"j","to":"q2","event":"advanced","queue":"q"}`:        false,
		`{"event":"put","jid":"{\"queue\":","queue":"{\"queue\":"}`:   false,
		`{"jid":"{\"queue\":","event":"put","queue":"{\"queue\":\""}`: false,
	} {
		require.Equal(t, expected, wakes(payload), payload)
	}
}

// A job may arrive together with the confirmation of the subscription: its queue may still be
// unknown.
func TestANewRelayWakesForTheQueuesThatItHearsOf(t *testing.T) {
	type call struct {
		command string
		args    []any
	}
	calls := make(chan call, 2)
	r := &Relay{
		config: Config{Do: func(_ context.Context, command string, args ...any) (any, error) {
			calls <- call{command, args}
			return "", nil
		}},
		due: NewSignal(), ended: make(chan struct{}), wakeQueues: map[string]bool{},
	}
	r.Notify(redisx.Notice{Kind: redisx.Gap})
	r.Notify(redisx.Notice{Kind: redisx.Published, Payload: `{"jid":"j","event":"put","queue":"q"}`})
	r.Notify(redisx.Notice{Kind: redisx.Published, Payload: `{"jid":"put","event":"popped","queue":"p"}`})
	go r.run(t.Context())
	require.Equal(t, call{"wake", []any{"q"}}, <-calls)
	require.Equal(t, call{"wake", []any{"", ""}}, <-calls)
}
