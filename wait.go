package qless

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// Wait waits until a job has ended, and returns how. It waits through retries, further queues and
// lost locks, until one of these:
//
//   - the job is complete, or has failed for good: the State of the result says which, and the
//     error is nil;
//   - the job is canceled, or its record is deleted: [ErrCanceled];
//   - ctx ends: [ErrUnavailable], which wraps the error of ctx.
//
// If there is no such job to begin with, the error is [ErrNotFound]: also if it is in another
// shard, where [Shards.Wait] finds it. Any number of callers may wait for a job. All waits of a
// client share one subscription, also with its workers. If it has none, the subscription ends some
// seconds after the last wait, or with [Client.Close].
//
// [OnProgress] is called with the job's progress meanwhile. A wait costs the server 3 commands
// when it begins, and 2 when the job ends; it asks again after 1, 2, 4 and at most 15 seconds.
//
// A handler that waits for a job keeps its place in the worker: if all do, nobody is left to run
// what they wait for.
func (c *Client) Wait(ctx context.Context, jid string, options ...WaitOption) (Result, error) {
	if err := checkJobName("wait", jid); err != nil {
		return Result{}, err
	}
	progress, err := waitOptions(jid, options)
	if err != nil {
		return Result{}, err
	}
	return c.joinAndWait(ctx, jid, false, progress)
}

// waitOptions returns what hears of the progress of a job that is waited for, or nil.
func waitOptions(jid string, options []WaitOption) (*progressTeller, error) {
	o := callOptions{jid: jid}
	err := applyOptions("wait", &o, options, WaitOption.applyWait)
	if err != nil || o.onProgress == nil {
		return nil, err
	}
	return &progressTeller{call: o.onProgress}, nil
}

// joinAndWait subscribes to a job and waits until it has ended. known says that it has existed.
func (c *Client) joinAndWait(
	ctx context.Context, jid string, known bool, progress *progressTeller,
) (Result, error) {
	channels := []string{c.prefix + channelDone + jid}
	if progress != nil {
		channels = append(channels, c.prefix+channelProgress+jid)
	}
	w := c.waits.join(channels...)
	defer c.waits.leave(w)
	return c.wait(ctx, jid, w, known, progress)
}

// WaitAll waits for several jobs as [Client.Wait] does, and returns their results in the order of
// the jids. If it fails for some of them, their results are empty, and the error is that of the
// first.
func (c *Client) WaitAll(ctx context.Context, jids ...string) ([]Result, error) {
	return waitAll(jids, func(jid string) (Result, error) { return c.Wait(ctx, jid) })
}

// waitAll waits for several jobs at once.
func waitAll(jids []string, wait func(jid string) (Result, error)) ([]Result, error) {
	if err := checkNames("wait", "jid", jids); err != nil {
		return nil, err
	}
	for _, jid := range jids {
		if err := checkJobName("wait", jid); err != nil {
			return nil, err
		}
	}
	return ask(jids, wait)
}

// asksAgain says how long to wait before asking for a job again, as its end may have gone unheard:
// clients of other languages tell nobody, and a connection may break.
var asksAgain = redisx.Backoff{First: time.Second, Longest: 15 * time.Second}

// wait waits until the job has ended, and tells its progress. known says that it has existed.
func (c *Client) wait(
	ctx context.Context, jid string, w *waiter, known bool, progress *progressTeller,
) (Result, error) {
	args := []any{jid}
	if progress != nil {
		args = append(args, "progress")
	}
	missing := false
	for asked := 1; ; asked++ {
		if message, heard := w.listen(ctx, asksAgain.After(asked), progress); heard {
			if result, err, over := c.endOf(jid, message); over {
				return result, err
			}
		}
		if err := c.waiting(ctx, jid); err != nil {
			return Result{}, err
		}
		reply, err := c.run(ctx, "await", jid, args...)
		if known && isPassing(err) {
			continue
		} else if err != nil {
			return Result{}, err
		}
		switch end, err := decodeEnd("wait", jid, reply); {
		case errors.Is(err, ErrNotFound) && known && !missing:
			missing, asked = true, 0 // what was published may be on its way
		case errors.Is(err, ErrNotFound) && known:
			return Result{}, canceled(jid)
		case err != nil:
			return Result{}, err
		case end.isFinal():
			return c.toResult(&end, jid), nil
		default:
			known = true
			progress.tell(end.Progress)
		}
	}
}

// waiting returns an error if the context or the client has ended.
func (c *Client) waiting(ctx context.Context, jid string) error {
	err := ctx.Err()
	if err == nil && c.waits.isClosed() {
		err = redis.ErrClosed
	}
	if err == nil {
		return nil
	}
	return &Error{Op: "wait", Code: CodeUnavailable, JID: jid, Message: err.Error(), Err: err}
}

// isPassing reports whether an error says nothing about the job, and may soon be over.
func isPassing(err error) bool {
	return (errors.Is(err, ErrUnavailable) || isGeneral(err)) && !errors.Is(err, redis.ErrClosed)
}

func canceled(jid string) error {
	return &Error{Op: "wait", Code: CodeCanceled, JID: jid, Message: "the job was canceled"}
}

func expired(jid string) error {
	return &Error{Op: "wait", Code: CodeCanceled, JID: jid,
		Message: "the job was canceled: its StartBy or TTL was over"}
}

// endOf returns what was published about the end of a job, and whether that is all.
func (c *Client) endOf(jid, message string) (result Result, err error, over bool) {
	end, err := decode[publishedEnd]("wait", message)
	switch {
	case err != nil || end.More:
		return Result{}, nil, false
	case end.isFinal():
		return c.toResult(&end.endReply, jid), nil, true
	case end.Cause == "expired":
		return Result{}, expired(jid), true
	}
	return Result{}, canceled(jid), end.State == "canceled"
}

// A publishedEnd is what is published when a job has ended.
type publishedEnd struct {
	endReply
	Cause string `json:"cause"` // why the job was canceled
	More  bool   `json:"more"`  // it has a result, which is too long to be published
}

// Channels of waits.
const (
	channelDone     = "x:done:"     // followed by a jid: the job has ended
	channelProgress = "x:progress:" // followed by a jid: how far the job is
	channelWaits    = "x:waits"     // nothing is published: a subscription begins with it
)

// idleWaits is how long what is shared by waits, or by calls of [Client.Receive], is kept after the
// last one.
var idleWaits = 10 * time.Second

// A waiter waits for the end of a job, and perhaps for its progress.
type waiter struct {
	channels []string // of its end, and of its progress
	ready    signal   // there is a message, or it is time to ask
	doubted  bool     // messages may be about an earlier end of the job, and only mean that it is time

	mu       sync.Mutex
	message  string // the last one about its end
	progress string // the last one about its progress
	ask      bool   // it is time to ask
}

// listen returns the next message about the end of the job, and tells its progress. It returns
// false if there is none, but it is time to ask, or the context has ended.
func (w *waiter) listen(
	ctx context.Context, patience time.Duration, told *progressTeller,
) (message string, heard bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		progress, over := "", false
		select {
		case <-ctx.Done():
			over = true
		case <-timer.C:
			over = true
		case <-w.ready:
		}
		w.mu.Lock()
		message, progress, over = w.message, w.progress, over || w.ask
		w.message, w.progress, w.ask = "", "", false
		w.mu.Unlock()
		if progress != "" {
			told.hear(progress)
		}
		if message != "" || over {
			return message, message != "" && !w.doubted
		}
	}
}

// hear is called when there is a message, or it is time to ask.
func (w *waiter) hear(notice redisx.Notice) {
	w.mu.Lock()
	switch {
	case notice.Payload == "":
		w.ask = true
	case notice.Channel == w.channels[0]:
		w.message = notice.Payload
	default:
		w.progress = notice.Payload
	}
	w.mu.Unlock()
	w.ready.notify()
}

// waits are those that wait for jobs with a client and its copies. They keep the subscription until
// some seconds after the last wait.
type waits struct {
	hub     *hub
	channel string // by which they keep the subscription

	mu      sync.Mutex
	closed  bool
	waiters map[*waiter]bool
	idle    *time.Timer // fires when there has been no wait for some time
}

func newWaits(client *Client) *waits {
	s := &waits{
		hub: client.hub, channel: client.prefix + channelWaits, waiters: map[*waiter]bool{},
	}
	s.idle = time.AfterFunc(idleWaits, s.rest)
	s.idle.Stop()
	return s
}

// hear is never called with anything of interest.
func (s *waits) hear(redisx.Notice) {}

// join adds a waiter for channels. The waiter hears when the server begins to send the messages of
// each.
func (s *waits) join(channels ...string) *waiter {
	w := &waiter{channels: channels, ready: newSignal()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		w.hear(redisx.Notice{})
		return w
	}
	s.idle.Stop()
	s.waiters[w] = true
	s.hub.subscribe(s, s.channel)
	s.hub.subscribe(w, channels...)
	return w
}

// leave removes a waiter.
func (s *waits) leave(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hub.unsubscribe(w, w.channels...)
	delete(s.waiters, w)
	if len(s.waiters) == 0 && !s.closed {
		s.idle.Reset(idleWaits)
	}
}

// rest ends the subscription, unless there are waits again or others need it.
func (s *waits) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiters) == 0 {
		s.hub.unsubscribe(s, s.channel)
	}
}

func (s *waits) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// close ends all waits, and the subscription unless others need it.
func (s *waits) close() {
	s.mu.Lock()
	s.closed = true
	s.idle.Stop()
	for w := range s.waiters {
		w.hear(redisx.Notice{}) // it finds out why
		s.hub.unsubscribe(w, w.channels...)
	}
	feed := s.hub.unsubscribe(s, s.channel)
	s.mu.Unlock()
	feed.finished()
}
