package serve

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// start runs the program in memory, and returns its address.
func start(t *testing.T, args ...string) (addr string, warnings *bytes.Buffer, end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	warnings = new(bytes.Buffer)
	ended := make(chan int, 1)
	go func() { ended <- Main(ctx, args, in, warnings) }()
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "in memory")
	line, err = lines.ReadString('\n')
	require.NoError(t, err)
	addr, found := strings.CutPrefix(line, "listening on ")
	require.True(t, found, line)
	return strings.TrimSpace(addr), warnings, func() {
		cancel()
		require.Equal(t, 0, testkit.Soon(t, "the end", ended))
	}
}

func TestTheFlagsOfWorkqAreTaken(t *testing.T) {
	t.Setenv("QLESS_REDIS_URL", "")
	addr, warnings, end := start(t, "-listen", "127.0.0.1:0", "-cmdlog-path", t.TempDir(),
		"-cmdlog-seg-size", "1024", "-cmdlog-sync", "always", "-cmdlog-sync-int=5",
		"-cmdlog-clean-int", "7")
	connection, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	_, err = io.WriteString(connection, "inspect queue q\r\n")
	require.NoError(t, err)
	line, err := bufio.NewReader(connection).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "-NOT-FOUND\r\n", line)
	end()
	require.Contains(t, warnings.String(), "-cmdlog-path")
}

func TestOtherFlagsAreNot(t *testing.T) {
	t.Setenv("QLESS_REDIS_URL", "")
	var out, log bytes.Buffer
	require.Equal(t, 2, Main(t.Context(), []string{"-foo"}, &out, &log))
	require.Equal(t, 2, Main(t.Context(), []string{"foo"}, &out, &log))
	require.Equal(t, 0, Main(t.Context(), []string{"-h"}, &out, &log))
	require.Equal(t, 1, Main(t.Context(), []string{"-redis", "redis://:secret@127.0.0.1:1"}, &out, &log))
	require.NotContains(t, log.String(), "secret")
}
