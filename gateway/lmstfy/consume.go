package lmstfy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// consume answers GET /api/:namespace/:queue, of one queue or several.
func (r *request) consume() {
	c, problem := r.server.defaults.parseConsumption(r.values)
	names := queuesOf(r.queue)
	if problem == "" && len(names) == 0 {
		problem = "invalid queue name(s)"
	}
	if problem != "" {
		r.fail(http.StatusBadRequest, problem)
		return
	}
	queues := make([]string, len(names))
	for i, name := range names {
		queues[i] = r.queueName(name)
	}
	if r.ContentLength > maxAhead {
		r.fail(http.StatusRequestEntityTooLarge, "body too large")
		return
	}
	ctx, cancel := r.server.stop.Context(r.Context())
	defer cancel()
	answer := r.watch(cancel)
	got, err := r.pool.consume(ctx, queues, c)
	if gone := answer(); gone {
		r.release(got)
		got = delivery{}
	}
	switch {
	case err != nil && ctx.Err() == nil:
		r.internal("consume", err)
	case len(got.jobs) == 0:
		r.reply(http.StatusNotFound, map[string]any{"msg": "no job available"})
	default:
		r.deliver(got, c.count > 1)
	}
}

// limitTime ends the request's context when the consumer's time to wait is over: the request is
// answered even if Redis hangs. The caller must call done.
func (r *request) limitTime() (done func()) {
	timeout, valid := number(r.values, "timeout", 32, r.server.defaults.timeout)
	if !valid || timeout == 0 {
		return func() {}
	}
	ctx, done := context.WithTimeout(r.Context(), seconds(timeout))
	r.Request = r.WithContext(ctx)
	return done
}

// watch calls cancel if the consumer goes away before answer is called. The caller must call answer
// before sending the answer. answer reports whether the consumer has gone.
func (r *request) watch(cancel func()) (answer func() (gone bool)) {
	unread := r.ContentLength != 0
	if unread {
		setDeadline(http.NewResponseController(r.writer).SetReadDeadline, 0)
	}
	var left atomic.Bool
	stop := func() {}
	if conn, is := r.Context().Value(connKey{}).(*clientConn); is {
		stop = conn.watch(unread, func() {
			left.Store(true)
			cancel()
		})
	}
	return func() bool {
		stop()
		gone := left.Load() || errors.Is(r.Context().Err(), context.Canceled)
		if unread {
			r.discard()
		}
		return gone
	}
}

// restTimeout limits how long the rest of a consumer's body may take once the answer is ready.
const restTimeout = 500 * time.Millisecond

// discard reads and ignores the body of a consumer's request. If the body is incomplete, the
// connection ends with the answer.
func (r *request) discard() {
	controller := http.NewResponseController(r.writer)
	setDeadline(controller.SetReadDeadline, restTimeout)
	if _, err := io.CopyN(io.Discard, r.Body, maxAhead+1); !errors.Is(err, io.EOF) {
		r.writer.Header().Set("Connection", "close")
		return
	}
	setDeadline(controller.SetReadDeadline, 0)
}

// deliver answers with jobs, and releases jobs that can't be sent.
func (r *request) deliver(got delivery, many bool) {
	now := time.Now()
	answers := make([]description, len(got.jobs))
	for i, job := range got.jobs {
		queue := strings.TrimPrefix(job.Queue, r.namespace+"/")
		answer := describe(r.namespace, queue, job, now)
		answer.Message, answer.RemainTries = "new job", job.Remaining
		answers[i] = answer
		r.server.metrics.consumed(r, queue, elapsed(job, now))
	}
	if many {
		r.reply(http.StatusOK, answers)
	} else {
		r.giveBack(r.writer.Header(), got.jobs[0])
		r.reply(http.StatusOK, answers[0])
	}
	if r.failed != nil {
		r.release(got)
	}
}

// release releases jobs whose consumer has gone.
func (r *request) release(got delivery) {
	if len(got.jobs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), releaseTimeout)
	defer cancel()
	if err := got.store.release(ctx, got.jobs); err != nil {
		r.server.config.Logger.Warn("can't give back jobs whose consumer has gone",
			"err", err, "request", r.id)
	}
}

// releaseTimeout limits how long releasing jobs may take.
const releaseTimeout = 5 * time.Second

// consumed counts a consumed job.
func (m *metrics) consumed(r *request, queue string, elapsed time.Duration) {
	m.name(r.namespace)
	m.consumeMulti.add(1, r.poolName)
	m.poolGet.add(1, r.poolName)
	m.queuePop.add(1, r.poolName)
	m.timerAdd.add(1, r.poolName)
	m.consumeQueue.add(1, r.namespace, r.poolName, queue)
	m.jobElapsed.observe(milliseconds(elapsed), r.namespace, r.poolName, queue)
}
