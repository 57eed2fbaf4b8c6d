package workq

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/inside"
)

// inspect carries out the inspect commands.
func (c *conn) inspect(request *command) ([]byte, error) {
	args := request.args[1:]
	for _, object := range []struct {
		name string
		args int
		do   func(args []string) ([]byte, error)
	}{
		{"server", 0, func([]string) ([]byte, error) { return c.inspectServer() }},
		{"queue", 1, c.inspectQueue},
		{"queues", 2, c.inspectQueues},
		{"job", 1, c.inspectJob},
		{"jobs", 3, func(args []string) ([]byte, error) { return c.inspectJobs(args, false) }},
		{"scheduled-jobs", 3, func(args []string) ([]byte, error) { return c.inspectJobs(args, true) }},
	} {
		if object.name != request.args[0] {
			continue
		}
		if len(args) != object.args {
			return nil, errArgs
		}
		return object.do(args)
	}
	return nil, errUnknown
}

func (c *conn) inspectServer() ([]byte, error) {
	ctx, cancel := c.within()
	defer cancel()
	evicted, err := c.server.evicted.count(ctx, c.server.config.ServerTimeout/4)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil,
		"+OK 1\r\nserver 3\r\nactive-clients %d\r\nevicted-jobs %d\r\nstarted %s\r\n",
		c.server.clients.Load(), evicted, c.server.started.UTC().Format(timeLayout)), nil
}

func (c *conn) inspectQueue(args []string) ([]byte, error) {
	if err := checkName(args[0]); err != nil {
		return nil, err
	}
	if !c.server.names.exists(args[0]) {
		return nil, errNotFound
	}
	return c.queuesReply(args)
}

func (c *conn) inspectQueues(args []string) ([]byte, error) {
	offset, limit, err := parseRange(args)
	if err != nil {
		return nil, err
	}
	all := c.server.names.sorted()
	from := min(offset, len(all))
	return c.queuesReply(all[from:min(from+limit, len(all))])
}

// queuesReply lists names with the numbers of their jobs.
func (c *conn) queuesReply(list []string) ([]byte, error) {
	ctx, cancel := c.within()
	defer cancel()
	queues := c.server.names.queuesOf(list...)
	c.server.sweeper.sweep(ctx, queues)
	counts, err := forEach(queues, func(queue string) (qless.QueueCounts, error) {
		return c.server.client.Queue(queue).Counts(ctx)
	})
	if err != nil {
		return nil, err
	}
	ready, scheduled := map[string]int{}, map[string]int{}
	for i, queue := range queues {
		name, _, _ := parseQueue(queue)
		ready[name] += counts[i].Waiting
		scheduled[name] += counts[i].Scheduled
	}
	reply := fmt.Appendf(nil, "+OK %d\r\n", len(list))
	for _, name := range list {
		reply = fmt.Appendf(reply, "%s 2\r\nready-len %d\r\nscheduled-len %d\r\n",
			name, ready[name], scheduled[name])
	}
	return reply, nil
}

// askedAtOnce is the number of queues that are queried at a time.
const askedAtOnce = 16

// forEach calls ask for each queue, several at a time. It stops at the first failure.
func forEach[T any](queues []string, ask func(queue string) (T, error)) ([]T, error) {
	answers := make([]T, len(queues))
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var askers sync.WaitGroup
	for range min(askedAtOnce, len(queues)) {
		askers.Go(func() {
			for i := next.Add(1) - 1; int(i) < len(queues) && failed.Load() == nil; i = next.Add(1) - 1 {
				answer, err := ask(queues[i])
				if err != nil {
					failed.CompareAndSwap(nil, &err)
				}
				answers[i] = answer
			}
		})
	}
	askers.Wait()
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	return answers, nil
}

// maxListed is the maximum number of items in a list.
const maxListed = 100

func parseRange(args []string) (offset, limit int, err error) {
	first, err := parseNumber(args[0], 32, errCursorOffset)
	if err != nil {
		return 0, 0, err
	}
	n, err := parseNumber(args[1], 32, errLimit)
	if err != nil || n < 1 || n > maxListed {
		return 0, 0, errLimit
	}
	return int(min(first, math.MaxInt32)), int(n), nil
}

func (c *conn) inspectJob(args []string) ([]byte, error) {
	u, err := parseID(args[0])
	if err != nil {
		return nil, err
	}
	if u.check() != nil {
		return nil, errNotFound
	}
	ctx, cancel := c.within()
	defer cancel()
	var job *qless.Job
	err = withJID(u, func(jid string) error {
		var err error
		job, err = c.current(ctx, jid)
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, _, ok := placeOf(job); !ok {
		return nil, errNotFound
	}
	return appendJob([]byte("+OK 1\r\n"), job), nil
}

// current reads a job in its true state, even if its lock, delay or life has ended unnoticed.
func (c *conn) current(ctx context.Context, jid string) (*qless.Job, error) {
	job, err := c.server.client.Job(ctx, jid)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	switch {
	case !job.Until.IsZero() && !job.Until.After(now):
		return nil, errNotFound
	case job.State == qless.StateScheduled,
		job.State == qless.StateRunning && !job.Expires.After(now):
		c.server.sweeper.sweep(ctx, []string{job.Queue})
		return c.server.client.Job(ctx, jid)
	}
	return job, nil
}

func (c *conn) inspectJobs(args []string, scheduled bool) ([]byte, error) {
	name := args[0]
	if err := checkName(name); err != nil {
		return nil, err
	}
	offset, limit, err := parseRange(args[1:])
	if err != nil {
		return nil, err
	}
	if !c.server.names.exists(name) {
		return nil, errNotFound
	}
	ctx, cancel := c.within()
	defer cancel()
	jobs, err := c.listed(ctx, name, scheduled, offset, limit)
	if err != nil {
		return nil, err
	}
	reply := fmt.Appendf(nil, "+OK %d\r\n", len(jobs))
	for _, job := range jobs {
		reply = appendJob(reply, job)
	}
	return reply, nil
}

// listed returns some scheduled or leasable jobs of a name.
func (c *conn) listed(
	ctx context.Context, name string, scheduled bool, offset, limit int,
) ([]*qless.Job, error) {
	queues := c.server.names.queuesOf(name)
	c.server.sweeper.sweep(ctx, queues)
	list := inspect.Waiting
	if scheduled {
		list = inspect.Scheduled
	}
	var jids []string
	for _, queue := range queues {
		if len(jids) == limit {
			break
		}
		part := inspect.Range{Offset: offset, Limit: limit - len(jids)}
		page, err := inspect.New(c.server.client).Queue(queue, list).JIDs(ctx, part)
		if err != nil {
			return nil, err
		}
		jids = append(jids, page.Items...)
		offset = max(0, offset-page.Total)
	}
	jobs, err := c.server.client.Jobs(ctx, jids...)
	if err != nil {
		return nil, err
	}
	shown := jobs[:0]
	for _, job := range jobs {
		if _, ok := idOf(job); ok {
			shown = append(shown, job)
		}
	}
	return shown, nil
}

// appendJob appends the properties of a job.
func appendJob(reply []byte, job *qless.Job) []byte {
	u, _ := idOf(job)
	name, priority, _ := placeOf(job)
	body, keys := bodyOf(job.Data), 12
	at := job.Headers[headerTime]
	if at != "" {
		keys = 13
	}
	reply = fmt.Appendf(reply, "%s %d\r\nname %s\r\nttr %d\r\nttl %d\r\npayload-size %d\r\npayload ",
		u, keys, name, ttrOf(job), header(job, headerTTL), len(body))
	reply = append(reply, body...)
	reply = fmt.Appendf(reply, "\r\nmax-attempts %d\r\nattempts %d\r\nmax-fails %d\r\nfails %d\r\n",
		header(job, headerMaxAttempts), attemptsOf(job), header(job, headerMaxFails), inside.Ends(job))
	reply = fmt.Appendf(reply, "priority %d\r\nstate %d\r\ncreated %s\r\n",
		priority, stateOf(job), createdAt(job).UTC().Format(timeLayout))
	if at != "" {
		reply = fmt.Appendf(reply, "time %s\r\n", at)
	}
	return reply
}
