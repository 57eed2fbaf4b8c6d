package qless_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/redisx"
)

// reply is an error as a server sends it.
type reply string

func (r reply) Error() string { return string(r) }

func (r reply) RedisError() {}

const sha = "f_245d9a32ed7530278f0b5ec3ffb3667eec53d511"

// dressed returns the forms that servers give to an error that a script raised.
func dressed(text string) map[string]string {
	return map[string]string{
		"Redis 7":  "ERR user_script:12: " + text + " script: " + sha[2:] + ", on @user_script:12.",
		"Valkey 9": "ERR user_script:12: " + text + " script: on @user_script:12.",
		"Redis 6": "ERR Error running script (call to " + sha + "): @user_script:12: " +
			"user_script:12: " + text,
		"miniredis": "ERR Error compiling script (new function): :9: " + text +
			" stack traceback:  [G]: in function 'error'  :9: in function 'reject'  [G]: ?",
	}
}

func TestScriptErrorsByTheirCode(t *testing.T) {
	for raised, want := range map[string]qless.Error{
		"Complete(): not_found 1 14 j does not exist": {
			Code: qless.ErrNotFound, Message: "the job does not exist",
		},
		"Complete(): not_found 2 14 j2 does not exist": {
			Code: qless.ErrNotFound, Message: "Job j2 does not exist",
		},
		"Track(): not_found 0 18  Job does not exist": {
			Code: qless.ErrNotFound, Message: "Job does not exist",
		},
		"Put(): not_found 13 14 a (): 0 0 odd does not exist": {
			Code: qless.ErrNotFound, Message: "Job a (): 0 0 odd does not exist",
		},
		"Fail(): lock_lost 1 36 j is running with another worker: \xff w2": {
			Code: qless.ErrLockLost, Message: "the job is running with another worker: \xff w2",
		},
		"Put(): invalid 0 63  Arg \"data\" missing or not JSON: not_found 1 14 j does not exist": {
			Code:    qless.ErrInvalid,
			Message: "Arg \"data\" missing or not JSON: not_found 1 14 j does not exist",
		},
		"Retry(): server 0 10  WRONGTYPE ": {Code: qless.ErrServer, Message: "WRONGTYPE "},
	} {
		for server, told := range dressed(raised) {
			err := qless.Wrap("op", "j", reply(told))
			var own *qless.Error
			require.ErrorAs(t, err, &own, server)
			want.Op, want.JID, want.Err = "op", "j", reply(told)
			require.Equal(t, want, *own, told)
		}
	}
}

func TestTextsThatDoNotNameTheirCause(t *testing.T) {
	for text, want := range map[string]string{
		"ERR Protocol error: unauthenticated multibulk length": "NOAUTH Authentication required.",
		"ERR Script attempted to access a non local key in a cluster node script: x, on @user_script:3.": "" +
			"the server is part of a cluster, and the namespace has no hash tag",
	} {
		err := qless.Wrap("put", "j", reply(text))
		require.EqualError(t, err, "qless: put j: "+want)
		require.ErrorIs(t, err, reply(text), "the server's own error is beneath")
	}
}

func TestErrorsOfTheServer(t *testing.T) {
	const readOnly = "READONLY You can't write against a read only replica."
	for code, texts := range map[qless.Code][]string{
		qless.ErrServer: {
			"OOM command not allowed when used memory > 'maxmemory'. script: " + sha[2:] +
				", on @user_script:3.",
			"OOM command not allowed when used memory > 'maxmemory'.",
			"WRONGTYPE Operation against a key holding the wrong kind of value script: x, " +
				"on @user_script:3.",
			"NOPERM this user has no permissions to run the 'evalsha' command",
			"NOAUTH Authentication required.",
			"MISCONF Redis is configured to save RDB snapshots",
			"ERR user_script:3: attempt to index a nil value script: x, on @user_script:3.",
		},
		qless.ErrUnavailable: {
			"BUSY Redis is busy running a script.",
			readOnly,
			"ERR Error running script (call to " + sha + "): @user_script:3: @user_script: 3: -" +
				readOnly + " ",
			"LOADING Redis is loading the dataset in memory",
			"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
			"CLUSTERDOWN The cluster is down",
			"TRYAGAIN Multiple keys request during rehashing of slot",
			"ERR max number of clients reached",
		},
	} {
		for _, text := range texts {
			err := qless.Wrap("pop", "", reply(text))
			var own *qless.Error
			require.ErrorAs(t, err, &own)
			require.Equal(t, code, own.Code, text)
			require.Equal(t, text, own.Message)
			neverRan := code == qless.ErrUnavailable
			require.Equal(t, neverRan, redisx.NeverRan(reply(text)), text)
		}
	}
}

func TestErrorsOfTheNetworkAndTheContext(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	read := &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	for _, beneath := range []error{
		io.EOF, io.ErrUnexpectedEOF, context.Canceled, context.DeadlineExceeded, redis.ErrClosed,
		redis.ErrPoolTimeout, dial, read, errors.New("anything else"),
	} {
		err := qless.Wrap("pop", "j", fmt.Errorf("wrapped: %w", beneath))
		requireCode(t, qless.ErrUnavailable, err)
		require.ErrorIs(t, err, beneath)
		require.Equal(t, beneath == dial, redisx.NeverRan(err), beneath)
	}
}

func TestWrapLeavesItsOwnErrorsAlone(t *testing.T) {
	require.NoError(t, qless.Wrap("op", "j", nil))
	own := &qless.Error{Op: "pop", Code: qless.ErrLockLost, JID: "x", Message: "m"}
	require.Same(t, own, qless.Wrap("op", "j", own))
}

func TestErrorText(t *testing.T) {
	own := &qless.Error{Op: "complete", JID: "j", Message: "gone"}
	require.Equal(t, "qless: complete j: gone", own.Error())
	require.Equal(t, "qless: pop: gone", (&qless.Error{Op: "pop", Message: "gone"}).Error())
	require.Equal(t, "qless: no such job", qless.ErrNotFound.Error())
}

var codeConstant = regexp.MustCompile(
	`(?m)^\t(// Err\w+: (?:.*\n)+?\t)Err(\w+) Code = "(\w+)"$`)

// codes returns the codes that errors.go declares.
func codes(t *testing.T) []qless.Code {
	t.Helper()
	var all []qless.Code
	for _, constant := range codeConstant.FindAllStringSubmatch(readFile(t, "errors.go"), -1) {
		all = append(all, qless.Code(constant[3]))
	}
	return all
}

func TestEachCodeIsAWordWithAText(t *testing.T) {
	all := codes(t)
	require.Len(t, all, 20)
	texts := map[string]bool{}
	for _, code := range all {
		require.Regexp(t, `^[a-z]+(_[a-z]+)*$`, string(code))
		require.NotEqual(t, "qless: "+string(code), code.Error(), "it has a text")
		texts[code.Error()] = true
	}
	require.Len(t, texts, len(all), "each has a text of its own")
}

func TestErrorsAreComparedByTheirCode(t *testing.T) {
	all := codes(t)
	for _, code := range all {
		err := fmt.Errorf("wrapped: %w", &qless.Error{Op: "op", Code: code, JID: "j", Message: "m"})
		for _, other := range all {
			require.Equal(t, code == other, errors.Is(err, other))
		}
		require.NotErrorIs(t, code, err, "an error that tells more is no code")
	}
}

func TestMiniredisDressesErrorsAsTheMappingExpects(t *testing.T) {
	mini := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: mini.Addr()})
	defer rdb.Close()
	client, err := qless.New(rdb, nil)
	require.NoError(t, err)
	_, err = client.Run(t.Context(), "complete", "j", "j", "w", "q", "{}")
	require.Equal(t, "the job does not exist", requireCode(t, qless.ErrNotFound, err).Message)
	_, err = client.Run(t.Context(), "config.set", "")
	require.Equal(t, `Arg "option" missing`, requireCode(t, qless.ErrInvalid, err).Message)

	require.NoError(t, mini.Set("ql:j:j", "not a hash"))
	_, err = client.Job(t.Context(), "j")
	requireCode(t, qless.ErrServer, err)
}
