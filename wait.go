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
// client share one subscription, which ends some seconds after the last wait, or with
// [Client.Close].
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
	channelWaits    = "x:waits"     // nothing is published
)

// idleWaits is how long the subscription is kept after the last wait or [Client.Receive].
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

func (w *waiter) tell(channel, message string) {
	w.mu.Lock()
	switch {
	case message == "":
		w.ask = true
	case channel == w.channels[0]:
		w.message = message
	default:
		w.progress = message
	}
	w.mu.Unlock()
	w.ready.notify()
}

// A subscriber listens to channels.
type subscriber interface {
	// tell passes on a message of a channel. An empty one may also say that the channel is heard
	// from now on or, without a channel, that messages may have been lost. It returns at once.
	tell(channel, message string)
}

// waits are those that wait for jobs with a client and its copies. They share a subscription.
type waits struct {
	client  *Client
	changed signal             // channels are to be added or removed
	settle  chan chan struct{} // asks for that, and is answered when it was done

	mu       sync.Mutex
	closed   bool
	running  bool
	waiters  map[string]map[subscriber]bool // by channel
	heard    map[string]time.Time           // since when the server sends messages of these channels
	base     context.Context                // of the subscription; nil if there was none
	cancel   context.CancelFunc             // ends the subscription
	finished sync.WaitGroup

	subscription *redisx.Subscription[redisx.Notice] // nil if there is none
}

func newWaits(client *Client) *waits {
	return &waits{
		client: client, changed: newSignal(), settle: make(chan chan struct{}),
		waiters: map[string]map[subscriber]bool{}, heard: map[string]time.Time{},
	}
}

// join adds a waiter for channels. The waiter is told when the messages of each are heard.
func (s *waits) join(channels ...string) *waiter {
	w := &waiter{channels: channels, ready: newSignal()}
	s.subscribe(w, channels...)
	return w
}

// subscribe adds a subscriber to channels, and begins the subscription if there is none.
func (s *waits) subscribe(w subscriber, channels ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		w.tell("", "")
		return
	}
	for _, channel := range channels {
		if s.waiters[channel] == nil {
			s.waiters[channel] = map[subscriber]bool{}
		}
		s.waiters[channel][w] = true
		if _, heard := s.heard[channel]; heard {
			w.tell(channel, "")
		}
	}
	if !s.running {
		ctx, cancel := context.WithCancel(context.Background())
		s.running, s.base, s.cancel = true, ctx, cancel
		s.finished.Go(func() { s.run(ctx) })
	}
	s.changed.notify()
}

func (s *waits) leave(w *waiter) { s.unsubscribe(w, w.channels...) }

// unsubscribe removes a subscriber from channels.
func (s *waits) unsubscribe(w subscriber, channels ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, channel := range channels {
		delete(s.waiters[channel], w)
		if len(s.waiters[channel]) == 0 {
			delete(s.waiters, channel)
			s.changed.notify()
		}
	}
}

// settled waits until the server was told of the channels that are listened to, or the context
// ends.
func (s *waits) settled(ctx context.Context) {
	s.mu.Lock()
	running := s.base
	s.mu.Unlock()
	if running == nil {
		return
	}
	done := make(chan struct{})
	select {
	case s.settle <- done:
		<-done
	case <-running.Done():
	case <-ctx.Done():
	}
}

// restart has the subscription begin again on another connection, if it has had a channel since
// before a time: then the server, which says that nobody listens, is not the one that it reaches.
func (s *waits) restart(channel string, before time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since, heard := s.heard[channel]; heard && since.Before(before) && s.subscription != nil {
		s.subscription.Cancel()
	}
}

func (s *waits) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// close ends the subscription and all waits.
func (s *waits) close() {
	s.mu.Lock()
	s.closed = true
	if s.cancel != nil {
		s.cancel()
	}
	s.mu.Unlock()
	s.tellAll()
	s.finished.Wait()
}

// ended reports whether the subscription is to end because nobody waits, and notes that it does.
func (s *waits) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiters) > 0 && !s.closed {
		return false
	}
	s.cancel()
	s.running, s.subscription = false, nil
	clear(s.heard)
	return true
}

// run subscribes, and passes on messages until nobody has waited for some time. While there is no
// subscription, the waiters ask again by themselves.
func (s *waits) run(ctx context.Context) {
	for failures := 1; ; failures++ {
		sub, err := redisx.Subscribe(ctx, s.client.rdb, redisx.SubscriptionConfig[redisx.Notice]{
			Backoff:  redisx.WhileAway,
			Broken:   s.broken,
			Buffer:   256,
			Channels: []string{s.client.prefix + channelWaits},
			Decode:   func(n redisx.Notice) (redisx.Notice, bool) { return n, true },
		})
		if err == nil {
			s.begun(sub)
			again := s.pass(ctx, sub)
			_ = sub.Close()
			if !again {
				return
			}
			failures = 0
			continue
		}
		if failures == 1 && ctx.Err() == nil {
			s.broken(err)
		}
		if redisx.WhileAway.Wait(ctx, failures); s.unused(ctx) && s.ended() {
			return
		}
	}
}

// begun notes that a subscription has begun, to which all channels are to be added.
func (s *waits) begun(sub *redisx.Subscription[redisx.Notice]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.subscription = sub
	clear(s.heard)
	s.changed.notify()
}

// unused reports whether nobody waits, or the client was closed.
func (s *waits) unused(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ctx.Err() != nil || len(s.waiters) == 0
}

func (s *waits) broken(err error) {
	s.client.logger.Warn("qless: the subscription of waits broke", "error", err)
}

// pass passes messages on, and changes the channels, until nobody has waited for some time. It
// reports whether the subscription ended before.
func (s *waits) pass(
	ctx context.Context, sub *redisx.Subscription[redisx.Notice],
) (again bool) {
	subscribed := map[string]bool{}
	idle := time.NewTimer(idleWaits)
	defer idle.Stop()
	for {
		select {
		case notice, open := <-sub.C():
			if !open {
				return !s.ended()
			}
			s.handle(notice)
		case <-s.changed:
			if s.follow(ctx, sub, subscribed) {
				idle.Reset(idleWaits)
			}
		case done := <-s.settle:
			s.follow(ctx, sub, subscribed)
			close(done)
		case <-idle.C:
			if s.ended() {
				return false
			}
			idle.Reset(idleWaits)
		case <-ctx.Done():
			return !s.ended()
		}
	}
}

// handle passes a notice on to those that it is for.
func (s *waits) handle(notice redisx.Notice) {
	if notice.Kind == redisx.Gap {
		s.restored()
		s.tellAll()
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if notice.Kind == redisx.Subscribed && s.waiters[notice.Channel] != nil {
		s.heard[notice.Channel] = time.Now()
	}
	for w := range s.waiters[notice.Channel] {
		w.tell(notice.Channel, notice.Payload)
	}
}

// restored notes that the channels are heard again.
func (s *waits) restored() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for channel := range s.heard {
		s.heard[channel] = time.Now()
	}
}

// tellAll has all waiters ask.
func (s *waits) tellAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, waiters := range s.waiters {
		for w := range waiters {
			w.tell("", "")
		}
	}
}

// follow subscribes to the channels that are waited for, and to no others. It reports whether there
// was anything to change. A channel that could not be added is tried again with the next change.
func (s *waits) follow(
	ctx context.Context, sub *redisx.Subscription[redisx.Notice], subscribed map[string]bool,
) bool {
	var added, removed []string
	s.mu.Lock()
	for channel := range s.waiters {
		if !subscribed[channel] {
			added = append(added, channel)
		}
	}
	for channel := range subscribed {
		if s.waiters[channel] == nil {
			removed = append(removed, channel)
			delete(s.heard, channel)
		}
	}
	s.mu.Unlock()
	if len(removed) > 0 {
		_ = sub.Remove(ctx, removed...) // else messages come that nobody waits for
	}
	for _, channel := range removed {
		delete(subscribed, channel)
	}
	if len(added) > 0 && sub.Add(ctx, added...) == nil {
		for _, channel := range added {
			subscribed[channel] = true
		}
	}
	return len(added)+len(removed) > 0
}
