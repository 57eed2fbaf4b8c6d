//go:build interop

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// patience limits how long a test waits for an event. Any event takes far less: patience turns a
// hang into a failure.
const patience = testkit.Patience

// clients is the folder for clients in other languages, put there by the install script.
const clients = "../../.cache/interop/"

func TestMain(m *testing.M) {
	install := exec.Command("./install")
	if output, err := install.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%stests/interop/install could not get the other clients: %v\n", output, err)
		os.Exit(1)
	}
	testkit.Silence()
	os.Exit(m.Run())
}

// others share Redis with this package: clients in other languages that run our script, and a
// script that is not ours.
var others = []struct {
	name  string
	start func(t *testing.T, server *testkit.Server) side
}{
	{"client", startPeer},
	{"PHP", startPHP},
	{"stock script", startStock},
}

// withOthers runs a subtest for each of the others, on a separate server.
func withOthers(t *testing.T, run func(t *testing.T, server *testkit.Server, them side)) {
	for _, other := range others {
		t.Run(other.name, func(t *testing.T) {
			t.Parallel()
			server := testkit.Start(t)
			run(t, server, other.start(t, server))
		})
	}
}

// must runs an operation that must not fail.
func must(t *testing.T, s side, op string, args args) any {
	t.Helper()
	reply, err := s.do(t.Context(), op, args)
	require.NoError(t, err, "%s %s %v", s, op, args)
	return reply
}
