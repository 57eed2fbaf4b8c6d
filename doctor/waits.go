package doctor

import (
	"time"

	"github.com/qless/qless-go"
)

// A queueState is what both [Why] and [StatusReader.Read] know about a queue whose jobs wait. Its
// methods find the causes that they share.
type queueState struct {
	qless.QueueCounts
	oldest   time.Duration // the wait of the oldest job
	settings qless.QueueSettings

	takers, idle, silent int // workers: that take jobs from it, that would, of unknown queues
}

// isWaiting reports whether jobs wait, or recurring ones are due.
func (q *queueState) isWaiting() bool { return q.Waiting > 0 || q.oldest > 0 }

func (q *queueState) paused() []Reason {
	if !q.Paused {
		return nil
	}
	return []Reason{{Code: CodePaused, Certain: true, Jobs: q.Waiting}}
}

// concurrency reports that the queue runs as many jobs as it may.
func (q *queueState) concurrency() []Reason {
	most := q.settings.MaxConcurrency
	if most == 0 || q.Running < most || !q.isWaiting() {
		return nil
	}
	return []Reason{{
		Code: CodeMaxConcurrency, Certain: true, Jobs: q.Waiting, Max: most, Busy: q.Running,
	}}
}

// rate reports that the queue has started as many jobs as it may.
func (q *queueState) rate() []Reason {
	if q.settings.NextStart.IsZero() || !q.isWaiting() {
		return nil
	}
	return []Reason{{
		Code: CodeMaxRate, Certain: true, Jobs: q.Waiting, Max: q.settings.MaxRate,
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
		return []Reason{q.ofWorkers(CodeWorkersPaused)}
	}
	return []Reason{q.ofWorkers(CodeNoWorkers)}
}

// ofWorkers returns a reason for jobs to wait for workers. It is only certain if all listed workers
// are registered.
func (q *queueState) ofWorkers(code Code) Reason {
	return Reason{Code: code, Certain: q.silent == 0, Jobs: q.Waiting, Silent: q.silent}
}
