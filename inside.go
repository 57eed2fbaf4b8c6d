package qless

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/ask"
	"github.com/qless/qless-go/internal/hub"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/together"
)

func init() {
	inside.Run = func(
		ctx context.Context, client any, command, jid string, args ...any,
	) (any, error) {
		return client.(*Client).run(ctx, command, jid, args...)
	}
	inside.PutStored = func(
		ctx context.Context, client any, queue, jid, klass, data string, pairs []string,
	) (string, error) {
		return client.(*Client).putStored(ctx, queue, jid, klass, data, pairs)
	}
	inside.Logger = func(client any) *slog.Logger { return client.(*Client).logger }
	inside.Observe = func(
		ctx context.Context, client any, command string, sent time.Time, err error,
	) error {
		c, err := client.(*Client), wrap(command, "", err)
		if c.observe != nil {
			c.observed(ctx, command, "", nil, nil, sent, err)
		}
		return err
	}
}

func init() {
	inside.Prepare, inside.PutOnce = prepareFor, putOnce
	inside.Check = func(queue string, spec any) (inside.Put, error) {
		p, err := newPut(queue, spec.(JobSpec))
		return p.shown(), err
	}
	inside.CheckAll = func(queue string, specs any) ([]inside.Put, error) {
		puts, err := newPuts(queue, specs.([]JobSpec))
		if err != nil {
			return nil, err
		}
		all := make([]inside.Put, len(puts))
		for i, p := range puts {
			all[i] = p.shown()
		}
		return all, nil
	}
	inside.Send = func(ctx context.Context, client any, p inside.Put) (string, error) {
		return client.(*Client).put(ctx, checkedPut(p))
	}
	inside.SendParts = sendParts
	inside.Call = func(ctx context.Context, client any, p inside.Put) (any, error) {
		call := checkedPut(p)
		if err := call.makeCall(); err != nil {
			return Result{}, err
		}
		return client.(*Client).putAndWait(ctx, call)
	}
	inside.Wait = waitFor
	inside.OpenBatch = func(ctx context.Context, client any, p inside.Put) (any, error) {
		return client.(*Client).openBatch(ctx, checkedPut(p))
	}
	inside.AddToBatch = func(ctx context.Context, b any, puts []inside.Put) ([]string, error) {
		return b.(*Batch).add(ctx, checkedPuts(puts))
	}
}

func init() {
	inside.RunEach = runEach
	inside.IsBatching = func(client any) bool { return !client.(*Client).unbatched }
	inside.Attach = attach
	inside.OpenExchanger = openExchanger
	inside.DecodeData = func(job any) { job.(*Job).decodeData() }
	inside.Ends = func(job any) int { return job.(*Job).ends }
	inside.Withdraw = func(ctx context.Context, client any, jid string) error {
		return client.(*Client).withdraw(ctx, jid)
	}
	inside.EncodeResult = func(client any, op, jid string, result any) (string, error) {
		text, err := encodeJSON(op, jid, "result", result, "null")
		if err != nil {
			return "", err
		}
		return client.(*Client).encode(op, jid, "", "result", text)
	}
	inside.SettleDeferred = func(ctx context.Context, client any) {
		client.(*Client).settleDeferred(ctx)
	}
	inside.Wrap, inside.ErrorOfOne = wrap, errorOfOne
	inside.CheckName, inside.CheckJID = checkName, checkJobName
	inside.Observer = func(client any) any { return client.(*Client).observe }
}

func attach(client any, open func() inside.Attached) inside.Attached {
	c := client.(*Client)
	c.attaching.Do(func() { c.attached = open() })
	return c.attached
}

func runEach(
	ctx context.Context, client any, command string, jobs []inside.Job,
) ([]any, []error) {
	c := client.(*Client)
	p := c.runner.Pipeline()
	for _, job := range jobs {
		p.Add(command, job.Args...)
	}
	sent := time.Now()
	p.Exec(ctx)
	replies, errs := make([]any, len(jobs)), make([]error, len(jobs))
	for i, job := range jobs {
		reply, err := p.Reply(i)
		replies[i], errs[i] = reply, wrap(command, job.JID, err)
		if !redisx.NeverRan(err) && c.observe != nil {
			c.observed(job.Context, command, job.JID, job.Args, replies[i], sent, errs[i])
		}
	}
	return replies, errs
}

// A taking is an exchanger that takes jobs for others.
type taking struct {
	*exchanger
	channel string // where it is woken
	next    exchange
}

func openExchanger(client any, op string, config ask.Config) any {
	c := client.(*Client)
	config.Name = newWorkerName()
	log := &workerLog{logger: c.logger.With("worker", c.worker)}
	return &taking{
		exchanger: newExchanger(op, c, log, config, nil),
		channel:   c.prefix + channelWake + config.Name,
	}
}

func (t *taking) Asker() *ask.Asker { return t.asker }

func (t *taking) Listen(s hub.Subscriber) { t.listen(s, t.channel) }

func (t *taking) IsEmpty() bool { return t.outbox.isEmpty() }

func (t *taking) Release(job *Job) {
	t.outbox.add(&report{
		Outcome: Outcome{Action: ActionRelease}, jid: job.JID, queue: job.Queue, since: job.since,
		until: job.Expires, quiet: true, unstarted: true,
	})
}

func (t *taking) Take() int {
	t.next = exchange{reports: t.outbox.take()}
	return len(t.next.reports)
}

func (t *taking) Exchange(
	ctx context.Context, room int, leave bool,
	answered func(jobs []*Job, answer *ask.Answer, err error),
) {
	defer t.outbox.done()
	t.next.room, t.next.leave = room, leave
	got, failed := t.send(ctx, t.next)
	if got != nil {
		answered(got.jobs, &got.Answer, nil)
		t.settle(got)
	} else if t.asks(t.next) {
		answered(nil, nil, failed)
	}
	if failed != nil {
		t.failed(ctx, failed)
	} else if t.asker.Succeeded() {
		t.log.serverBack()
	}
}

func (t *taking) Leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	t.depart(ctx, t.unlisten(ctx))
	t.outbox.close()
}

// shown returns a job to be put for other packages of the project.
func (p *put) shown() inside.Put {
	return inside.Put{Queue: p.queue, JID: p.jid, Klass: p.klass, Data: p.data, Options: p.options,
		At: p.at}
}

// checkedPut returns a job that newPut has checked.
func checkedPut(p inside.Put) *put {
	return &put{queue: p.Queue, jid: p.JID, klass: p.Klass, data: p.Data, options: p.Options,
		at: p.At, isNew: p.Options.JID == "" && p.Options.Remembered(longestResend)}
}

func checkedPuts(puts []inside.Put) []*put {
	checked := make([]*put, len(puts))
	for i, p := range puts {
		checked[i] = checkedPut(p)
	}
	return checked
}

func prepareFor(ctx context.Context, client any, queue string, spec any) (inside.Put, error) {
	none := &Client{connection: &connection{maxData: defaultMaxData}}
	c := cmp.Or(client.(*Client), none)
	p, err := newPut(queue, spec.(JobSpec))
	if err == nil {
		err = c.prepare(ctx, p)
	}
	return p.shown(), err
}

func putOnce(ctx context.Context, client any, jobs []inside.Put) (int, []inside.Found, error) {
	c, puts := client.(*Client), checkedPuts(jobs)
	for i, p := range puts {
		p.isNew = false
		if err := p.check(); err != nil {
			return 0, nil, p.failure(i, err)
		}
	}
	if err := c.prepareAll(ctx, puts); err != nil {
		return 0, nil, err
	}
	puts = puts[:countTogether(puts)]
	ctx, done := c.beginPut(ctx, "put.many", puts...)
	existing, err := c.sendSome(ctx, "once", puts)
	done("", err)
	var found []inside.Found
	for _, f := range existing {
		found = append(found, inside.Found{At: f.at, JID: f.jid, State: string(f.state)})
	}
	return len(puts), found, err
}

// A partOfPut is the part of a put for one client.
type partOfPut struct {
	puts []*put
	send func() (jids []string, existing []conflict, err error)
	done func(jid string, err error)
}

// prepareParts prepares all jobs to be put.
func prepareParts(ctx context.Context, parts []inside.Part) ([]partOfPut, error) {
	var all []partOfPut
	for _, given := range parts {
		client, puts := given.Client.(*Client), checkedPuts(given.Puts)
		ctx, done := client.beginPut(ctx, "put.many", puts...)
		send := func() ([]string, []conflict, error) { return client.sendAll(ctx, puts) }
		all = append(all, partOfPut{puts, send, done})
		if err := client.prepareAll(ctx, puts); err != nil {
			for _, begun := range all {
				begun.done("", err)
			}
			return nil, err
		}
	}
	return all, nil
}

func sendParts(ctx context.Context, given []inside.Part) ([]string, error) {
	parts, err := prepareParts(ctx, given)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	jids := map[int]string{} // of the jobs that were put or exist, by index
	var existing []conflict
	err = together.Each(parts, func(part partOfPut) error {
		put, found, err := part.send()
		part.done("", manyError(found, err))
		mu.Lock()
		defer mu.Unlock()
		for i, jid := range put {
			jids[part.puts[i].at] = jid
		}
		existing = append(existing, found...)
		return err
	})
	slices.SortFunc(existing, func(a, b conflict) int { return a.at - b.at })
	var ordered []string
	for _, at := range slices.Sorted(maps.Keys(jids)) {
		ordered = append(ordered, jids[at])
	}
	return ordered, manyError(existing, err)
}

func waitFor(jid string, options any) (
	time.Duration, func(ctx context.Context, client any) (any, error), error,
) {
	o, err := readWaitOptions(jid, options.([]WaitOption))
	return o.awaitPut, func(ctx context.Context, client any) (any, error) {
		return client.(*Client).joinAndWait(ctx, jid, true, o)
	}, err
}
