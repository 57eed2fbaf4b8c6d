package qless_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m)
}

// noon is when the clocks of the tests begin.
var noon = testkit.Noon

// offline returns a client for what needs no server.
func offline(t testing.TB) *qless.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	client, err := qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet()})
	require.NoError(t, err)
	return client
}

// requireCode requires an error of a kind, in both ways of checking.
func requireCode(t testing.TB, code, err error) *qless.Error {
	t.Helper()
	require.ErrorIs(t, err, code)
	var own *qless.Error
	require.ErrorAs(t, err, &own)
	require.Equal(t, code, error(own.Code))
	require.NotEmpty(t, own.Op)
	require.NotEmpty(t, own.Message)
	return own
}

// raw returns data that is JSON as it is written.
func raw(text string) json.RawMessage { return json.RawMessage(text) }

// readFile returns a file of the repository.
func readFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}
