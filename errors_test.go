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

// dressed returns what servers make of an error that a script raised.
func dressed(text string) map[string]string {
	return map[string]string{
		"Redis 7":   "ERR user_script:12: " + text + " script: " + sha[2:] + ", on @user_script:12.",
		"Valkey 9":  "ERR user_script:12: " + text + " script: on @user_script:12.",
		"Redis 6":   "ERR Error running script (call to " + sha + "): @user_script:12: user_script:12: " + text,
		"miniredis": "ERR Error compiling script (new function): :9: " + text + " stack traceback:  [G]: in function 'error'  :9: in function 'reject'  [G]: ?",
	}
}

func TestScriptErrorsByTheirText(t *testing.T) {
	for text, code := range map[string]qless.Code{
		"Complete(): Job j does not exist":                                                                    qless.CodeNotFound,
		"Track(): Job a (): odd jid does not exist":                                                           qless.CodeNotFound,
		"Track(): Job does not exist":                                                                         qless.CodeNotFound,
		"Recur(): No recurring job j":                                                                         qless.CodeNotFound,
		"Complete(): Job j is not currently running: waiting":                                                 qless.CodeNotRunning,
		"Heartbeat(): Job j not currently running: waiting":                                                   qless.CodeNotRunning,
		"Timeout(): Job j not running":                                                                        qless.CodeNotRunning,
		"Timeout(): Job j does not exist":                                                                     qless.CodeNotFound,
		"Complete(): Job j has been handed out to another worker: w2":                                         qless.CodeLockLost,
		"Fail(): Job j running with another worker: w2":                                                       qless.CodeLockLost,
		"Heartbeat(): Job j given out to another worker: w2":                                                  qless.CodeLockLost,
		"Retry(): Job j has been given to another worker: w2":                                                 qless.CodeLockLost,
		"Complete(): Job j running in another queue: q2":                                                      qless.CodeWrongQueue,
		"Depends(): Job j not in the depends state: waiting":                                                  qless.CodeNotDepending,
		"Depends(): Job j not in the depends state: false":                                                    qless.CodeNotFound,
		"Unfail.job(): Job j has not failed: waiting":                                                         qless.CodeNotFailed,
		"Cancel(): a is a dependency of b but is not mentioned to be canceled":                                qless.CodeHasDependents,
		"Put(): Arg \"data\" missing or not JSON: a is a dependency of b but is not mentioned to be canceled": qless.CodeInvalid,
		"config.set(): Arg \"option\" missing":                                                                qless.CodeInvalid,
		"Worker.deregister(): Arg \"worker\" missing":                                                         qless.CodeInvalid,
		"Queue.forget(): anything":                                                                            qless.CodeInvalid,
		"Put(): Arg \"data\" missing or not JSON: Job j does not exist, it says":                              qless.CodeInvalid,
		"Fail(): Job j has been handed out to another worker: x does not exist é \"q\"":                       qless.CodeLockLost,
	} {
		message := text[len("x(): "):]
		for i := range text {
			if text[i] == ')' {
				message = text[i+3:]
				break
			}
		}
		for server, told := range dressed(text) {
			err := qless.Wrap("op", "j", reply(told))
			var own *qless.Error
			require.ErrorAs(t, err, &own, server)
			require.Equal(t, code, own.Code, told)
			require.Equal(t, message, own.Message, told)
			require.Equal(t, "op", own.Op)
			require.Equal(t, "j", own.JID)
			require.ErrorIs(t, err, reply(told), "the server's own error is beneath")
		}
	}
}

func TestErrorsOfTheServer(t *testing.T) {
	for text, want := range map[string]struct {
		code     qless.Code
		neverRan bool
	}{
		"OOM command not allowed when used memory > 'maxmemory'. script: " + sha[2:] + ", on @user_script:3.":                                      {qless.CodeServer, false},
		"OOM command not allowed when used memory > 'maxmemory'.":                                                                                  {qless.CodeServer, false},
		"WRONGTYPE Operation against a key holding the wrong kind of value script: x, on @user_script:3.":                                          {qless.CodeServer, false},
		"NOPERM this user has no permissions to run the 'evalsha' command":                                                                         {qless.CodeServer, false},
		"NOAUTH Authentication required.":                                                                                                          {qless.CodeServer, false},
		"BUSY Redis is busy running a script.":                                                                                                     {qless.CodeUnavailable, true},
		"MISCONF Redis is configured to save RDB snapshots":                                                                                        {qless.CodeServer, false},
		"ERR user_script:3: attempt to index a nil value script: x, on @user_script:3.":                                                            {qless.CodeServer, false},
		"READONLY You can't write against a read only replica.":                                                                                    {qless.CodeUnavailable, true},
		"ERR Error running script (call to " + sha + "): @user_script:3: @user_script: 3: -READONLY You can't write against a read only replica. ": {qless.CodeUnavailable, true},
		"LOADING Redis is loading the dataset in memory":                                                                                           {qless.CodeUnavailable, true},
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.":                                                         {qless.CodeUnavailable, true},
		"CLUSTERDOWN The cluster is down":                                                                                                          {qless.CodeUnavailable, true},
		"TRYAGAIN Multiple keys request during rehashing of slot":                                                                                  {qless.CodeUnavailable, true},
		"ERR max number of clients reached":                                                                                                        {qless.CodeUnavailable, true},
	} {
		err := qless.Wrap("pop", "", reply(text))
		var own *qless.Error
		require.ErrorAs(t, err, &own)
		require.Equal(t, want.code, own.Code, text)
		require.Equal(t, text, own.Message)
		require.Equal(t, want.neverRan, redisx.NeverRan(reply(text)), text)
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
	own := &qless.Error{Op: "pop", Code: qless.CodeLockLost, JID: "x", Message: "m"}
	require.Same(t, own, qless.Wrap("op", "j", own))
}

func TestErrorText(t *testing.T) {
	require.Equal(t, "qless: complete j: gone", (&qless.Error{Op: "complete", JID: "j", Message: "gone"}).Error())
	require.Equal(t, "qless: pop: gone", (&qless.Error{Op: "pop", Message: "gone"}).Error())
	require.Equal(t, "qless: no such job", qless.ErrNotFound.Error())
}

// sentinels are all of them, by the codes that they stand for.
var sentinels = map[qless.Code]error{
	"canceled":       qless.ErrCanceled,
	"exists":         qless.ErrExists,
	"failed":         qless.ErrFailed,
	"finished":       qless.ErrFinished,
	"followed":       qless.ErrFollowed,
	"has_dependents": qless.ErrHasDependents,
	"invalid":        qless.ErrInvalid,
	"lock_lost":      qless.ErrLockLost,
	"max_run_time":   qless.ErrMaxRunTime,
	"not_depending":  qless.ErrNotDepending,
	"not_failed":     qless.ErrNotFailed,
	"not_found":      qless.ErrNotFound,
	"not_replicated": qless.ErrNotReplicated,
	"not_running":    qless.ErrNotRunning,
	"not_scheduled":  qless.ErrNotScheduled,
	"running":        qless.ErrRunning,
	"server":         qless.ErrServer,
	"stopped":        qless.ErrStopped,
	"unavailable":    qless.ErrUnavailable,
	"unfinished":     qless.ErrUnfinished,
	"wrong_queue":    qless.ErrWrongQueue,
	"wrong_shard":    qless.ErrWrongShard,
}

var codeConstant = regexp.MustCompile(`(?m)^\tCode(\w+) +Code = "(\w+)"$`)

func TestEachCodeHasItsSentinel(t *testing.T) {
	source := readFile(t, "errors.go")
	constants := codeConstant.FindAllStringSubmatch(source, -1)
	require.Len(t, constants, len(sentinels))
	for _, constant := range constants {
		name, code := constant[1], qless.Code(constant[2])
		require.Regexp(t, `^[a-z]+(_[a-z]+)*$`, code)
		require.Equal(t, code, codeOfSentinel(t, sentinels[code]), "Code%s", name)
		require.Contains(t, source, "\tErr"+name+" error = &Error{", "declared with type error")
	}
}

func TestErrorsAreComparedByTheirCode(t *testing.T) {
	for code, one := range sentinels {
		own := &qless.Error{Op: "op", Code: code, JID: "j", Message: "m"}
		err := fmt.Errorf("wrapped: %w", own)
		for _, other := range sentinels {
			require.Equal(t, one == other, errors.Is(err, other))
		}
		require.NotErrorIs(t, one, err, "an error that tells more is no sentinel")
	}
}

func TestMiniredisDressesErrorsAsTheMappingExpects(t *testing.T) {
	mini := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: mini.Addr()})
	defer rdb.Close()
	client, err := qless.New(rdb)
	require.NoError(t, err)
	_, err = client.Run(t.Context(), "complete", "j", "j", "w", "q", "{}")
	require.Equal(t, "Job j does not exist", requireCode(t, qless.ErrNotFound, err).Message)
	_, err = client.Run(t.Context(), "config.set", "")
	require.Equal(t, `Arg "option" missing`, requireCode(t, qless.ErrInvalid, err).Message)

	require.NoError(t, mini.Set("ql:j:j", "not a hash"))
	_, err = client.Job(t.Context(), "j")
	requireCode(t, qless.ErrServer, err)
}
