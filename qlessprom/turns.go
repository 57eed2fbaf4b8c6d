package qlessprom

import (
	"slices"

	"github.com/qless/qless-go/inspect"
)

// turns are the last figures of all queues, in order of discovery. If there are many, each scrape
// reads a part of them.
type turns struct {
	queues []inspect.QueueOverview
	from   int // the first queue to read in the next scrape
}

// maxTurns is the number of scrapes for reading all queues.
const maxTurns = 4

// next returns the first queue to read, and the number of queues to read.
func (t *turns) next(atOnce int) (from, count int) {
	known := len(t.queues)
	atOnce = max(atOnce, (known+maxTurns-1)/maxTurns)
	if known <= atOnce {
		t.from = 0
		return 0, maxQueuesRead
	}
	return t.from, min(atOnce, known-t.from)
}

// add adds the queues just read, and puts all known queues into the overview. It returns false if
// all queues must be read because some are new or gone.
func (t *turns) add(from int, overview *inspect.Overview) bool {
	read := overview.Queues
	to := from + len(read)
	if from == 0 && to == min(overview.Total, maxQueuesRead) {
		t.queues = read
		return true
	}
	if min(overview.Total, maxQueuesRead) != len(t.queues) || len(read) == 0 || to > len(t.queues) {
		return false
	}
	queues := slices.Clone(t.queues)
	for i := range read {
		if queues[from+i].Name != read[i].Name {
			return false
		}
		queues[from+i] = read[i]
	}
	t.queues, overview.Queues = queues, queues
	t.from = to % len(queues)
	return true
}
