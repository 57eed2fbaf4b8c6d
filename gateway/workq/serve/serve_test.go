package serve

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

func TestWithoutARedisJobsAreKeptInMemory(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, Options{Listen: "127.0.0.1:0"}, in, io.Discard) }()
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "in memory")
	line, err = lines.ReadString('\n')
	require.NoError(t, err)
	addr, found := strings.CutPrefix(line, "listening on ")
	require.True(t, found, line)

	connection, err := net.Dial("tcp", strings.TrimSpace(addr))
	require.NoError(t, err)
	_, err = io.WriteString(connection, "inspect queue q\r\n")
	require.NoError(t, err)
	line, err = bufio.NewReader(connection).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "-NOT-FOUND\r\n", line)
	cancel()
	require.NoError(t, testkit.Soon(t, "the end", ended))
}

func TestAnErrorHasNoPassword(t *testing.T) {
	options := Options{Listen: "127.0.0.1:0", Redis: "redis://:secret@127.0.0.1:1"}
	err := Run(t.Context(), options, io.Discard, io.Discard)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}
