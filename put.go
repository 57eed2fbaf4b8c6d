package qless

import (
	"context"
	"errors"
	"strconv"
	"strings"

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
	if err := checkJID("put", p.options.jid, p.options.jid); err != nil {
		return nil, err
	}
	if err := p.options.check("put"); err != nil {
		return nil, err
	}
	var err error
	p.data, err = encodeData("put", p.options.jid, data)
	return p, err
}

// checkJID errors when the key of a job with an id would be one that another job has for its
// lists. The jid is that of the job that the call is about.
func checkJID(op, jid, id string) error {
	for _, suffix := range []string{"-history", "-dependents", "-dependencies"} {
		if strings.HasSuffix(id, suffix) {
			return invalid(op, jid, "the jid %q ends in %s: no job can have it", id, suffix)
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
	puts, err := newPuts(q.name, jobs)
	if err != nil {
		return nil, err
	}
	return q.client.putAll(ctx, puts)
}

// newPuts checks and encodes what a put of many jobs is given.
func newPuts(queue string, jobs []NewJob) ([]*put, error) {
	puts := make([]*put, len(jobs))
	for i, job := range jobs {
		var err error
		if puts[i], err = newPut(queue, job.Klass, job.Data, job.Options); err != nil {
			return nil, err
		}
	}
	return puts, nil
}

// jidsOf returns the jids of puts.
func jidsOf(puts []*put) []string {
	jids := make([]string, len(puts))
	for i, p := range puts {
		jids[i] = p.options.jid
	}
	return jids
}

// putAll puts any number of jobs, by as many scripts as that takes.
func (c *Client) putAll(ctx context.Context, puts []*put) ([]string, error) {
	jids := jidsOf(puts)
	var alone error // the jobs are put, but perhaps on the master alone
	for from := 0; from < len(puts); from += putBatch {
		err := c.putMany(ctx, puts[from:min(from+putBatch, len(puts))])
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
