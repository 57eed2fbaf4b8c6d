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

// countsAgain is the maximum time between two requests that count relays.
const countsAgain = time.Second

// HasQueues reports whether there are queues to ask for jobs or, with no room, to leave.
func (a *Asker) HasQueues(room int) bool { return len(a.queuesFor(room)) > 0 }

// queuesFor returns the queues to ask for jobs. If no jobs are wanted and there are no queues any
// more, it returns the ones asked last.
func (a *Asker) queuesFor(room int) []string {
	if room == 0 && len(a.queues) == 0 {
		return a.left
	}
	return a.queues
}

// Ask returns the arguments of a request for up to room jobs, and some more ahead if no idle worker
// could take them. With room 0, the request only ends the time as an idle worker.
func (a *Asker) Ask(room, ahead int) []any {
	a.room, a.ahead = a.appetite.limit(room, ahead)
	a.asked = time.Now()
	a.brief = !a.counts.Swap(false) && a.room > 0 && a.asked.Sub(a.countedAt) < countsAgain
	count := min(a.room, AtOnce)
	pairs := append(slices.Clone(a.config.Lock), a.order()...)
	if a.claim != "" {
		pairs = append(pairs, "claim", a.claim)
	}
	if a.brief {
		pairs = append(pairs, "brief", "1")
	}
	if a.Polls {
		pairs = append(pairs, "polls", "1")
	}
	if ahead = min(a.ahead, AtOnce-count); ahead > 0 {
		pairs = append(pairs, "ahead", strconv.Itoa(ahead))
	}
	a.Polls = false // if the answer is lost, the next request must repeat its claim
	queues := a.queuesFor(count)
	args := make([]any, 0, calls.ReserveArgs+len(pairs)+len(queues))
	args = append(args, a.config.Name, strconv.Itoa(count), wire.FormatSeconds(a.config.Poll),
		strconv.Itoa(len(pairs)))
	return anys(anys(args, pairs), queues)
}

// Depart returns the arguments of the script depart, which deregisters the asker, and perhaps its
// relay.
func (a *Asker) Depart(relayed bool) []any {
	a.mu.Lock()
	defer a.mu.Unlock()
	relays := "0"
	if relayed {
		relays = "1"
	}
	return anys([]any{a.config.Name, a.claim, relays}, a.queues)
}

func anys(args []any, texts []string) []any {
	for _, text := range texts {
		args = append(args, text)
	}
	return args
}

// order returns the pairs with the order of the queues.
func (a *Asker) order() []string {
	random := strconv.Itoa(1 + rand.IntN(math.MaxInt32-1))
	switch {
	case a.weights != "":
		cursor := cmp.Or(a.cursor, random)
		return []string{"order", "weighted", "weights", a.weights, "cursor", cursor}
	case a.config.Order == "round-robin":
		return []string{"order", "round-robin", "cursor", cmp.Or(a.cursor, "0")}
	case a.config.Order == "shuffled":
		return []string{"order", "shuffled", "cursor", random}
	}
	return nil
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
	room   int // asked for
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
	case string: // of a weighted order, with the queues that are owed a turn
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

// Wants returns the number of jobs that the request asked for.
func (a *Answer) Wants() int { return a.room + a.ahead }

// Listens reports whether the server could wake the asker.
func (a *Answer) Listens() bool { return a.Listeners >= 0 }

// MayBeMore reports whether to ask again as soon as there is room. Otherwise, the server has no
// jobs for free slots, and wakes the asker when it has some.
func (a *Answer) MayBeMore() bool { return a.wait == 0 }

// IsPlenty reports whether there were as many jobs as asked for, those ahead included. Only then is
// it worthwhile to ask for jobs ahead alone, because some are never taken ahead.
func (a *Answer) IsPlenty() bool { return a.jobs >= a.Wants() }

// IsBacklog reports whether jobs may wait for a slot of this worker, of a limit or of their queue.
func (a *Answer) IsBacklog() bool { return a.more || a.MayBeMore() && a.jobs < a.room }
