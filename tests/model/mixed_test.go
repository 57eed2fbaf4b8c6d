package model

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/tests/scripts"
)

// mixedLength is the number of steps with any command before all jobs are run.
const mixedLength = 250

// A mix takes steps not predicted by any model: any command with any option, through our scripts
// and through the drop-in as called by other clients. After each step, it checks the keys against
// the rules.
type mix struct {
	*world
	taken  int                  // the number of all steps
	ends   *redis.PubSub        // ends of jobs with waiters
	heard  map[string]int       // the number of these ends, by jid
	awaits map[string]int       // the expected number of these ends, by jid
	starts map[string][]float64 // the times at which jobs have started, by limit, since its definition
	loose  map[string]bool      // unique keys possibly held by two jobs
	turned map[string]bool      // jobs with turns of their own in their queues
	before map[string]told      // jobs before the step
	marks  int                  // how often all messages were read

	damaged bool            // anything may be sent and stored
	garbled map[string]bool // jobs with damaged options
}

func newMix(t testing.TB) *mix {
	x := &mix{world: newWorld(t)}
	x.ends = x.rdb.PSubscribe(x.ctx, prefix+"x:done:*", "marker")
	t.Cleanup(func() { _ = x.ends.Close() })
	for range 2 {
		_, err := x.ends.Receive(x.ctx)
		require.NoError(t, err)
	}
	return x
}

// restart empties the server.
func (x *mix) restart() {
	x.world.restart()
	x.listen()
	x.heard, x.awaits = map[string]int{}, map[string]int{}
	x.starts, x.loose, x.turned = map[string][]float64{}, map[string]bool{}, map[string]bool{}
	x.garbled = map[string]bool{}
}

// listen reads all published messages.
func (x *mix) listen() {
	x.marks++
	mark := fmt.Sprint(x.marks)
	require.NoError(x.t, x.rdb.Publish(x.ctx, "marker", mark).Err())
	for {
		message, err := x.ends.ReceiveMessage(x.ctx)
		require.NoError(x.t, err)
		if message.Channel == "marker" && message.Payload == mark {
			return
		}
		if jid, ok := strings.CutPrefix(message.Channel, prefix+"x:done:"); ok && x.heard != nil {
			x.heard[jid]++
		}
	}
}

// run runs a line: a command and its arguments. Value may contain a time for it.
func (x *mix) run(s step) (any, error) {
	at := orElse(s.Value, scripts.Time(time.UnixMicro(x.micros)))
	args := make([]any, 0, len(s.Raw)+1)
	for _, word := range s.Raw[1:] {
		args = append(args, word)
	}
	if s.Do == "drop-in" {
		return scripts.RunDropIn(x.ctx, x.rdb, append([]any{s.Raw[0], at}, args...)...)
	}
	return scripts.RunAt(x.ctx, x.rdb, prefix, at, s.Raw[0], args...)
}

// damage gives a job invalid options.
func (x *mix) damage(jid, text string) {
	if x.k.jobs[jid] == nil {
		return
	}
	require.NoError(x.t, x.rdb.HSet(x.ctx, prefix+"j:"+jid, "x:o", text).Err())
	x.garbled[jid] = true
	x.update()
}

// refusal matches the errors of scripts for refused arguments.
var refusal = regexp.MustCompile(`^(ERR )?user_script:\d+: ([A-Za-z.]+\(\): |Arg "now" |Unknown command )`)

// play takes one step.
func (x *mix) play(s step) *violation {
	x.taken++
	switch s.Do {
	case "Drain":
		return x.drain()
	case "damage":
		x.damage(s.Raw[0], s.Raw[1])
		return nil
	}
	_, v := x.try(s)
	return v
}

// try takes a step, and also returns the reply.
func (x *mix) try(s step) (any, *violation) {
	x.micros += s.Tick.Microseconds()
	x.m.now = secondsOf(x.micros)
	x.remember()
	reply, err := x.run(s)
	x.update()
	if err != nil {
		if !refusal.MatchString(err.Error()) && !(x.damaged && isKnown(s, err)) {
			return nil, &violation{class: "error", kind: s.Raw[0], text: err.Error()}
		}
		for _, key := range inOrder(x.k.changed) {
			if !unchanged(x.k.was[key], x.k.entries[key]) {
				text := fmt.Sprintf("refused (%v), but changed %s", err, key)
				return nil, &violation{class: "half done", kind: s.Raw[0], text: text}
			}
		}
		return nil, nil
	}
	if x.damaged {
		return reply, x.probe()
	}
	x.follow(s)
	return reply, x.checkRules(s, reply)
}

// unchanged reports whether a key has the same contents as before, or has expired. The order of a
// large hash's fields may vary.
func unchanged(before, after *entry) bool {
	if after == nil {
		return before.expires
	}
	return before != nil && before.kind == after.kind && before.expires == after.expires &&
		maps.Equal(before.fields, after.fields) && maps.Equal(before.scores, after.scores) &&
		slices.Equal(before.names, after.names) && (before.kind == "set" || slices.Equal(before.members, after.members))
}

// remember records the jobs before a step.
func (x *mix) remember() {
	x.before = make(map[string]told, len(x.k.jobs))
	for jid, h := range x.k.jobs {
		x.before[jid] = h.job
	}
}

// walk takes a run of random steps, and then runs all jobs. It returns the first violation and the
// steps that led to it.
func (x *mix) walk(seed uint64, steps int) (*violation, []step) {
	x.restart()
	d := newDrawer(seed, x)
	var taken []step
	for range steps {
		s := d.step()
		taken = append(taken, s)
		if v := x.play(s); v != nil {
			return v, taken
		}
	}
	taken = append(taken, step{Do: "Drain"})
	return x.play(taken[len(taken)-1]), taken
}

func TestStepsMixed(t *testing.T) {
	seed := newSeed(t)
	x := newMix(t)
	for x.taken < *stepsFlag/4 {
		v, taken := x.walk(seed, mixedLength)
		if v != nil {
			failed(t, x, seed, taken, v)
		}
		seed++
	}
}

// ask runs one of our commands as a step, at the present time.
func (x *mix) ask(words ...string) (any, *violation) {
	return x.try(step{Do: "flat", Raw: words})
}

// drain runs all jobs: it removes limits, unpauses queues, commits batches, and runs all jobs that
// can be run. The remaining jobs then wait for failed ones. When these are gone, too, none of our
// keys is left except for keys bounded in other ways.
func (x *mix) drain() *violation {
	for _, stage := range []func() *violation{x.open, x.workOff, x.checkLeft, x.clear, x.checkEnds} {
		if v := stage(); v != nil {
			return v
		}
	}
	return nil
}

// all runs lines until one breaks a rule.
func (x *mix) all(lines ...[]string) *violation {
	for _, words := range lines {
		if _, v := x.ask(words...); v != nil {
			return v
		}
	}
	return nil
}

// open removes everything in the way of jobs.
func (x *mix) open() *violation {
	lines := [][]string{append([]string{"unpause"}, queueNames...)}
	for _, option := range inOrder(x.k.at("config").fields) {
		lines = append(lines, []string{"config.unset", option})
	}
	for _, name := range limitNames {
		lines = append(lines, []string{"limit.hold", name, "0"})
	}
	for _, jid := range inOrder(x.k.recurs) {
		lines = append(lines, []string{"unrecur", jid})
	}
	for _, jid := range slices.Clone(in(x.k.dependents, openBatch).members) {
		lines = append(lines, []string{"batch.commit", jid})
	}
	for _, worker := range workerNames {
		lines = append(lines, append([]string{"depart", worker, "", "0"}, queueNames...))
	}
	return x.all(lines...)
}

// rounds limits how often all queues are asked until no job can run.
const rounds = 400

// workOff runs all runnable jobs. The clock moves only to the time when something is due, not
// counting parked jobs, which must be due by then.
func (x *mix) workOff() *violation {
	for range rounds {
		for _, queue := range queueNames {
			if v := x.workQueue(queue); v != nil {
				return v
			}
		}
		next, left := x.next()
		if !left {
			return nil
		}
		x.micros = max(x.micros+1000, int64((next+0.001)*1e6))
		x.micros = min(x.micros, int64((x.m.now+60)*1e6))
	}
	return &violation{class: "stranded", text: x.shownJobs("waiting", "running", "stalled", "scheduled")}
}

// workQueue pops and completes the jobs of a queue.
func (x *mix) workQueue(queue string) *violation {
	before := len(x.k.of(queue, "locks").names)
	if _, v := x.ask("pop", queue, "z", "50"); v != nil {
		return v
	}
	if before == 0 && len(x.k.of(queue, "locks").names) == 0 {
		return nil
	}
	var lines [][]string
	for _, jid := range x.k.of(queue, "locks").names {
		if x.k.jobs[jid].job.worker == "z" {
			lines = append(lines, []string{"complete", jid, "z", queue, "{}"})
		}
	}
	return x.all(lines...)
}

// next returns the time at which the next job is due or loses its lock, and whether any job is
// left.
func (x *mix) next() (at float64, left bool) {
	at = x.m.now + 60
	for jid, h := range x.k.jobs {
		t := &h.job
		switch t.state {
		case "running":
			at, left = min(at, x.k.of(t.queue, "locks").scores[jid]), true
		case "scheduled":
			at, left = min(at, x.k.of(t.queue, "scheduled").scores[jid]), true
		case "waiting", "stalled":
			left = true
		}
	}
	return at, left
}

// shownJobs shows the jobs in some states.
func (x *mix) shownJobs(states ...string) string {
	var b strings.Builder
	for _, jid := range inOrder(x.k.jobs) {
		if t := &x.k.jobs[jid].job; slices.Contains(states, t.state) {
			fmt.Fprintf(&b, "%s is %s in %s, needs %q, score %v, parked %q, options %s\n", jid, t.state, t.queue,
				in(x.k.dependencies, jid).names, x.k.entries[prefix+t.place].scores[jid],
				x.k.jobs[jid].fields["x:parked"], t.options)
		}
	}
	return b.String()
}

// checkLeft checks that a job still waits for others only if one of them has failed, or waits in
// turn.
func (x *mix) checkLeft() *violation {
	excused := map[string]bool{}
	for grew := true; grew; {
		grew = false
		for jid := range x.k.jobs {
			if excused[jid] || x.k.jobs[jid].job.state != "depends" {
				continue
			}
			for _, other := range in(x.k.dependencies, jid).names {
				h := x.k.jobs[other]
				if h != nil && (h.job.state == "failed" || excused[other]) {
					excused[jid], grew = true, true
				}
			}
		}
	}
	for jid, h := range x.k.jobs {
		if h.job.state == "depends" && !excused[jid] {
			return &violation{class: "stranded", kind: "depends", text: x.shownJobs("depends")}
		}
	}
	return nil
}

// clear deletes all remaining jobs, and checks the remaining keys.
func (x *mix) clear() *violation {
	var unfinished, complete []string
	for _, jid := range inOrder(x.k.jobs) {
		if x.k.jobs[jid].job.state == "complete" {
			complete = append(complete, jid)
		} else {
			unfinished = append(unfinished, jid)
		}
	}
	if len(unfinished) > 0 {
		if _, v := x.ask(append([]string{"cancel"}, unfinished...)...); v != nil {
			return v
		}
	}
	for _, jid := range complete {
		if _, v := x.ask("forget", jid); v != nil {
			return v
		}
	}
	x.micros += (24 * time.Hour).Microseconds()
	for range 3 {
		if _, v := x.ask("sweep", "*"); v != nil {
			return v
		}
	}
	last := [][]string{
		append([]string{"queue.forget"}, queueNames...), {"schedule.last", "s", "z", "d"},
		{"schedule.leave", "z", "s"}, {"schedule.forget", "s"},
	}
	if v := x.all(last...); v != nil {
		return v
	}
	return x.checkEmpty()
}

// checkEnds checks that waiting clients were notified of a job's end.
func (x *mix) checkEnds() *violation {
	x.listen()
	for _, jid := range inOrder(x.awaits) {
		if x.heard[jid] < x.awaits[jid] {
			text := fmt.Sprintf("%s has ended %d times with waiters, and announced it %d times",
				jid, x.awaits[jid], x.heard[jid])
			return &violation{class: "waits", text: text}
		}
	}
	return nil
}

// staying matches the keys that may stay when no job is left.
var staying = regexp.MustCompile(`^(s:|x:stats:|config$|workers$|queues$|tracked$|` +
	`w:.*:jobs$|x:limits$|x:limit:[^:]*:starts$|x:rate:|x:workers|x:sweep$|x:unlisted$|x:queues|x:empty$|x:filled$)`)

func (x *mix) checkEmpty() *violation {
	var p problems
	for key, e := range x.k.entries {
		name := strings.TrimPrefix(key, prefix)
		if staying.MatchString(name) || e.expires {
			continue
		}
		p.add("%s stays without any job: %s", key, e.text)
	}
	if len(p) > 0 {
		return &violation{class: "left behind", kind: strings.Join(strings.SplitN(p.String(), ":", 4)[1:3], ":"), text: p.String()}
	}
	return nil
}
