package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// A mix puts jobs of all kinds, and has as many of them under way at once as it has places.
type mix struct {
	client   *qless.Client
	underWay chan struct{}
	seen     sync.Map // jids of jobs that have run once
}

func newMix(client *qless.Client, places int) *mix {
	return &mix{client: client, underWay: make(chan struct{}, places)}
}

// klasses of jobs that are more than complete.
const (
	klassAgain  = "again"
	klassFails  = "fails"
	klassNext   = "next"
	klassPanics = "panics"
	klassRecurs = "recurs"
	klassResult = "result"
	klassSnooze = "snooze"
)

// mixGroups are the failure groups of those that fail.
var mixGroups = []string{group, klassPanics + ":panic"}

// mixQueues are where the jobs are. The last one is for jobs that come from the first.
var mixQueues = []string{"soak-a", "soak-b", "soak-next"}

// mixed are the kinds of jobs, by klass and options.
var mixed = []struct {
	klass   string
	options func(i int, last string) []qless.PutOption
}{
	{klass: klass},
	{klass: klassAgain},
	{klass: klassFails},
	{klass: klassNext},
	{klass: klassPanics},
	{klass: klassResult},
	{klass: klassSnooze},
	{klass, func(int, string) []qless.PutOption {
		return []qless.PutOption{qless.Delay(20 * time.Millisecond)}
	}},
	{klass, func(i int, _ string) []qless.PutOption {
		return []qless.PutOption{qless.Tags{"tag", string(rune('a' + i%20))}, qless.Priority(i % 5)}
	}},
	{klass, func(_ int, last string) []qless.PutOption {
		return []qless.PutOption{qless.DependsOn{last}, qless.OnFailureRun}
	}},
	{klass, func(int, string) []qless.PutOption {
		return []qless.PutOption{
			qless.Unique("soak", uniqueKeys.Add(1)), qless.KeepFor(100 * time.Millisecond),
		}
	}},
	{klass, func(i int, _ string) []qless.PutOption {
		return []qless.PutOption{qless.Limits{"soak"}, qless.Headers{"number": string(rune('a' + i%20))}}
	}},
	{klass, func(i int, _ string) []qless.PutOption {
		return []qless.PutOption{qless.Fair(string(rune('a' + i%10)))}
	}},
}

// put puts the i-th job. It waits while too many are under way. Some jobs are tracked, and some
// canceled.
func (m *mix) put(ctx context.Context, i int, last string) (string, error) {
	select {
	case m.underWay <- struct{}{}:
	case <-ctx.Done():
		return last, nil
	}
	ctx = context.WithoutCancel(ctx)
	queue := m.client.Queue(mixQueues[i%2])
	if i%10 == 9 {
		defer func() { <-m.underWay }()
		return last, m.cancel(ctx, queue)
	}
	kind := mixed[i%len(mixed)]
	var options []qless.PutOption
	if kind.options != nil && last != "" {
		options = kind.options(i, last)
	}
	jid, err := queue.Put(ctx, kind.klass, data, options...)
	if err == nil && i%7 == 0 {
		err = m.track(ctx, jid)
	}
	return jid, err
}

// cancel puts a job that is canceled before it is due.
func (m *mix) cancel(ctx context.Context, queue *qless.Queue) error {
	jid, err := queue.Put(ctx, klass, data, qless.Delay(time.Hour))
	return errors.Join(err, m.client.Cancel(ctx, jid))
}

// track tracks a job, unless it is gone already.
func (m *mix) track(ctx context.Context, jid string) error {
	_, err := inspect.New(m.client).JIDs(jid).Track(ctx)
	return err
}

// handle is the handler of all jobs.
func (m *mix) handle(ctx context.Context, job *qless.Job) error {
	if job.Klass == klassRecurs {
		return nil
	}
	_, again := m.seen.LoadOrStore(job.JID, nil)
	switch {
	case job.Klass == klassAgain && !again:
		return errors.New("another time")
	case job.Klass == klassSnooze && !again:
		return qless.Snooze(10 * time.Millisecond)
	case job.Klass == klassNext && !again:
		return qless.Next(mixQueues[2])
	}
	m.seen.Delete(job.JID)
	select {
	case <-m.underWay:
	default: // a job that has lost its lock, and was run again
	}
	switch job.Klass {
	case klassPanics:
		panic("it failed")
	case klassFails:
		return qless.FailWith(group, errors.New("it failed"))
	case klassResult:
		return job.SetResult(job.JID)
	}
	return nil
}
