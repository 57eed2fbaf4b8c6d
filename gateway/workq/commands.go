package workq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/lease"
)

// add carries out add and schedule.
func (c *conn) add(request *command) ([]byte, error) {
	s, err := parseAdd(request)
	if err != nil {
		return nil, err
	}
	if err := s.check(time.Now(), false); err != nil {
		return nil, err
	}
	if err := c.put(&s, time.Duration(s.ttl)*time.Millisecond); err != nil {
		return nil, err
	}
	return replyOK, nil
}

// replyOK is the answer to commands that return nothing.
var replyOK = []byte("+OK\r\n")

// put puts a job.
func (c *conn) put(s *spec, life time.Duration) error {
	server := c.server
	now, queue, shift := time.Now(), s.queue(), time.Duration(0)
	server.names.use(s.name, s.priority, queue)
	if !s.at.IsZero() {
		shift = server.order.shift(queue, s.at)
	}
	options := s.options(now, shift)
	if s.ttl == 0 {
		options = append(options, qless.TTL(life))
	}
	ctx, cancel := c.within()
	defer cancel()
	_, err := server.client.Queue(queue).Put(ctx, s.name, Body{s.payload}, options...)
	if errors.Is(err, qless.ErrExists) {
		return errDuplicate
	}
	if err != nil {
		return err
	}
	server.names.add(s.name, s.priority, queue)
	if s.ttl > 0 {
		server.sweeper.noteLife(s.ends(now))
		server.evicted.note(queue, s.ends(now))
	}
	if s.at.After(now) {
		server.sweeper.note(queue, s.at.Add(shift))
	}
	return nil
}

// withJID calls f with the jid of a job: first with the id itself and, without such a job, with the
// id as written by other clients of qless.
func withJID(u id, f func(jid string) error) error {
	err := f(u.String())
	if errors.Is(err, qless.ErrNotFound) {
		err = f(u.hex())
	}
	if errors.Is(err, qless.ErrNotFound) {
		return errNotFound
	}
	return err
}

// finish carries out complete and fail.
func (c *conn) finish(request *command) ([]byte, error) {
	u, err := parseJobID(request.args[0])
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.within()
	defer cancel()
	err = withJID(u, func(jid string) error {
		if request.name == "fail" {
			return c.fail(ctx, jid, Body{request.payload})
		}
		return c.server.taker.End(ctx, jid, lease.End{Result: Body{request.payload}})
	})
	if errors.Is(err, qless.ErrFinished) {
		err = errDuplicateEnd
	}
	return replyOK, err
}

// fail fails a job, or runs it again if attempts are left.
func (c *conn) fail(ctx context.Context, jid string, result Body) error {
	job, err := c.server.client.Job(ctx, jid)
	if err != nil {
		return err
	}
	const message = "a Workq client has failed the job"
	fails := 1 // the number of failures allowed
	most := header(job, headerMaxAttempts)
	if most == 0 || attemptsOf(job) < int(most) {
		fails = max(1, int(header(job, headerMaxFails)))
	}
	encoded, err := inside.EncodeResult(c.server.client, "end", jid, result)
	if err != nil {
		return err
	}
	state := "unlinked" // while it waits for more jobs than one script removes
	for state == "unlinked" {
		reply, err := c.server.client.Do(
			ctx, "end", jid, string(qless.StateFailed), failureGroup, message, fails, encoded)
		if err != nil {
			return err
		}
		state, _ = reply.(string)
	}
	switch {
	case state == "":
		return qless.ErrNotFound
	case state[0] == '!':
		return qless.ErrFinished
	}
	return nil
}

// delete carries out delete, for a job in any state.
func (c *conn) delete(request *command) ([]byte, error) {
	u, err := parseJobID(request.args[0])
	if err != nil {
		return nil, err
	}
	ctx, cancel := c.within()
	defer cancel()
	return replyOK, withJID(u, func(jid string) error { return c.remove(ctx, jid) })
}

// remove deletes a job in any state.
func (c *conn) remove(ctx context.Context, jid string) error {
	done, err := inspect.New(c.server.client).JIDs(jid).Forget(ctx)
	if err != nil || done.Unchanged == 0 {
		return err
	}
	err = done.Reasons[jid]
	if errors.Is(err, qless.ErrRunning) || errors.Is(err, qless.ErrUnfinished) {
		err = c.server.client.Cancel(ctx, jid)
	}
	return err
}

// result returns the result of a job, or waits for it.
func (c *conn) result(request *command) ([]byte, error) {
	u, err := parseJobID(request.args[0])
	if err != nil {
		return nil, err
	}
	wait, err := parseWait(request.args[1])
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(wait)
	var result qless.Result
	err = withJID(u, func(jid string) error {
		ctx, cancel := c.within()
		defer cancel()
		result, err = c.server.client.Result(ctx, jid)
		if !errors.Is(err, qless.ErrUnfinished) {
			return err
		}
		result, err = c.await(jid, until)
		return err
	})
	if err != nil {
		return nil, err
	}
	return resultReply(u, &result), nil
}

// await waits until the job ends, the time is over, or the client is gone. The job may be deleted
// meanwhile.
func (c *conn) await(jid string, until time.Time) (qless.Result, error) {
	ctx, cancel := c.waiting(until)
	defer cancel()
	if ctx.Err() != nil || !time.Now().Before(until) {
		return qless.Result{}, errTimeout
	}
	defer c.watch(cancel)()
	result, err := c.server.client.Wait(ctx, jid)
	if err == nil {
		return result, nil
	}
	if ctx.Err() == nil && !isGone(err) {
		return result, err
	}
	<-ctx.Done()
	return result, errTimeout
}

// isGone reports whether an error means that a job was deleted.
func isGone(err error) bool {
	return errors.Is(err, qless.ErrCanceled) || errors.Is(err, qless.ErrNotFound)
}

func resultReply(u id, result *qless.Result) []byte {
	success, body := 1, bodyOf(result.Data)
	if result.State == qless.StateFailed {
		success = 0
		if result.Data == nil && result.Failure != nil && result.Failure.Worker != "" {
			body = []byte(result.Failure.Message)
		}
	}
	reply := fmt.Appendf(nil, "+OK 1\r\n%s %d %d\r\n", u, success, len(body))
	return append(append(reply, body...), "\r\n"...)
}

// runMargin is the extra time for which a run's job is kept if the gateway can't delete it.
const runMargin = time.Minute

// run puts a job, waits for its result, and deletes it.
func (c *conn) run(request *command) ([]byte, error) {
	s, wait, err := parseRun(request)
	if err != nil {
		return nil, err
	}
	if err := s.check(time.Now(), true); err != nil {
		return nil, err
	}
	until := time.Now().Add(wait)
	if err := c.put(&s, wait+milliseconds(s.ttr)+runMargin); err != nil {
		return nil, err
	}
	jid := s.id.String()
	result, gone, err := c.awaitRun(jid, until)
	ctx, cancel := c.within()
	defer cancel()
	switch {
	case err == nil:
		_ = c.remove(ctx, jid)
		return resultReply(s.id, &result), nil
	case gone: // others may still run the job and read its result
		return nil, unsureError{errGone}
	}
	return nil, c.endRun(jid, err)
}

var errGone = errors.New("the client has gone")

// awaitRun waits until a run has a result, or the client is gone.
func (c *conn) awaitRun(jid string, until time.Time) (result qless.Result, gone bool, err error) {
	ctx, cancel := c.server.drain.Context(context.Background())
	defer cancel()
	stop := c.watch(cancel)
	result, err = c.awaitResult(ctx, jid, until)
	stop()
	return result, ctx.Err() != nil && !c.server.drain.Stopped(), err
}

// awaitResult waits for the result of a run.
func (c *conn) awaitResult(
	whole context.Context, jid string, until time.Time,
) (qless.Result, error) {
	ctx, cancel := context.WithDeadline(whole, until)
	defer cancel()
	result, err := c.server.client.Wait(ctx, jid)
	if err == nil {
		return result, nil
	}
	if isGone(err) {
		<-ctx.Done()
		return result, errNotFound
	}
	if ctx.Err() == nil || whole.Err() != nil && !c.server.drain.Stopped() {
		return result, err
	}
	return c.awaitLease(whole, jid)
}

// awaitLease waits for the result of a run after the time to wait, as long as the job is leased.
func (c *conn) awaitLease(whole context.Context, jid string) (qless.Result, error) {
	ctx, cancel := c.within()
	defer cancel()
	err := c.server.taker.Withdraw(ctx, jid)
	switch {
	case err == nil:
		return qless.Result{}, errTimeout
	case errors.Is(err, qless.ErrFinished):
		return c.server.client.Result(ctx, jid)
	case !errors.Is(err, qless.ErrRunning):
		return qless.Result{}, err
	}
	job, err := c.server.client.Job(ctx, jid)
	if err != nil {
		return qless.Result{}, err
	}
	waiting, stop := context.WithDeadline(whole, job.Expires)
	defer stop()
	result, err := c.server.client.Wait(waiting, jid)
	if isGone(err) {
		<-waiting.Done()
	}
	return result, err
}

// endRun deletes the job of a run without a result, unless the server is shutting down and a client
// has leased the job.
func (c *conn) endRun(jid string, why error) error {
	ctx, cancel := c.within()
	defer cancel()
	var err error
	if c.server.drain.Stopped() {
		err = c.server.taker.Withdraw(ctx, jid)
	} else {
		err = c.remove(ctx, jid)
	}
	if err != nil && !isGone(err) && !errors.Is(err, qless.ErrRunning) {
		return unsureError{err} // the job may still run
	}
	if why == nil || isGone(why) || errors.Is(why, errTimeout) || errors.Is(why, errNotFound) ||
		errors.Is(why, context.DeadlineExceeded) || errors.Is(why, context.Canceled) {
		return errTimeout
	}
	return why
}
