package workq

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/lease"
)

// Leases of at most atOnce first ask without waiting: the time might be over before a waiting call
// is answered.
const atOnce = time.Second

// lease leases a job and delivers it to the client. If delivery fails, the job is released.
func (c *conn) lease(request *command) error {
	last := len(request.args) - 1
	job, err := c.leaseJob(request.args[:last], request.args[last])
	if err != nil {
		return c.refuse(request.name, err)
	}
	c.server.sweeper.note(job.Queue, job.Expires)
	err = c.write(leaseReply(job))
	if err == nil && !c.half.IsZero() && c.isGone() {
		err = errors.New("the client is gone")
	}
	if err != nil {
		c.giveBack(job)
	}
	return err
}

// giveBack releases an undelivered job.
func (c *conn) giveBack(job *qless.Job) {
	ctx, cancel := c.within()
	defer cancel()
	err := job.Log(ctx, undelivered, nil)
	if err == nil {
		err = job.Release(ctx, 0)
	}
	if err != nil {
		c.server.log.Warn("workq: can't release a job", "jid", job.JID, "error", err)
	}
}

// The time for a client to reset the connection after ending its side, and the interval of checks.
const (
	goneWithin = 100 * time.Millisecond
	goneStep   = 5 * time.Millisecond
)

// isGone reports whether a client that stopped sending has also stopped reading.
func (c *conn) isGone() bool {
	for begun := time.Now(); time.Since(begun) < goneWithin; time.Sleep(goneStep) {
		if isReset(c.net) {
			return true
		}
	}
	return false
}

func leaseReply(job *qless.Job) []byte {
	u, _ := idOf(job)
	name, _, _ := parseQueue(job.Queue)
	body := bodyOf(job.Data)
	reply := fmt.Appendf(nil, "+OK 1\r\n%s %s %d %d\r\n", u, name, ttrOf(job), len(body))
	return append(append(reply, body...), "\r\n"...)
}

// leaseJob leases a job of some names within a timeout.
func (c *conn) leaseJob(list []string, timeout string) (*qless.Job, error) {
	wait, err := parseWait(timeout)
	if err != nil {
		return nil, err
	}
	for _, name := range list {
		if err := checkName(name); err != nil {
			return nil, err
		}
	}
	c.server.names.lease(list)
	list = inRandomOrder(list)
	list = list[:min(len(list), maxQueues)] // each has at least one queue
	ctx, cancel := c.waiting(time.Now().Add(wait))
	defer cancel()
	if wait < atOnce {
		if job, err := c.take(list); job != nil || err != nil {
			return job, err
		}
	}
	if wait == 0 {
		return nil, errTimeout
	}
	defer c.watch(cancel)()
	for {
		job, err := c.receive(ctx, list)
		switch {
		case ctx.Err() != nil && job == nil:
			return nil, errTimeout
		case err != nil:
			return nil, err
		case job != nil:
			return job, nil
		}
	}
}

// take leases a job if there is one.
func (c *conn) take(list []string) (*qless.Job, error) {
	queues := c.server.names.asked(list)
	for {
		ctx, cancel := c.within()
		jobs, err := c.server.taker.Take(ctx, lease.Request{
			Queues: someOf(queues), NoWait: true,
		})
		cancel()
		if err != nil || len(jobs) == 0 {
			return nil, err
		}
		if c.isLeasable(jobs[0]) {
			return jobs[0], nil
		}
	}
}

// someOf returns at most maxQueues queues.
func someOf(queues []string) []string { return queues[:min(len(queues), maxQueues)] }

// receive waits for a job until the context ends or the queues of the names change. It may return
// none.
func (c *conn) receive(ctx context.Context, list []string) (*qless.Job, error) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	queues, stop := c.server.names.watch(list, cancel)
	defer stop()
	jobs, err := c.server.taker.Take(asking, lease.Request{Queues: someOf(queues)})
	if err != nil {
		if asking.Err() != nil {
			return nil, nil
		}
		return nil, err
	}
	if !c.isLeasable(jobs[0]) {
		return nil, nil
	}
	return jobs[0], nil
}

// isLeasable reports whether a job can be delivered to a client. If not, isLeasable ends the job.
func (c *conn) isLeasable(job *qless.Job) bool {
	group, message := "", ""
	if _, ok := idOf(job); !ok {
		group, message = "workq-id", "Workq clients can't have the job: its jid is no random UUID"
	} else if most := header(job, headerMaxAttempts); most > 0 && usedAttempts(job) >= int(most) {
		group, message = failureGroup, "the job has had all its attempts"
	}
	if group == "" {
		return true
	}
	ctx, cancel := c.within()
	defer cancel()
	if err := job.Fail(ctx, group, message); err != nil {
		c.server.log.Warn("workq: can't fail a job", "jid", job.JID, "error", err)
		time.Sleep(rand.N(goneWithin)) // the job may be leased again at once
	}
	return false
}
