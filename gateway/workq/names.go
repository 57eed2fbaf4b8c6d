package workq

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/qless/qless-go"
)

// prefix begins the names of all of the gateway's queues.
const prefix = "workq/"

// scheduledSuffix ends the names of the queues of scheduled jobs.
const scheduledSuffix = "/s"

// Queue returns the name of the qless queue for the jobs of a Workq name with a priority. Scheduled
// jobs are in [ScheduledQueue].
func Queue(name string, priority int) string { return prefix + name + "/" + strconv.Itoa(priority) }

// ScheduledQueue returns the name of the qless queue for the scheduled jobs of a Workq name with a
// priority.
func ScheduledQueue(name string, priority int) string {
	return Queue(name, priority) + scheduledSuffix
}

// parseQueue returns the name and the priority of a queue's jobs, and whether the queue belongs to
// the gateway.
func parseQueue(queue string) (name string, priority int, ok bool) {
	rest, ok := strings.CutPrefix(queue, prefix)
	rest = strings.TrimSuffix(rest, scheduledSuffix)
	name, number, found := strings.Cut(rest, "/")
	n, err := strconv.ParseInt(number, 10, 32)
	ok = ok && found && err == nil && strconv.FormatInt(n, 10) == number
	return name, int(n), ok && checkName(name) == nil
}

// manyPriorities is the number of a name's priorities from which empty priorities are skipped.
const manyPriorities = 8

// maxQueues is the maximum number of queues of a lease.
const maxQueues = 1000

// maxLeased is the maximum number of names known only because a lease has asked for their jobs,
// without queues on the server.
const maxLeased = 10_000

// names are the known Workq names, with the priorities of their jobs.
type names struct {
	mu     sync.Mutex
	known  map[string]*priorities // names with queues or watchers
	leased map[string]bool        // names that leases have asked for, or with former queues
	queues map[string]bool        // queues that exist on the server or are about to
}

// priorities are the priorities of a name's jobs, the highest first.
type priorities struct {
	exists   bool // a job was put
	list     []int
	usedAt   map[int]time.Time // when this process last put a job with the priority
	watchers map[*watcher]bool
}

func newNames() *names {
	return &names{
		known: map[string]*priorities{}, leased: map[string]bool{}, queues: map[string]bool{},
	}
}

// lease notes that a lease has asked for the jobs of names. Above maxLeased, it forgets others.
func (n *names) lease(list []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range list[:min(len(list), maxLeased)] {
		n.remember(name)
	}
}

// remember notes that a name exists, perhaps without queues. The mutex is held.
func (n *names) remember(name string) {
	if n.leased[name] {
		return
	}
	for other := range n.leased {
		if len(n.leased) < maxLeased {
			break
		}
		delete(n.leased, other)
	}
	n.leased[name] = true
}

// use notes that a job with a priority is about to be put into a queue.
func (n *names) use(name string, priority int, queue string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.touch(name, priority, queue)
}

// add notes that a job with a priority was put into a queue. The queue may have been forgotten
// since use, by an update that asked the server before the job was there.
func (n *names) add(name string, priority int, queue string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.touch(name, priority, queue).exists = true
}

// touch notes that a queue is in use. The mutex is held.
func (n *names) touch(name string, priority int, queue string) *priorities {
	p := n.get(name)
	n.queues[queue] = true
	p.usedAt[priority] = time.Now()
	p.include(priority)
	return p
}

// get returns the priorities of a name. The mutex is held.
func (n *names) get(name string) *priorities {
	p := n.known[name]
	if p == nil {
		p = &priorities{
			list: []int{0}, usedAt: map[int]time.Time{}, watchers: map[*watcher]bool{},
		}
		n.known[name] = p
	}
	return p
}

// include adds a priority unless it exists.
func (p *priorities) include(priority int) {
	at, found := slices.BinarySearchFunc(p.list, priority, func(a, b int) int {
		return cmp.Compare(b, a)
	})
	if !found {
		p.list = slices.Insert(p.list, at, priority)
		p.change()
	}
}

// change notifies the watchers of a change of the list.
func (p *priorities) change() {
	for w := range p.watchers {
		w.cancel()
	}
}

// update applies the server's list of queues, requested at the time asked.
func (n *names) update(counts []qless.QueueCounts, asked time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	found := map[string]map[int]bool{} // by name and priority: whether there are jobs
	for _, c := range counts {
		name, priority, ok := parseQueue(c.Name)
		if !ok {
			continue
		}
		n.queues[c.Name] = true
		if found[name] == nil {
			found[name] = map[int]bool{}
		}
		has := c.Waiting+c.Running+c.Stalled+c.Scheduled+c.Depends+c.Recurring > 0
		found[name][priority] = found[name][priority] || has
	}
	for name, has := range found {
		n.get(name).update(has, asked)
	}
	for name, p := range n.known {
		if found[name] == nil && len(p.watchers) == 0 && !p.isUsed(asked) {
			n.forget(name, p)
		}
	}
}

// forget forgets a name without queues. The mutex is held.
func (n *names) forget(name string, p *priorities) {
	delete(n.known, name)
	if p.exists {
		n.remember(name)
	}
	for _, priority := range p.list {
		delete(n.queues, Queue(name, priority))
		delete(n.queues, ScheduledQueue(name, priority))
	}
}

// isUsed reports whether this process has put a job since a time.
func (p *priorities) isUsed(since time.Time) bool {
	for _, at := range p.usedAt {
		if !at.Before(since) {
			return true
		}
	}
	return false
}

func (p *priorities) update(has map[int]bool, asked time.Time) {
	p.exists = true
	for priority, hasJobs := range has {
		if hasJobs || len(has) <= manyPriorities {
			p.include(priority)
		}
	}
	if len(p.list) <= manyPriorities {
		return
	}
	before := len(p.list)
	p.list = slices.DeleteFunc(p.list, func(priority int) bool {
		unused := priority != 0 && !has[priority] && p.usedAt[priority].Before(asked)
		if unused {
			delete(p.usedAt, priority)
		}
		return unused
	})
	if len(p.list) < before {
		p.change()
	}
}

// exists reports whether a name is known.
func (n *names) exists(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leased[name] || n.known[name] != nil && n.known[name].exists
}

// sorted returns all names in alphabetical order.
func (n *names) sorted() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := maps.Clone(n.leased)
	for name, p := range n.known {
		if p.exists {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// queuesOf returns the queues of names on the server, for each name in the order of taking jobs.
func (n *names) queuesOf(list ...string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(n.askedBy(list), func(queue string) bool { return !n.queues[queue] })
}

// all returns the queues of all names.
func (n *names) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Collect(maps.Keys(n.queues))
}

// asked returns the queues to ask for a lease of some names, in order.
func (n *names) asked(list []string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.askedBy(list)
}

// askedBy is asked, but called while the mutex is held.
func (n *names) askedBy(list []string) (queues []string) {
	for _, name := range list {
		priorities := []int{0}
		if p := n.known[name]; p != nil {
			priorities = p.list
		}
		for _, priority := range priorities {
			queues = append(queues, Queue(name, priority), ScheduledQueue(name, priority))
		}
	}
	return queues
}

// A watcher is a lease that must ask again when the queues of its names change.
type watcher struct{ cancel context.CancelFunc }

// watch returns the queues to ask for a lease of some names. Until stop is called, watch calls
// cancel when these queues change. cancel must not block.
func (n *names) watch(list []string, cancel context.CancelFunc) (queues []string, stop func()) {
	w := &watcher{cancel}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range list {
		n.get(name).watchers[w] = true
	}
	return n.askedBy(list), func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, name := range list {
			p := n.known[name]
			if p == nil {
				continue
			}
			delete(p.watchers, w)
			if len(p.watchers) == 0 && !p.exists && len(p.usedAt) == 0 {
				delete(n.known, name)
			}
		}
	}
}

// maxOrders is the maximum number of orders of the same names in use at a time. Each costs the
// server an idle worker while leases wait.
const maxOrders = 16

// orderPeriod is how long these orders are used.
const orderPeriod = 10 * time.Second

// inRandomOrder returns distinct names in random order: each is equally likely to be the first.
func inRandomOrder(list []string) []string {
	list = slices.Compact(slices.Sorted(slices.Values(list)))
	if len(list) <= 3 {
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		return list
	}
	epoch := uint64(time.Now().UnixNano() / int64(orderPeriod))
	source := rand.New(rand.NewPCG(epoch, orderSeed))
	source.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	orders := min(len(list), maxOrders)
	first := rand.IntN(orders) * len(list) / orders
	return append(list[first:], list[:first]...)
}

var orderSeed = rand.Uint64()
