package cli

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
)

// A queueSum sums up the queues of a name in several namespaces.
type queueSum struct {
	Name       string            `json:"name"`
	Namespaces int               `json:"namespaces"` // the number that have it
	Waiting    int               `json:"waiting"`
	Running    int               `json:"running"`
	Stalled    int               `json:"stalled"`
	Scheduled  int               `json:"scheduled"`
	Depends    int               `json:"depends"`
	Recurring  int               `json:"recurring"`
	Oldest     units.Text        `json:"oldest"`              // of the waiting jobs
	OldestIn   string            `json:"oldest_in,omitempty"` // its namespace
	Paused     int               `json:"paused"`              // the namespaces where it is paused
	Workers    int               `json:"workers"`
	Rates      doctor.Throughput `json:"rates"`
}

func (q *queueSum) add(namespace string, one *inspect.QueueOverview) {
	q.Namespaces++
	q.Waiting += max(0, one.Waiting) // -1 if a key is damaged
	q.Running += max(0, one.Running)
	q.Stalled += max(0, one.Stalled)
	q.Scheduled += max(0, one.Scheduled)
	q.Depends += max(0, one.Depends)
	q.Recurring += max(0, one.Recurring)
	if oldest := units.Text(one.Oldest); oldest > q.Oldest {
		q.Oldest, q.OldestIn = oldest, namespace
	}
	if one.Paused {
		q.Paused++
	}
}

// state tells in how many of the namespaces the queue is paused.
func (q *queueSum) state() any {
	if q.Paused == 0 || q.Paused == q.Namespaces {
		return openOrPaused(q.Paused > 0)
	}
	return painted{fmt.Sprintf("paused in %d", q.Paused), yellow}
}

// queueSums are sums by the name of the queue.
type queueSums map[string]*queueSum

func (s queueSums) of(name string) *queueSum {
	if s[name] == nil {
		s[name] = &queueSum{Name: name}
	}
	return s[name]
}

func (s queueSums) sorted() []*queueSum {
	all := make([]*queueSum, 0, len(s))
	for _, q := range s {
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b *queueSum) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
