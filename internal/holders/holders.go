// Package holders counts the holders of a limit's slots.
package holders

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/qless/qless-go/inspect"
)

// Most is the number of jobs to examine.
const Most = 100

// A Count is a klass, a queue or a worker, with its number of jobs.
type Count struct {
	Name string `json:"name"`
	Jobs int    `json:"jobs"`
}

// A Sum has the holders of slots, starting with the most jobs.
type Sum struct {
	Examined int `json:"examined"` // jobs
	Of       int `json:"of"`       // jobs with a slot

	By map[string][]Count `json:"by"` // klasses, queues and workers
}

// Of counts the holders of a limit, given the first running jobs, and the number of all.
func Of(jobs []inspect.Row, of int) Sum {
	sum := Sum{Examined: len(jobs), Of: of, By: map[string][]Count{}}
	klasses, queues, workers := map[string]int{}, map[string]int{}, map[string]int{}
	for i := range jobs {
		klasses[jobs[i].Klass]++
		queues[jobs[i].Queue]++
		workers[jobs[i].Worker]++
	}
	sum.By["klasses"], sum.By["queues"], sum.By["workers"] = most(klasses), most(queues), most(workers)
	return sum
}

// Read reads the first running jobs of a limit, and counts the holders.
func Read(ctx context.Context, in *inspect.Inspector, info *inspect.LimitInfo) (Sum, error) {
	var jobs []inspect.Row
	if jids := info.Running[:min(Most, len(info.Running))]; len(jids) > 0 {
		for job, err := range in.JIDs(jids...).Each(ctx) {
			if err != nil {
				return Sum{}, err
			}
			if job.State != "" {
				jobs = append(jobs, job)
			}
		}
	}
	return Of(jobs, len(info.Running)), nil
}

// most returns the names, starting with the most jobs.
func most(jobs map[string]int) []Count {
	delete(jobs, "")
	counts := make([]Count, 0, len(jobs))
	for _, name := range slices.Sorted(maps.Keys(jobs)) {
		counts = append(counts, Count{name, jobs[name]})
	}
	slices.SortStableFunc(counts, func(a, b Count) int { return cmp.Compare(b.Jobs, a.Jobs) })
	return counts
}
