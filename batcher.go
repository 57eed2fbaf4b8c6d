package qless

import (
	"context"
	"errors"
	"time"

	"github.com/qless/qless-go/internal/batch"
)

// WithoutBatching sends each put by itself. By default the puts of many goroutines share scripts:
// those that are made while another put of the client is in flight wait for it, and go out
// together with the next call. That saves most of the server's time, and makes no difference to a
// single goroutine. A put may have to wait for the one in flight, and a put whose context ends
// while it is in flight may have been done.
//
// The same holds for calls of [Client.End] with results of up to 16 KiB, which share round trips, and
// for those of [Queue.CompleteMany], which share scripts.
func WithoutBatching() ClientOption {
	return func(c *Client) { c.unbatched = true }
}

// batchedPuts is how many puts go together at most.
const batchedPuts = 200

// A putBatcher combines the puts of several goroutines in one script. It has one call in flight at
// a time.
type putBatcher struct {
	client *Client
	batch.Batcher[*put, putAnswer]
}

// A waitingPut is a put that goes out with others.
type waitingPut = batch.Call[*put, putAnswer]

// A putAnswer is what a put returns.
type putAnswer struct {
	jid string
	err error
}

func newPutBatcher(client *Client) *putBatcher {
	b := &putBatcher{client: client}
	b.Alone, b.Count, b.Send = b.alone, countPuts, b.sendBatch
	return b
}

// put puts a job alone when no other call is in flight, and with the next batch otherwise.
func (b *putBatcher) put(ctx context.Context, p *put) (string, error) {
	answer, err := b.Do(ctx, p)
	if err != nil {
		return p.options.jid, wrap("put", p.options.jid, err)
	}
	return answer.jid, answer.err
}

func (b *putBatcher) alone(ctx context.Context, p *put) putAnswer {
	jid, err := b.client.putOne(ctx, p)
	return putAnswer{jid, err}
}

// countPuts returns how many puts go into the next script: the oldest that wait, as many as fit, and
// up to a second put of the same job.
func countPuts(waiting []*waitingPut) int {
	weight := 0
	jids := make(map[string]bool, min(len(waiting), batchedPuts))
	for n, w := range waiting {
		weight += w.Request.weight()
		jid := w.Request.options.jid
		if n == batchedPuts || n > 0 && weight > putTogether || jids[jid] {
			return n
		}
		jids[jid] = true
	}
	return len(waiting)
}

func (b *putBatcher) sendBatch(calls []*waitingPut) {
	ctx, cancel := contextOf(calls)
	defer cancel()
	b.send(ctx, calls)
}

// contextOf returns the context of a batch. It has the values of the first call's context, and
// the latest of the deadlines if every call has one.
func contextOf[Q, A any](calls []*batch.Call[Q, A]) (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(calls[0].Context)
	var latest time.Time
	for _, call := range calls {
		deadline, ok := call.Context.Deadline()
		if !ok {
			return ctx, func() {}
		}
		if deadline.After(latest) {
			latest = deadline
		}
	}
	return context.WithDeadline(ctx, latest)
}

// send puts jobs with one script. If one of them is refused, none is put: then it sends each half.
func (b *putBatcher) send(ctx context.Context, calls []*waitingPut) {
	if len(calls) == 1 {
		jid, err := b.client.putOne(ctx, calls[0].Request)
		calls[0].Answer(putAnswer{jid, err})
		return
	}
	puts := make([]*put, len(calls))
	for i, w := range calls {
		puts[i] = w.Request
	}
	found, err := b.client.putMany(ctx, puts)
	if isAboutOne(err) {
		half := len(calls) / 2
		b.send(ctx, calls[:half])
		b.send(ctx, calls[half:])
		return
	}
	if again, rest := split(calls); errors.Is(err, ErrUnavailable) && len(rest) > 0 {
		answer(rest, nil, err)
		if len(again) > 0 {
			b.send(ctx, again)
		}
		return
	}
	answer(calls, found, err)
}

// split splits a batch into the puts that may be sent again, and the others.
func split(calls []*waitingPut) (again, rest []*waitingPut) {
	for _, w := range calls {
		if w.Request.isNew {
			again = append(again, w)
		} else {
			rest = append(rest, w)
		}
	}
	return again, rest
}

// answer ends the puts of a batch: found lists the jobs that were there, and err is the error of
// the puts that were not refused.
func answer(calls []*waitingPut, found []foundJob, err error) {
	existing := make(map[int]foundJob, len(found))
	for _, f := range found {
		existing[f.at] = f
	}
	for i, w := range calls {
		jid, err := w.Request.options.jid, putError(w.Request.options.jid, err)
		if f, there := existing[i]; there {
			jid, err = f.answer(err)
		}
		w.Answer(putAnswer{jid, err})
	}
}

// isAboutOne reports whether a batch was refused because of one of its puts or a damaged key.
func isAboutOne(err error) bool {
	return errors.Is(err, ErrInvalid) || errors.Is(err, ErrServer) && !isGeneral(err)
}

// putError returns the error of one or several puts as that of one job.
func putError(jid string, err error) error {
	var cause *Error
	if !errors.As(err, &cause) {
		return err
	}
	own := *cause
	own.Op, own.JID = "put", jid
	return &own
}
