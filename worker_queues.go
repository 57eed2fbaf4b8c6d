package qless

import (
	"slices"
	"strings"
)

// A queuePattern is a name of WorkerConfig.Queues, in which a * matches any text.
type queuePattern struct {
	parts    []string // what is between the *
	excludes bool
}

// queuePatterns are those of a worker.
type queuePatterns []queuePattern

func newQueuePatterns(names []string) queuePatterns {
	patterns := make(queuePatterns, len(names))
	for i, name := range names {
		patterns[i] = newQueuePattern(name)
	}
	return patterns
}

func newQueuePattern(name string) queuePattern {
	name, excludes := strings.CutPrefix(name, "!")
	return queuePattern{strings.Split(name, "*"), excludes}
}

// isName reports whether it matches one text only.
func (p queuePattern) isName() bool { return len(p.parts) == 1 }

// matches reports whether the pattern matches the name of a queue.
func (p queuePattern) matches(name string) bool {
	first, last := p.parts[0], p.parts[len(p.parts)-1]
	if p.isName() {
		return name == first
	}
	name, begins := strings.CutPrefix(name, first)
	name, ends := strings.CutSuffix(name, last)
	if !begins || !ends {
		return false
	}
	for _, part := range p.parts[1 : len(p.parts)-1] {
		_, rest, found := strings.Cut(name, part)
		if !found {
			return false
		}
		name = rest
	}
	return true
}

// find returns the index of the first pattern that matches a queue, or -1 if none does, or one
// excludes it.
func (p queuePatterns) find(queue string) int {
	found := -1
	for i, pattern := range p {
		switch {
		case !pattern.excludes && found >= 0, !pattern.matches(queue):
		case pattern.excludes:
			return -1
		default:
			found = i
		}
	}
	return found
}

// watch reports whether the queues depend on which ones exist.
func (p queuePatterns) watch() bool {
	return slices.ContainsFunc(p, func(q queuePattern) bool { return !q.excludes && !q.isName() })
}

// names returns the patterns that are plain names of queues, each once.
func (p queuePatterns) names() []string {
	var names []string
	for _, pattern := range p {
		if pattern.isName() && !pattern.excludes {
			names = append(names, pattern.parts[0])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A queueChoice holds the queues that a worker's patterns match, and chooses which of them it asks
// for jobs when they are more than one call may ask.
type queueChoice struct {
	patterns queuePatterns
	groups   [][]string // for each pattern, what it is the first to match
	has      map[string]bool
	asked    []string
	turn     int // the first of those that are asked in turns
}

func newQueueChoice(patterns queuePatterns) *queueChoice {
	return &queueChoice{patterns: patterns}
}

// reset sets the queues to those of the known ones that the patterns match, in the order of the
// patterns, then in the order in which they are given. A plain name is a queue whether it is known
// or not. It asks all of them, which may be too many.
func (c *queueChoice) reset(known []string) {
	c.groups, c.has = make([][]string, len(c.patterns)), map[string]bool{}
	for _, queue := range slices.Concat(known, c.patterns.names()) {
		c.match(queue)
	}
	c.asked = c.matched()
}

// match adds a queue if a pattern matches it. It reports whether it did.
func (c *queueChoice) match(queue string) bool {
	i := c.patterns.find(queue)
	if i < 0 || c.has[queue] {
		return false
	}
	c.has[queue] = true
	c.groups[i] = append(c.groups[i], queue)
	return true
}

// matched returns all queues that the patterns match.
func (c *queueChoice) matched() []string { return slices.Concat(c.groups...) }

// areTooMany reports whether one call can't ask all queues.
func (c *queueChoice) areTooMany() bool { return len(c.has) > maxReserve }

// add adds a queue that has appeared, or may have jobs: it is asked. It reports whether the queues
// that are asked have changed.
func (c *queueChoice) add(queue string) bool {
	added := c.match(queue)
	switch {
	case !c.areTooMany():
		if added {
			c.asked = c.matched()
		}
		return added
	case !c.has[queue] || slices.Contains(c.asked, queue):
		return false
	}
	c.asked = slices.Insert(c.asked, 0, queue)
	if len(c.asked) > maxReserve {
		c.leaveOut()
	}
	return true
}

// leaveOut no longer asks the last queue that is not named.
func (c *queueChoice) leaveOut() {
	names := c.patterns.names()
	for i, queue := range slices.Backward(c.asked) {
		if _, named := slices.BinarySearch(names, queue); !named {
			c.asked = slices.Delete(c.asked, i, i+1)
			return
		}
	}
}

// limit asks as many queues as one call may: those that are named, then those that are ready, then
// others, in turns if they are still too many. What is named or ready comes first. Otherwise they
// keep their order.
func (c *queueChoice) limit(ready []string) {
	rank := map[string]int{}
	for _, queue := range ready {
		rank[queue] = 1
	}
	for _, queue := range c.patterns.names() {
		rank[queue] = 2
	}
	queues := c.matched()
	kept, first := map[string]bool{}, c.turn%len(queues)
	for _, wanted := range []int{2, 1, 0} {
		for i := range queues {
			at := (first + i) % len(queues)
			if rank[queues[at]] != wanted || len(kept) == maxReserve {
				continue
			}
			kept[queues[at]] = true
			if wanted < 2 {
				c.turn = at + 1
			}
		}
	}
	queues = slices.DeleteFunc(queues, func(queue string) bool { return !kept[queue] })
	slices.SortStableFunc(queues, func(a, b string) int { return min(rank[b], 1) - min(rank[a], 1) })
	c.asked = queues
}
