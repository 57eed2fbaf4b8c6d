package qless

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"
)

// WithoutBatching sends each put by itself. By default the puts of many goroutines share scripts:
// those that are made while another put of the client is in flight wait for it, and go out
// together with the next call. That saves most of the server's time, and makes no difference to a
// single goroutine. A put may have to wait for the one in flight, and a put whose context ends
// while it is in flight may have been done.
func WithoutBatching() ClientOption {
	return func(c *Client) { c.unbatched = true }
}

// The limits of a batch. A script of that size takes the server a few milliseconds.
const (
	batchedPuts  = 200
	batchedBytes = 1 << 20
)

// A putBatcher combines the puts of several goroutines in one script. It has one call in flight at
// a time.
type putBatcher struct {
	client *Client

	mu      sync.Mutex
	sending bool
	waiting []*waitingPut // in the order in which they were made
}

type waitingPut struct {
	put  *put
	ctx  context.Context
	done chan putAnswer // has room for the result
}

// A putAnswer is what a put returns.
type putAnswer struct {
	jid string
	err error
}

// put puts a job alone when no other call is in flight, and with the next batch otherwise.
func (b *putBatcher) put(ctx context.Context, p *put) (string, error) {
	w := b.join(ctx, p)
	if w == nil {
		defer b.sent()
		return b.client.putOne(ctx, p)
	}
	select {
	case answer := <-w.done:
		return answer.jid, answer.err
	case <-ctx.Done():
		b.leave(w)
		return p.options.jid, wrap("put", p.options.jid, ctx.Err())
	}
}

// join adds a put to those that wait, or returns nil if it can be sent at once.
func (b *putBatcher) join(ctx context.Context, p *put) *waitingPut {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.sending {
		b.sending = true
		return nil
	}
	w := &waitingPut{put: p, ctx: ctx, done: make(chan putAnswer, 1)}
	b.waiting = append(b.waiting, w)
	return w
}

// leave removes a put that waits, so that it is not sent.
func (b *putBatcher) leave(w *waitingPut) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, w); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
}

// sent has the puts sent that were made while the one before them was in flight.
func (b *putBatcher) sent() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sending = len(b.waiting) > 0
	if b.sending {
		go b.run()
	}
}

// run sends batches until no put waits.
func (b *putBatcher) run() {
	for {
		runtime.Gosched() // let goroutines that are about to put join the batch
		batch := b.take()
		if len(batch) == 0 {
			return
		}
		b.sendBatch(batch)
	}
}

// take returns the puts that go into the next script: the oldest that wait, up to the limits, and
// up to a second put of the same job.
func (b *putBatcher) take() []*waitingPut {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, size := 0, 0
	jids := map[string]bool{}
	for _, w := range b.waiting {
		size += len(w.put.data)
		jid := w.put.options.jid
		if n == batchedPuts || n > 0 && size > batchedBytes || jids[jid] {
			break
		}
		jids[jid] = true
		n++
	}
	batch := slices.Clone(b.waiting[:n])
	b.waiting = slices.Delete(b.waiting, 0, n)
	b.sending = n > 0
	return batch
}

func (b *putBatcher) sendBatch(batch []*waitingPut) {
	ctx, cancel := contextOf(batch)
	defer cancel()
	b.send(ctx, batch)
}

// contextOf returns the context of a batch. It has the values of the first put's context, and the
// latest of the deadlines if every put has one.
func contextOf(batch []*waitingPut) (context.Context, context.CancelFunc) {
	ctx := context.WithoutCancel(batch[0].ctx)
	var latest time.Time
	for _, w := range batch {
		deadline, ok := w.ctx.Deadline()
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
func (b *putBatcher) send(ctx context.Context, batch []*waitingPut) {
	if len(batch) == 1 {
		jid, err := b.client.putOne(ctx, batch[0].put)
		batch[0].done <- putAnswer{jid, err}
		return
	}
	puts := make([]*put, len(batch))
	for i, w := range batch {
		puts[i] = w.put
	}
	found, err := b.client.putMany(ctx, puts)
	if isAboutOne(err) {
		half := len(batch) / 2
		b.send(ctx, batch[:half])
		b.send(ctx, batch[half:])
		return
	}
	if again, rest := split(batch); errors.Is(err, ErrUnavailable) && len(rest) > 0 {
		answer(rest, nil, err)
		if len(again) > 0 {
			b.send(ctx, again)
		}
		return
	}
	answer(batch, found, err)
}

// split splits a batch into the puts that may be sent again, and the others.
func split(batch []*waitingPut) (again, rest []*waitingPut) {
	for _, w := range batch {
		if w.put.isNew {
			again = append(again, w)
		} else {
			rest = append(rest, w)
		}
	}
	return again, rest
}

// answer ends the puts of a batch: found lists the jobs that were there, and err is the error of
// the puts that were not refused.
func answer(batch []*waitingPut, found []foundJob, err error) {
	existing := make(map[int]foundJob, len(found))
	for _, f := range found {
		existing[f.at] = f
	}
	for i, w := range batch {
		jid, err := w.put.options.jid, putError(w.put.options.jid, err)
		if f, there := existing[i]; there {
			jid, err = f.answer(err)
		}
		w.done <- putAnswer{jid, err}
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
