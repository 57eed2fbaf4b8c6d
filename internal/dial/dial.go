// Package dial parses the URLs of servers, and connects to a server once to find out why it can't
// be used.
package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// A Problem explains to people why a server can't be used. It never contains the password.
type Problem struct {
	Message string
	Err     error // set if the server may recover soon
}

// Error returns the message.
func (p *Problem) Error() string { return p.Message }

// Unwrap returns the underlying error.
func (p *Problem) Unwrap() error { return p.Err }

// Look checks that the target answers, over a separate connection, and returns the fields of the
// server's INFO, or none if the user may not run INFO. It checks any one server of a cluster, and
// the master known to sentinels. The error is a [Problem] if the dialer knows the cause, and
// otherwise that of go-redis.
func (t *Target) Look(ctx context.Context) (info map[string]string, err error) {
	switch {
	case t.cluster != nil:
		return t.lookAtCluster(ctx)
	case t.master != nil:
		return t.lookAtMaster(ctx)
	}
	return look(ctx, t.single)
}

// lookAtCluster checks the first server that answers.
func (t *Target) lookAtCluster(ctx context.Context) (info map[string]string, err error) {
	o := t.cluster
	for _, addr := range o.Addrs {
		info, err = look(ctx, &redis.Options{
			Addr: addr, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
			Protocol: o.Protocol, DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout,
		})
		if err == nil {
			break
		}
	}
	if info["cluster_enabled"] == "0" {
		return nil, &Problem{Message: "the server is not part of a cluster: leave out cluster=true"}
	}
	return info, err
}

// lookAtMaster asks the sentinels for their master, and checks it.
func (t *Target) lookAtMaster(ctx context.Context) (info map[string]string, err error) {
	o := t.master
	for _, addr := range o.SentinelAddrs {
		sentinel := redis.NewSentinelClient(&redis.Options{
			Addr: addr, Username: o.SentinelUsername, Password: o.SentinelPassword,
			TLSConfig: o.TLSConfig, DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout,
			MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		})
		var master []string
		master, err = sentinel.GetMasterAddrByName(ctx, o.MasterName).Result()
		_ = sentinel.Close()
		if err == nil && len(master) == 2 {
			return look(ctx, &redis.Options{
				Addr: net.JoinHostPort(master[0], master[1]), DB: o.DB,
				Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig,
				Protocol: o.Protocol, DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout,
			})
		}
	}
	switch {
	case errors.Is(err, redis.Nil):
		return nil, &Problem{Message: "the sentinels know no master of the name in master_name"}
	case strings.Contains(err.Error(), "unknown command"):
		return nil, &Problem{Message: "the server is not a sentinel: leave out master_name, " +
			"or name the sentinels"}
	}
	return nil, &Problem{"no sentinel answers: " + err.Error(), err}
}

// look checks one server.
func look(ctx context.Context, options *redis.Options) (info map[string]string, err error) {
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	once := *options
	once.DialerRetries = 1
	once.TLSConfig = nil // the dialer does TLS
	d := &dialer{tls: options.TLSConfig, timeout: options.DialTimeout, giveUp: giveUp}
	once.Dialer = d.dial
	rdb := redis.NewClient(&once)
	defer func() { _ = rdb.Close() }()

	pipe := rdb.Pipeline()
	ping, text := pipe.Ping(ctx), pipe.Info(ctx)
	_, err = pipe.Exec(ctx)
	var problem *Problem
	switch {
	case errors.As(context.Cause(ctx), &problem):
		return nil, problem
	case options.Username != "" && options.Password == "" &&
		redis.HasErrorPrefix(ping.Err(), "NOAUTH"):
		return nil, &Problem{Message: "the server requires a password, and the URL has only a user: " +
			"want redis://USER:PASSWORD@HOST, or redis://:PASSWORD@HOST without a user"}
	case ping.Err() != nil && !redis.HasErrorPrefix(ping.Err(), "MISCONF"):
		return nil, ping.Err()
	case ping.Val() == "" && ping.Err() == nil: // nothing was sent: there was no connection
		return nil, err
	}
	return redisx.ParseInfo(text.Val()), nil
}

// A dialer connects like go-redis, but fails fast if no server is listening, and with a hint if
// only one side speaks TLS. go-redis would retry until the context ends.
type dialer struct {
	tls     *tls.Config
	timeout time.Duration
	giveUp  context.CancelCauseFunc
}

// defaultDialTimeout is the default of go-redis.
const defaultDialTimeout = 5 * time.Second

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	timeout := d.timeout
	if timeout <= 0 {
		timeout = defaultDialTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var plain net.Dialer
	conn, err := plain.DialContext(ctx, network, address)
	var unknown *net.DNSError
	if errors.Is(err, syscall.ECONNREFUSED) || errors.As(err, &unknown) && unknown.IsNotFound {
		// go-redis would try again, and log each attempt.
		d.giveUp(&Problem{strings.TrimPrefix(err.Error(), "dial "), err})
	}
	if err != nil {
		return nil, err
	}
	if d.tls == nil {
		return &firstLook{Conn: conn, dialer: d}, nil
	}
	secure := tls.Client(conn, d.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		d.noTLS(err, timeout)
		return nil, err
	}
	return secure, nil
}

// noTLS gives up if a handshake failed because the server does not speak TLS.
func (d *dialer) noTLS(err error, timeout time.Duration) {
	const hint = "; if this is a port without TLS, want redis:// in place of rediss://"
	var header tls.RecordHeaderError
	switch {
	case errors.As(err, &header):
		d.giveUp(&Problem{Message: "the server does not answer with TLS" + hint})
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		d.giveUp(&Problem{"the server ended the TLS handshake" + hint, err})
	case errors.Is(err, context.DeadlineExceeded), redisx.IsTimeout(err):
		d.giveUp(&Problem{fmt.Sprintf("no TLS handshake within %v%s", timeout, hint), err})
	}
}

// A firstLook is a connection without TLS that inspects the first bytes from the server.
type firstLook struct {
	net.Conn
	dialer *dialer
	seen   bool
}

// alert is the first byte from a TLS server to a client without TLS.
const alert = 0x15

func (c *firstLook) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.seen {
		return n, err
	}
	const hint = "want rediss:// in place of redis://"
	switch {
	case n > 0 && p[0] == alert:
		c.dialer.giveUp(&Problem{Message: "the server answers with TLS: " + hint})
	case n == 0 && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		message := "the server closed the connection; if this is a port with TLS, " + hint
		c.dialer.giveUp(&Problem{message, err})
	}
	c.seen = n > 0
	return n, err
}
