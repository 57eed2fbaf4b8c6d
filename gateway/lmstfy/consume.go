package lmstfy

import (
	"context"
	"net/http"
	"strings"
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
	ctx, cancel := r.server.untilStopped(r.Context())
	defer cancel()
	got, err := r.pool.consume(ctx, queues, c)
	switch {
	case err != nil && ctx.Err() == nil:
		r.internal("consume", err)
	case len(got.jobs) == 0:
		r.reply(http.StatusNotFound, map[string]any{"msg": "no job available"})
	default:
		r.deliver(got, c.count > 1)
	}
}

// deliver answers with jobs. Those that can't be sent are given back.
func (r *request) deliver(got delivery, many bool) {
	now := time.Now()
	answers := make([]map[string]any, len(got.jobs))
	for i, job := range got.jobs {
		queue := strings.TrimPrefix(job.Queue, r.namespace+"/")
		answer := describe(r.namespace, queue, job, now)
		answer["msg"] = "new job"
		answer["remain_tries"] = job.Remaining
		answers[i] = answer
		r.server.metrics.consumed(r, queue, elapsed(job, now))
	}
	if many {
		r.reply(http.StatusOK, answers)
	} else {
		r.giveBack(r.writer.Header(), got.jobs[0])
		r.reply(http.StatusOK, answers[0])
	}
	if r.failed == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), releaseTimeout)
	defer cancel()
	if err := got.store.release(ctx, got.jobs); err != nil {
		r.server.config.Logger.Warn("can't give back jobs whose consumer has gone",
			"err", err, "request", r.id)
	}
}

// releaseTimeout is how long giving jobs back may take.
const releaseTimeout = 5 * time.Second
