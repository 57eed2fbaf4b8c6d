package qless

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/calls"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// An Order is the order of a worker's queues.
type Order string

// The orders of queues.
const (
	// OrderStrict takes all jobs of a queue before any of the next one.
	OrderStrict Order = "strict"

	// OrderRoundRobin takes one job from each queue in turn.
	OrderRoundRobin Order = "round-robin"

	// OrderShuffled takes one job from each queue in turn, in a new random order each time,
	// so that many workers do not all begin with the same queue.
	OrderShuffled Order = "shuffled"
)

func (o Order) isKnown() bool {
	return slices.Contains([]Order{"", OrderStrict, OrderRoundRobin, OrderShuffled}, o)
}

// reservedAtOnce is the maximum number of jobs reserved by a script.
const reservedAtOnce = 250

// A reservation holds the arguments of the next reserve: the queues, and parts of the last reply.
type reservation struct {
	order   Order
	weights string   // of the queues, in order; they replace order
	lock    []string // pairs with the owner and the duration of locks, unless they are the usual ones
	queues  []string
	left    []string // the queues asked last, if there are none now
	cursor  string
	claim   string
	polls   bool // it asks only because the alarm fired
	brief   bool // it need not count relays
}

// ask sets the queues. In a weighted order, the cursor has numbers of the queues before.
func (r *reservation) ask(queues []string) {
	if r.weights != "" && !slices.Equal(queues, r.queues) {
		r.cursor = ""
	}
	if len(queues) == 0 && len(r.queues) > 0 {
		r.left = r.queues
	}
	r.queues = queues
}

// queuesFor returns the queues to ask for jobs. If no jobs are wanted and there are no queues any
// more, it returns the ones asked last.
func (r *reservation) queuesFor(room int) []string {
	if room == 0 && len(r.queues) == 0 {
		return r.left
	}
	return r.queues
}

// args returns the arguments of the script reserve, for a number of jobs and some more ahead.
func (r *reservation) args(worker string, count, ahead int, poll time.Duration) []any {
	count = min(count, reservedAtOnce)
	pairs := slices.Clone(r.lock)
	random := strconv.Itoa(1 + rand.IntN(math.MaxInt32-1))
	switch {
	case r.weights != "":
		cursor := cmp.Or(r.cursor, random)
		pairs = append(pairs, "order", "weighted", "weights", r.weights, "cursor", cursor)
	case r.order == OrderRoundRobin:
		pairs = append(pairs, "order", "round-robin", "cursor", cmp.Or(r.cursor, "0"))
	case r.order == OrderShuffled:
		pairs = append(pairs, "order", "shuffled", "cursor", random)
	}
	if r.claim != "" {
		pairs = append(pairs, "claim", r.claim)
	}
	if r.brief {
		pairs = append(pairs, "brief", "1")
	}
	if r.polls {
		pairs = append(pairs, "polls", "1")
	}
	if ahead = min(ahead, reservedAtOnce-count); ahead > 0 {
		pairs = append(pairs, "ahead", strconv.Itoa(ahead))
	}
	queues := r.queuesFor(count)
	args := make([]any, 0, calls.ReserveArgs+len(pairs)+len(queues))
	args = append(args,
		worker, strconv.Itoa(count), wire.FormatSeconds(poll), strconv.Itoa(len(pairs)))
	return anys(anys(args, pairs...), queues...)
}

// reserved is the reply of the script reserve.
type reserved struct {
	cursor    string
	wait      time.Duration // 0 if there may be more jobs for free slots
	more      bool          // jobs were left, or may have been
	claim     string
	listeners int
	jobs      []reservedJob
}

// mayBeMore reports whether to ask again as soon as there is room. Otherwise, the server has no
// jobs for free slots, and wakes the one who asked when it has some.
func (r *reserved) mayBeMore() bool { return r.wait == 0 }

// leavesIdle reports whether the server now counts the one who made an exchange as idle.
func (r *reserved) leavesIdle(e exchange) bool { return e.room > 0 && !r.mayBeMore() }

// isPlenty reports whether there were as many jobs as the exchange asked for, those ahead included.
// Only then is it worthwhile to ask for jobs ahead alone, because some are never taken ahead.
func (r *reserved) isPlenty(e exchange) bool { return len(r.jobs) >= e.wants() }

// isBacklog reports whether jobs may wait for a slot of this worker, of a limit or of their queue.
func (r *reserved) isBacklog(e exchange) bool {
	return r.more || r.mayBeMore() && len(r.jobs) < e.room
}

// reservedJob is a job with the duration of its lock.
type reservedJob struct {
	job       *Job
	heartbeat time.Duration
}

// decodeReserved reads the reply of the script reserve.
func (c *Client) decodeReserved(reply any) (reserved, error) {
	items, ok := reply.([]any)
	if !ok || len(items) < calls.ReservedHead {
		return reserved{}, unexpected("reserve", reply)
	}
	var out reserved
	var err error
	switch cursor := items[0].(type) {
	case int64:
		out.cursor = strconv.FormatInt(cursor, 10)
	case string: // of a weighted order, with the queues that are owed a turn
		out.cursor = cursor
	default:
		return reserved{}, unexpected("reserve", reply)
	}
	if out.listeners, err = decodeInt("reserve", items[3]); err != nil {
		return reserved{}, err
	}
	out.wait = wire.AsNumber(items[1]).Duration()
	out.claim = wire.AsString(items[2])
	if items = items[calls.ReservedHead:]; len(items) > 0 {
		names := wire.AsString(items[0])
		out.more = strings.HasPrefix(names, " ")
		out.jobs, err = c.decodeReservedJobs(strings.Fields(names), items[1:])
	}
	return out, err
}

// decodeReservedJobs decodes jobs from the names of the fields and the values of each job.
func (c *Client) decodeReservedJobs(names []string, items []any) ([]reservedJob, error) {
	jobs := make([]reservedJob, 0, len(items))
	for _, item := range items {
		job := c.decodeReservedJob(calls.FieldsOf(names, item))
		if job.job.JID == "" || job.job.since == "" {
			return nil, unexpected("reserve", item)
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// decodeReservedJob decodes the fields of a job, ignoring unknown ones. Its data stays encoded: a
// codec may not return, or take its time.
func (c *Client) decodeReservedJob(fields calls.Fields) reservedJob {
	job := &Job{
		JID:         fields.Text("jid"),
		Klass:       fields.Text("klass"),
		Queue:       fields.Text("queue"),
		Priority:    fields.Number("priority").LargeInt(),
		Retries:     fields.Number("retries").Int(),
		Remaining:   fields.Number("remaining").Int(),
		Data:        json.RawMessage(fields.Text("data")),
		SpawnedFrom: fields.Text("spawned_from_jid"),
		State:       StateRunning,
		Worker:      c.worker,
		client:      c,
	}
	job.setRun(fields.Text("time"), fields.Number("put_at").Time())
	var tags wire.List[wire.Text]
	if raw := fields.Text("tags"); raw != "" && raw != "[]" &&
		json.Unmarshal([]byte(raw), &tags) == nil {
		job.Tags = wire.Strings(tags)
	}
	var failure failureReply
	if raw := fields.Text("failure"); raw != "" && json.Unmarshal([]byte(raw), &failure) == nil {
		job.Failure = failure.failure()
	}
	if text := fields.Text("x:o"); text != "" {
		options := jobopts.Parse(text)
		job.applyStored(&options)
	}
	heartbeat := fields.Number("heartbeat").Duration()
	job.Expires = time.Now().Add(heartbeat)
	return reservedJob{job: job, heartbeat: heartbeat}
}

// resolve looks up the existing queues, if that is due, and reports whether it asked the server. If
// it fails, the loop tries again.
func (l *workLoop) resolve(ctx context.Context) (looked bool, err error) {
	if !l.watch.Choice.Patterns.Watch() {
		return false, nil
	}
	changed, missed := l.watch.Learn()
	if changed { // other workers were notified of the new queue too, and it is enough if one looks
		l.reservation.polls = true
	}
	if looked, err = l.watch.Look(ctx, missed, l.w.cfg.PollInterval/2); err != nil {
		l.w.listener.missedQueues()
	}
	if looked || changed {
		l.setAsked()
	}
	return looked, err
}

// setAsked records the queues to ask.
func (l *workLoop) setAsked() {
	asked := l.watch.Choice.Asked
	l.reservation.ask(asked)
	if l.weights != nil {
		weights := l.watch.Choice.Patterns.Weights(asked, l.weights)
		l.reservation.weights = strings.Trim(fmt.Sprint(weights), "[]")
	}
	l.mu.Lock()
	l.queues = slices.Clone(asked)
	l.mu.Unlock()
	l.warnOfTooMany()
}

// warnOfTooMany logs that the patterns match more queues than are asked, once unless their number
// changes a lot.
func (l *workLoop) warnOfTooMany() {
	logged, matched := &l.tooMany, l.watch.Choice.Count()
	switch {
	case matched <= maxReserve:
		*logged = 0
	case *logged == 0 || matched > *logged*3/2 || matched < *logged*2/3:
		*logged = matched
		l.w.log.tooManyQueues(matched)
	}
}

// A queueSource reads the queues of a client's namespace.
type queueSource struct{ *Client }

// Ready returns the queues with jobs for a worker, now or later.
func (c queueSource) Ready(ctx context.Context, queues []string) ([]string, error) {
	var all []string
	for some := range slices.Chunk(queues, maxReserve) {
		reply, err := c.run(ctx, "queues.ready", "", anys(nil, some...)...)
		if err != nil {
			return nil, err
		}
		ready, err := decodeStrings("queues.ready", reply)
		if err != nil {
			return nil, err
		}
		all = append(all, ready...)
	}
	return all, nil
}

// Names returns the names of the known queues, in the order in which they were first seen. Queues
// that are not in the list used by clients in other languages come last.
func (c queueSource) Names(ctx context.Context) ([]string, error) {
	sent := time.Now()
	listed, err := c.rdb.ZRange(ctx, c.prefix+"queues", 0, -1).Result()
	if err == nil {
		var unlisted []string
		unlisted, err = c.rdb.ZRange(ctx, c.prefix+"x:queues", 0, -1).Result()
		listed = append(listed, unlisted...)
	}
	err = wrap("queues", "", err)
	if c.observe != nil {
		c.observed(ctx, "queues", "", nil, nil, sent, err)
	}
	return listed, err
}

// Count returns the number of Names.
func (c queueSource) Count(ctx context.Context) (int, error) {
	sent := time.Now()
	counts, err := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZCard(ctx, c.prefix+"queues")
		p.ZCard(ctx, c.prefix+"x:queues")
		return nil
	})
	err = wrap("queues.count", "", err)
	if c.observe != nil {
		c.observed(ctx, "queues.count", "", nil, nil, sent, err)
	}
	if err != nil {
		return 0, err
	}
	sum := 0
	for _, count := range counts {
		sum += int(count.(*redis.IntCmd).Val())
	}
	return sum, nil
}

// appetiteRest is how long after a lost answer reserves ask for fewer jobs.
const appetiteRest = 30 * time.Second

// An appetite bounds the number of jobs that one reserve asks for. A lost answer may have been too
// long for the client's ReadTimeout, so that asking for as many jobs again would never succeed.
type appetite struct {
	most     int // 0 for no bound
	lost     int // the number of jobs asked for when an answer was last lost
	lostAt   time.Time
	inARow   int // the number of answers lost since the last one received
	loggedAt time.Time
}

// limit bounds the number of jobs asked for in an exchange.
func (a *appetite) limit(e *exchange) {
	if a.most > 0 {
		e.room = min(e.room, a.most)
		e.ahead = min(e.ahead, a.most-e.room)
	}
}

// succeeded records an answer with a number of jobs.
func (a *appetite) succeeded(jobs int) {
	a.inARow = 0
	if a.most == 0 || jobs < a.most {
		return
	}
	more := 2 * a.most
	if time.Since(a.lostAt) < appetiteRest {
		more = min(more, a.lost-1)
	}
	if a.most = max(a.most, more); a.most >= reservedAtOnce {
		a.most = 0
	}
}

// failed records that a reserve for so many jobs failed. If its answer was lost, the next one asks
// for half as many. That is logged unless it may be due to a single broken connection.
func (a *appetite) failed(asked int, err error, log *workerLog) {
	if asked == 0 || redisx.IsAnswer(err) || redisx.NeverRan(err) {
		return
	}
	a.most, a.lost, a.lostAt = max(1, asked/2), asked, time.Now()
	a.inARow++
	if (redisx.IsTimeout(err) || a.inARow > 1) && time.Since(a.loggedAt) >= appetiteRest {
		a.loggedAt = time.Now()
		log.answerLost(asked, a.most, err)
	}
}
