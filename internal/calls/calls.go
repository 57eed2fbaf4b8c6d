// Package calls describes calls of commands for observers: the queue, klass and jobs in the
// arguments, and the number of jobs in the reply.
package calls

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/qless/qless-go/internal/wire"
)

// A Subject describes a call. Queue and Klass are empty if the jobs have none or differ; JID is
// empty unless there is one job.
type Subject struct {
	Queue, Klass, JID string
	Count             int // jobs named, changed or returned by the call
}

// ReserveArgs is the number of arguments of the script reserve before the pairs. The last one is
// the number of pairs; the queues follow the pairs.
const ReserveArgs = 4

// ReservedHead is the number of items before the jobs in a reply of the script reserve.
const ReservedHead = 4

// describedBy holds the index of the queue and the klass in a command's arguments, or -1.
var describedBy = map[string]struct{ queue, klass int }{
	"complete":       {2, -1},
	"jobs":           {1, -1},
	"length":         {0, -1},
	"pause":          {0, -1},
	"peek":           {0, -1},
	"pop":            {0, -1},
	"put":            {1, 3},
	"queue.forget":   {1, -1},
	"queue.settings": {0, -1},
	"queues":         {0, -1},
	"recur":          {0, 2},
	"release":        {1, -1},
	"requeue":        {1, 3},
	"retry":          {1, -1},
	"schedule":       {3, 5},
	"stats":          {0, -1},
	"unfail":         {0, -1},
	"unpause":        {0, -1},
}

// Describe describes a call of a command by its arguments and its reply. jid is the job named by
// the caller, if any.
func Describe(command, jid string, args []any, reply any) Subject {
	s := Subject{JID: jid}
	s.describe(command, args, reply)
	return s
}

func (s *Subject) describe(command string, args []any, reply any) {
	if at, found := describedBy[command]; found && !(command == "jobs" && len(args) < 5) {
		s.Queue, s.Klass = argumentAt(args, at.queue), argumentAt(args, at.klass)
	}
	if s.JID != "" {
		s.Count = 1
	}
	switch command {
	case "put.many":
		s.describeBatch(args[1:], 6, 1, 0, 2)
	case "finish":
		s.describeBatch(args, 5, 1, 2, -1)
	case "cancel", "timeout":
		s.Count = len(args)
	case "renew":
		s.Count = len(args) - 1
	case "await", "result":
		s.JID, s.Count = argumentAt(args, 0), 1
	case "progress":
		s.Count = (len(args) - 1) / 5
	case "reserve":
		s.Count = max(0, len(wire.Items(reply))-ReservedHead-1)
		s.Queue = queueOfReserve(args)
	case "latency", "queues.ready":
		s.Queue = only(args, 0)
	case "sweep":
		s.Count, _ = wire.DecodeInt(reply) // 0 if it failed
		if queue := only(args, 0); queue != "*" {
			s.Queue = queue
		}
	case "cancel.all", "unfail":
		s.Count = changed(reply)
	case "find", "list":
		s.Queue = queueOfList(args, 0)
		s.Count = itemsOf(reply)
	case "repair":
		s.Queue = queueOfList(args, 2)
		s.Count = changed(reply)
	case "pop", "peek", "multiget":
		s.Count = lengthOf(reply)
	}
}

// describeBatch describes a command with arguments for several jobs after the first argument. Each
// job has a number of fields, and the last field is the number of further arguments. Jobs may also
// be listed together, as in arguments of finish and put.many.
func (s *Subject) describeBatch(args []any, fields, jid, queue, klass int) {
	s.Count = 0
	for i := 1; i+2 < len(args); {
		switch first := argumentAt(args, i); {
		case klass < 0 && first == "completed":
			n, _ := strconv.Atoi(argumentAt(args, i+2))
			s.describeJobs(n, argumentAt(args, i+3), argumentAt(args, i+1), "")
			i += 3 + n
		case klass >= 0 && first == "":
			more, _ := strconv.Atoi(argumentAt(args, i+4))
			jobs := args[min(i+5+more, len(args)):]
			s.describeJobs(len(jobs)/2, argumentAt(jobs, 0), argumentAt(args, i+1), argumentAt(args, i+2))
			return
		default:
			job := args[i:]
			s.describeJobs(1, argumentAt(job, jid), argumentAt(job, queue), argumentAt(job, klass))
			more, _ := strconv.Atoi(argumentAt(job, fields-1))
			i += fields + more
		}
	}
}

// describeJobs adds n jobs to the description of a call. jid is the first job.
func (s *Subject) describeJobs(n int, jid, queue, klass string) {
	if s.Count == 0 {
		s.JID, s.Queue, s.Klass = jid, queue, klass
	}
	s.Count += n
	if s.Count > 1 {
		s.JID, s.Queue, s.Klass = "", Same(s.Queue, queue), Same(s.Klass, klass)
	}
}

// queueOfList returns the queue of a list named by the arguments at an index and after it, or the
// empty string if the list does not belong to a queue.
func queueOfList(args []any, at int) string {
	switch argumentAt(args, at) {
	case "failed", "tagged", "worker", "jids":
		return ""
	}
	return argumentAt(args, at+1)
}

// itemsOf returns the number of items in a JSON list.
func itemsOf(reply any) int {
	var got struct{ Items []json.RawMessage }
	raw, _ := reply.(string)
	_ = json.Unmarshal([]byte(raw), &got)
	return len(got.Items)
}

// only returns the argument at an index if it is the last one.
func only(args []any, at int) string {
	if len(args) != at+1 {
		return ""
	}
	return argumentAt(args, at)
}

// changed returns the number of jobs changed by a command, from its reply: a number, or JSON with
// the number.
func changed(reply any) int {
	if n, err := wire.DecodeInt(reply); err == nil {
		return n
	}
	raw, _ := reply.(string)
	var got struct{ Count wire.Number }
	_ = json.Unmarshal([]byte(raw), &got)
	return got.Count.Int()
}

// Same returns a if it equals b, and otherwise the empty string.
func Same(a, b string) string {
	if a == b {
		return a
	}
	return ""
}

// argumentAt returns the argument at an index, or the empty string if it is missing.
func argumentAt(args []any, at int) string {
	if at < 0 || at >= len(args) {
		return ""
	}
	return fmt.Sprint(args[at])
}

// lengthOf returns the length of a JSON array, 1 for a job that was popped alone, or 0 if the reply
// is neither.
func lengthOf(reply any) int {
	if _, _, ok := Popped(reply); ok {
		return 1
	}
	text, _, _ := wire.Parts(reply)
	raw, _ := text.(string)
	var list []json.RawMessage
	_ = json.Unmarshal([]byte(raw), &list)
	return len(list)
}

// queueOfReserve returns the queue in arguments of the script reserve, if there is only one.
func queueOfReserve(args []any) string {
	pairs, err := strconv.Atoi(argumentAt(args, ReserveArgs-1))
	if err != nil {
		return ""
	}
	return only(args, ReserveArgs+pairs)
}
