package model

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/qless/qless-go"
)

// The names used in steps. They are few, to make steps affect each other.
var (
	workerNames = []string{"a", "b", "c"}
	queueNames  = []string{"q1", "q2", "q3"}
	jobNames    = []string{"j1", "j2", "j3", "j4", "j5", "j6", "j7", "j8", "r-1", "r-2", "r-3", "s-1"}
	tagNames    = []string{"red", "green", "blue"}
	groupNames  = []string{"oops", "bad", "failed-retries-q1"}
)

// strangeQueue is a queue entered by few jobs.
const strangeQueue = "q4"

// crowd is the number of jobs above which some are cleared away.
const crowd = 30

// dice draw steps. They know the model, to make most steps effective.
type dice struct {
	*rand.Rand
	m    *queues
	back bool // the clock may go back, too
}

func newDice(seed uint64, m *queues, back bool) *dice {
	return &dice{Rand: rand.New(rand.NewPCG(seed, 0)), m: m, back: back}
}

// step draws the next step.
func (d *dice) step() step {
	var s step
	if len(d.m.jobs) > crowd && d.chance(30) {
		s = d.clearing()
	} else {
		s = d.action().draw(d)
	}
	if s.Worker == "" {
		s.Worker = d.worker()
	}
	if s.Tick == 0 {
		s.Tick = pick(d, []time.Duration{0, time.Microsecond, time.Millisecond, 100 * time.Millisecond})
	}
	return s
}

func (d *dice) action() *action {
	sum := 0
	for _, a := range actions {
		sum += a.weight
	}
	n := d.IntN(sum)
	for i := range actions {
		if n -= actions[i].weight; n < 0 {
			return &actions[i]
		}
	}
	panic("no action")
}

// clearing draws a step for reducing the number of jobs.
func (d *dice) clearing() step {
	if len(d.m.completed()) > crowd/2 {
		if d.m.setting("jobs-history-count", crowd) > 5 {
			return step{Do: "Config.Set", Option: "jobs-history-count", Value: "2"}
		}
		return d.onHeld(step{Do: "Complete"})
	}
	return step{Do: "Cancel", JIDs: d.withDependents(d.jids(8))}
}

func pick[T any](d *dice, list []T) T { return list[d.IntN(len(list))] }

func ptr[T any](v T) *T { return &v }

func (d *dice) chance(percent int) bool { return d.IntN(100) < percent }

func (d *dice) worker() string { return pick(d, workerNames) }

func (d *dice) queue() string {
	if d.chance(4) {
		return strangeQueue
	}
	return pick(d, queueNames)
}

// busyQueue draws a queue that mostly has jobs.
func (d *dice) busyQueue() string {
	all := d.existing(func(j *job) bool { return j.queue != "" })
	if len(all) == 0 || d.chance(30) {
		return d.queue()
	}
	return d.m.jobs[pick(d, all)].queue
}

// existing returns the jids of the jobs accepted by a function, in order.
func (d *dice) existing(takes func(*job) bool) []string {
	jids := []string{}
	for jid, j := range d.m.jobs {
		if takes(j) {
			jids = append(jids, jid)
		}
	}
	slices.Sort(jids)
	return jids
}

// jid draws a jid, mostly of an existing job.
func (d *dice) jid() string {
	all := d.existing(func(*job) bool { return true })
	if len(all) > 0 && d.chance(60) {
		return pick(d, all)
	}
	return pick(d, jobNames)
}

func (d *dice) jids(n int) []string {
	jids := []string{}
	for range n {
		jids = append(jids, d.jid())
	}
	return jids
}

// running draws mostly running jobs.
func (d *dice) running(n int) []string {
	all := d.existing(func(j *job) bool { return j.state == qless.StateRunning })
	jids := []string{}
	for range n {
		if len(all) > 0 && d.chance(90) {
			jids = append(jids, pick(d, all))
		} else {
			jids = append(jids, d.jid())
		}
	}
	return jids
}

// cancelable draws jobs, mostly with all of their dependents.
func (d *dice) cancelable() []string {
	jids := d.jids(1 + d.IntN(3))
	if d.chance(60) {
		return d.withDependents(jids)
	}
	return jids
}

func (d *dice) withDependents(jids []string) []string {
	for i := 0; i < len(jids); i++ {
		if j := d.m.jobs[jids[i]]; j != nil {
			for _, dependent := range sorted(j.dependents) {
				if !slices.Contains(jids, dependent) {
					jids = append(jids, dependent)
				}
			}
		}
	}
	return jids
}

// onHeld draws, for a step, a job held now or before by its worker.
func (d *dice) onHeld(s step) step {
	all := d.existing(func(j *job) bool { return j.state == qless.StateRunning })
	if len(all) == 0 || d.chance(15) {
		return d.byOldHandle(s, func(handleKey) bool { return true })
	}
	if d.chance(30) {
		return d.byOldHandle(s, func(key handleKey) bool { return slices.Contains(all, key.jid) })
	}
	s.JID = pick(d, all)
	s.Worker = d.m.jobs[s.JID].worker
	return s
}

// onDepending draws, for a step, a job that mostly waits for others.
func (d *dice) onDepending(s step) step {
	all := d.existing(func(j *job) bool { return j.state == qless.StateDepends })
	s = d.onAny(s)
	if len(all) > 0 && d.chance(70) {
		s.JID, s.Read, s.Handle = pick(d, all), true, 0
	}
	return s
}

// onAny draws any job for a step.
func (d *dice) onAny(s step) step {
	if d.chance(20) {
		return d.byOldHandle(s, func(handleKey) bool { return true })
	}
	s.JID, s.Read, s.Worker = d.jid(), true, d.worker()
	return s
}

// byOldHandle draws, for a step, an earlier handle of a worker accepted by a function.
func (d *dice) byOldHandle(s step, takes func(handleKey) bool) step {
	var all []handleKey
	for key := range d.m.handles {
		if takes(key) {
			all = append(all, key)
		}
	}
	if len(all) == 0 {
		s.Worker, s.JID, s.Read = d.worker(), d.jid(), true
		return s
	}
	slices.SortFunc(all, func(a, b handleKey) int {
		return cmp.Or(cmp.Compare(a.worker, b.worker), cmp.Compare(a.jid, b.jid))
	})
	key := pick(d, all)
	s.Worker, s.JID, s.Handle = key.worker, key.jid, d.IntN(len(d.m.handles[key]))
	return s
}

// putting draws the arguments of a put.
func (d *dice) putting(s step) step {
	s.Data, s.Priority, s.Retries, s.Tags = d.data(), d.priority(), d.retries(), d.tags(0)
	s.Delay, s.Depends = d.delay(), d.depends()
	if d.chance(15) {
		s.If = pick(d, []string{"absent", "finished", "idle"})
	}
	d.drawOptions(&s)
	return s
}

// result draws a result, mostly none.
func (d *dice) result() string {
	if d.chance(70) {
		return ""
	}
	return fmt.Sprint(d.IntN(100))
}

func (d *dice) data() string { return fmt.Sprintf(`{"n":%d}`, d.IntN(1000)) }

func (d *dice) maybeData() string {
	if d.chance(30) {
		return d.data()
	}
	return ""
}

func (d *dice) priority() *int {
	if d.chance(60) {
		return nil
	}
	return d.newPriority()
}

func (d *dice) newPriority() *int { return ptr(pick(d, []int{-5, 0, 1, 10, 1000})) }

func (d *dice) retries() *int {
	if d.chance(70) {
		return nil
	}
	return ptr(d.IntN(3))
}

// tags draws at least some distinct tags, or nil to leave a job's tags unchanged.
func (d *dice) tags(least int) []string {
	if least == 0 && d.chance(60) {
		return nil
	}
	tags := []string{}
	for _, i := range d.Perm(len(tagNames))[:least+d.IntN(len(tagNames)-least)] {
		tags = append(tags, tagNames[i])
	}
	return tags
}

func (d *dice) delay() *time.Duration {
	if d.chance(70) {
		return nil
	}
	return ptr(pick(d, []time.Duration{
		0, 500 * time.Millisecond, 5 * time.Second, time.Minute, time.Hour,
	}))
}

func (d *dice) depends() []string {
	if d.chance(70) {
		return nil
	}
	return d.toWaitFor(d.linked(1 + d.IntN(2)))
}

// linked draws n jids, mostly of jobs that wait for others or that others wait for.
func (d *dice) linked(n int) []string {
	all, jids := d.existing(func(j *job) bool { return len(j.dependencies)+len(j.dependents) > 0 }), d.jids(n)
	for i := range jids {
		if len(all) > 0 && d.chance(80) {
			jids[i] = pick(d, all)
		}
	}
	return jids
}

// chain draws at most three jobs, each waiting for the next.
func (d *dice) chain() (jids []string) {
	next := d.existing(func(j *job) bool { return len(j.dependencies) > 0 })
	for len(next) > 0 && len(jids) < 3 {
		jid := pick(d, next)
		jids = append(jids, jid)
		next = d.existing(func(j *job) bool { return j.dependents[jid] })
	}
	return jids
}

// toWaitFor returns jobs with only the first of the failed jobs: with several, the order of the
// notifications would be unknown.
func (d *dice) toWaitFor(jids []string) []string {
	failed := 0
	return slices.DeleteFunc(jids, func(jid string) bool {
		if j := d.m.jobs[jid]; j != nil && j.state == qless.StateFailed {
			failed++
		}
		return failed > 1
	})
}

func (d *dice) group() string { return pick(d, groupNames) }

// failed draws a failure group that mostly has jobs.
func (d *dice) failed() string {
	var all []string
	for group := range d.m.groups {
		all = append(all, group)
	}
	if len(all) == 0 || d.chance(20) {
		return d.group()
	}
	slices.Sort(all)
	return pick(d, all)
}

func (d *dice) recurring() string { return pick(d, []string{"r", "r", "s"}) }

func (d *dice) interval() time.Duration {
	return pick(d, []time.Duration{
		100 * time.Millisecond, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond,
		time.Minute, time.Hour,
	})
}

// leap draws the distance of a clock move: often to exactly the time when something is due.
func (d *dice) leap() time.Duration {
	leaps := []time.Duration{
		500 * time.Millisecond, time.Second, 5 * time.Second, 10 * time.Second,
		time.Minute, 61 * time.Second, time.Hour,
	}
	if d.chance(3) {
		return 24 * time.Hour
	}
	if d.back && d.chance(25) {
		return -pick(d, leaps)
	}
	if due := d.due(); due > 0 && d.chance(40) {
		return due
	}
	return pick(d, leaps)
}

// due returns the time until a drawn event is due, or 0 if it has passed.
func (d *dice) due() time.Duration {
	all := d.existing(func(j *job) bool {
		return j.state == qless.StateRunning || j.state == qless.StateScheduled
	})
	if len(all) == 0 {
		return 0
	}
	wait := d.m.jobs[pick(d, all)].score - d.m.now
	if wait <= 0 || wait > 3600 {
		return 0
	}
	return time.Duration(math.Round(wait*1e6)) * time.Microsecond
}

// setting draws a setting and a value.
func (d *dice) setting() (option, value string) {
	values := [][]string{
		{"heartbeat", "10", "60", "1.5", "0"},
		{"q1-heartbeat", "5", "120"},
		{"grace-period", "0", "10", "10", "0.5", "-1"},
		{pick(d, queueNames) + "-max-concurrency", "0", "0", "1", "2", "3"},
		{"jobs-history-count", "0", "2", "5", "10"},
		{"jobs-history", "0", "3600", "604800"},
		{"max-job-history", "0", "1", "2", "5", "10", "10"},
		{"max-worker-age", "60", "86400"},
		{"backoff-initial-delay", "0", "0", "0.5", "5", "-1"},
		{"backoff-factor", "1", "2", "0.5"},
		{"jobs-failed-history", "0", "60", "3600", "86400"},
		{"jobs-failed-history-count", "0", "1", "3", "10"},
	}
	drawn := pick(d, values)
	option, value = drawn[0], pick(d, drawn[1:])
	if d.m.hasPolicies() { // drawPolicy has the reason
		switch option {
		case "jobs-failed-history":
			value = "60"
		case "jobs-failed-history-count":
			value = "1000"
		}
	}
	return option, value
}
