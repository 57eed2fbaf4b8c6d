package lease

import "github.com/qless/qless-go"

// Client returns the client of a Taker.
func (t *Taker) Client() *qless.Client { return t.client }

// WaitingEnds returns the number of ends waiting for the one in flight.
func (t *Taker) WaitingEnds() int { return t.ends.Waiting() }

// WaitingCompletes returns the number of calls that complete jobs and wait for the call in flight.
func (t *Taker) WaitingCompletes() int { return t.completes.Waiting() }
