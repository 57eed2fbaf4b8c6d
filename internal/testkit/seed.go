package testkit

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Seed returns and prints a seed for a test's random numbers. The environment variable QLESS_SEED
// sets the seed.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("QLESS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("QLESS_SEED: %v", err)
		}
	}
	t.Logf("QLESS_SEED=%d", seed)
	return seed
}
