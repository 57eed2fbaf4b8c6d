package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/shards"
	"github.com/qless/qless-go/tests/repairs"
)

func TestAClusterNeedsAHashTag(t *testing.T) {
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	for _, prefix := range []string{"ql:", "{}ql:", "}{", "{ql:", "ql:}"} {
		_, err := qless.New(cluster, &qless.ClientConfig{Namespace: prefix})
		requireCode(t, qless.ErrInvalid, err)
	}
	for _, prefix := range []string{"{tenant}:ql:", "x{t}", "{a}{}"} {
		require.NoError(t, errOf(qless.New(cluster, &qless.ClientConfig{Namespace: prefix})))
	}
}

func TestNewRefusesARing(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1", "two": "127.0.0.1:2"}})
	defer ring.Close()
	for _, config := range []*qless.ClientConfig{nil, {Namespace: "{tenant}:ql:"}, {Replicas: 1}} {
		_, err := qless.New(ring, config)
		require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "package shards")
	}
}

func TestNewRefusesWhatCannotBeUsed(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	for _, config := range []*qless.ClientConfig{
		{Namespace: "\xff"}, {WorkerName: "\xff"}, {MaxData: -2}, {Replicas: -2}, {ReplicaTimeout: -1},
		{Replicas: 1, ReplicaTimeout: time.Microsecond}, {Replicas: 1, ReplicaTimeout: -time.Second},
	} {
		requireCode(t, qless.ErrInvalid, errOf(qless.New(rdb, config)))
	}
	wrapped := struct{ redis.UniversalClient }{rdb}
	requireCode(t, qless.ErrInvalid, errOf(qless.New(wrapped, &qless.ClientConfig{Replicas: 1})))
}

func TestFieldsOfAConfigHaveDefaults(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	names := map[string]bool{}
	for _, config := range []*qless.ClientConfig{nil, {}, {MaxData: -1, Replicas: -1}} {
		client := must(qless.New(rdb, config))(t)
		require.Equal(t, qless.DefaultNamespace, client.Namespace())
		require.Regexp(t, `^.+-\d+-[0-9a-f]{8}$`, client.WorkerName())
		names[client.WorkerName()] = true
	}
	require.Len(t, names, 3)
	config := qless.ClientConfig{Namespace: "one:", WorkerName: "me"}
	one := must(qless.New(rdb, &config))(t)
	require.Equal(t, qless.ClientConfig{Namespace: "one:", WorkerName: "me"}, config)
	config.Namespace = "two:"
	require.Equal(t, []string{"one:", "me"}, []string{one.Namespace(), one.WorkerName()})
}

func TestDialOwnsItsConnections(t *testing.T) {
	e := newEnv(t)
	client := must(qless.Dial(t.Context(), "redis://"+e.Server.Addr()+"/0", &qless.ClientConfig{WorkerName: "dialed"}))(t)
	require.Equal(t, "dialed", client.WorkerName())
	require.NoError(t, errOf(client.Queue("q").Put(t.Context(), "K", nil)))
	require.NoError(t, client.Close())
	_, err := client.Queue("q").Put(t.Context(), "K", nil)
	requireCode(t, qless.ErrUnavailable, err)
	require.ErrorIs(t, err, redis.ErrClosed)

	unnamed := &qless.ClientConfig{Namespace: "\xff"}
	_, err = qless.Dial(t.Context(), "redis://"+e.Server.Addr(), unnamed)
	requireCode(t, qless.ErrInvalid, err)
	require.NoError(t, e.Close())
	require.NoError(t, e.Redis.Ping(t.Context()).Err(), "a client made by New leaves them open")
}

func TestEachSettingHasItsDefault(t *testing.T) {
	e := newEnv(t)
	defaults := map[string]string{
		"application":           "qless",
		"backoff-factor":        "3",
		"backoff-initial-delay": "0",
		"grace-period":          "10",
		"heartbeat":             "60",
		"histogram-history":     "7",
		"jobs-history":          "604800",
		"jobs-history-count":    "50000",
		"max-job-history":       "100",
		"max-worker-age":        "86400",
		"stats-history":         "30",
	}
	require.Equal(t, defaults, must(e.Config().All(t.Context()))(t))
	for name, want := range defaults {
		require.Equal(t, want, must(e.Config().Get(t.Context(), name))(t))
	}
	for _, name := range []string{"unknown", "jobs-failed-history", "sync-enabled"} {
		require.Empty(t, must(e.Config().Get(t.Context(), name))(t))
	}
}

// Package settings has the values that settings can have.
func TestSettingsAreSetAndUnset(t *testing.T) {
	e := newEnv(t)
	ctx, config := t.Context(), e.Config()
	require.NoError(t, config.Set(ctx, "application", "mine é \"x\""))
	require.Equal(t, "mine é \"x\"", must(config.Get(ctx, "application"))(t))
	require.NoError(t, config.Set(ctx, "heartbeat", 75*time.Second))
	require.NoError(t, errOf(e.Do(ctx, "config.set", "anything", "at all")))
	all := must(config.All(ctx))(t)
	require.Equal(t, "75", all["heartbeat"])
	require.Equal(t, "at all", all["anything"])
	require.Equal(t, "604800", all["jobs-history"])
	e.Unchanged(func() {
		for _, bad := range []any{"", "\xff", 5} {
			require.ErrorIs(t, config.Set(ctx, "application", bad), qless.ErrInvalid)
		}
		err := requireCode(t, qless.ErrInvalid, config.Set(ctx, "my-mail-hartbeat", 1))
		require.Equal(t, `no setting "my-mail-hartbeat"; did you mean "my-mail-heartbeat"?`, err.Message)
	})

	require.NoError(t, config.Unset(ctx, "heartbeat"))
	require.NoError(t, config.Unset(ctx, "unknown"))
	require.Equal(t, "60", must(config.Get(ctx, "heartbeat"))(t))
}

func TestAQueuesHeartbeat(t *testing.T) {
	e := newEnv(t)
	ctx, q := t.Context(), e.Queue("q")
	requireHeartbeat := func(want time.Duration) {
		t.Helper()
		require.Equal(t, qless.QueueSettings{Heartbeat: want}, must(q.Settings(ctx))(t))
		e.Put("q")
		job := e.Pop("q")
		require.WithinDuration(t, e.Clock.Now().Add(want), job.Expires, time.Second)
		require.WithinDuration(t, e.Clock.Now().Add(want), must(job.Heartbeat(ctx))(t), time.Second)
	}
	requireHeartbeat(time.Minute)
	e.Set("heartbeat", 90)
	requireHeartbeat(90 * time.Second)
	require.NoError(t, q.SetHeartbeat(ctx, 2500*time.Millisecond))
	requireHeartbeat(2500 * time.Millisecond)
	require.NoError(t, errOf(e.Do(ctx, "config.set", "q-heartbeat", "-5")))
	requireHeartbeat(-5 * time.Second)
	require.NoError(t, errOf(e.Do(ctx, "config.set", "q-heartbeat", "0")))
	requireHeartbeat(0)
	require.NoError(t, errOf(e.Do(ctx, "config.set", "q-heartbeat", "soon")))
	requireHeartbeat(90 * time.Second)
	require.NoError(t, q.SetHeartbeat(ctx, 0))
	requireHeartbeat(90 * time.Second)
	require.NoError(t, errOf(e.Do(ctx, "config.set", "heartbeat", "soon")))
	requireHeartbeat(time.Minute)
	requireCode(t, qless.ErrInvalid, q.SetHeartbeat(ctx, -1))
	require.NotContains(t, e.Dump()["ql:config"], "q-heartbeat")
}

func TestAQueuesMaxConcurrency(t *testing.T) {
	e := newEnv(t)
	ctx, q := t.Context(), e.Queue("q")
	requireLimit := func(want int) {
		t.Helper()
		require.Equal(t, want, must(q.Settings(ctx))(t).MaxConcurrency)
	}
	requireLimit(0)
	require.NoError(t, q.SetMaxConcurrency(ctx, 2))
	requireLimit(2)
	for range 3 {
		e.Put("q")
	}
	require.Len(t, e.Pops("q", 3), 2)
	require.NoError(t, q.SetMaxConcurrency(ctx, -1))
	requireLimit(0)
	require.Len(t, e.Pops("q", 3), 1)
	require.NoError(t, q.SetMaxConcurrency(ctx, 1))
	require.NoError(t, q.SetMaxConcurrency(ctx, 0))
	requireLimit(0)
	requireCode(t, qless.ErrInvalid, q.SetMaxConcurrency(ctx, -2))
	require.NotContains(t, e.Dump(), "ql:config")
	require.NoError(t, errOf(e.Do(ctx, "config.set", "q-max-concurrency", "-5")))
	requireLimit(0)
}

// chain returns an error and all errors beneath it.
func chain(err error) []error {
	if err == nil {
		return nil
	}
	all := []error{err}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range several.Unwrap() {
			all = append(all, chain(one)...)
		}
	}
	return append(all, chain(errors.Unwrap(err))...)
}

// dial fails to dial a URL. It returns the error, and the texts of the error, of all errors
// beneath, of the log and of go-redis.
func dial(t *testing.T, url string) (texts string, err error) {
	t.Helper()
	var log bytes.Buffer
	heard := testkit.Overhear(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := qless.Dial(ctx, url, &qless.ClientConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.Error(t, err)
	require.Nil(t, client)
	for _, one := range chain(err) {
		texts += fmt.Sprintf("%s\n%v\n%+v\n%#v\n%q\n", one.Error(), one, one, one, one)
	}
	return texts + log.String() + heard(), err
}

func TestDialRevealsNoSecretsOfAnUnreadableURL(t *testing.T) {
	const encoded = "is there a special character in the password? write it percent-encoded, as in %2F"
	for url, hint := range map[string]string{
		"redis://alice:pa5s/w0rd@host:6379":          encoded,
		"redis://:1234/w0rd@host:6379":               encoded,
		"redis://alice:1234/w0rd@host:6379/0":        encoded,
		"redis://alice:pa5s?w0rd@host:6379":          encoded,
		"redis://:1234?w0rd@host:6379":               encoded,
		"redis://alice:pa5s#w0rd@host:6379":          encoded,
		"redis://:1234#w0rd@host:6379":               encoded,
		"redis://alice:pa5s%w0rd@host:6379":          encoded,
		"redis://alice:pa5s%":                        encoded,
		"redis://alice:pa5s[w0rd@host:6379":          encoded,
		"redis://alice:pa5s\\w0rd@host:6379":         encoded,
		"redis://alice:pa5s\"w0rd@host:6379":         encoded,
		"redis://alice:pa5s@host/w0rd@host:6379":     encoded,
		"redis://alice:pa5sw0rd@host:port":           encoded,
		"redis://alice:pa5sw0rd@host:0":              "from 1 to 65535",
		"redis://alice:pa5sw0rd@host:65536":          "from 1 to 65535",
		"redis://host:99999999999999999999":          "from 1 to 65535",
		"rediss://[::1]:123456/0":                    "from 1 to 65535",
		"redis://alice:pa5sw0rd@[host:6379":          encoded,
		"redis://alice:pa5sw0rd":                     encoded,
		"rediss://alice:pa5s/w0rd@host:6379":         encoded,
		"unix://alice:1234/w0rd@/run/redis.sock":     encoded,
		"redis:/alice:pa5sw0rd@host:6379":            "redis://localhost:6379",
		"redis:alice:pa5sw0rd@host:6379":             "redis://localhost:6379",
		"alice:pa5sw0rd@host:6379":                   "redis://localhost:6379",
		"//alice:pa5sw0rd@host:6379":                 "redis://localhost:6379",
		"redis://alice:pa5s w0rd@host:6379":          "a space",
		" redis://alice:pa5sw0rd@host:6379":          "a space",
		"redis://alice:pa5sw0rd@host:6379\n":         "a space",
		"redis://alice:pa5sw0rd@host\x00:6379":       "a space",
		"redis-sentinel://alice:pa5sw0rd@host:26379": "sentinel",
		"redis+sentinel://alice:pa5sw0rd@host:26379": "sentinel",
		"alice://pa5sw0rd@host:26379":                "sentinel",
		"redis://alice:pa5sw0rd@host:6379/w0rd":      "no database number",
		"redis://alice:pa5sw0rd@host:6379/0/1":       "no database number",
		"redis://alice:pa5sw0rd@host?db=w0rd":        `"db"`,
		"redis://host?dial_timeout=w0rd":             `"dial_timeout"`,
		"redis://host?password=pa5sw0rd":             `"password"`,
		"redis://host/0?protocol=w0rd&pool_size=1":   `"protocol"`,
		"unix://alice:pa5sw0rd@":                     "no path",
		"redis://host?addr=host2:6379":               "add cluster=true",
		"redis://host?cluster=w0rd":                  `"cluster"`,
		"redis://host?cluster=true&addr=w0rd":        `"addr"`,
		"redis://host?cluster=true&db=1":             `"db"`,
		"redis://host/1?cluster=true":                "no database but 0",
		"redis://host?cluster=true&master_name=w0rd": "both of the options",
		"redis://host?cluster=true&password=pa5s":    `"password"`,
		"redis://host?master_name=":                  `"master_name"`,
		"redis://host?master_name=m&pool_size=w0rd":  `"pool_size"`,
		"redis://host/w0rd?master_name=m":            "no database number",
		"unix:///run/redis.sock?cluster=true":        "names a socket",
		"":                                           "is REDIS_URL set?",
		" \n":                                        "is REDIS_URL set?",
		"localhost:6379":                             "want redis://localhost:6379",
		"localhost":                                  "redis://localhost:6379",
		"6379":                                       "redis://localhost:6379",
	} {
		t.Run(url, func(t *testing.T) {
			texts, err := dial(t, url)
			require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, hint)
			for _, secret := range []string{"alice", "pa5s", "w0rd", "1234"} {
				require.NotContains(t, texts, secret)
			}
		})
	}
}

func TestDialRevealsNoPasswordWhenItCannotConnect(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.Redis.ACLSetUser(t.Context(), "alice", "on", ">another", "+@all").Err())
	for what, url := range map[string]string{
		"a wrong password":     "redis://alice:pa5s%2Fw0rd@" + e.Server.Addr(),
		"an unknown user":      "redis://nobody:pa5s%2Fw0rd@" + e.Server.Addr(),
		"an unknown host":      "redis://alice:pa5s%2Fw0rd@host.invalid:6379?max_retries=-1",
		"no one listens":       "redis://alice:pa5s%2Fw0rd@127.0.0.1:1?max_retries=-1",
		"a server without TLS": "rediss://alice:pa5s%2Fw0rd@" + e.Server.Addr() + "?max_retries=-1&dial_timeout=100ms",
		"a socket":             "unix://alice:pa5s%2Fw0rd@/nowhere/redis.sock?max_retries=-1",
		"no sentinel listens":  "redis://alice:pa5s%2Fw0rd@127.0.0.1:1?master_name=m&password=pa5sw0rd",
		"no cluster listens":   "redis://alice:pa5s%2Fw0rd@127.0.0.1:1?cluster=true&max_retries=-1",
	} {
		t.Run(what, func(t *testing.T) {
			texts, _ := dial(t, url)
			require.NotContains(t, texts, "pa5s")
			require.NotContains(t, texts, "w0rd")
		})
	}
}

func TestDialTakesAPasswordThatIsPercentEncoded(t *testing.T) {
	e := newEnv(t)
	const password = `a/b?c#d%e@f:g[h]i\j"k l`
	const encoded = "a%2Fb%3Fc%23d%25e%40f%3Ag%5Bh%5Di%5Cj%22k%20l"
	rules := []string{"on", ">" + password, "~*", "&*", "+@all"}
	require.NoError(t, e.Redis.ACLSetUser(t.Context(), "alice", rules...).Err())
	client := must(qless.Dial(t.Context(), "Redis://alice:"+encoded+"@"+e.Server.Addr()+"/0?dial_timeout=5s", nil))(t)
	defer client.Close()
	require.NoError(t, errOf(client.Queue("q").Counts(t.Context())))
}

// serve serves each connection with a function until the test ends, and returns the address.
func serve(t *testing.T, listener net.Listener, connection func(net.Conn)) string {
	t.Helper()
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				connection(conn)
			}()
		}
	}()
	return listener.Addr().String()
}

func listenTCP(t *testing.T) net.Listener {
	t.Helper()
	return must(net.Listen("tcp", "127.0.0.1:0"))(t)
}

// pretend serves the replies of a Redis server with these lines in INFO.
func pretend(t *testing.T, info string) string {
	t.Helper()
	return serve(t, listenTCP(t), func(conn net.Conn) {
		lines := bufio.NewScanner(conn)
		for lines.Scan() { // only the command's own line has letters
			switch strings.ToUpper(lines.Text()) {
			case "HELLO", "CLIENT":
				fmt.Fprint(conn, "-ERR unknown command\r\n")
			case "PING":
				fmt.Fprint(conn, "+PONG\r\n")
			case "INFO":
				fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(info), info)
			}
		}
	})
}

func TestDialLooksAtTheServer(t *testing.T) {
	for info, want := range map[string]struct {
		kind    error
		message string
	}{
		"redis_version:5.0.3":   {qless.ErrInvalid, "qless needs Redis 6.2 or later; this is 5.0.3"},
		"redis_version:6.0.16":  {qless.ErrInvalid, "qless needs Redis 6.2 or later; this is 6.0.16"},
		"redis_version:6.2.0":   {},
		"redis_version:10.0.1":  {},
		"redis_version:unknown": {},
		"":                      {},
		"redis_version:7.2.4\r\nrole:master\r\ncluster_enabled:0": {},
	} {
		t.Run(info, func(t *testing.T) {
			client, err := qless.Dial(t.Context(), "redis://"+pretend(t, info), nil)
			if want.kind == nil {
				require.NoError(t, err)
				require.NoError(t, client.Close())
				return
			}
			require.Contains(t, requireCode(t, want.kind, err).Message, want.message)
		})
	}
}

func TestDialTakesAClusterWithAHashTag(t *testing.T) {
	address := pretend(t, "redis_version:7.2.4\r\ncluster_enabled:1")
	client := must(qless.Dial(t.Context(), "redis://"+address, &qless.ClientConfig{Namespace: "{a}:ql:"}))(t)
	require.NoError(t, client.Close())
}

func TestDialOfARealReplica(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.Redis.Do(t.Context(), "replicaof", "127.0.0.1", "1").Err())
	_, err := qless.Dial(t.Context(), "redis://"+e.Server.Addr(), nil)
	require.Equal(t, "the server is a replica and takes no writes: use its master, 127.0.0.1:1",
		requireCode(t, qless.ErrUnavailable, err).Message)
}

func TestDialOfARealClusterNode(t *testing.T) {
	server := testkit.Start(t, "--cluster-enabled", "yes", "--cluster-config-file", t.TempDir()+"/n")
	_, err := qless.Dial(t.Context(), "redis://"+server.Addr(), nil)
	require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "has no hash tag")
}

func TestDialWorksForAUserWhoMayNotLook(t *testing.T) {
	e := newEnv(t)
	rules := []string{"on", ">secret", "~*", "&*", "+@all", "-info"}
	require.NoError(t, e.Redis.ACLSetUser(t.Context(), "alice", rules...).Err())
	require.NoError(t, must(qless.Dial(t.Context(), "redis://alice:secret@"+e.Server.Addr(), nil))(t).Close())
}

func TestDialWantsAPasswordWithAColon(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.Redis.ConfigSet(t.Context(), "requirepass", "secret").Err())
	addr := e.Server.Addr()
	texts, err := dial(t, "redis://secret@"+addr)
	require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "redis://:PASSWORD@HOST")
	require.NotContains(t, texts, "secret")
	_, err = dial(t, "redis://"+addr)
	require.Contains(t, requireCode(t, qless.ErrServer, err).Message, "NOAUTH ")
}

// go-redis logs each attempt.
func TestDialSaysItOnce(t *testing.T) {
	heard := testkit.Overhear(t)
	_, err := qless.Dial(t.Context(), "redis://127.0.0.1:1", nil)
	requireCode(t, qless.ErrUnavailable, err)
	require.EqualError(t, err, "qless: dial: tcp 127.0.0.1:1: connect: connection refused")
	var refused *net.OpError
	require.ErrorAs(t, err, &refused)
	require.LessOrEqual(t, strings.Count(heard(), "refused"), 1)

	heard = testkit.Overhear(t)
	requireCode(t, qless.ErrUnavailable, errOf(qless.Dial(t.Context(), "redis://host.invalid", nil)))
	require.LessOrEqual(t, strings.Count(heard(), "no such host"), 1, "unless the resolver is away")
}

// silent reads and never answers, as a plain server may do with a handshake.
func silent(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func TestDialHintsAtTLS(t *testing.T) {
	secure := tls.NewListener(listenTCP(t), &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}})
	closing := func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1)) }
	talking := func(conn net.Conn) { fmt.Fprint(conn, "-ERR unknown command\r\n"); silent(conn) }
	const wantPlain, wantTLS = "want redis:// in place of rediss://", "want rediss:// in place of redis://"
	for what, c := range map[string]struct {
		url  string
		kind error
		hint string
	}{
		"a server that never answers": {
			"rediss://" + serve(t, listenTCP(t), silent) + "?dial_timeout=200ms",
			qless.ErrUnavailable, wantPlain,
		},
		"a server that answers plainly": {
			"rediss://" + serve(t, listenTCP(t), talking), qless.ErrInvalid, wantPlain,
		},
		"a server that ends the handshake": {
			"rediss://" + serve(t, listenTCP(t), closing), qless.ErrUnavailable, wantPlain,
		},
		"a real server without TLS": {
			"rediss://" + testkit.Start(t).Addr() + "?dial_timeout=200ms", nil, wantPlain,
		},
		"a server with TLS": {"redis://" + serve(t, secure, silent), nil, wantTLS},
		"a server that closes the connection": {
			"redis://" + serve(t, listenTCP(t), closing), qless.ErrUnavailable, wantTLS,
		},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err := qless.Dial(ctx, c.url, nil)
			require.ErrorContains(t, err, c.hint)
			require.NoError(t, ctx.Err(), "it does not try until the context ends")
			if c.kind != nil {
				requireCode(t, c.kind, err)
			}
		})
	}
}

// selfSigned returns a self-signed certificate.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestNewNeedsAClient(t *testing.T) {
	var single *redis.Client
	var cluster *redis.ClusterClient
	for _, none := range []redis.UniversalClient{nil, single, cluster} {
		_, err := qless.New(none, nil)
		require.EqualError(t, err, "qless: new: no redis client")
		requireCode(t, qless.ErrInvalid, err)
	}
}

func TestAServerThatCannotSaveIsDialed(t *testing.T) {
	folder := t.TempDir()
	server := testkit.Start(t, "--dir", folder, "--save", "3600 1000000")
	inTheWay := filepath.Join(folder, "dump.rdb", "full") // root may write anywhere
	require.NoError(t, os.MkdirAll(inTheWay, 0o700))
	rdb := server.Client(t)
	require.NoError(t, rdb.BgSave(t.Context()).Err())
	testkit.Until(t, "the snapshot to fail", func() bool {
		return redis.HasErrorPrefix(rdb.Ping(t.Context()).Err(), "MISCONF")
	})
	client := must(qless.Dial(t.Context(), "redis://"+server.Addr(), nil))(t)
	defer func() { _ = client.Close() }()
	_, err := inspect.New(client).Overview(t.Context(), inspect.OverviewQuery{})
	require.NoError(t, err, "reads work")
	_, err = client.Queue("q").Put(t.Context(), "K", nil)
	require.ErrorIs(t, err, qless.ErrServer)
	require.ErrorContains(t, err, "MISCONF")
}

// shards creates n shards on the env's server.
func (e *env) sharded(key shards.By, n int) *shards.Shards {
	e.T.Helper()
	return e.shardedWith(key, n, func(string) qless.ClientConfig { return qless.ClientConfig{} })
}

// shardedWith does so with a separate config for each namespace.
func (e *env) shardedWith(
	key shards.By, n int, config func(namespace string) qless.ClientConfig,
) *shards.Shards {
	e.T.Helper()
	var clients []*qless.Client
	for i := range n {
		own := config(fmt.Sprintf("s%d:", i))
		own.Namespace = fmt.Sprintf("s%d:", i)
		clients = append(clients, e.NewClient(e.Redis, own))
		e.T.Cleanup(func() { _ = clients[i].Close() })
	}
	return must(shards.New(key, clients...))(e.T)
}

// Other processes must find the same places, regardless of the order of shards.
func TestPlacesStayWhereTheyAre(t *testing.T) {
	e := newEnv(t)
	sharded := e.sharded(shards.ByJID, 3)
	clients := sharded.Clients()
	other := must(shards.New(shards.ByJID, clients[2], clients[0], clients[1]))(t)
	places := ""
	for i := range 20 {
		jid := fmt.Sprint("job-", i)
		require.Same(t, sharded.Client("q", jid), other.Client("q", jid))
		places += sharded.Client("q", jid).Namespace()[1:2]
	}
	require.Equal(t, "22001011010121222200", places, "known places: a change strands jobs that are put twice")
	require.Same(t, sharded.Client("a", "{order-7}-pack"), sharded.Client("b", "{order-7}-pick"))
	byQueue := e.sharded(shards.ByQueue, 3)
	require.Same(t, byQueue.Client("q", "1"), byQueue.Client("q", "2"))
}

func TestShardsThatCantBe(t *testing.T) {
	e := newEnv(t)
	a := e.NewClient(e.Redis, qless.ClientConfig{Namespace: "a:"})
	requireCode(t, qless.ErrInvalid, errOf(shards.New(shards.ByJID)))
	_, err := shards.New(shards.ByJID, a, e.NewClient(e.Redis, qless.ClientConfig{Namespace: "a:"}))
	requireCode(t, qless.ErrInvalid, err)
	require.EqualError(t, errOf(shards.New("klass", a)), `qless: shard: the key "klass" is unknown`)
	require.EqualError(t, errOf(shards.New(shards.ByJID, a, nil)), "qless: shard: clients[1] is nil")
	sharded, err := shards.New("", a)
	require.NoError(t, err, "by jid")
	require.Same(t, a, sharded.Client("q", "j"))
	_, err = qless.NewWorkerGroup(nil, qless.WorkerConfig{Queues: []string{"q"}})
	requireCode(t, qless.ErrInvalid, err)
}

func TestAShardedQueueIsOneQueue(t *testing.T) {
	for _, key := range []shards.By{shards.ByJID, shards.ByQueue} {
		e := newEnv(t)
		ctx := t.Context()
		sharded := e.sharded(key, 3)
		queue := sharded.Queue("q")
		wanted := map[string]bool{}
		for range 20 {
			wanted[must(queue.Put(ctx, "K", nil))(t)] = true
		}
		var many []qless.JobSpec
		for i := range 40 {
			many = append(many, spec(qless.JID(fmt.Sprint("m", i))))
		}
		for i, jid := range must(queue.PutMany(ctx, many))(t) {
			require.Equal(t, fmt.Sprint("m", i), jid)
			wanted[jid] = true
		}
		counts := must(queue.Counts(ctx))(t)
		require.Equal(t, qless.QueueCounts{Name: "q", Waiting: 60}, counts)

		jobs := must(queue.Pop(ctx, 50))(t)
		counts = must(queue.Counts(ctx))(t)
		require.Equal(t, qless.QueueCounts{Name: "q", Waiting: 10, Running: 50}, counts)
		require.Equal(t, []qless.QueueCounts{counts}, must(sharded.Queues(ctx))(t))

		rest := must(queue.Pop(ctx, 50))(t)
		homes := map[string]bool{}
		for _, job := range append(jobs, rest...) {
			require.True(t, wanted[job.JID])
			delete(wanted, job.JID)
			homes[sharded.Client("q", job.JID).Namespace()] = true
			require.Equal(t, qless.StateRunning, must(sharded.Job(ctx, job.JID))(t).State)
			require.NoError(t, job.Complete(ctx))
		}
		require.Empty(t, wanted)
		require.Len(t, homes, map[shards.By]int{shards.ByJID: 3, shards.ByQueue: 1}[key])
		requireCode(t, qless.ErrNotFound, errOf(sharded.Job(ctx, "nobody")))
	}
}

func TestDependenciesStayWithinAShard(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	sharded := e.sharded(shards.ByJID, 3)
	queue := sharded.Queue("q")
	first := must(queue.Put(ctx, "K", nil, qless.JID("{order-7}-pick")))(t)
	second := must(queue.Put(ctx, "K", nil, qless.JID("{order-7}-pack"), qless.DependsOn{first}))(t)
	require.Equal(t, qless.StateDepends, must(sharded.Job(ctx, second))(t).State)

	elsewhere := ""
	for i := 0; elsewhere == ""; i++ {
		if jid := fmt.Sprint("other-", i); sharded.Client("q", jid) != sharded.Client("q", first) {
			elsewhere = jid
		}
	}
	_, err := queue.Put(ctx, "K", nil, qless.JID(elsewhere), qless.DependsOn{first})
	requireCode(t, shards.ErrWrongShard, err)
	requireCode(t, qless.ErrNotFound, errOf(sharded.Job(ctx, elsewhere)))

	depending := spec(qless.JID(elsewhere), qless.DependsOn{"{order-7}-new"})
	_, err = queue.PutMany(ctx, []qless.JobSpec{spec(qless.JID("{order-7}-new")), depending})
	failure := requireCode(t, shards.ErrWrongShard, err)
	require.Equal(t, elsewhere, failure.JID)
	require.Contains(t, failure.Message, "jobs[1]: ")
	requireCode(t, qless.ErrNotFound, errOf(sharded.Job(ctx, "{order-7}-new")))

	_, err = queue.Put(ctx, "K", nil, qless.JID(elsewhere), qless.DependsOn{"nobody"})
	require.NoError(t, err, "a job that does not exist is not waited for")
}

func TestAShardThatIsAwayFailsWhatNeedsIt(t *testing.T) {
	e := newEnv(t)
	away := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = away.Close() }()
	sharded := must(shards.New(shards.ByJID,
		e.NewClient(e.Redis, qless.ClientConfig{Namespace: "here:"}), e.NewClient(away, qless.ClientConfig{Namespace: "away:"})))(t)
	jobs := make([]qless.JobSpec, 50)
	for i := range jobs {
		jobs[i] = spec(qless.JID(fmt.Sprint(i)))
	}
	put, err := sharded.Queue("q").PutMany(t.Context(), jobs)
	requireCode(t, qless.ErrUnavailable, err)
	counts, countsErr := sharded.Clients()[0].Queue("q").Counts(t.Context())
	require.NoError(t, countsErr)
	require.Len(t, put, counts.Waiting)
	require.NotEmpty(t, put)
	require.Less(t, len(put), 50)
	requireCode(t, qless.ErrUnavailable, errOf(sharded.Queue("q").Counts(t.Context())))
}

// A silent shard does not delay the replies of others.
func TestASilentShardDelaysNoOther(t *testing.T) {
	e := newEnv(t)
	silent := testkit.Start(t)
	options := testkit.Options(silent.Addr())
	options.ReadTimeout = time.Hour
	patient := redis.NewClient(options)
	defer func() { _ = patient.Close() }()
	sharded := must(shards.New(shards.ByJID,
		e.NewClient(patient, qless.ClientConfig{Namespace: "silent:"}), e.NewClient(e.Redis, qless.ClientConfig{Namespace: "living:"})))(t)
	living := sharded.Clients()[1].Queue("q")
	for _, jid := range []string{"done", "later", "called"} {
		require.NoError(t, errOf(living.Put(t.Context(), "K", nil, qless.JID(jid), qless.Unique(jid))))
	}
	end := func(jid string) {
		require.NoError(t, errOf(repairs.End(t.Context(), sharded.Clients()[1], jid, repairs.Ending{})))
	}
	end("done")
	silent.Suspend()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.Equal(t, "done", must(sharded.Job(ctx, "done"))(t).JID)
	require.NoError(t, errOf(sharded.Result(ctx, "done")))
	require.Equal(t, "later", must(sharded.Holder(ctx, "later"))(t))
	require.NoError(t, errOf(sharded.WaitAll(ctx, "done")))
	waited := make(chan error, 1)
	go func() {
		_, err := sharded.Wait(ctx, "later")
		waited <- err
	}()
	end("later")
	require.NoError(t, testkit.Soon(t, "the end of a job", waited))
	silentsOwn := jidOf(sharded, sharded.Clients()[0])
	_, err := sharded.Queue("q").Put(ctx, "K", nil, qless.JID(silentsOwn), qless.DependsOn{"called"})
	requireCode(t, shards.ErrWrongShard, err)
	require.NoError(t, ctx.Err())
}

// jidOf returns a jid in the client's shard.
func jidOf(sharded *shards.Shards, c *qless.Client) string {
	for i := 0; ; i++ {
		if jid := fmt.Sprint(i); sharded.Client("q", jid) == c {
			return jid
		}
	}
}
