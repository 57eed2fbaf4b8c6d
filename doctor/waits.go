package doctor

import (
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
)

// A queueState is what both [Explain] and [StatusReader.Read] know about a queue whose jobs wait.
// Its methods find the causes that they share.
type queueState struct {
	qless.QueueCounts
	oldest   time.Duration // the wait of the oldest job
	settings qless.QueueSettings

	takers, idle, silent int // workers: that take jobs from it, that would, of unknown queues

	meant string // a queue with workers whose name is nearly the same
}

// isWaiting reports whether jobs wait, or recurring ones are due.
func (q *queueState) isWaiting() bool { return q.Waiting > 0 || q.oldest > 0 }

func (q *queueState) paused() []Reason {
	if !q.Paused {
		return nil
	}
	return []Reason{{Code: ReasonPaused, Certain: true, Jobs: q.Waiting}}
}

// concurrency reports that the queue runs as many jobs as it may.
func (q *queueState) concurrency() []Reason {
	most := q.settings.MaxConcurrency
	if most == 0 || q.Running < most || !q.isWaiting() {
		return nil
	}
	return []Reason{{
		Code: ReasonMaxConcurrency, Certain: true, Jobs: q.Waiting, Max: most, Busy: q.Running,
	}}
}

// rate reports that the queue has started as many jobs as it may.
func (q *queueState) rate() []Reason {
	if q.settings.NextStart.IsZero() || !q.isWaiting() {
		return nil
	}
	return []Reason{{
		Code: ReasonMaxRate, Certain: true, Jobs: q.Waiting, Max: q.settings.MaxRate,
		Until: q.settings.NextStart, details: q.settings.Per.String(),
	}}
}

// noTakers reports that no known worker takes jobs from the queue, or that all of them are paused
// or stopping.
func (q *queueState) noTakers() []Reason {
	switch {
	case q.takers > 0:
		return nil
	case q.idle > 0:
		return []Reason{q.ofWorkers(ReasonWorkersPaused)}
	}
	r := q.ofWorkers(ReasonNoWorkers)
	if q.meant != "" {
		r.details = "Did you mean " + q.meant + ", which has workers?"
		r.Command = "qless queue move " + units.Quote(q.Name) + " " + units.Quote(q.meant)
	}
	return []Reason{r}
}

// ofWorkers returns a reason for jobs to wait for workers. It is only certain if all listed workers
// are registered.
func (q *queueState) ofWorkers(code ReasonCode) Reason {
	return Reason{Code: code, Certain: q.silent == 0, Jobs: q.Waiting, Silent: q.silent}
}

// servedQueues returns the queues that workers take jobs from, without patterns.
func servedQueues(workers []inspect.WorkerStatus) (queues []string) {
	for i := range workers {
		if info := workers[i].Info; info != nil {
			queues = append(queues, info.Queues...)
		}
	}
	return queues
}

// nearly returns the first of some names that differs from a name by one letter, or the empty
// string.
func nearly(name string, names []string) string {
	for _, other := range names {
		if len(name) > 2 && len(other) > 2 && isNearly(name, other) {
			return other
		}
	}
	return ""
}

// isNearly reports whether names differ by a letter that is added, missing or another one, or by
// two that have changed places. Names that differ by a digit or a sign are likely intended.
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
