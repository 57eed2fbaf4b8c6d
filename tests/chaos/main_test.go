package chaos

import (
	"os"
	"testing"

	"github.com/qless/qless-go/internal/testkit"
)

func TestMain(m *testing.M) {
	if settings, ok := os.LookupEnv(settingsVariable); ok {
		os.Exit(workerMain(settings))
	}
	testkit.Main(m)
}
