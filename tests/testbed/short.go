package testbed

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/scripts"
)

// Offline returns a client for a server that does not exist.
func Offline(t testing.TB) *qless.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	client, err := qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet()})
	require.NoError(t, err)
	return client
}

// RequireCode requires an error of a kind, for both errors.Is and errors.As.
func RequireCode(t testing.TB, code, err error) *qless.Error {
	t.Helper()
	require.ErrorIs(t, err, code)
	var own *qless.Error
	require.ErrorAs(t, err, &own)
	require.Equal(t, code, error(own.Code))
	require.NotEmpty(t, own.Op)
	require.NotEmpty(t, own.Message)
	return own
}

// JIDs returns the jids of jobs, in order.
func JIDs(jobs []*qless.Job) []string {
	var all []string
	for _, job := range jobs {
		all = append(all, job.JID)
	}
	return all
}

// Whats returns the names of the entries of a history, in order.
func Whats(history []qless.HistoryEntry) []string {
	var all []string
	for _, entry := range history {
		all = append(all, entry.What)
	}
	return all
}

// Member returns a member of a sorted set.
func Member(score float64, member string) redis.Z { return redis.Z{Score: score, Member: member} }

// Raw returns JSON data unchanged.
func Raw(text string) json.RawMessage { return json.RawMessage(text) }

// JSONOf returns a value as JSON.
func JSONOf(t testing.TB, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return string(text)
}

// ReadFile returns a file of the repository.
func ReadFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(scripts.Root, name))
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}
