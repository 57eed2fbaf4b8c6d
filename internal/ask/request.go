package ask

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/calls"
	"github.com/qless/qless-go/internal/wire"
)

// AtOnce is the maximum number of jobs reserved by a script.
const AtOnce = 250

// mostPairs is the maximum number of arguments that Ask adds to a request as pairs.
const mostPairs = 14

// countsAgain is the maximum time between two requests that count relays.
const countsAgain = time.Second

// HasQueues reports whether there are queues to ask for a number of jobs or, if it is 0, to leave.
func (a *Asker) HasQueues(wants int) bool {
	queues, _ := a.queuesFor(wants)
	return len(queues) > 0
}

// queuesFor returns the queues to ask for a number of jobs, with their weights. If no jobs are
// wanted, no queue is left out; without queues, the ones asked last are returned.
func (a *Asker) queuesFor(wants int) (queues []string, weights []int) {
	switch {
	case wants == 0 && len(a.queues) == 0:
		return a.left, nil
	case wants == 0:
		return a.queues, nil
	case len(a.leftOut) == 0:
		return a.queues, a.weights
	}
	for i, queue := range a.queues {
		if slices.Contains(a.leftOut, queue) {
			continue
		}
		queues = append(queues, queue)
		if a.weights != nil {
			weights = append(weights, a.weights[i])
		}
	}
	return queues, weights
}

// Ask returns the arguments of a request for up to room jobs, and for some more to prefetch if no
// idle worker could take them. With room 0, the request only ends the time as an idle worker.
func (a *Asker) Ask(room, ahead int) []any {
	a.room, a.ahead = a.appetite.limit(room, ahead)
	a.asked = time.Now()
	a.brief = !a.counts.Swap(false) && a.room > 0 && a.asked.Sub(a.countedAt) < countsAgain
	count, wants := min(a.room, AtOnce), a.room+a.ahead
	queues, weights := a.queuesFor(wants)
	args := make([]any, 0, calls.ReserveArgs+len(a.config.Lock)+mostPairs+len(queues))
	args = append(args, a.name, count, a.poll, nil)
	args = wire.Anys(args, a.config.Lock...)
	if wants > 0 && len(queues) > 1 {
		args = a.appendOrder(args, weights)
	}
	if a.claim != "" {
		args = append(args, "claim", a.claim)
	}
	if a.Polls {
		args = append(args, "polls", "1")
	}
	if a.brief {
		args = append(args, "brief", "1")
	}
	if ahead = min(a.ahead, AtOnce-count); a.brief || ahead > 0 {
		args = append(args, "ahead", ahead) // the script expects the usual pairs
	}
	args[calls.ReserveArgs-1] = len(args) - calls.ReserveArgs
	a.Polls = false // if the answer is lost, the next request must repeat its claim
	a.forgetWoken()
	return wire.Anys(args, queues...)
}

// Depart returns the arguments of the script depart, which deregisters the asker and, optionally,
// its relay.
func (a *Asker) Depart(relayed bool) []any {
	a.mu.Lock()
	defer a.mu.Unlock()
	relays := "0"
	if relayed {
		relays = "1"
	}
	return wire.Anys([]any{a.config.Name, a.claim, relays}, a.queues...)
}

// forgetWoken forgets the queues with wake-ups: a request asks them, or leaves all.
func (a *Asker) forgetWoken() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.woken = a.woken[:0]
}

// random returns the cursor of an order with an element of chance.
func random() string { return strconv.Itoa(1 + rand.IntN(math.MaxInt32-1)) }

// appendOrder appends the pairs with the order of the queues and any weights.
func (a *Asker) appendOrder(args []any, weights []int) []any {
	switch {
	case weights != nil:
		texts := make([]string, len(weights))
		for i, weight := range weights {
			texts[i] = strconv.Itoa(weight)
		}
		return append(args, "order", "weighted", "weights", strings.Join(texts, " "),
			"cursor", cmp.Or(a.cursor, random()))
	case a.config.Order == "round-robin":
		return append(args, "order", "round-robin", "cursor", cmp.Or(a.cursor, "0"))
	case a.config.Order == "shuffled":
		return append(args, "order", "shuffled", "cursor", random())
	}
	return args
}

// An Answer is the reply to a request.
type Answer struct {
	Names     []string // of the fields of a job
	Items     []any    // the values of each job
	Listeners int      // the number of relays; negative if the asker itself does not listen

	cursor string
	wait   time.Duration // 0 if there may be more jobs for free slots
	more   bool          // jobs were left, or may have been
	claim  string
	room   int // requested
	ahead  int
	jobs   int
}

// Read reads the reply of the script reserve.
func Read(reply any) (Answer, error) {
	items, ok := reply.([]any)
	if !ok || len(items) < calls.ReservedHead {
		return Answer{}, wire.Unexpected(reply)
	}
	var out Answer
	switch cursor := items[0].(type) {
	case int64:
		out.cursor = strconv.FormatInt(cursor, 10)
	case string: // of a weighted order, with the queues owed a turn
		out.cursor = cursor
	default:
		return Answer{}, wire.Unexpected(reply)
	}
	var err error
	if out.Listeners, err = wire.DecodeInt(items[3]); err != nil {
		return Answer{}, err
	}
	out.wait = wire.AsNumber(items[1]).Duration()
	out.claim = wire.AsString(items[2])
	if items = items[calls.ReservedHead:]; len(items) > 0 {
		names := wire.AsString(items[0])
		out.more = strings.HasPrefix(names, " ")
		out.Names, out.Items = strings.Fields(names), items[1:]
	}
	return out, nil
}

// Wants returns the number of jobs requested.
func (a *Answer) Wants() int { return a.room + a.ahead }

// Listens reports whether the server could wake the asker.
func (a *Answer) Listens() bool { return a.Listeners >= 0 }

// MayBeMore reports whether to ask again as soon as there is room. Otherwise, the server has no
// jobs for free slots, and will wake the asker when it has some.
func (a *Answer) MayBeMore() bool { return a.wait == 0 }

// IsPlenty reports whether there were as many jobs as requested, including prefetched ones. Only
// then is it worthwhile to ask for jobs to prefetch alone, because some are never prefetched.
func (a *Answer) IsPlenty() bool { return a.jobs >= a.Wants() }

// RefusesAhead reports whether jobs were left, but none was prefetched.
func (a *Answer) RefusesAhead() bool { return a.ahead > 0 && a.more && a.jobs <= a.room }

// IsBacklog reports whether jobs may wait for a slot of this worker, of a limit or of their queue.
func (a *Answer) IsBacklog() bool { return a.more || a.MayBeMore() && a.jobs < a.room }
