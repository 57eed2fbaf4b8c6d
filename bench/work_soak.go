package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/redis/go-redis/v9"
)

// samplesWanted returns how many samples a long soak takes. The first tenth is not judged: until
// then, everything grows to its size.
func (o *options) samplesWanted() int {
	return min(100, max(10, int(o.endure/time.Second)))
}

// An endurance is a soak in processes of their own, with everything on.
type endurance struct {
	o      *options
	s      *server
	putter *crowd // has no workers
	role   role

	fellows []*fellow // that live from the beginning to the end
	doomed  *fellow   // is killed, and started again
	kills   int

	samples map[string][]size // by the name of the process
}

// life returns how long jobs live that live for some time.
func (o *options) life() time.Duration {
	return min(time.Minute, max(10*time.Second, o.endure/20)).Truncate(time.Second)
}

// serverName is the name of the server among the processes.
const serverName = "server"

// soak works for a long time, in processes of which one is killed each minute, and fails if
// something grows, if jobs do not end, or if something is left.
func soak(ctx context.Context, o *options, r *report) (failed error) {
	s, err := startFleet(ctx, o, "--slowlog-max-len", "0") // it would grow
	if err != nil {
		return err
	}
	defer s.stop()
	dir, err := os.MkdirTemp("", "qless-fleet-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	e := &endurance{o: o, s: s, samples: map[string][]size{}}
	e.role = role{Redis: s.process.Addr(), Rate: o.rate, Life: o.life()}
	if e.putter, err = newCrowd(s, 1, qless.ClientConfig{}); err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, e.putter.dismiss()) }()
	defer e.killAll()
	program, err := buildGateways(ctx, dir)
	if err != nil {
		return err
	}
	if err := e.start(ctx, program); err != nil {
		return err
	}
	if err := e.goOn(ctx); err != nil {
		return err
	}
	failed = errors.Join(e.finish(ctx), e.examine(ctx))
	return errors.Join(failed, e.judge(r))
}

func (e *endurance) start(ctx context.Context, program string) error {
	client := e.putter.clients[0]
	failed := errors.Join(
		client.Config().Set(ctx, qless.ConfigJobsHistoryCount, 100),
		client.Config().Set(ctx, qless.ConfigHeartbeat, 5),
	)
	for name, config := range soakLimits {
		failed = errors.Join(failed, client.Limit(name).Set(ctx, config))
	}
	for _, every := range []time.Duration{200 * time.Millisecond, time.Second} {
		_, err := client.Queue(soakQueues[0]).Recur(ctx, klassRecurs, data, every,
			qless.JID("recurs-"+every.String()))
		failed = errors.Join(failed, err)
	}
	if failed != nil {
		return failed
	}
	gateways, err := startGateways(ctx, program, &e.role)
	if gateways != nil {
		e.fellows = append(e.fellows, gateways)
	}
	if err != nil {
		return err
	}
	for _, name := range []string{roleWork, roleWork, rolePut, roleForeign, roleWatch} {
		f, err := startMember(ctx, fmt.Sprintf("%d, %s", len(e.fellows), name), e.role.as(name))
		if f != nil {
			e.fellows = append(e.fellows, f)
		}
		if err != nil {
			return err
		}
	}
	e.doomed, err = startMember(ctx, "killed, "+roleWork, e.role.as(roleWork))
	return err
}

// as returns the role with a name.
func (r role) as(name string) role {
	r.Name = name
	return r
}

func (e *endurance) killAll() {
	for _, f := range append(e.fellows, e.doomed) {
		if f != nil {
			f.kill()
		}
	}
}

// goOn works until the time is over, and takes samples meanwhile.
func (e *endurance) goOn(ctx context.Context) error {
	samples := e.o.samplesWanted()
	every := e.o.endure / time.Duration(samples)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		for pause(ctx, time.Second) == nil {
			if err := e.clean(ctx); err != nil {
				stop(err)
			}
		}
	}()
	// A kill for each minute, and some for a short time.
	killEvery := max(1, int(min(time.Minute, e.o.endure/10)/every))
	for i := range samples {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := e.sample(ctx); err != nil {
			return err
		}
		if i%killEvery == killEvery-1 {
			e.doomed.kill()
			e.kills++
			var err error
			if e.doomed, err = startMember(ctx, e.doomed.name, e.role.as(roleWork)); err != nil {
				return err
			}
		}
	}
	return nil
}

// sample measures all processes.
func (e *endurance) sample(ctx context.Context) error {
	one, err := e.sampleServer(ctx)
	if err != nil {
		return err
	}
	e.samples[serverName] = append(e.samples[serverName], one)
	line := fmt.Sprintf("%s %v", serverName, one)
	for _, f := range e.fellows {
		one, err := f.sample(ctx)
		if err != nil {
			return err
		}
		e.samples[f.name] = append(e.samples[f.name], one)
		line += fmt.Sprintf("; %s %v", f.name, one)
	}
	log.Printf("sample %d: %s", len(e.samples[serverName]), line)
	return nil
}

func (e *endurance) sampleServer(ctx context.Context) (size, error) {
	keys, elements, err := e.s.count(ctx)
	if err != nil {
		return nil, err
	}
	text, err := e.s.admin.Info(ctx).Result()
	if err != nil {
		return nil, err
	}
	s := size{"keys": float64(keys), "elements": float64(elements)}
	for name, field := range map[string]string{
		"memory": "used_memory", "resident": "used_memory_rss", "scripts": "used_memory_scripts",
		"scripts by Lua": "used_memory_vm_eval",
		"channels":       "pubsub_channels", "connections": "connected_clients",
	} {
		var number float64
		if value := infoField(text, field); value != "" {
			if _, err := fmt.Sscan(value, &number); err != nil {
				return nil, fmt.Errorf("INFO: %s: %w", field, err)
			}
		}
		s[name] = number
	}
	for _, bytes := range []string{"memory", "resident", "scripts", "scripts by Lua"} {
		s[bytes] /= 1e3
	}
	return s, nil
}

// clean sweeps until there is nothing to sweep, as a program does now and then.
func (e *endurance) clean(ctx context.Context) error {
	for {
		swept, err := e.putter.clients[0].Sweep(ctx, "*")
		if swept == 0 || err != nil {
			return err
		}
	}
}

// finish has no more jobs put, waits until all have ended, and ends all processes.
func (e *endurance) finish(ctx context.Context) error {
	client := e.putter.clients[0]
	for _, f := range e.fellows {
		if f.stdin != nil {
			if err := f.send(lineEnough); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	for _, every := range []string{"200ms", "1s"} {
		recurring, err := client.RecurringJob(ctx, "recurs-"+every)
		if err != nil {
			return err
		}
		if err := recurring.Cancel(ctx); err != nil {
			return err
		}
	}
	// Jobs of schedules come until no worker is left, and are done at once.
	err := until(ctx, "all jobs to end", 100*time.Millisecond, func() (bool, error) {
		if err := e.clean(ctx); err != nil {
			return false, err
		}
		return e.drained(ctx)
	})
	if err != nil {
		return err
	}
	all := append([]*fellow{e.doomed}, e.fellows...)
	for _, f := range slices.Backward(all) {
		err = errors.Join(err, f.end(ctx))
	}
	e.fellows, e.doomed = nil, nil
	return err
}

func (e *endurance) drained(ctx context.Context) (bool, error) {
	queues, err := e.putter.clients[0].Queues(ctx)
	if err != nil {
		return false, err
	}
	for _, n := range queues {
		if n.Waiting+n.Running+n.Stalled+n.Scheduled+n.Depends+n.Recurring > 0 {
			return false, nil
		}
	}
	return true, nil
}

// leftover matches keys that may be there when all jobs have ended: settings, statistics, complete
// jobs with their tags, tracked ones, known queues, workers, limits and schedules, the turns of
// tenants, and notes about workers that were killed.
var leftover = regexp.MustCompile(`^ql:(config|queues|workers|completed|` +
	`s:(wait|run|stats):\d+:.+|j:.+|tags|t:.+|tracked|` +
	`x:(empty|filled|looked.*|list.*|rates:.+|stats:.+|relay|worker:.+|idle|idle:.+|` +
	`due:.+|swept.*|limits|schedule.*|follow:.+|fair:.+))$`)

// wellFindings are what the doctor may find: the server keeps no file, as it was started, and of
// the last jobs of tenants, their turns are kept until another one is put.
var wellFindings = []doctor.Kind{doctor.KindNoPersistence, doctor.KindShareLeft}

// examine looks for leftovers until the last lives have ended.
func (e *endurance) examine(ctx context.Context) error {
	var found error
	failed := until(ctx, "nothing to be left", time.Second, func() (bool, error) {
		if err := e.clean(ctx); err != nil {
			return false, err
		}
		var err error
		found, err = e.left(ctx)
		return found == nil, err
	})
	return errors.Join(failed, found)
}

// left returns what was left behind, as an error.
func (e *endurance) left(ctx context.Context) (found, err error) {
	report, err := doctor.Examine(ctx, e.s.admin, doctor.Options{Pause: -1})
	if err != nil {
		return nil, err
	}
	for _, finding := range report.Findings {
		if !slices.Contains(wellFindings, finding.Kind) {
			found = errors.Join(found, fmt.Errorf("the doctor finds: %s", finding.Sentence))
		}
	}
	keys := e.s.admin.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		if !leftover.MatchString(keys.Val()) {
			found = errors.Join(found, fmt.Errorf("the key %s is left", keys.Val()))
		}
	}
	return found, keys.Err()
}

// endureLimits are by how much medians may grow from one third of the samples to another, a time
// apart. The name of a killed worker is kept for a day, as one element; rates and statistics are
// kept for days, and are not among the keys. The ends of lives are kept until their time.
func endureLimits(from size, o *options, kills int) []growthLimit {
	apart := o.endure * 9 / 10 * 2 / 3
	lives, warm := 0.0, 0.0
	if o.endure/10 < time.Minute { // heaps are still growing to their size
		warm = 10_000
	}
	if o.endure/10 < 2*o.life() {
		lives = o.life().Seconds() * float64(o.rate) / 5
	}
	return []growthLimit{
		{"keys", "", 50 + from["keys"]/20},
		{"elements", "", 50 + from["elements"]/20 + float64(kills)*2/3 + lives},
		{"memory", "KB", 1000 + from["memory"]/20 + 30*apart.Minutes()},
		{"resident", "KB", 4000 + from["resident"]/10 + 30*apart.Minutes() + warm},
		{"scripts", "KB", 100},
		{"scripts by Lua", "KB", 1000},
		{"channels", "", 5},
		{"connections", "", 10},
		{"goroutines", "", 10},
		{"descriptors", "", 10},
		{"heap", "KB", 2000 + from["heap"]/10 + warm},
	}
}

// judge reports what everything was like, and returns an error if something grew after the first
// tenth of the time: its median in the first third of the samples that then follow, and that in the
// last.
func (e *endurance) judge(r *report) error {
	var failed error
	for _, name := range slices.Sorted(maps.Keys(e.samples)) {
		all := e.samples[name]
		rest := all[len(all)/10:]
		third := max(1, len(rest)/3)
		early, late := medians(rest[:third]), medians(rest[len(rest)-third:])
		r.in("%s", name)
		if jobs, ok := all[len(all)-1]["jobs"]; ok && jobs > 0 {
			r.add("jobs, pages", jobs, "")
		}
		for _, limit := range endureLimits(early, e.o, e.kills) {
			if _, ok := early[limit.name]; !ok {
				continue
			}
			r.add(limit.name+", early", early[limit.name], limit.unit)
			more := late[limit.name] - early[limit.name]
			r.bound(limit.name+", more late", more, limit.unit, limit.most)
			if more > limit.most {
				by := fmt.Sprintf("%s of %s has grown by %.0f %s", limit.name, name, more, limit.unit)
				failed = errors.Join(failed, errors.New(strings.TrimSpace(by)))
			}
		}
	}
	r.in("all")
	r.add("workers killed", float64(e.kills), "")
	return failed
}

// medians returns the median of each figure.
func medians(samples []size) size {
	all := size{}
	for name := range samples[0] {
		var values []float64
		for _, s := range samples {
			values = append(values, s[name])
		}
		slices.Sort(values)
		all[name] = values[len(values)/2]
	}
	return all
}

// A size is how large everything is at one moment, by name.
type size map[string]float64

// A growthLimit says by how much something may grow.
type growthLimit struct {
	name, unit string
	most       float64
}

// count returns how many keys the server has, but for rates, and how many elements their lists,
// sets and hashes have, but for those of jobs.
func (s *server) count(ctx context.Context) (keys, elements int64, err error) {
	var names []string
	scan := s.admin.Scan(ctx, 0, "*", 1000).Iterator()
	for scan.Next(ctx) {
		if !strings.HasPrefix(scan.Val(), "ql:x:rates:") {
			names = append(names, scan.Val())
		}
	}
	slices.Sort(names)
	names = slices.Compact(names) // SCAN may name a key twice
	for batch := range slices.Chunk(names, 1000) {
		n, err := s.countElements(ctx, batch)
		if err != nil {
			return 0, 0, err
		}
		elements += n
	}
	return int64(len(names)), elements, scan.Err()
}

func (s *server) countElements(ctx context.Context, keys []string) (int64, error) {
	keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		return strings.HasPrefix(key, "ql:j:")
	})
	types := make([]*redis.StatusCmd, len(keys))
	_, err := s.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			types[i] = p.Type(ctx, key)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	counts := make([]*redis.IntCmd, 0, len(keys))
	_, err = s.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		commands := map[string]func(context.Context, string) *redis.IntCmd{
			"list": p.LLen, "set": p.SCard, "zset": p.ZCard, "hash": p.HLen,
		}
		for i, key := range keys {
			if count, ok := commands[types[i].Val()]; ok {
				counts = append(counts, count(ctx, key))
			}
		}
		return nil
	})
	var all int64
	for _, count := range counts {
		all += count.Val()
	}
	return all, err
}
