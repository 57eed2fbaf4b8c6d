package chaos

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if settings, ok := os.LookupEnv(settingsVariable); ok {
		os.Exit(workerMain(settings))
	}
	goleak.VerifyTestMain(m)
}
