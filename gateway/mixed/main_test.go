package mixed

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/qless/qless-go/internal/testkit"
)

var killFor = flag.Duration("mixed.for", 20*time.Second, "how long processes are killed")

func TestMain(m *testing.M) {
	if text, ok := os.LookupEnv(settingsVariable); ok {
		os.Exit(programMain(text))
	}
	testkit.Main(m)
}
