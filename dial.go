package qless

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/qless/qless-go/internal/dial"
	"github.com/qless/qless-go/internal/redisx"
)

// Dial connects to the server at a URL such as redis://user:password@localhost:6379/0 and returns a
// client. A nil config means the defaults. Call [Client.Close] to close it. Special characters in
// the password must be percent-encoded, as in %2F for a slash. The scheme rediss selects TLS, and
// unix a Unix socket.
//
// A URL such as redis://node1:6379?cluster=true&addr=node2:6379 names servers of a Redis Cluster.
// One such as redis://sentinel1:26379/0?master_name=jobs&addr=sentinel2:26379 names sentinels; its
// user and password are theirs, and the options username and password the server's. Other options
// are those of go-redis ([redis.ParseURL], [redis.ParseClusterURL], [redis.ParseFailoverURL]).
//
// Dial checks that the server answers and, if the user may run INFO, that it is Redis 6.2 or later.
// If not, or if the URL can't be used, the error is [ErrInvalid]. A replica is [ErrUnavailable]. No
// error contains the password.
func Dial(ctx context.Context, url string, config *ClientConfig) (*Client, error) {
	target, problem := dial.ParseURL(url)
	if problem != nil {
		return nil, undialed(problem)
	}
	rdb := target.Client()
	c, err := New(rdb, config)
	if err == nil {
		c.owned = true
		err = checkServer(ctx, target, c.prefix)
	}
	if err != nil {
		_ = rdb.Close()
		return nil, err
	}
	return c, nil
}

// checkServer returns an error if the server can't be used for a namespace.
func checkServer(ctx context.Context, target *dial.Target, namespace string) error {
	info, err := target.Look(ctx)
	if err != nil {
		return undialed(err)
	}
	if version := info["redis_version"]; redisx.IsTooOld(version) {
		return invalid("dial", "", "qless needs Redis %s or later; this is %s",
			redisx.OldestServer, version)
	}
	if info["cluster_enabled"] == "1" && !hasHashTag(namespace) {
		return invalid("dial", "", "the server is part of a cluster, and namespace %q has no hash "+
			"tag, as in \"{tenant}:ql:\": its keys would be spread over the cluster", namespace)
	}
	if info["role"] == "slave" && !target.IsCluster() {
		message := "the server is a replica and takes no writes: use its master"
		if host := info["master_host"]; host != "" {
			message += ", " + net.JoinHostPort(host, info["master_port"])
		}
		return &Error{Op: "dial", Code: ErrUnavailable, Message: message}
	}
	return nil
}

// undialed is like wrap, for an error that itself begins with "dial", or a problem of the dialer.
func undialed(err error) error {
	var problem *dial.Problem
	switch {
	case errors.As(err, &problem) && problem.Err == nil:
		return invalid("dial", "", "%s", problem.Message)
	case errors.As(err, &problem):
		return &Error{Op: "dial", Code: ErrUnavailable, Message: problem.Message, Err: problem.Err}
	}
	err = wrap("dial", "", err)
	var own *Error
	if errors.As(err, &own) {
		own.Message = strings.TrimPrefix(own.Message, "dial ")
	}
	return err
}
