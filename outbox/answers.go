package outbox

import (
	"errors"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/redisx"
)

// An answer is the meaning of a put's error for the rows.
type answer int

const (
	// away: the server can't be reached, or accepts no commands for now. The receipts show whether the
	// put has run. All rows are tried again until the server is back.
	away answer = iota

	// refusesAll: the server refuses every put. All rows are tried again until accepted.
	refusesAll

	// later: one of the jobs is refused, but perhaps not for long. It is tried again for about 12
	// minutes, and then set aside.
	later

	// never: one of the jobs is invalid, and is set aside.
	never

	// odd: none of the above. The job is tried again forever, and holds up no others.
	odd
)

// answersByCode sorts the errors of a put by their codes. Errors of other calls are odd.
var answersByCode = map[qless.Code]answer{
	qless.ErrInvalid:       never,
	qless.ErrNotDepending:  later, // the batch of the job has ended
	qless.ErrNotFound:      later, // a job of DependsOn.MustExist, or the batch
	qless.ErrNotReplicated: away,
	qless.ErrServer:        later, // a damaged key, unless the server refuses all
	qless.ErrUnavailable:   away,
}

// answerOf sorts an error of a put.
func answerOf(err error) answer {
	var cause *qless.Error
	if !errors.As(err, &cause) {
		return odd
	}
	found, known := answersByCode[cause.Code]
	switch {
	case !known:
		return odd
	case cause.Code != qless.ErrServer:
		return found
	case redisx.NeverRan(err):
		return away
	case redisx.IsServerWide(err):
		return refusesAll
	case redisx.IsDamage(err):
		return found
	}
	return odd
}

// maxTries is the number of refusals before a row is set aside.
const maxTries = 20

// untilRetry returns a row's wait after its refusals: 0.5 s, 1 s, 2.5 s and so on, up to a minute.
func untilRetry(tries int) time.Duration {
	tries = min(tries, 11)
	return min(time.Duration(1+tries*tries)*time.Second/2, time.Minute)
}
