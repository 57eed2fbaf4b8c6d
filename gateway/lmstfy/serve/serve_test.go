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

// An output is what a program writes, to be read while it runs.
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

// run runs the program until the test ends, and returns its addresses and what it writes.
func runMain(t *testing.T, args ...string) (api, admin string, out, log *output) {
	t.Helper()
	out, log = new(output), new(output)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- Main(ctx, args, out, log) }()
	t.Cleanup(func() {
		cancel()
		if status := <-ended; status != 0 {
			t.Errorf("status %d: %s", status, log)
		}
	})
	require.Eventually(t, func() bool { return listening.MatchString(out.String()) },
		patience, 5*time.Millisecond, log)
	found := listening.FindStringSubmatch(out.String())
	return found[1], found[2], out, log
}

func ask(t *testing.T, method, url string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(text)
}

func TestWithoutARedisJobsAreKeptInMemory(t *testing.T) {
	t.Setenv("QLESS_REDIS_URL", "")
	pid := filepath.Join(t.TempDir(), "pid")
	api, admin, out, _ := runMain(t,
		"-listen", "127.0.0.1:0", "-admin-listen", "127.0.0.1:0", "-sv", "-p", pid)
	require.Contains(t, out.String(), "in memory")
	status, _ := ask(t, "PUT", "http://"+api+"/api/ns/q")
	require.Equal(t, 201, status)
	status, text := ask(t, "GET", "http://"+admin+"/metrics")
	require.Equal(t, 200, status)
	require.Contains(t, text, `infra_lmstfy_redis_queue_sizes{namespace="ns",pool="default",queue="q"} 1`)
	id, err := os.ReadFile(pid)
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(os.Getpid()), string(id))
}

func TestTheFileOfTheOtherServer(t *testing.T) {
	t.Setenv("QLESS_REDIS_URL", "")
	server := testkit.Start(t)
	file := filepath.Join(t.TempDir(), "config.toml")
	require.NoError(t, os.WriteFile(file, []byte(`
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
	api, admin, _, log := runMain(t,
		"-c", file, "-listen", "127.0.0.1:0", "-admin-listen", "127.0.0.1:0", "-bt", "warn")
	require.Contains(t, log.String(), "Colour")
	status, _ := ask(t, "PUT", "http://"+api+"/api/ns/q?delay=61")
	require.Equal(t, 401, status)
	status, _ = ask(t, "GET", "http://"+admin+"/token/ns")
	require.Equal(t, 401, status)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "code=401") },
		patience, 5*time.Millisecond)

	// The other server would find this token as well.
	rdb := server.Client(t)
	require.NoError(t, rdb.HSet(t.Context(), "tk/default/ns", "t", "of the other").Err())
	status, text := ask(t, "PUT", "http://"+api+"/api/ns/q?token=t&delay=61")
	require.Equal(t, 400, status)
	require.Contains(t, text, "ttl is shorter than delay")
}

func TestFlagsThatCanNotBe(t *testing.T) {
	t.Setenv("QLESS_REDIS_URL", "")
	var out, log bytes.Buffer
	require.Equal(t, 0, Main(t.Context(), []string{"-v"}, &out, &log))
	require.Contains(t, out.String(), "version:")
	require.Equal(t, 2, Main(t.Context(), []string{"-x"}, &out, &log))
	require.Equal(t, 2, Main(t.Context(), []string{"x"}, &out, &log))
	require.Equal(t, 1, Main(t.Context(), []string{"-c", "missing.toml"}, &out, &log))
	require.Equal(t, 1, Main(t.Context(), []string{"-redis", "redis://:secret@127.0.0.1:1"}, &out, &log))
	require.NotContains(t, log.String(), "secret")
}
