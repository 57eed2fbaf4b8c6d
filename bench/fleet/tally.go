package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/qless/qless-go"
)

// A tally knows what became of each job, as far as those who put and ran it know.
type tally struct {
	mu    sync.Mutex
	lives map[string]*life
}

type life struct {
	acknowledged bool // the server has answered its put
	put          time.Time
	waited       time.Duration // until it was first run
	runs         int
}

func newTally() *tally { return &tally{lives: map[string]*life{}} }

// forget begins a new tally.
func (t *tally) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lives = map[string]*life{}
}

// of returns the life of a job. The mutex is held.
func (t *tally) of(jid string) *life {
	one := t.lives[jid]
	if one == nil {
		one = &life{}
		t.lives[jid] = one
	}
	return one
}

// handle is the handler of the jobs.
func (t *tally) handle(_ context.Context, job *qless.Job) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.of(job.JID)
	if one.runs++; one.runs == 1 {
		one.waited = time.Since(one.put)
	}
	return nil
}

// put puts a job, and reports whether the server has acknowledged that.
func (t *tally) put(ctx context.Context, queue *qless.Queue, jid string) bool {
	t.mu.Lock()
	t.of(jid).put = time.Now()
	t.mu.Unlock()
	_, err := queue.Put(ctx, klass, data, qless.JID(jid))
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(jid).acknowledged = err == nil
	return err == nil
}

// outcome counts jobs by what became of them.
type outcome struct {
	acknowledged  int
	lost          int // acknowledged, never run, and gone
	stuck         int // acknowledged, never run, and still there
	forgotten     int // run, and gone
	repeated      int // run more than once
	unexpected    int // run, or there, though the put failed
	refused       int // the put failed
	longestWaited time.Duration
}

// outcome asks the server which jobs there are.
func (t *tally) outcome(ctx context.Context, client *qless.Client) (outcome, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var (
		all outcome
		ids []string
	)
	for jid := range t.lives {
		ids = append(ids, jid)
	}
	there := map[string]bool{}
	jobs, err := client.Jobs(ctx, ids...)
	if err != nil {
		return outcome{}, err
	}
	for _, job := range jobs {
		there[job.JID] = true
	}
	for jid, one := range t.lives {
		all.count(*one, there[jid])
	}
	return all, nil
}

func (o *outcome) count(l life, there bool) {
	o.longestWaited = max(o.longestWaited, l.waited)
	if l.runs > 1 {
		o.repeated++
	}
	switch {
	case !l.acknowledged:
		o.refused++
		if l.runs > 0 || there {
			o.unexpected++
		}
		return
	case l.runs > 0 && !there:
		o.forgotten++
	case l.runs == 0 && there:
		o.stuck++
	case l.runs == 0:
		o.lost++
	}
	o.acknowledged++
}

// check returns an error if a job is stuck, or lost where none may be.
func (o *outcome) check(mayLose bool) error {
	if o.stuck > 0 {
		return errors.New("there are jobs that were not run")
	}
	if o.lost+o.forgotten > 0 && !mayLose {
		return errors.New("jobs are lost")
	}
	return nil
}

// drained returns when a queue has no more jobs to run.
func drained(ctx context.Context, queue *qless.Queue) error {
	return until(ctx, "the queue to be empty", 5*time.Millisecond, func() (bool, error) {
		n, err := queue.Counts(ctx)
		return err == nil && n.Waiting+n.Running+n.Stalled+n.Scheduled+n.Depends == 0, nil
	})
}
