package model

import (
	"slices"

	"github.com/qless/qless-go"
)

// needs maps the jid of each job to the jobs that it waits for.
func (m *queues) needs() map[string][]string {
	all := map[string][]string{}
	for jid, j := range m.jobs {
		all[jid] = sorted(j.dependencies)
	}
	return all
}

// hasCircle reports whether a job waits for itself, by way of others.
func hasCircle(needs map[string][]string) bool {
	followed := map[string]bool{} // false while a job's dependencies are being followed
	var isInCircle func(jid string) bool
	isInCircle = func(jid string) bool {
		if whole, begun := followed[jid]; begun {
			return !whole
		}
		followed[jid] = false
		if slices.ContainsFunc(needs[jid], isInCircle) {
			return true
		}
		followed[jid] = true
		return false
	}
	for jid := range needs {
		if isInCircle(jid) {
			return true
		}
	}
	return false
}

// closesCircle reports whether a job would wait for itself if it waited for more jobs.
func (m *queues) closesCircle(jid string, others []string) bool {
	needs := m.needs()
	needs[jid] = slices.Concat(needs[jid], m.unfinished(others))
	return len(others) > 0 && hasCircle(needs)
}

// putsCircle reports whether a job would wait for itself after puts of one call, whose jobs become
// members of a batch unless that is empty.
func (m *queues) putsCircle(puts []step, batch string) bool {
	needs := m.needs()
	put := map[string]bool{}
	for _, one := range m.accepted(puts) {
		if len(one.Depends) > 0 {
			needs[one.JID] = slices.DeleteFunc(slices.Clone(one.Depends), func(jid string) bool {
				return !put[jid] && len(m.unfinished([]string{jid})) == 0
			})
		}
		if batch != "" {
			needs[batch] = append(needs[batch], one.JID)
		}
		put[one.JID] = true
	}
	return hasCircle(needs)
}

// unfinished returns the jobs that can be waited for.
func (m *queues) unfinished(jids []string) []string {
	return slices.DeleteFunc(slices.Clone(jids), func(jid string) bool {
		return m.jobs[jid] == nil || m.jobs[jid].state == qless.StateComplete
	})
}

// accepted returns the puts of one call whose conditions hold and whose unique keys are free.
func (m *queues) accepted(puts []step) []step {
	claimed := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(puts), func(one step) bool {
		j, c := m.jobs[one.JID], one.claim()
		if j != nil && one.leaves(j) && !m.isDead(j, j.state) {
			return true
		}
		if c == nil && j != nil && j.isOver() {
			c = j.options.claim // it claims its key again, if that is free
		} else if c != nil && (claimed[c.Key] || m.isTaken(one)) {
			return true
		}
		if c != nil {
			claimed[c.Key] = true
		}
		return false
	})
}
