package qless

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"
)

// put is one job to be put.
type put struct {
	queue   string
	klass   string
	data    string
	options callOptions
}

// newPut checks and encodes what a put is given.
func newPut(queue, klass string, data any, options []PutOption) (*put, error) {
	p := &put{queue: queue, klass: klass}
	for _, option := range options {
		option.applyPut(&p.options)
	}
	if p.options.jid == "" {
		p.options.jid = newJID()
	}
	for _, name := range []struct{ what, name string }{
		{"queue name", queue}, {"klass", klass}, {"jid", p.options.jid},
	} {
		if err := checkName("put", name.what, name.name); err != nil {
			return nil, err
		}
	}
	if err := checkJID("put", p.options.jid); err != nil {
		return nil, err
	}
	if err := p.options.check("put"); err != nil {
		return nil, err
	}
	var err error
	p.data, err = encodeData("put", p.options.jid, data)
	return p, err
}

// checkJID errors when the key of a job would be one that another job has for its lists.
func checkJID(op, jid string) error {
	for _, suffix := range []string{"-history", "-dependents", "-dependencies"} {
		if strings.HasSuffix(jid, suffix) {
			return invalid(op, jid, "a jid can't end in %s", suffix)
		}
	}
	return nil
}

// args returns the arguments of the commands put and requeue.
func (p *put) args(worker string) []any {
	return p.optionArgs([]any{worker, p.queue, p.options.jid, p.klass, p.data, p.options.delayText()})
}

// optionArgs appends the pairs of arguments that say the options.
func (p *put) optionArgs(args []any) []any {
	args = p.options.appendJob(append(args, "checked", "1"))
	if len(p.options.depends) > 0 {
		args = append(args, "depends", jsonList(p.options.depends))
	}
	return args
}

// newJID returns a random jid: 32 hexadecimal digits, as all clients make them.
func newJID() string {
	return strings.ReplaceAll(uuid.NewString(), "-", "")
}

// put puts a job by itself, or lets it go with those of other goroutines.
func (c *Client) put(ctx context.Context, p *put) error {
	if c.batcher != nil {
		return c.batcher.put(ctx, p)
	}
	return c.putOne(ctx, p)
}

// putOne runs the command put.
func (c *Client) putOne(ctx context.Context, p *put) error {
	_, err := c.run(ctx, "put", p.options.jid, p.args(c.worker)...)
	return err
}

// A NewJob is a job for [Queue.PutMany].
type NewJob struct {
	Klass   string
	Data    any
	Options []PutOption
}

// putBatch bounds how many jobs one script puts.
const putBatch = 1000

// PutMany puts jobs into the queue, as [Queue.Put] does each, at a fraction of its cost, and
// returns their jids in order. Up to 1000 are put by one script, all or none of them; when
// there are more, and a later script fails, the jids of those that were put come with the
// error. No jid may be named twice in one call. It is the command put.many, which other
// clients do not have.
func (q *Queue) PutMany(ctx context.Context, jobs []NewJob) ([]string, error) {
	puts := make([]*put, len(jobs))
	jids := make([]string, len(jobs))
	for i, job := range jobs {
		p, err := newPut(q.name, job.Klass, job.Data, job.Options)
		if err != nil {
			return nil, err
		}
		puts[i], jids[i] = p, p.options.jid
	}
	var alone error // the jobs are put, but perhaps on the master alone
	for from := 0; from < len(puts); from += putBatch {
		err := q.client.putMany(ctx, puts[from:min(from+putBatch, len(puts))])
		if errors.Is(err, ErrNotReplicated) {
			alone = err
		} else if err != nil {
			return jids[:from], err
		}
	}
	return jids, alone
}

// putMany puts jobs by one script, all or none.
func (c *Client) putMany(ctx context.Context, puts []*put) error {
	args := []any{c.worker}
	for _, p := range puts {
		options := p.optionArgs(nil)
		args = append(args, p.queue, p.options.jid, p.klass, p.data, p.options.delayText(), strconv.Itoa(len(options)))
		args = append(args, options...)
	}
	_, err := c.run(ctx, "put.many", "", args...)
	return err
}

// WithBatchedPuts lets the puts of many goroutines go together: while one call is on its way,
// those that come up meanwhile wait for it, and go with the next. A single goroutine notices
// nothing; many of them spend a fraction of the server's time. A put whose context ends while
// it is on its way may have been done.
func WithBatchedPuts() Option {
	return func(c *Client) { c.batcher = &putBatcher{client: c} }
}

// putBatcher puts jobs of several goroutines by one script.
type putBatcher struct {
	client *Client

	mu      sync.Mutex
	waiting []*waitingPut
	sending bool
}

type waitingPut struct {
	put  *put
	done chan error
}

// put puts a job by itself when no other call is on its way, else with the next batch.
func (b *putBatcher) put(ctx context.Context, p *put) error {
	b.mu.Lock()
	if !b.sending {
		b.sending = true
		b.mu.Unlock()
		defer b.goOn(ctx)
		return b.client.putOne(ctx, p)
	}
	w := &waitingPut{put: p, done: make(chan error, 1)}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
		return wrap("put", p.options.jid, ctx.Err())
	}
}

// goOn sends what came up while the first put was on its way.
func (b *putBatcher) goOn(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sending = len(b.waiting) > 0
	if b.sending {
		go b.send(context.WithoutCancel(ctx))
	}
}

// send puts what waits until nothing does.
func (b *putBatcher) send(ctx context.Context) {
	for {
		runtime.Gosched() // goroutines that are about to put go along
		batch := b.take()
		if len(batch) == 0 {
			return
		}
		puts := make([]*put, len(batch))
		for i, w := range batch {
			puts[i] = w.put
		}
		err := b.client.putMany(ctx, puts)
		for _, w := range batch {
			if errors.Is(err, ErrInvalid) {
				// One of them spoilt it for all, and none was put: each learns its own fate.
				w.done <- b.client.putOne(ctx, w.put)
			} else {
				w.done <- err
			}
		}
	}
}

// take returns what one script can put: a jid that comes a second time waits for the next.
func (b *putBatcher) take() []*waitingPut {
	b.mu.Lock()
	defer b.mu.Unlock()
	var batch, rest []*waitingPut
	seen := map[string]bool{}
	for _, w := range b.waiting {
		if jid := w.put.options.jid; len(batch) == putBatch || seen[jid] {
			rest = append(rest, w)
		} else {
			seen[jid] = true
			batch = append(batch, w)
		}
	}
	b.waiting = rest
	b.sending = len(batch) > 0
	return batch
}
