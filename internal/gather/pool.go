// Package gather gathers jobs to handle together, and makes their common call. It treats jobs as
// mere values.
package gather

import (
	"slices"
	"time"
)

// MostKeyed is the maximum number of waiting jobs in a pool with keys.
const MostKeyed = 1000

// A Pool holds jobs that wait for others with the same key. It is not safe for concurrent use.
type Pool[J comparable] struct {
	max    int
	most   int
	wait   time.Duration
	due    func()
	groups []*group[J] // the oldest first
	jobs   int         // in all groups
}

type group[J comparable] struct {
	key   string
	jobs  []J
	since time.Time
	ripe  bool // no longer waits for jobs
	grew  bool // since the last call of Settle
}

// New returns a pool of groups of at most size jobs, with or without keys. A group waits for the
// time wait, and then due is called in its own goroutine. Without a time, groups wait until Settle.
func New[J comparable](size int, keyed bool, wait time.Duration, due func()) *Pool[J] {
	p := &Pool[J]{max: size, most: size, wait: wait, due: due}
	if keyed {
		p.most = MostKeyed
	}
	return p
}

// Add adds a job to the group of its key, or begins a new group.
func (p *Pool[J]) Add(key string, job J) {
	at := slices.IndexFunc(p.groups, func(g *group[J]) bool {
		return g.key == key && len(g.jobs) < p.max
	})
	if at < 0 {
		at = len(p.groups)
		p.groups = append(p.groups, &group[J]{key: key, since: time.Now()})
		if p.wait > 0 {
			time.AfterFunc(p.wait, p.due)
		}
	}
	g := p.groups[at]
	g.jobs, g.grew = append(g.jobs, job), true
	p.jobs++
}

// Len returns the number of jobs.
func (p *Pool[J]) Len() int { return p.jobs }

// Room returns how many jobs may be added.
func (p *Pool[J]) Room() int { return max(0, p.most-p.jobs) }

// Settle is called when no job will be added for a moment. A group without a time to wait is then
// ripe, unless the group grew and more jobs may come. With all, each group is ripe.
func (p *Pool[J]) Settle(more, all bool) {
	for _, g := range p.groups {
		if all || p.wait == 0 && !(more && g.grew) {
			g.ripe = true
		}
		g.grew = false
	}
}

// Next removes and returns the jobs of the oldest ripe group, or nil. If the pool is full, the
// oldest group counts as ripe.
func (p *Pool[J]) Next() []J {
	for i, g := range p.groups {
		ripe := g.ripe || len(g.jobs) == p.max || p.wait > 0 && time.Since(g.since) >= p.wait
		if ripe || p.Room() == 0 {
			return p.remove(i)
		}
	}
	return nil
}

func (p *Pool[J]) remove(i int) []J {
	jobs := p.groups[i].jobs
	p.groups = slices.Delete(p.groups, i, i+1)
	p.jobs -= len(jobs)
	return jobs
}

// Remove removes a job.
func (p *Pool[J]) Remove(job J) {
	for i, g := range p.groups {
		at := slices.Index(g.jobs, job)
		if at < 0 {
			continue
		}
		g.jobs = slices.Delete(g.jobs, at, at+1)
		p.jobs--
		if len(g.jobs) == 0 {
			p.remove(i)
		}
		return
	}
}

// TakeAll removes and returns all jobs.
func (p *Pool[J]) TakeAll() (all []J) {
	for len(p.groups) > 0 {
		all = append(all, p.remove(0)...)
	}
	return all
}
