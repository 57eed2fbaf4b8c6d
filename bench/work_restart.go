package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go"
)

// restart measures what a fleet does when its server goes away, while a job is put every 50 ms, and
// what its killed workers leave behind.
func restart(
	ctx context.Context, o *options, r *report, s *server, clients int,
) (failed error) {
	jobs := newTally()
	config := qless.WorkerConfig{Queues: []string{"work"}, PollInterval: o.poll}
	c, err := hire(ctx, s, o.workers, clients, config, jobs.handle)
	if err != nil {
		return err
	}
	killed := false
	defer func() {
		if !killed {
			failed = errors.Join(failed, c.dismiss())
		}
	}()
	steady, err := newCrowd(s, 1, qless.ClientConfig{})
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, steady.dismiss()) }()
	queue := steady.clients[0].Queue("work")
	for _, d := range disturbances {
		r.in("%s", d.name)
		jobs.forget()
		err := keepPutting(ctx, jobs, queue, d.name, func() error {
			return recovery(ctx, o, r, s, c, d.do)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		if err := drained(ctx, queue); err != nil {
			return err
		}
		all, err := jobs.outcome(ctx, steady.clients[0])
		if err != nil {
			return err
		}
		r.add("jobs put meanwhile", float64(all.acknowledged), "")
		r.bound("lost", float64(all.lost+all.forgotten), "jobs", 0)
		r.add("put to handler, longest", ms(all.longestWaited), "ms")
		if err := all.check(false); err != nil {
			return err
		}
	}
	r.in("killed")
	killed = true
	if err := c.kill(); err != nil {
		return err
	}
	return passDead(ctx, o, r, s)
}

// disturbances are what happens to the fleet.
var disturbances = []struct {
	name string
	do   func(ctx context.Context, s *server) error
}{
	{"SCRIPT FLUSH", func(ctx context.Context, s *server) error {
		return s.admin.ScriptFlush(ctx).Err()
	}},
	{"CLIENT KILL TYPE pubsub", func(ctx context.Context, s *server) error {
		return s.admin.ClientKillByFilter(ctx, "TYPE", "pubsub").Err()
	}},
	{"restart", func(_ context.Context, s *server) error {
		s.process.Restart()
		return nil
	}},
}

// keepPutting puts a job every 50 ms while it calls do.
func keepPutting(
	ctx context.Context, jobs *tally, queue *qless.Queue, name string, do func() error,
) error {
	ctx, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() {
		for i := 0; pause(ctx, 50*time.Millisecond) == nil; i++ {
			jobs.put(context.WithoutCancel(ctx), queue, fmt.Sprintf("%s-%d", name, i))
		}
	})
	defer group.Wait()
	defer stop()
	return do()
}

// recovery measures what follows a disturbance until all workers are idle again.
func recovery(
	ctx context.Context, o *options, r *report, s *server, c *crowd,
	do func(ctx context.Context, s *server) error,
) error {
	before, err := s.read(ctx)
	if err != nil {
		return err
	}
	lines, workers := c.lines.count.Load(), float64(o.workers)
	start := time.Now()
	if err := do(ctx, s); err != nil {
		return err
	}
	up := time.Since(start)
	if err := c.settle(ctx); err != nil {
		return err
	}
	back := time.Since(start) - up
	longest, err := s.longest(ctx)
	if err != nil {
		return err
	}
	after, err := s.read(ctx)
	if err != nil {
		return err
	}
	if after.Connected < before.Connected { // it began to count again
		before = reading{}
	}
	r.add("until all listen and are idle", back.Seconds(), "s")
	r.add("server CPU until then", (after.CPU - before.CPU).Seconds(), "s")
	r.add("connections opened a worker", float64(after.Connected-before.Connected)/workers, "")
	r.add("scripts a worker", float64(after.Scripts-before.Scripts)/workers, "")
	r.add("longest call", ms(longest), "ms")
	r.add("warnings a worker", float64(c.lines.count.Load()-lines)/workers, "")
	return nil
}

// passDead measures a put that has to pass over workers that are gone to find one that is not.
func passDead(ctx context.Context, o *options, r *report, s *server) error {
	dead, err := s.admin.SCard(ctx, "ql:x:idle").Result()
	if err != nil {
		return err
	}
	r.add("idle by the server's account", float64(dead), "workers")
	jobs := newErrands()
	config := qless.WorkerConfig{Queues: []string{"work"}, PollInterval: o.poll}
	one, err := s.measure(ctx, func() error {
		c, err := hire(ctx, s, 1, 1, config, jobs.handle)
		if err != nil {
			return err
		}
		return errors.Join(jobs.run(ctx, c.clients[0].Queue("work")), c.dismiss())
	})
	if err != nil {
		return err
	}
	r.add("put to handler of another worker", jobs.wait(1), "ms")
	r.bound("longest call", ms(one.longest), "ms", longestStep)
	left, err := s.admin.SCard(ctx, "ql:x:idle").Result()
	r.add("idle by the server's account then", float64(left), "workers")
	return err
}

// putters is how many goroutines put jobs while the server is killed.
const putters = 4

// durability measures what a server costs that keeps a file, and what it has lost when it is killed
// in the middle of work. The process alone is killed: what it has written survives. So the setting
// always may lose nothing, and everysec what it had not written yet.
func durability(ctx context.Context, o *options, r *report) error {
	for _, fsync := range []string{"no file", "everysec", "always"} {
		r.in("%s", fsync)
		if err := survive(ctx, o, r, fsync); err != nil {
			return fmt.Errorf("%s: %w", fsync, err)
		}
	}
	return nil
}

func survive(ctx context.Context, o *options, r *report, fsync string) (failed error) {
	var args []string
	if fsync != "no file" {
		args = []string{"--appendonly", "yes", "--appendfsync", fsync}
	}
	s, err := startFleet(ctx, o, args...)
	if err != nil {
		return err
	}
	defer s.stop()
	jobs := newTally()
	config := qless.WorkerConfig{Queues: []string{"work"}, PollInterval: o.poll}
	c, err := hire(ctx, s, 2, 0, config, jobs.handle)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, c.dismiss()) }()
	client := c.clients[0]
	kept := 100 * o.jobs * (1 + o.kills) // so that all are there in the end
	if err := client.Config().Set(ctx, qless.ConfigJobsHistoryCount, kept); err != nil {
		return err
	}
	queue := client.Queue("work")
	speed, err := s.measure(ctx, func() error {
		err := parallel(16, o.jobs, func(i int) error {
			if !jobs.put(ctx, queue, fmt.Sprintf("speed-%d", i)) {
				return errors.New("a put failed")
			}
			return nil
		})
		return errors.Join(err, drained(ctx, queue))
	})
	if err != nil {
		return err
	}
	r.add("jobs, put one by one to done", float64(o.jobs)/speed.elapsed.Seconds(), "a second")
	r.add("server CPU a job", us(speed.CPU)/float64(o.jobs), "us")
	if fsync == "no file" {
		return nil
	}
	if err := killServer(ctx, o, s, c, jobs, queue); err != nil {
		return err
	}
	all, err := jobs.outcome(ctx, client)
	if err != nil {
		return err
	}
	mayLose := fsync == "everysec"
	r.add("acknowledged puts", float64(all.acknowledged), "jobs")
	lost := r.add
	if !mayLose {
		lost = r.atMost(0)
	}
	lost("lost before they were run", float64(all.lost), "jobs")
	lost("gone after they were run", float64(all.forgotten), "jobs")
	r.bound("there, but not run", float64(all.stuck), "jobs", 0)
	r.add("run more than once", float64(all.repeated), "jobs")
	r.add("puts that failed", float64(all.refused), "jobs")
	r.add("puts that failed, but were done", float64(all.unexpected), "jobs")
	return all.check(mayLose)
}

// killServer kills the server again and again while jobs are put and run, and returns when all that
// it has then are done.
func killServer(
	ctx context.Context, o *options, s *server, c *crowd, jobs *tally, queue *qless.Queue,
) error {
	var (
		group sync.WaitGroup
		put   atomic.Int64
		ended atomic.Bool
	)
	for p := range putters {
		group.Go(func() {
			for i := 0; !ended.Load() && ctx.Err() == nil; i++ {
				if jobs.put(ctx, queue, fmt.Sprintf("kills-%d-%d", p, i)) {
					put.Add(1)
				} else {
					_ = pause(ctx, 10*time.Millisecond) // the server is away
				}
			}
		})
	}
	defer group.Wait()
	defer ended.Store(true)
	for kill := range o.kills {
		enough := int64((kill + 1) * o.jobs / o.kills)
		err := until(ctx, "puts", time.Millisecond, func() (bool, error) {
			return put.Load() >= enough, nil
		})
		if err != nil {
			return err
		}
		s.process.Kill()
		s.process.Restart()
	}
	ended.Store(true)
	group.Wait()
	return errors.Join(drained(ctx, queue), c.rest(ctx))
}

// A tally records the fate of each job, as far as its putter and its workers know.
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
