// Package slots counts the slots of a worker, and remembers the queues to ask for fewer jobs than
// there are free slots. It knows no jobs.
package slots

import "iter"

// A Kind is a kind of jobs, of which only some may run at once.
type Kind struct {
	Most int // 0 for as many as there are slots

	running int
	pool    Pool // nil if each job has its own slot
}

// A Pool holds jobs that wait for a common call, which takes one slot.
type Pool interface {
	Len() int
	Room() int // how many more may wait
}

// A Table counts the slots of a worker. It is not safe for concurrent use.
//
// A queue is crowded once a job of it was handed back because its kind had no room. Such a queue is
// left out of requests until there is room. The next request then asks for no more jobs than the
// room. If it gets that many jobs, all of the kind and of the queue, the queue stays crowded.
// Without a kind, the number alone decides.
type Table struct {
	size    int
	used    int
	pooled  []*Kind
	crowded map[string]*Kind
	asked   []string // the crowded queues in the last request
}

// New returns a table with a number of free slots.
func New(size int) *Table { return &Table{size: size, crowded: map[string]*Kind{}} }

// Free returns the number of free slots.
func (t *Table) Free() int { return max(0, t.size-t.used) }

// Gather makes the jobs of a kind wait in a pool. From then on, no kind has room for more jobs than
// there are free slots.
func (t *Table) Gather(k *Kind, pool Pool) {
	k.pool = pool
	t.pooled = append(t.pooled, k)
}

// Gathers reports whether the jobs of a kind wait in a pool.
func (t *Table) Gathers() bool { return len(t.pooled) > 0 }

// Room returns the room for jobs of a kind, which may be nil, apart from the slots.
func (t *Table) Room(k *Kind) int {
	if k == nil || k.pool == nil || !t.CanCall(k) {
		return t.calls(k)
	}
	return k.pool.Room()
}

// CanCall reports whether a call of a kind with a pool can begin.
func (t *Table) CanCall(k *Kind) bool { return t.calls(k) > 0 }

func (t *Table) calls(k *Kind) int {
	room := t.size
	if t.Gathers() {
		room = t.Free()
	}
	if k != nil && k.Most > 0 {
		room = min(room, k.Most-k.running)
	}
	return max(0, room)
}

// Take takes a slot for a job of a kind, which may be nil.
func (t *Table) Take(k *Kind) { t.count(k, 1) }

// Give gives a slot back.
func (t *Table) Give(k *Kind) { t.count(k, -1) }

func (t *Table) count(k *Kind, n int) {
	t.used += n
	if k != nil {
		k.running += n
	}
}

// HandBack records that a job of a queue is handed back, because its kind has no room.
func (t *Table) HandBack(queue string, k *Kind) { t.crowded[queue] = k }

// Ask returns the number of jobs to ask for, and the queues to leave out. few is set if a crowded
// queue with room is asked.
func (t *Table) Ask() (room int, leaveOut []string, few bool) {
	room, t.asked = t.Free(), nil
	for _, k := range t.pooled {
		if k.pool.Len() > 0 && t.CanCall(k) { // else there may be no call
			room += t.Room(k) - 1 // the slot of their call
		}
	}
	for queue, k := range t.crowded {
		if r := t.Room(k); r > 0 {
			room, few = min(room, r), true
			t.asked = append(t.asked, queue)
		} else {
			leaveOut = append(leaveOut, queue)
		}
	}
	return room, leaveOut, few
}

// A Job is a job of an answer.
type Job struct {
	Queue string
	Kind  *Kind
}

// Answered records the answer to the last request, before its jobs take slots. full is set if the
// answer has as many jobs as requested.
func (t *Table) Answered(jobs iter.Seq[Job], full bool) {
	for _, queue := range t.asked {
		crowd := Job{queue, t.crowded[queue]}
		if !full || crowd.Kind != nil && hasOther(jobs, crowd) {
			delete(t.crowded, queue)
		}
	}
	t.asked = nil
}

// hasOther reports whether any job differs from another.
func hasOther(jobs iter.Seq[Job], than Job) bool {
	for j := range jobs {
		if j != than {
			return true
		}
	}
	return false
}
