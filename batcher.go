package qless

import (
	"context"
	"errors"
	"runtime"
	"sync"
)

// WithBatchedPuts sends the puts of many goroutines together: puts made while a call is in flight
// wait for it and go out with the next one. It makes no difference to a single goroutine, and saves
// most of the server's time with many. A put whose context ends while it is in flight may have been
// done.
func WithBatchedPuts() ClientOption {
	return func(c *Client) { c.batcher = &putBatcher{client: c} }
}

// A putBatcher combines the puts of several goroutines in one script.
type putBatcher struct {
	client *Client

	mu      sync.Mutex
	waiting []*waitingPut
	sending bool
}

type waitingPut struct {
	put  *put
	done chan error
}

// put puts a job alone when no other call is in flight, and with the next batch otherwise.
func (b *putBatcher) put(ctx context.Context, p *put) error {
	b.mu.Lock()
	if !b.sending {
		b.sending = true
		b.mu.Unlock()
		defer b.sendWaiting(ctx)
		return b.client.putOne(ctx, p)
	}
	w := &waitingPut{put: p, done: make(chan error, 1)}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return wrap("put", p.options.jid, ctx.Err())
	}
}

// sendWaiting sends the puts that were made while the first one was in flight.
func (b *putBatcher) sendWaiting(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sending = len(b.waiting) > 0
	if b.sending {
		go b.send(context.WithoutCancel(ctx))
	}
}

// send puts batches until no put is waiting.
func (b *putBatcher) send(ctx context.Context) {
	for {
		runtime.Gosched() // let goroutines that are about to put join the batch
		batch := b.take()
		if len(batch) == 0 {
			return
		}
		puts := make([]*put, len(batch))
		for i, w := range batch {
			puts[i] = w.put
		}
		err := b.client.putMany(ctx, puts)
		for _, w := range batch {
			if isAboutOne(err) {
				// One of them was refused, so none was put: send each alone.
				w.done <- b.client.putOne(ctx, w.put)
			} else {
				w.done <- err
			}
		}
	}
}

// isAboutOne reports whether a batch was refused because of one of its puts or a damaged key.
func isAboutOne(err error) bool {
	return errors.Is(err, ErrInvalid) || errors.Is(err, ErrServer) && !isGeneral(err)
}

// take returns the puts that go into one script. A second put of the same jid waits for the next.
func (b *putBatcher) take() []*waitingPut {
	b.mu.Lock()
	defer b.mu.Unlock()
	var batch, rest []*waitingPut
	seen := map[string]bool{}
	for _, w := range b.waiting {
		if jid := w.put.options.jid; len(batch) == putBatch || seen[jid] {
			rest = append(rest, w)
		} else {
			seen[jid] = true
			batch = append(batch, w)
		}
	}
	b.waiting = rest
	b.sending = len(batch) > 0
	return batch
}
