package model

import (
	"strings"
	"testing"
	"time"
)

// These are leftovers of the layout that a reader would not expect. Clients in all languages live
// with them, so they are not faults. Any others of their kind are.

// leftInList: a timed-out job stays in the list of its last worker (ql:w:<worker>:jobs) until
// popped again by that worker, or put or canceled while still naming the worker. Nothing else
// removes the job there.
func leftInList(m *queues, worker, jid string) bool { return m.left[handleKey{worker, jid}] }

// offList: a worker not seen for max-worker-age loses the list of its jobs, although it has them
// until lock expiry. A heartbeat puts a job back into the list.
func offList(m *queues, worker, jid string) bool { return m.forgotten[handleKey{worker, jid}] }

// leftGrace: a job timed out in its grace period keeps the field "grace" until popped, or until its
// priority changes: then it is no longer among the first jobs of its queue, where pop expects such
// fields. The next worker still has a grace period: see inGrace.
func leftGrace(t *told) bool { return t.state == "stalled" }

// leftBehind: a stalled job is the first in its queue, unless its priority was changed, which
// places the job by the bare number.
func leftBehind(t *told, score float64) bool { return score == t.priority }

// leftTracked: ql:tracked keeps jids of jobs that are gone, to report them as gone. leftWorker: a
// retried job keeps the fields "worker" and "expires" until it is popped. leftDelay: the field
// "scheduled" may outlive the dependencies with which it was put; a later put determines the delay.
// leftFailure: a job that failed once keeps the field "failure" until it is complete.
//
// The invariants ignore these, and compare_test.go takes them into account.

// Cases found by random steps, as regression tests.
var pinned = []struct {
	name  string
	steps []step
}{
	{"a new priority ends the rest of a grace period", []step{
		{Do: "Put", Worker: "a", Queue: "q1", JID: "j1", Data: "{}"},
		{Do: "Pop", Worker: "a", Queue: "q1", Count: 1},
		{Do: "Pop", Worker: "b", Queue: "q1", Count: 1, Tick: 61 * time.Second},
		{Do: "Timeout", Worker: "c", JIDs: []string{"j1"}},
		{Do: "SetPriority", Worker: "c", JID: "j1", Read: true, Priority: ptr(1)},
		{Do: "Pop", Worker: "b", Queue: "q1", Count: 1},
		{Do: "Pop", Worker: "a", Queue: "q1", Count: 1, Tick: 61 * time.Second},
		{Do: "Heartbeat", Worker: "b", JID: "j1"},
	}},
	{"after a timeout in a grace period, the next worker has its own", []step{
		{Do: "Put", Worker: "a", Queue: "q1", JID: "j1", Data: "{}"},
		{Do: "Pop", Worker: "a", Queue: "q1", Count: 1},
		{Do: "Pop", Worker: "b", Queue: "q1", Count: 1, Tick: 61 * time.Second},
		{Do: "Timeout", Worker: "c", JIDs: []string{"j1"}},
		{Do: "Pop", Worker: "b", Queue: "q1", Count: 1},
		{Do: "Pop", Worker: "c", Queue: "q1", Count: 1, Tick: 61 * time.Second},
		{Do: "Heartbeat", Worker: "b", JID: "j1"},
	}},
	{"a job in a grace period is lost again once there is none", []step{
		{Do: "Put", Worker: "a", Queue: "q1", JID: "j1", Data: "{}"},
		{Do: "Pop", Worker: "a", Queue: "q1", Count: 1},
		{Do: "Pop", Worker: "b", Queue: "q1", Count: 1, Tick: 61 * time.Second},
		{Do: "Config.Set", Worker: "a", Option: "grace-period", Value: "0"},
		{Do: "Pop", Worker: "b", Queue: "q1", Count: 1, Tick: 61 * time.Second},
	}},
	{"a lost job is popped once, although the life of another is over", []step{
		{Do: "Config.Set", Worker: "a", Option: "grace-period", Value: "0"},
		{Do: "Put", Worker: "a", Queue: "q1", JID: "j1", Data: "{}"},
		{Do: "Put", Worker: "a", Queue: "q1", JID: "j2", Data: "{}", TTL: ptr(time.Minute)},
		{Do: "Pop", Worker: "a", Queue: "q1", Count: 2},
		{Do: "Pop", Worker: "b", Queue: "q1", Count: 2, Tick: 61 * time.Second},
	}},
	{"an expired job that fails has no grace period", []step{
		{Do: "Put", Worker: "a", Queue: "q1", JID: "j1", Data: "{}", TTL: ptr(2 * time.Minute)},
		{Do: "Put", Worker: "a", Queue: "q1", JID: "j2", Data: "{}", Depends: []string{"j1"}},
		{Do: "Pop", Worker: "a", Queue: "q1", Count: 1},
		{Do: "Pop", Worker: "b", Queue: "q1", Count: 1, Tick: 61 * time.Second},
		{Do: "Sweep", Worker: "b", Tick: time.Minute},
	}},
	{"a job whose life was over gets its key back", []step{
		{Do: "Put", Worker: "a", Queue: "q1", JID: "j1", Data: "{}", TTL: ptr(time.Minute), Unique: "x "},
		{Do: "Put", Worker: "a", Queue: "q2", JID: "j2", Data: "{}", Tick: time.Minute, Unique: "x "},
		{Do: "Cancel", Worker: "a", JIDs: []string{"j2"}},
		{Do: "Put", Worker: "a", Queue: "q1", JID: "j1", Data: "{}"},
	}},
	{"a job that is gone has its key, though the call puts it again", []step{
		{Do: "Put", Worker: "a", Queue: "q1", JID: "j1", Data: "{}", Unique: "x for", TTL: ptr(time.Second)},
		{Do: "Pop", Worker: "a", Queue: "q1", Count: 1, Tick: 2 * time.Second},
		{Do: "ReplaceMany", Worker: "a", Many: []step{
			{Worker: "a", Queue: "q1", JID: "j1", Data: "{}", Unique: "y ", Replace: "due"},
			{Worker: "a", Queue: "q1", JID: "j2", Data: "{}", Unique: "x ", Replace: "due"},
		}},
	}},
	{"a life that did not hold, as the clock went back, holds again after Next", []step{
		{Do: "Config.Set", Worker: "a", Option: "max-job-history", Value: "1"},
		{Do: "Put", Worker: "a", Queue: "q1", JID: "j1", Data: "{}", Tick: 2 * time.Minute},
		{Do: "Put", Worker: "a", Queue: "q1", JID: "j1", Data: "{}", Tick: -2 * time.Minute, StartBy: ptr(time.Minute)},
		{Do: "Pop", Worker: "a", Queue: "q1", Count: 1},
		{Do: "Release", Worker: "a", JID: "j1", Tick: 2 * time.Minute},
		{Do: "Sweep", Worker: "a"},
		{Do: "Pop", Worker: "a", Queue: "q1", Count: 1},
		{Do: "Complete", Worker: "a", JID: "j1", Next: "q2", Delay: ptr(time.Minute)},
	}},
	{"a job whose lock ends now is stalled, and nothing else", []step{
		{Do: "Put", Worker: "a", Queue: "q1", JID: "j1", Data: "{}", LockTime: ptr(time.Hour)},
		{Do: "Pop", Worker: "a", Queue: "q1", Count: 1},
		{Do: "Worker", Worker: "a", Tick: time.Hour},
	}},
	{"a key goes back by way of a job that is canceled, too", []step{
		{Do: "Replace", Worker: "a", Queue: "q1", JID: "j1", Data: "{}", Unique: "x ", Replace: "due"},
		{Do: "Pop", Worker: "a", Queue: "q1", Count: 1},
		{Do: "Replace", Worker: "a", Queue: "q1", JID: "j2", Data: "{}", Unique: "x ", Replace: "due"},
		{Do: "UndependAll", Worker: "a", JID: "j2", Read: true},
		{Do: "Pop", Worker: "a", Queue: "q1", Count: 1},
		{Do: "Replace", Worker: "a", Queue: "q1", JID: "j3", Data: "{}", Unique: "x ", Replace: "due"},
		{Do: "Cancel", Worker: "a", JIDs: []string{"j2", "j3"}},
	}},
	{"of two jobs of a group, the older failure has their key again", []step{
		{Do: "Put", Worker: "a", Queue: "q1", JID: "j1", Data: "{}", Unique: "x "},
		{Do: "Pop", Worker: "a", Queue: "q1", Count: 1},
		{Do: "Fail", Worker: "a", JID: "j1", Group: "bad", Message: "because"},
		{Do: "Put", Worker: "a", Queue: "q1", JID: "j2", Data: "{}", Unique: "x "},
		{Do: "Pop", Worker: "a", Queue: "q1", Count: 1},
		{Do: "Fail", Worker: "a", JID: "j2", Group: "bad", Message: "because"},
		{Do: "Client.Unfail", Worker: "a", Group: "bad", Count: 2},
	}},
	{"of two jobs of a call that begin again, the first one has the key that is noted as its own", []step{
		{Do: "Replace", Worker: "a", Queue: "q1", JID: "j1", Data: "{}", Unique: "x ", Replace: "due"},
		{Do: "Pop", Worker: "a", Queue: "q1", Count: 1},
		{Do: "Replace", Worker: "a", Queue: "q1", JID: "j2", Data: "{}", Unique: "x ", Replace: "due"},
		{Do: "Put", Worker: "a", Queue: "q1", JID: "j2", Data: "{}", TTL: ptr(time.Minute)},
		{Do: "PutMany", Worker: "a", Queue: "q1", Tick: 61 * time.Second, Many: []step{
			{Worker: "a", JID: "j2", Data: "{}", Depends: []string{"j3"}},
			{Worker: "a", JID: "j1", Data: "{}"},
		}},
	}},
	{"each job of a call watches all of its dependencies, even if another was notified of a failure first", []step{
		{Do: "Put", Worker: "a", Queue: "q1", JID: "j1", Data: "{}"},
		{Do: "Pop", Worker: "a", Queue: "q1", Count: 1},
		{Do: "Fail", Worker: "a", JID: "j1", Group: "bad", Message: "because"},
		{Do: "Put", Worker: "a", Queue: "q1", JID: "j2", Data: "{}"},
		{Do: "PutMany", Worker: "a", Queue: "q1", Many: []step{
			{Worker: "a", JID: "j3", Data: "{}", Depends: []string{"j1"}, OnFailure: "run"},
			{Worker: "a", JID: "j4", Data: "{}", Depends: []string{"j1", "j2"}, OnFailure: "fail"},
		}},
	}},
}

func TestPinnedSteps(t *testing.T) {
	w := newWorld(t)
	for _, p := range pinned {
		t.Run(p.name, func(t *testing.T) {
			if v := playAll(t.Context(), w, p.steps); v != nil {
				t.Error(report(v, p.steps))
			}
		})
	}
}

// Cases found by random lines, as regression tests. Spaces separate the words of a line.
var pinnedLines = []struct {
	name  string
	steps []step
}{
	{"an unpaused queue has its parked jobs due", []step{
		line("limit.set a 1 0 0"), line(`put w q1 j1 K {} 0 o c|{"c":["a"]}`),
		line(`put w q2 j2 K {} 0 o c|{"c":["a"]}`), line("pop q1 w 1"), line("pop q2 w 1"), line("pause q2"),
		line("complete j1 w q1 {}"), line("unpause q2"),
	}},
	{"a parked job that is replaced is due as before", []step{
		line("limit.set a 0 1 30"), line(`put w q1 j1 K {} 0 o c|{"c":["a"]}`), line("pop q1 w 1"),
		line(`put w q1 j2 K {} 0 o cu|{"c":["a"],"u":{"k":"[1]"}} replace due`), line("pop q1 w 1"),
		later(`put w q1 j3 K {} 0 o u|{"u":{"k":"[1]"}} replace due`),
	}},
	{"a parked job that gets another priority returns with it", []step{
		line("limit.set a 1 0 0"), line(`put w q1 j1 K {} 0 o c|{"c":["a"]}`), line("pop q1 w 1"),
		line(`put w q1 j2 K {} 0 o c|{"c":["a"]}`), line("pop q1 w 1"), line("priority j2 10"),
		line("complete j1 w q1 {}"),
	}},
	{"a debounced job that is put late takes a turn", []step{
		line(`put w q1 j1 K {} 1 o gu|{"g":{"t":"x"},"u":{"k":"[1]"}} replace due`),
		later(`put w q1 j2 K {} 1 o gu|{"g":{"t":"x"},"u":{"k":"[1]"}} replace due`),
	}},
	{"a failed job that is put back takes a turn", []step{
		line(`put w q1 j1 K {} 0 o g|{"g":{"t":"x"}}`), line("pop q1 w 1"), line("fail j1 w oops because"),
		line("unfail.job j1"),
	}},
	{"the last put of a call has its own priority", []step{
		line(`put w q1 j1 K {} 0 o u|{"u":{"k":"[1]"}}`),
		later(`put.many w - q1 j2 K {} 0 6 priority 1 o u|{"u":{"k":"[1]"}} replace due ` +
			`q1 j3 K {} 0 6 priority 10 o u|{"u":{"k":"[1]"}} replace due`),
		line("peek q1 1"),
	}},
	{"the last put of a call has its own tenant", []step{
		line(`put w q1 j1 K {} 0 o u|{"u":{"k":"[1]"}}`),
		later(`put.many w - q1 j2 K {} 0 4 o u|{"u":{"k":"[1]"}} replace due ` +
			`q1 j3 K {} 0 4 o gu|{"g":{"t":"x"},"u":{"k":"[1]"}} replace due`),
	}},
	{"an end to be tried again frees the slots", []step{
		line("limit.set a 1 0 0"), line(`put w q1 j1 K {} 0 o c|{"c":["a"]}`), line("pop q1 w 1"),
		line("end j1 failed oops because 3"),
	}},
	{"a batch that is replaced is one", []step{
		line(`put w q1 j1 K {} 0 depends ["x:open"] o bu|{"b":{"n":0},"u":{"k":"[1]"}}`),
		line(`put w q1 j2 K {} 0 o u|{"u":{"k":"[1]"}} replace delay`),
	}},
	{"a failure reaches a job of the same exchange", []step{
		line("put w q1 j1 K {} 0"), line("put w q1 j2 K {} 0"), line("pop q1 w 2"),
		line(`finish w complete j1 q1 - 6 next q1 depends ["j2"] o f|{"f":{"do":"run"}} complete j2 q1 - 4 next q1 ` +
			`o h|{"h":{"k":"v"}}`),
	}},
}

// line returns a step for a line, in which - is an empty word.
func line(text string) step {
	words := strings.Fields(text)
	for i, word := range words {
		if word == "-" {
			words[i] = ""
		}
	}
	return step{Do: "flat", Raw: words}
}

// later is line two seconds later.
func later(text string) step {
	s := line(text)
	s.Tick = 2 * time.Second
	return s
}

func TestPinnedLines(t *testing.T) {
	x := newMix(t)
	for _, p := range pinnedLines {
		t.Run(p.name, func(t *testing.T) {
			if v := playAll(t.Context(), x, append(p.steps, step{Do: "Drain"})); v != nil {
				t.Error(report(v, p.steps))
			}
		})
	}
}
