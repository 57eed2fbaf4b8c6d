package doctor

import (
	"slices"
	"strings"

	"github.com/qless/qless-go/inspect"
)

// A workforce groups the listed workers by their registration for a queue.
type workforce struct {
	takers []inspect.WorkerStatus // take jobs from it
	idle   []inspect.WorkerStatus // would, but are paused or stopping
	gone   []inspect.WorkerStatus // took jobs from it, but have died
	silent []inspect.WorkerStatus // not registered
	all    []inspect.WorkerStatus
}

func newWorkforce(all []inspect.WorkerStatus, queue string) workforce {
	w := workforce{all: all}
	for _, worker := range all {
		if worker.Gone != nil {
			if worker.Gone.TakesFrom(queue) {
				w.gone = append(w.gone, worker)
			}
			continue
		}
		if worker.Info == nil {
			w.silent = append(w.silent, worker)
			continue
		}
		switch {
		case worker.Info.TakesFrom(queue):
			w.takers = append(w.takers, worker)
		case wouldTake(worker.Info, queue):
			w.idle = append(w.idle, worker)
		}
	}
	return w
}

// wouldTake reports whether a worker takes jobs from a queue unless it is paused or stopping.
func wouldTake(worker *inspect.WorkerInfo, queue string) bool {
	active := *worker
	active.Paused, active.Stopping = false, false
	return active.TakesFrom(queue)
}

// slots returns the number of slots of the takers, and of the jobs held.
func (w *workforce) slots() (slots, busy int) {
	for _, worker := range w.takers {
		slots += worker.Info.Slots
		busy += worker.Jobs
	}
	return slots, busy
}

// isBusy reports whether no taker has a free slot.
func (w *workforce) isBusy() bool {
	return !slices.ContainsFunc(w.takers, func(worker inspect.WorkerStatus) bool {
		return worker.Jobs < worker.Info.Slots
	})
}

// handles reports whether a taker has a handler for a klass.
func (w *workforce) handles(klass string) bool {
	return slices.ContainsFunc(w.takers, func(worker inspect.WorkerStatus) bool {
		return slices.ContainsFunc(worker.Info.Klasses, func(pattern string) bool {
			prefix, ok := strings.CutSuffix(pattern, "*")
			return pattern == klass || ok && strings.HasPrefix(klass, prefix)
		})
	})
}

// unhandled returns a klass of jobs that workers have released for lack of a handler, or the empty
// string.
func (w *workforce) unhandled(queue string) string {
	for _, worker := range slices.Concat(w.takers, w.idle) {
		for _, jobs := range worker.Info.Unhandled {
			if jobs.Queue == queue && len(w.silent) == 0 && !w.handles(jobs.Klass) {
				return jobs.Klass
			}
		}
	}
	return ""
}

// isSilent reports whether a worker is listed, but not registered.
func (w *workforce) isSilent(name string) bool {
	return slices.Contains(names(w.silent), name)
}

// namesOf returns the names of workers, at most maxNamed.
func namesOf(workers []inspect.WorkerStatus) []string { return first(names(workers)) }

// servedQueues returns the queues and patterns of workers.
func servedQueues(workers []inspect.WorkerStatus) (queues []string) {
	for i := range workers {
		if info := workers[i].Info; info != nil {
			queues = append(queues, info.Queues...)
		}
	}
	return queues
}

// nearly returns the first name that differs from another name by one letter, or the empty string.
func nearly(name string, names []string) string {
	for _, other := range names {
		if len(name) > 2 && len(other) > 2 && isNearly(name, other) {
			return other
		}
	}
	return ""
}

// isNearly reports whether names differ by one added, missing or changed letter, or by two swapped
// letters. A difference in a digit or a sign is likely intended.
func isNearly(a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	swapped := len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
	return (swapped || max(len(a), len(b)) == 1) && !strings.ContainsAny(a+b, "0123456789-_./:*?!")
}
