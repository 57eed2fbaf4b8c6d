package qless

import (
	"context"
	"time"

	"github.com/qless/qless-go/internal/batch"
	"github.com/qless/qless-go/internal/redisx"
)

// The limits of what goes together: ends, and the bytes of a result. Ends with larger results would
// hold up the others.
const (
	batchedEnds      = 100
	batchedEndResult = 16 << 10
)

// An endBatcher sends the ends of several goroutines together, in one round trip. It has one
// exchange in flight at a time.
type endBatcher struct {
	client *Client
	batch.Batcher[endRequest, endAnswer]
}

// A waitingEnd is an end that goes out with others.
type waitingEnd = batch.Call[endRequest, endAnswer]

type endRequest struct {
	jid  string
	args []any
}

type endAnswer struct {
	reply any
	err   error
	again bool // it did not run, and may be sent again
}

func newEndBatcher(client *Client) *endBatcher {
	b := &endBatcher{client: client}
	b.Alone, b.Count, b.Send = b.alone, countEnds, b.send
	return b
}

// end ends a job alone when nothing else is in flight, and with the next exchange otherwise.
func (b *endBatcher) end(ctx context.Context, jid string, args []any) (any, error) {
	request := endRequest{jid, args}
	answer, err := b.Do(ctx, request)
	if err != nil {
		return nil, wrap("end", jid, err)
	}
	if answer.again {
		answer = b.alone(ctx, request)
	}
	return answer.reply, answer.err
}

func (b *endBatcher) alone(ctx context.Context, r endRequest) endAnswer {
	reply, err := b.client.run(ctx, "end", r.jid, r.args...)
	return endAnswer{reply: reply, err: err}
}

// countEnds returns how many ends go into the next exchange.
func countEnds(waiting []*waitingEnd) int { return min(len(waiting), batchedEnds) }

// send ends jobs in one round trip. Each succeeds or fails by itself.
func (b *endBatcher) send(calls []*waitingEnd) {
	p := b.client.runner.Pipeline()
	for _, w := range calls {
		p.Add("end", w.Request.args...)
	}
	ctx, cancel := contextOf(calls)
	defer cancel()
	sent := time.Now()
	replies, failures := p.Exec(ctx)
	for i, w := range calls {
		if redisx.NeverRan(failures[i]) {
			w.Answer(endAnswer{again: true})
			continue
		}
		jid, args := w.Request.jid, w.Request.args
		err := wrap("end", jid, failures[i])
		if b.client.observe != nil {
			b.client.observed(w.Context, "end", jid, args, replies[i], sent, err)
		}
		w.Answer(endAnswer{reply: replies[i], err: err})
	}
}
