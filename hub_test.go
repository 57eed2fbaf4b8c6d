package qless_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestWorkersComeTogether(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	for range 1000 {
		interval := time.Millisecond + time.Duration(dice.Int64N(int64(time.Hour)))
		now := time.Duration(dice.Int64N(int64(24 * time.Hour)))
		wait := time.Duration(float64(interval) * (0.9 + dice.Float64()/10))
		got := qless.InStep(now, wait, interval)
		require.Zero(t, (now+got)%(interval/20))
		require.LessOrEqual(t, got, wait)
		require.Greater(t, got, wait-interval/20)
	}
}
