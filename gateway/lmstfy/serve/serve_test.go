package serve

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

const patience = 30 * time.Second

// An output collects the output of a server, and can be read while the server runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

var listening = regexp.MustCompile(`listening on (\S+), admin on (\S+)\n`)

// start runs a server until the test ends, and returns its addresses and its output.
func start(t *testing.T, o Options) (api, admin string, out, log *output) {
	t.Helper()
	out, log = new(output), new(output)
	o.Listen, o.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, o, out, log) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%v: %s", err, log)
		}
	})
	require.Eventually(t, func() bool { return listening.MatchString(out.String()) },
		patience, 5*time.Millisecond, log)
	found := listening.FindStringSubmatch(out.String())
	return found[1], found[2], out, log
}

// ask makes a request that must be answered with a status, and returns the answer's body.
func ask(t *testing.T, want int, method, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, want, answer.StatusCode)
	return string(text)
}

func TestWithoutARedisJobsAreKeptInMemory(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	api, admin, out, _ := start(t, Options{SkipTokens: true, PIDFile: pid})
	require.Contains(t, out.String(), "in memory")
	ask(t, 201, "PUT", "http://"+api+"/api/ns/q")
	text := ask(t, 200, "GET", "http://"+admin+"/metrics")
	require.Contains(t, text, `infra_lmstfy_redis_queue_sizes{namespace="ns",pool="default",queue="q"} 1`)
	id, err := os.ReadFile(pid)
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(os.Getpid()), string(id))
}

func TestTheFileOfTheOtherServer(t *testing.T) {
	server := testkit.Start(t)
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("conf", 0o700))
	require.NoError(t, os.WriteFile(defaultFile, []byte(`
Host = "127.0.0.1"
Port = 7777
AdminPort = 7778
EnableAccessLog = true
TTLSecond = 60
Colour = "blue"

[Accounts]
admin = "secret"

[AdminRedis]
Addr = "`+server.Addr()+`"

[Pool]
[Pool.default]
Addr = "`+server.Addr()+`"
`), 0o600))
	api, admin, _, log := start(t, Options{})
	require.Contains(t, log.String(), "Colour")
	ask(t, 401, "PUT", "http://"+api+"/api/ns/q?delay=61")
	ask(t, 401, "GET", "http://"+admin+"/token/ns")
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "code=401") },
		patience, 5*time.Millisecond)

	// The other server would find this token, too.
	rdb := server.Client(t)
	require.NoError(t, rdb.HSet(t.Context(), "tk/default/ns", "t", "of the other").Err())
	text := ask(t, 400, "PUT", "http://"+api+"/api/ns/q?token=t&delay=61")
	require.Contains(t, text, "ttl is shorter than delay")
}

func TestInvalidOptions(t *testing.T) {
	err := Run(t.Context(), Options{ConfigFile: "missing.toml"}, io.Discard, io.Discard)
	require.ErrorIs(t, err, os.ErrNotExist)
	err = Run(t.Context(), Options{Redis: "redis://:secret@127.0.0.1:1"}, io.Discard, io.Discard)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}
