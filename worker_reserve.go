package qless

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// An Order is the order in which a worker takes jobs from its queues.
type Order string

// The orders of queues.
const (
	// OrderStrict takes all jobs of a queue before those of the next one.
	OrderStrict Order = "strict"

	// OrderRoundRobin takes one job from each queue in turn.
	OrderRoundRobin Order = "round-robin"

	// OrderShuffled takes one job from each queue in turn, in a new random order each time,
	// so that many workers do not all begin with the same queue.
	OrderShuffled Order = "shuffled"
)

// maxReserve is the maximum number of queues that one call asks, and of jobs that one asks for.
const maxReserve = 1000

// reservedAtOnce is how many jobs a script reserves.
const reservedAtOnce = 250

// A reservation holds the arguments of the next reserve: the queues, and parts of the last reply.
type reservation struct {
	order  Order
	lock   []string // pairs that say whose the jobs become, and for how long, if that is not usual
	queues []string
	left   []string // those asked last, if there are none now
	cursor int
	claim  string
	polls  bool // nothing but the time has it ask again
}

// ask sets the queues.
func (r *reservation) ask(queues []string) {
	if len(queues) == 0 && len(r.queues) > 0 {
		r.left = r.queues
	}
	r.queues = queues
}

// queuesFor returns the queues to ask for jobs. If no jobs are wanted and there are no queues any
// more, it returns those asked last.
func (r *reservation) queuesFor(room int) []string {
	if room == 0 && len(r.queues) == 0 {
		return r.left
	}
	return r.queues
}

// reserveArgs is how many arguments of the script reserve precede the pairs. The last one is how many
// these are, and the queues come after them.
const reserveArgs = 4

// args returns the arguments of the script reserve, for a number of jobs and some more ahead.
func (r *reservation) args(worker string, count, ahead int, poll time.Duration) []any {
	count = min(count, reservedAtOnce)
	pairs := slices.Clone(r.lock)
	switch r.order {
	case OrderRoundRobin:
		pairs = append(pairs, "order", "round-robin", "cursor", strconv.Itoa(r.cursor))
	case OrderShuffled:
		pairs = append(pairs, "order", "shuffled", "cursor", strconv.Itoa(1+rand.IntN(math.MaxInt32-1)))
	}
	if r.claim != "" {
		pairs = append(pairs, "claim", r.claim)
	}
	if r.polls {
		pairs = append(pairs, "polls", "1")
	}
	if ahead = min(ahead, reservedAtOnce-count); ahead > 0 {
		pairs = append(pairs, "ahead", strconv.Itoa(ahead))
	}
	queues := r.queuesFor(count)
	args := make([]any, 0, reserveArgs+len(pairs)+len(queues))
	args = append(args, worker, strconv.Itoa(count), wire.FormatSeconds(poll), strconv.Itoa(len(pairs)))
	return anys(anys(args, pairs...), queues...)
}

// queueOfReserve returns the queue that some arguments of the script reserve name, if it is only one.
func queueOfReserve(args []any) string {
	pairs, err := strconv.Atoi(argument(args, reserveArgs-1))
	if err != nil {
		return ""
	}
	return only(args, reserveArgs+pairs)
}

// reserved is the reply of the script reserve.
type reserved struct {
	cursor    int
	wait      time.Duration // 0 if there may be more jobs
	claim     string
	listeners int
	jobs      []reservedJob
}

// reservedJob is a job and how long its lock lasts.
type reservedJob struct {
	job       *Job
	heartbeat time.Duration
}

// decodeReserved reads the reply of the script reserve.
func (c *Client) decodeReserved(reply any) (reserved, error) {
	items, ok := reply.([]any)
	if !ok || len(items) < reservedHead {
		return reserved{}, unexpected("reserve", reply)
	}
	var out reserved
	var err error
	if out.cursor, err = decodeInt("reserve", items[0]); err != nil {
		return reserved{}, err
	}
	if out.listeners, err = decodeInt("reserve", items[3]); err != nil {
		return reserved{}, err
	}
	out.wait = wire.AsNumber(items[1]).Duration()
	out.claim = wire.AsString(items[2])
	if out.jobs, err = c.decodeReservedJobs(items[reservedHead:]); err != nil {
		return reserved{}, err
	}
	return out, nil
}

// reservedHead is how many items precede the jobs in a reply of the script reserve.
const reservedHead = 4

// decodeReservedJobs decodes the names of the fields, followed by the values of each job.
func (c *Client) decodeReservedJobs(items []any) ([]reservedJob, error) {
	if len(items) == 0 {
		return nil, nil
	}
	names := strings.Fields(wire.AsString(items[0]))
	jobs := make([]reservedJob, 0, len(items)-1)
	for _, item := range items[1:] {
		values, ok := reservedValues(item)
		if !ok {
			return nil, unexpected("reserve", item)
		}
		job := c.decodeReservedJob(jobFields{names: names, values: values})
		if job.job.JID == "" || job.job.since == "" {
			return nil, unexpected("reserve", item)
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// reservedValues returns the values of a job, which are one text unless some are missing or contain
// the byte between them.
func reservedValues(item any) ([]string, bool) {
	switch item := item.(type) {
	case string:
		return strings.Split(item, "\x01"), true
	case []any:
		values := make([]string, len(item))
		for i, value := range item {
			values[i] = wire.AsString(value)
		}
		return values, true
	}
	return nil, false
}

// A jobFields holds the fields of a job in a reply of the script reserve.
type jobFields struct {
	names  []string
	values []string
}

// text returns a field, or the empty string if there is none with that name.
func (f jobFields) text(name string) string {
	i := slices.Index(f.names, name)
	if i < 0 || i >= len(f.values) {
		return ""
	}
	return f.values[i]
}

func (f jobFields) number(name string) wire.Number { return wire.AsNumber(f.text(name)) }

// decodeReservedJob decodes the fields of a job, ignoring unknown ones.
func (c *Client) decodeReservedJob(fields jobFields) reservedJob {
	job := &Job{
		JID:         fields.text("jid"),
		Klass:       fields.text("klass"),
		Queue:       fields.text("queue"),
		Priority:    fields.number("priority").LargeInt(),
		Retries:     fields.number("retries").Int(),
		Remaining:   fields.number("remaining").Int(),
		Data:        json.RawMessage(fields.text("data")),
		SpawnedFrom: fields.text("spawned_from_jid"),
		State:       StateRunning,
		Worker:      c.worker,
		client:      c,
		since:       fields.text("time"),
		put:         fields.number("put_at").Time(),
	}
	var tags wire.List[wire.Text]
	if raw := fields.text("tags"); raw != "" && raw != "[]" && json.Unmarshal([]byte(raw), &tags) == nil {
		job.Tags = wire.Strings(tags)
	}
	var failure failureReply
	if raw := fields.text("failure"); raw != "" && json.Unmarshal([]byte(raw), &failure) == nil {
		job.Failure = failure.failure()
	}
	if text := fields.text("x:o"); text != "" {
		options := parseJobOptions(text)
		options.apply(job)
	}
	job.decodeData()
	heartbeat := fields.number("heartbeat").Duration()
	job.Expires = time.Now().Add(heartbeat)
	return reservedJob{job: job, heartbeat: heartbeat}
}
