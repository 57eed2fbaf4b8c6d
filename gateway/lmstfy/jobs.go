package lmstfy

import (
	"math"
	"net/http"
	"time"
)

// get answers GET /api/:namespace/:queue/job/:job_id.
func (r *request) get() {
	job, err := r.pool.get(r.Context(), r.queueName(r.queue), r.job)
	switch {
	case err != nil:
		r.internal("read a job", err)
	case job == nil:
		r.fail(http.StatusNotFound, "job not found")
	default:
		r.reply(http.StatusOK, describe(r.namespace, r.queue, job, time.Now()))
	}
}

// remove answers DELETE /api/:namespace/:queue/job/:job_id.
func (r *request) remove() {
	job, err := r.pool.remove(r.Context(), r.queueName(r.queue), r.job)
	if err == nil && job != nil {
		r.server.metrics.removed(r, elapsed(job, time.Now()))
	}
	r.answer("delete a job", err, nil)
}

// peek answers GET /api/:namespace/:queue/peek.
func (r *request) peek() {
	job, err := r.pool.peek(r.Context(), r.queueName(r.queue))
	switch {
	case err != nil:
		r.internal("peek", err)
	case job == nil:
		r.fail(http.StatusNotFound, "the queue is empty")
	default:
		answer := describe(r.namespace, r.queue, job, time.Now())
		answer.RemainTries = job.Remaining + 1
		r.reply(http.StatusOK, answer)
	}
}

// size answers GET /api/:namespace/:queue/size.
func (r *request) size() {
	size, err := r.pool.size(r.Context(), r.queueName(r.queue))
	r.answer("count jobs", err, map[string]any{
		"namespace": r.namespace, "queue": r.queue, "size": size,
	})
}

// destroy answers DELETE /api/:namespace/:queue.
func (r *request) destroy() {
	r.answer("destroy a queue", r.pool.destroy(r.Context(), r.queueName(r.queue)), nil)
}

// dead answers GET /api/:namespace/:queue/deadletter.
func (r *request) dead() {
	size, head, err := r.pool.dead(r.Context(), r.queueName(r.queue))
	r.answer("peek at the dead letter", err, map[string]any{
		"namespace": r.namespace, "queue": r.queue, "deadletter_size": size, "deadletter_head": head,
	})
}

// deadSize answers GET /api/:namespace/:queue/deadletter/size.
func (r *request) deadSize() {
	size, _, err := r.pool.dead(r.Context(), r.queueName(r.queue))
	r.answer("count dead jobs", err, map[string]any{
		"namespace": r.namespace, "queue": r.queue, "size": size,
	})
}

// maxTTL is the longest life of a job, in seconds.
const maxTTL = math.MaxUint32

// respawn answers PUT /api/:namespace/:queue/deadletter.
func (r *request) respawn() {
	limit, valid := signed(r.values, "limit", 1, 1)
	if !valid {
		r.fail(http.StatusBadRequest, "invalid limit")
		return
	}
	ttl, valid := signed(r.values, "ttl", 0, int64(r.server.defaults.ttl))
	if !valid {
		r.fail(http.StatusBadRequest, "invalid ttl")
		return
	}
	life := seconds(uint64(min(ttl, maxTTL)))
	count, err := r.pool.respawn(r.Context(), r.queueName(r.queue), limit, life)
	if err == nil {
		r.server.metrics.respawned.add(float64(count), r.poolName)
	}
	r.answer("respawn dead jobs", err, map[string]any{"msg": "respawned", "count": count})
}

// bury answers DELETE /api/:namespace/:queue/deadletter.
func (r *request) bury() {
	limit, valid := signed(r.values, "limit", 1, 1)
	if !valid {
		r.fail(http.StatusBadRequest, "invalid limit")
		return
	}
	_, err := r.pool.bury(r.Context(), r.queueName(r.queue), limit)
	r.answer("delete dead jobs", err, nil)
}

// removed counts a deleted job.
func (m *metrics) removed(r *request, elapsed time.Duration) {
	m.poolDelete.add(1, r.poolName)
	m.jobAckElapsed.observe(milliseconds(elapsed), r.namespace, r.poolName, r.queue)
}
