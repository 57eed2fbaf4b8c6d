package qless

import (
	"encoding/json"

	"github.com/qless/qless-go/internal/ask"
	"github.com/qless/qless-go/internal/leases"
	"github.com/qless/qless-go/internal/queues"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/stacks"
)

// A listener receives the messages for a worker: a job is ready, a lock was lost, a queue is new, a
// client asks for a stack. It shares the client's subscription with others, and never blocks.
type listener struct {
	client  *Client
	locks   *leases.Keeper[*run]
	watch   *queues.Watch
	asker   *ask.Asker
	recheck func() // makes the schedules check the clock
	stacks  *stacks.Keeper
	wakes   string // the channel where the worker is woken
}

// Channels of workers.
const (
	channelWake   = "x:wake:"  // followed by the worker's name: a job is ready
	channelQueues = "x:queues" // the name of a queue that has appeared
)

// wakeClock is the message that wakes a worker because the server's clock was moved. A queue with
// this name makes schedules check more often than needed.
const wakeClock = "clock"

// channels returns the channels that the worker listens to. They are subscribed to together, so the
// server sends messages of all once it sends those of the first.
func (l *listener) channels() []string {
	channels := []string{l.wakes, l.client.prefix + "w:" + l.client.worker}
	if l.watch.Choice.Patterns.Watch() {
		channels = append(channels, l.client.prefix+channelQueues)
	}
	return channels
}

// Notify acts on a message for the worker.
func (l *listener) Notify(notice redisx.Notice) {
	switch {
	case notice.Kind == redisx.Published && notice.Channel == l.wakes:
		l.wake(notice.Payload)
	case notice.Kind == redisx.Published && notice.Channel == l.client.prefix+channelQueues:
		l.queueAppeared(notice.Payload)
	case notice.Kind == redisx.Published:
		l.told(notice.Payload)
	case notice.Kind == redisx.Gap || notice.Channel == l.wakes:
		l.missed()
	}
}

// missed is called when the worker receives its events again, or for the first time: jobs, queues
// or schedules may be due, and jobs canceled or lost.
func (l *listener) missed() {
	l.missedQueues()
	l.recheck()
	l.locks.SuspectAll()
}

// told is called with an event of a job that the worker holds, or has held.
func (l *listener) told(payload string) {
	var event stacks.Question
	if err := json.Unmarshal([]byte(payload), &event); err != nil {
		l.client.logger.Warn("qless: an event is not JSON", "payload", payload)
	}
	switch event.Event {
	case "lock_lost":
		l.locks.Suspect(string(event.JID), ErrLockLost)
	case "canceled":
		l.locks.Suspect(string(event.JID), ErrCanceled)
	case stacks.Event:
		l.stacks.Answer(string(event.JID), string(event.Reply))
	}
}

// wake asks for jobs. The payload is the name of a queue, or wakeClock. It is empty when a relay
// may be missing.
func (l *listener) wake(payload string) {
	if payload == wakeClock {
		l.recheck()
	}
	if l.watch.Choice.Patterns.Watch() { // it may have waited for more queues than it asks now
		l.watch.Woken(payload)
	}
	if payload == "" {
		l.asker.JobsReady()
	} else {
		l.asker.WokenFor(payload)
	}
}

// queueAppeared records a new queue, and asks for jobs if it is one of the worker's.
func (l *listener) queueAppeared(queue string) {
	l.watch.Appeared(queue)
	if l.watch.Choice.Patterns.Find(queue) >= 0 {
		l.asker.JobsReady()
	}
}

// missedQueues records that there may be new queues or jobs.
func (l *listener) missedQueues() {
	l.watch.Missed()
	l.asker.JobsReady()
}
