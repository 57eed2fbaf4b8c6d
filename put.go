package qless

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/qless/qless-go/internal/wire"
)

// A put is a job to be put.
type put struct {
	queue   string
	klass   string
	data    string
	options callOptions
	at      int  // its index in a PutMany
	isNew   bool // its jid is a new random one that is remembered, so that it may be sent again
}

// newPut checks and encodes the arguments of a put. The put that it returns with an error has a
// jid, but can't be sent.
func newPut(queue, klass string, data any, options []PutOption) (*put, error) {
	p := &put{queue: queue, klass: klass}
	err := applyOptions("put", &p.options, options, PutOption.applyPut)
	if p.options.jid == "" {
		p.options.jid, p.isNew = newJID(), p.options.isRemembered()
	}
	if err != nil {
		return p, err
	}
	if err := p.check(); err != nil {
		return p, err
	}
	if p.data, err = encodeData("put", p.options.jid, data); err != nil {
		return p, err
	}
	p.options.claim, err = p.options.unique.claim("put", p)
	return p, err
}

// check returns an error if anything but the data is invalid.
func (p *put) check() error {
	for _, name := range []struct{ what, name string }{
		{"queue name", p.queue}, {"klass", p.klass}, {"jid", p.options.jid},
	} {
		if err := checkName("put", name.what, name.name); err != nil {
			return err
		}
	}
	if err := checkJID("put", p.options.jid, p.options.jid); err != nil {
		return err
	}
	return p.options.check("put")
}

// checkJID returns an error if the key of a job with this id would be the key of another job's
// list. The jid is that of the job that the call is about.
func checkJID(op, jid, id string) error {
	if id == openBatch {
		return invalid(op, jid, "no job can have the jid %s", id)
	}
	for _, suffix := range []string{"-history", "-dependents", "-dependencies"} {
		if strings.HasSuffix(id, suffix) {
			return invalid(op, jid, "the jid %q ends in %s: no job can have it", id, suffix)
		}
	}
	return nil
}

// putArgs is how many arguments most puts have at most.
const putArgs = 12

// args returns the arguments for the commands put and requeue.
func (p *put) args(worker string) []any {
	checked := "checked"
	if p.isNew {
		checked = "new"
	}
	return p.optionArgs(append(make([]any, 0, putArgs),
		worker, p.queue, p.options.jid, p.klass, p.data, p.options.delayText(), checked, "1"))
}

// optionArgs appends the pairs of arguments for the options.
func (p *put) optionArgs(args []any) []any {
	args = p.options.appendJob(args)
	if p.options.at != nil {
		args = append(args, "at", wire.FormatTime(*p.options.at))
	}
	depends := p.options.depends
	if p.options.opensBatch {
		depends = append(slices.Clip(depends), openBatch)
	}
	if len(depends) > 0 {
		args = append(args, "depends", jsonList(depends))
	}
	if p.options.batch != "" {
		args = append(args, "batch", p.options.batch)
	}
	if len(p.options.conditions) > 0 && !p.isNew {
		args = append(args, "if", string(p.options.conditions[0]))
	}
	args = anys(args, p.options.replaceArgs()...)
	return anys(args, p.options.storedArgs()...)
}

// newJID returns a random jid of 32 hexadecimal digits, as clients of all languages use.
func newJID() string {
	id := uuid.New()
	return hex.EncodeToString(id[:])
}

// put puts a job alone, or together with those of other goroutines. It returns the jid, or that of
// the job that is there.
func (c *Client) put(ctx context.Context, p *put) (string, error) {
	ctx, done := c.beginPut(ctx, "put", p)
	jid, err := c.putPrepared(ctx, p)
	done(jid, err)
	return jid, err
}

func (c *Client) putPrepared(ctx context.Context, p *put) (string, error) {
	if err := c.prepare(ctx, p); err != nil {
		return "", err
	}
	if c.batcher != nil {
		return c.batcher.put(ctx, p)
	}
	return c.putOne(ctx, p)
}

// prepare gives a job to be put what the client adds: headers, and the form of the data.
func (c *Client) prepare(ctx context.Context, p *put) error {
	if err := c.addHeaders(ctx, p); err != nil {
		return err
	}
	return c.encodePut(p)
}

// prepareAll does the same for several jobs.
func (c *Client) prepareAll(ctx context.Context, puts []*put) error {
	for _, p := range puts {
		if err := c.prepare(ctx, p); err != nil {
			return p.failure(p.at, err)
		}
	}
	return nil
}

// putOne runs the command put. It returns the jid, or that of the job that is there.
func (c *Client) putOne(ctx context.Context, p *put) (string, error) {
	run := c.run
	if p.isNew {
		run = c.runNew
	}
	reply, err := run(ctx, "put", p.options.jid, p.args(c.worker)...)
	if found, there := foundBy(reply); there {
		return p.found(found).answer(err)
	}
	return p.options.jid, err
}

// A JobSpec is a job for [Queue.PutMany].
type JobSpec struct {
	Klass   string
	Data    any
	Options []PutOption
}

// putTogether is how many jobs one script puts at most, by their weights. That takes the server up
// to about 10 ms.
const putTogether = 500

// weight returns as how many jobs it counts that one script puts.
func (p *put) weight() int {
	return 1 + (len(p.options.tags)+len(p.options.depends))/2 + len(p.data)/4096
}

// countTogether returns how many of the jobs one script puts: as many of the first ones as fit.
func countTogether(puts []*put) int {
	weight := 0
	for n, p := range puts {
		weight += p.weight()
		if n > 0 && weight > putTogether {
			return n
		}
	}
	return len(puts)
}

// PutMany puts jobs into the queue as [Queue.Put] does, at a fraction of the cost, and returns
// their jids in order. One script puts up to 500 jobs, all or none of them; each 4 KiB of data, and
// each two tags or dependencies, count as a job more. If there are more jobs and a later script
// fails, PutMany returns the jids of those that were put along with the error.
//
// Jobs that are refused because of a [ConflictOption] or [Unique] do not stop the others. Of
// several jobs of the call with the same key, the first one is put; with [UniqueOption.Replace],
// all become one job, with the data of the last. In the place of a refused job, PutMany returns the
// jid of the job that is there. If nothing else is wrong, the error is [ErrExists], with the
// Indices of the refused jobs. If the connection breaks, a script is sent again if [Queue.Put]
// would send each of its jobs again.
//
// All jobs are checked before the first is put. No two may have the same jid, and a job that
// depends on another job of the call must come after it. An [ErrInvalid] about one of the jobs has
// its jid, and a message that begins with its index, as in "jobs[3]: the klass is empty".
func (q *Queue) PutMany(ctx context.Context, jobs []JobSpec) ([]string, error) {
	puts, err := newPuts(q.name, jobs)
	if err != nil {
		return nil, err
	}
	return q.client.prepareAndPut(ctx, puts)
}

// prepareAndPut puts any number of jobs, and returns their jids, or those of the jobs that are
// there.
func (c *Client) prepareAndPut(
	ctx context.Context, puts []*put,
) (jids []string, err error) {
	ctx, done := c.beginPut(ctx, "put.many", puts...)
	defer func() { done("", err) }()
	if err := c.prepareAll(ctx, puts); err != nil {
		return nil, err
	}
	jids, found, err := c.putAll(ctx, puts)
	return jids, manyError(found, err)
}

// newPuts checks and encodes the jobs of a PutMany.
func newPuts(queue string, jobs []JobSpec) ([]*put, error) {
	if err := checkName("put", "queue name", queue); err != nil {
		return nil, err
	}
	puts := make([]*put, len(jobs))
	places := make(map[string]int, len(jobs)) // by jid
	for i, job := range jobs {
		p, err := newPut(queue, job.Klass, job.Data, job.Options)
		if err != nil {
			return nil, p.failure(i, err)
		}
		if first, found := places[p.options.jid]; found {
			return nil, p.failure(i, invalid("put", "", "jobs[%d] has the same jid", first))
		}
		p.at = i
		puts[i], places[p.options.jid] = p, i
	}
	return puts, checkOrder(puts, places)
}

// checkOrder returns an error if a job depends on one that is put after it, which it would not wait
// for.
func checkOrder(puts []*put, places map[string]int) error {
	for i, p := range puts {
		for _, jid := range p.options.depends {
			if other := places[jid]; other > i {
				return p.failure(i, invalid("put", "",
					"depends on jobs[%d], which comes after it", other))
			}
		}
	}
	return nil
}

// failure adds to an error which of many jobs it is about.
func (p *put) failure(i int, err error) error {
	var cause *Error
	if !errors.As(err, &cause) {
		return err
	}
	own := *cause
	own.JID = p.options.jid
	own.Message = fmt.Sprintf("jobs[%d]: %s", i, own.Message)
	return &own
}

func jidsOf(puts []*put) []string {
	jids := make([]string, len(puts))
	for i, p := range puts {
		jids[i] = p.options.jid
	}
	return jids
}

// putAll puts any number of jobs, with as many scripts as that takes. It returns their jids, and
// which jobs refused theirs, by their index in the call of PutMany.
func (c *Client) putAll(
	ctx context.Context, puts []*put,
) (jids []string, existing []foundJob, err error) {
	jids = jidsOf(puts)
	var alone error // the jobs are put, but too few replicas may have them
	for from, n := 0, 0; from < len(puts); from += n {
		n = countTogether(puts[from:])
		found, err := c.putMany(ctx, puts[from:from+n])
		if errors.Is(err, ErrNotReplicated) {
			alone = err
		} else if err != nil {
			return jids[:from], existing, err
		}
		for _, f := range found {
			i := from + f.at
			jids[i], f.at = f.jid, puts[i].at
			if !f.replaced() {
				existing = append(existing, f)
			}
		}
	}
	return jids, existing, alone
}

// putMany puts jobs with one script: all or none, but for those that a [ConflictOption] or [Unique]
// refuses. It returns which jobs were there, and have refused or been replaced, by their index in
// puts.
func (c *Client) putMany(ctx context.Context, puts []*put) ([]foundJob, error) {
	checked, run := "1", c.run
	allNew := !slices.ContainsFunc(puts, func(p *put) bool { return !p.isNew })
	if allNew {
		checked, run = "new", c.runNew
	}
	args := append(make([]any, 0, 2+len(puts)*putArgs), c.worker, checked)
	for _, p := range puts {
		args = append(args, p.queue, p.options.jid, p.klass, p.data, p.options.delayText(), nil)
		before := len(args)
		args = p.optionArgs(args)
		if p.isNew && !allNew {
			args = append(args, "new", "1")
		}
		args[before-1] = strconv.Itoa(len(args) - before)
	}
	reply, err := run(ctx, "put.many", "", args...)
	found, problem := foundByMany(reply)
	if err == nil {
		err = problem
	}
	for i, f := range found {
		if f.at < len(puts) {
			found[i] = puts[f.at].found(f)
		}
	}
	return found, err
}
