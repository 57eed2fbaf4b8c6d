package api

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
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
)

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

// pretend serves the replies of a Redis server whose INFO has these lines.
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
		"redis_version:7.2.4\r\nrole:slave\r\n": {
			qless.ErrUnavailable, "the server is a replica and takes no writes: use its master",
		},
		"redis_version:7.2.4\r\nrole:master\r\n# Cluster\r\ncluster_enabled:1": {
			qless.ErrInvalid, `namespace "ql:" has no hash tag`,
		},
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
	client := must(qless.Dial(t.Context(), "redis://alice:secret@"+e.Server.Addr(), nil))(t)
	require.NoError(t, client.Close())
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
		"a server with TLS": {
			"redis://" + serve(t, secure, silent), nil, wantTLS,
		},
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
