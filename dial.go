package qless

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/script"
)

// Dial connects to the server at a URL such as redis://user:password@localhost:6379/0 and returns a
// client. A nil config means the defaults. Call [Client.Close] to close it. Special characters in
// the password must be percent-encoded, as in %2F for a slash. The scheme rediss means TLS, and
// unix a socket.
//
// Dial checks that the server answers. If the user may run INFO, it also checks that the server is
// Redis 6.2 or later and that, if it is part of a cluster, the namespace has a hash tag. If not, or
// if the URL can't be used, the error is [ErrInvalid]. A replica, which takes no writes, is
// [ErrUnavailable]; but a server that can't save its data, and takes no writes until it can, is
// fine: reads work. No error contains the password.
func Dial(ctx context.Context, url string, config *ClientConfig) (*Client, error) {
	parsed, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	parsed.ContextTimeoutEnabled = true // calls end with their contexts
	rdb := redis.NewClient(parsed)
	c, err := New(rdb, config)
	if err == nil {
		c.owned = true
		err = look(ctx, parsed, c.prefix)
	}
	if err != nil {
		_ = rdb.Close()
		return nil, err
	}
	return c, nil
}

// look checks the server over a separate connection, whose dialer can tell what is wrong.
func look(ctx context.Context, options *redis.Options, namespace string) error {
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
	ping, info := pipe.Ping(ctx), pipe.Info(ctx)
	_, err := pipe.Exec(ctx)
	var hint *Error
	if errors.As(context.Cause(ctx), &hint) {
		return hint
	}
	if ping.Err() != nil && !redis.HasErrorPrefix(ping.Err(), "MISCONF") {
		return undialed(ping.Err())
	}
	if ping.Val() == "" && ping.Err() == nil { // nothing was sent: there was no connection
		return undialed(err)
	}
	if info.Err() != nil {
		return nil // the user may not run INFO
	}
	return checkServer(info.Val(), namespace)
}

// undialed is like wrap, for an error that itself begins with "dial".
func undialed(err error) error {
	wrapped := wrap("dial", "", err)
	var own *Error
	if errors.As(wrapped, &own) {
		own.Message = strings.TrimPrefix(own.Message, "dial ")
	}
	return wrapped
}

// checkServer returns an error if a server with this INFO reply can't be used.
func checkServer(text, namespace string) error {
	info := infoOf(text)
	if version := info["redis_version"]; isBefore(version, 6, 2) {
		return invalid("dial", "", "qless needs Redis 6.2 or later; this is %s", version)
	}
	if info["cluster_enabled"] == "1" && !hasHashTag(namespace) {
		return invalid("dial", "", "the server is part of a cluster, and namespace %q has no hash "+
			"tag, as in \"{tenant}:ql:\": its keys would be spread over the cluster", namespace)
	}
	if info["role"] == "slave" {
		return &Error{Op: "dial", Code: ErrUnavailable,
			Message: "the server is a replica, which takes no writes: want the URL of its master"}
	}
	return nil
}

// infoOf parses the reply of INFO.
func infoOf(text string) map[string]string {
	fields := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if name, value, found := strings.Cut(lines.Text(), ":"); found {
			fields[name] = value
		}
	}
	return fields
}

// isBefore reports whether a version is known and older than major.minor.
func isBefore(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	first, err := strconv.Atoi(parts[0])
	if err != nil {
		return false
	}
	second, err := strconv.Atoi(parts[1])
	return err == nil && (first < major || first == major && second < minor)
}

// A dialer connects as go-redis does, but fails fast with a hint if only one side speaks TLS.
// go-redis would retry until the context ends.
type dialer struct {
	tls     *tls.Config
	timeout time.Duration
	giveUp  context.CancelCauseFunc
}

// defaultDialTimeout is go-redis's.
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
		d.giveUp(invalid("dial", "", "the server does not answer with TLS%s", hint))
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		d.giveUp(&Error{Op: "dial", Code: ErrUnavailable, Err: err,
			Message: "the server ended the TLS handshake" + hint})
	case errors.Is(err, context.DeadlineExceeded), redisx.IsTimeout(err):
		d.giveUp(&Error{Op: "dial", Code: ErrUnavailable, Err: err,
			Message: fmt.Sprintf("no TLS handshake within %v%s", timeout, hint)})
	}
}

// A firstLook is a connection without TLS that inspects the first bytes from the server.
type firstLook struct {
	net.Conn
	dialer *dialer
	seen   bool
}

// alert is the first byte that a TLS server sends to a client without TLS.
const alert = 0x15

func (c *firstLook) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.seen {
		return n, err
	}
	const hint = "want rediss:// in place of redis://"
	switch {
	case n > 0 && p[0] == alert:
		c.dialer.giveUp(invalid("dial", "", "the server answers with TLS: %s", hint))
	case n == 0 && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		c.dialer.giveUp(&Error{Op: "dial", Code: ErrUnavailable, Err: err,
			Message: "the server closed the connection; if this is a port with TLS, " + hint})
	}
	c.seen = n > 0
	return n, err
}

// parseURL parses the URL of a server. A malformed URL may have the password anywhere, so errors
// quote only the names of options, and don't wrap the parser's error.
func parseURL(raw string) (*redis.Options, error) {
	if problem := misspelt(raw); problem != "" {
		return nil, invalid("dial", "", "%s", problem)
	}
	options, err := redis.ParseURL(raw)
	if err == nil {
		return options, nil
	}
	return nil, invalid("dial", "", "%s", whyRefused(raw))
}

const wantURL = "want redis://localhost:6379 or the like"

const specialCharacter = "the URL can't be read: is there a special character in the password? " +
	"write it percent-encoded, as in %2F"

// misspelt describes a mistake in a URL. It returns the empty string if all parts can be
// recognized.
func misspelt(raw string) string {
	scheme, rest, found := strings.Cut(raw, "://")
	switch {
	case strings.TrimSpace(raw) == "":
		return "the URL is empty: is REDIS_URL set?"
	case strings.ContainsFunc(raw, unicode.IsSpace), strings.ContainsFunc(raw, unicode.IsControl):
		return "the URL has a space or a control character: write it percent-encoded, as in %20"
	case !found || scheme == "":
		return "the URL has no scheme: " + wantURL
	case !slices.Contains([]string{"redis", "rediss", "unix"}, strings.ToLower(scheme)):
		return "the URL's scheme is not redis, rediss or unix: " + wantURL +
			"; for sentinels or a cluster, use New with a client of go-redis"
	}
	// The host begins after the last @ before the path: an @ further on means that the password has
	// a character that is not encoded.
	if end := strings.IndexAny(rest, "/?#"); end >= 0 && strings.Contains(rest[end:], "@") {
		return specialCharacter
	}
	parsed, err := url.Parse(raw)
	if err != nil {
		return specialCharacter
	}
	if port := parsed.Port(); port != "" && !isPort(port) {
		return "the URL's port is not a number from 1 to 65535"
	}
	return ""
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// whyRefused returns which part of a parsed URL go-redis refuses.
func whyRefused(raw string) string {
	parsed, err := url.Parse(raw)
	if err != nil {
		return specialCharacter
	}
	for name, values := range parsed.Query() {
		alone := url.URL{Scheme: "redis", RawQuery: url.Values{name: values}.Encode()}
		if _, err := redis.ParseURL(alone.String()); err != nil {
			return "the URL's option \"" + name + "\" is unknown, or its value can't be used"
		}
	}
	if parsed.Scheme == "unix" {
		return "the URL has no path of a socket: want unix:///run/redis.sock or the like"
	}
	return "the URL's path is no database number: want redis://localhost:6379/0 or the like"
}

// runReplicated runs a command that puts, and waits until the replicas have what it wrote.
func (c *Client) runReplicated(
	ctx context.Context, op, jid string, isNew bool, args []any,
) (any, error) {
	run := c.runner.RunReplicated
	if isNew {
		run = c.runner.RunNewReplicated
	}
	reply, err := run(ctx, *c.replicas, op, args...)
	var missing *script.ReplicasError
	if errors.As(err, &missing) {
		return reply, &Error{
			Op: op, Code: ErrNotReplicated, JID: jid,
			Message: "the job was put, but " + missing.Error(), Err: missing.Err,
		}
	}
	return reply, wrap(op, jid, err)
}
