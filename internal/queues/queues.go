// Package queues finds the queues that match a worker's patterns, and chooses which to ask for
// jobs.
package queues

import (
	"slices"
	"strings"
)

// A pattern is a queue name in which a * matches any text. After a ! it excludes queues.
type pattern struct {
	parts    []string // the texts between the asterisks
	excludes bool
}

// Patterns are the patterns of a worker.
type Patterns []pattern

// NewPatterns returns the patterns with these texts.
func NewPatterns(names []string) Patterns {
	patterns := make(Patterns, len(names))
	for i, name := range names {
		patterns[i] = newPattern(name)
	}
	return patterns
}

func newPattern(name string) pattern {
	name, excludes := strings.CutPrefix(name, "!")
	return pattern{strings.Split(name, "*"), excludes}
}

// IsName reports whether a text is the name of a queue, not a pattern.
func IsName(text string) bool {
	p := newPattern(text)
	return p.isName() && !p.excludes
}

// isName reports whether the pattern matches only one text.
func (p pattern) isName() bool { return len(p.parts) == 1 }

// matches reports whether the pattern matches the name of a queue.
func (p pattern) matches(name string) bool {
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

// Find returns the index of the first pattern that matches a queue, or -1 if none does or one
// excludes it.
func (p Patterns) Find(queue string) int {
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

// Watch reports whether the matching queues depend on which queues exist.
func (p Patterns) Watch() bool {
	return slices.ContainsFunc(p, func(q pattern) bool { return !q.excludes && !q.isName() })
}

// Weights returns the weight of each queue: the weight of the first matching pattern. weights has
// one for each pattern.
func (p Patterns) Weights(queues []string, weights []int) []int {
	all := make([]int, len(queues))
	for i, queue := range queues {
		all[i] = weights[p.Find(queue)]
	}
	return all
}

// Names returns the distinct patterns that are plain queue names.
func (p Patterns) Names() []string {
	var names []string
	for _, pattern := range p {
		if pattern.isName() && !pattern.excludes {
			names = append(names, pattern.parts[0])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// MaxAsked is the maximum number of queues in one call.
const MaxAsked = 1000

// A Choice holds the queues that match a worker's patterns, and chooses among them when one call
// can't ask all.
type Choice struct {
	Patterns Patterns
	groups   [][]string // for each pattern, the queues that no earlier pattern matches
	has      map[string]bool
	Asked    []string // the queues to ask, in order
	turn     int      // the first of the queues asked in turn
}

// NewChoice returns a choice without queues.
func NewChoice(patterns Patterns) *Choice {
	return &Choice{Patterns: patterns}
}

// Reset sets the queues to the known ones that match the patterns, in the order of the patterns,
// then in the given order. A plain name is a queue, known or not. Reset asks all queues, which may
// be too many.
func (c *Choice) Reset(known []string) {
	c.groups, c.has = make([][]string, len(c.Patterns)), map[string]bool{}
	for _, queue := range slices.Concat(known, c.Patterns.Names()) {
		c.match(queue)
	}
	c.Asked = c.Matched()
}

// match adds a queue if a pattern matches, and reports whether the queue was added.
func (c *Choice) match(queue string) bool {
	i := c.Patterns.Find(queue)
	if i < 0 || c.has[queue] {
		return false
	}
	c.has[queue] = true
	c.groups[i] = append(c.groups[i], queue)
	return true
}

// Matched returns all matching queues.
func (c *Choice) Matched() []string { return slices.Concat(c.groups...) }

// Count returns the number of matching queues.
func (c *Choice) Count() int { return len(c.has) }

// AreTooMany reports whether one call can't ask all queues.
func (c *Choice) AreTooMany() bool { return len(c.has) > MaxAsked }

// Add adds a queue to ask, after it has appeared or may have got jobs. It reports whether the
// queues to ask have changed.
func (c *Choice) Add(queue string) bool {
	added := c.match(queue)
	switch {
	case !c.AreTooMany():
		if added {
			c.Asked = c.Matched()
		}
		return added
	case !c.has[queue] || slices.Contains(c.Asked, queue):
		return false
	}
	c.Asked = slices.Insert(c.Asked, 0, queue)
	if len(c.Asked) > MaxAsked {
		c.leaveOut()
	}
	return true
}

// leaveOut stops asking the last queue that is not a plain name.
func (c *Choice) leaveOut() {
	names := c.Patterns.Names()
	for i, queue := range slices.Backward(c.Asked) {
		if _, named := slices.BinarySearch(names, queue); !named {
			c.Asked = slices.Delete(c.Asked, i, i+1)
			return
		}
	}
}

// Limit asks as many queues as one call may: plain names, then ready queues, then others, in turn
// if there are still too many. Otherwise the queues keep their order.
func (c *Choice) Limit(ready []string) {
	rank := map[string]int{}
	for _, queue := range ready {
		rank[queue] = 1
	}
	for _, queue := range c.Patterns.Names() {
		rank[queue] = 2
	}
	queues := c.Matched()
	kept, first := map[string]bool{}, c.turn%len(queues)
	for _, wanted := range []int{2, 1, 0} {
		for i := range queues {
			at := (first + i) % len(queues)
			if rank[queues[at]] != wanted || len(kept) == MaxAsked {
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
	c.Asked = queues
}
