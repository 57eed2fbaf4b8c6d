// Package doctor finds problems.
//
// [Explain] explains why the jobs of a queue wait. [ReadStatus] lists the problems of a namespace.
// [Examine] reads a whole namespace and reports damage, and dangers in its settings and its server.
// [Fix] repairs findings if a repair is safe. Results are typed, and include sentences for people
// to read.
package doctor

import (
	"errors"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/redisx"
)

// op is the operation named by the errors of this package.
const op = "doctor"

func invalid(message string) error {
	return &qless.Error{Op: op, Code: qless.ErrInvalid, Message: message}
}

// coded turns an error of the server or the connection into a [qless.Error].
func coded(err error) error {
	var already *qless.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	code := qless.ErrServer
	if redisx.IsUnanswered(err) {
		code = qless.ErrUnavailable
	}
	return &qless.Error{Op: op, Code: code, Message: err.Error(), Err: err}
}
