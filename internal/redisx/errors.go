package redisx

import (
	"errors"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Answer returns the server's message in an error, or the empty string. It replaces messages that
// do not name their cause.
func Answer(err error) string {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return ""
	}
	text := reply.Error()
	switch {
	case strings.Contains(text, "Protocol error: unauthenticated"): // the answer to a long command
		return "NOAUTH Authentication required."
	case strings.Contains(text, "non local key in a cluster"):
		return "the server is part of a cluster, and the namespace has no hash tag"
	}
	return text
}

// IsAnswer reports whether an error is an answer of the server.
func IsAnswer(err error) bool { return Answer(err) != "" }

// IsAway reports whether the server answered that it does not accept such a command for now.
func IsAway(err error) bool {
	return redis.IsLoadingError(err) || isReadOnly(err) || redis.IsMasterDownError(err) ||
		redis.IsClusterDownError(err) || redis.IsTryAgainError(err) || redis.IsMaxClientsError(err) ||
		isBusy(err)
}

// IsRefusal reports whether the server answered, and is not unavailable for now.
func IsRefusal(err error) bool { return IsAnswer(err) && !IsAway(err) }

// IsUnanswered reports whether the server's answer remains open: there was none, or the server
// accepts no commands for now.
func IsUnanswered(err error) bool { return err != nil && (!IsAnswer(err) || NeverRan(err)) }

// NeverRan reports whether a command certainly did not run, because there was no connection or the
// server accepted no commands. Resending the command is safe.
func NeverRan(err error) bool {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return true
	}
	if _, moved := redis.IsMovedError(err); moved {
		return true
	}
	if _, ask := redis.IsAskError(err); ask {
		return true
	}
	return IsAway(err)
}

// isReadOnly reports whether the server is a replica. Redis 6 puts the code in a script's error.
func isReadOnly(err error) bool {
	return redis.IsReadOnlyError(err) || err != nil && strings.Contains(err.Error(), ": -READONLY ")
}

// isBusy reports whether the server is busy with a long script.
func isBusy(err error) bool { return redis.HasErrorPrefix(err, "BUSY ") }

// IsDamage reports whether a command found a key with a value of a wrong type.
func IsDamage(err error) bool { return strings.Contains(Answer(err), "WRONGTYPE ") }

// IsTimeout reports whether a connection was silent for too long.
func IsTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
