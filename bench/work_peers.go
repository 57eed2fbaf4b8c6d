package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// pickUpGroups measures how long a job waits for its handler while workers are idle.
func (b *bench) pickUpGroups() []group {
	var groups []group
	for _, workers := range []int{1, 16} {
		l := load{concurrency: 1, workers: workers, payload: payloadOf(100)}
		g := group{label: fmt.Sprintf("idle=%d", workers)}
		for _, p := range b.all {
			if p.waits {
				g.runs = append(g.runs, run{peer: p.name, do: func(ctx context.Context) ([]sample, error) {
					return b.pickUps(ctx, p, l)
				}})
			}
		}
		groups = append(groups, g)
	}
	return groups
}

// pickUpTime limits the time of a run: a peer that polls takes a second per job.
const pickUpTime = 20 * time.Second

// pickUpJobs is the number of jobs put one at a time, if done within pickUpTime.
func (b *bench) pickUpJobs() int { return min(b.jobs, 500) }

// between is the time for workers to become idle again before the next job.
const between = 5 * time.Millisecond

func (b *bench) pickUps(ctx context.Context, p peer, l load) (phases []sample, err error) {
	s, taken, err := b.openIdle(ctx, p, l)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	var waits []time.Duration
	one, err := b.sample(ctx, p, "put to handler", b.pickUpJobs(), func() (err error) {
		if own, ok := s.(pacer); ok {
			waits, err = own.pickUps(ctx, b.pickUpJobs(), between)
			return err
		}
		waits, err = oneByOne(ctx, s, taken, b.pickUpJobs(), between)
		return err
	})
	one.jobs, one.waits = len(waits), waits
	one.elapsed = 0 // mostly the time between jobs
	return []sample{one}, err
}

// oneByOne puts jobs one at a time, and returns the wait of each.
func oneByOne(
	ctx context.Context, s session, taken <-chan time.Time, jobs int, gap time.Duration,
) ([]time.Duration, error) {
	var waits []time.Duration
	end := time.Now().Add(pickUpTime + time.Duration(jobs)*gap)
	for len(waits) < jobs && time.Now().Before(end) {
		time.Sleep(gap)
		put := time.Now()
		if err := s.enqueue(ctx, 1); err != nil {
			return nil, err
		}
		select {
		case at := <-taken:
			waits = append(waits, at.Sub(put))
		case <-time.After(patience):
			return nil, errors.New("a job was not handled")
		}
	}
	return waits, nil
}

// openIdle opens a session with idle workers, and sends the times of calls of their handlers.
func (b *bench) openIdle(ctx context.Context, p peer, l load) (session, <-chan time.Time, error) {
	s, err := p.open(ctx, b.server, l)
	if err != nil {
		return nil, nil, err
	}
	crew := newCrew(0)
	crew.taken = make(chan time.Time, 1000)
	if err := s.work(ctx, crew); err != nil {
		return nil, nil, errors.Join(err, s.close())
	}
	time.Sleep(b.settle)
	return s, crew.taken, nil
}

// restGroup measures the cost of idle workers to the server per second, in CPU us and in commands.
func (b *bench) restGroup() []group {
	g := group{label: "a second of 16 idle workers"}
	g.runs = append(g.runs, run{peer: "no workers", do: func(ctx context.Context) ([]sample, error) {
		return b.rest(ctx, peer{})
	}})
	l := load{concurrency: 1, workers: 16, payload: payloadOf(100)}
	for _, p := range b.all {
		if !p.waits {
			continue
		}
		rest := func(ctx context.Context) (phases []sample, err error) {
			s, _, err := b.openIdle(ctx, p, l)
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, s.close()) }()
			return b.rest(ctx, p)
		}
		g.runs = append(g.runs, run{peer: p.name, do: rest})
	}
	return []group{g}
}

// rest measures the server while the bench makes no calls.
func (b *bench) rest(ctx context.Context, p peer) ([]sample, error) {
	seconds := int(math.Ceil(b.lasting.Seconds()))
	one, err := b.sample(ctx, p, "idle", seconds, func() error {
		return pause(ctx, time.Duration(seconds)*time.Second)
	})
	one.elapsed = 0
	return []sample{one}, err
}

// memoryGroup measures the memory of a waiting job of 100 bytes, with the server's defaults and
// with small hashes packed up to 1024 bytes per field.
func (b *bench) memoryGroup() []group {
	g := group{label: "waiting jobs of 100 bytes"}
	l := load{concurrency: 16, workers: 1, payload: payloadOf(100)}
	for _, packed := range []string{"", "1024"} {
		label := ""
		if packed != "" {
			label = "hash-max-listpack-value=" + packed
		}
		seen := map[string]bool{}
		for _, p := range b.all {
			if seen[p.layout] || p.other != nil && packed != "" {
				continue
			}
			seen[p.layout] = true
			weigh := func(ctx context.Context) ([]sample, error) {
				return b.weighWaiting(ctx, p, l, packed)
			}
			g.runs = append(g.runs, run{peer: p.layout, label: label, do: weigh})
		}
	}
	return []group{g}
}

func (b *bench) weighWaiting(
	ctx context.Context, p peer, l load, packed string,
) (phases []sample, err error) {
	if packed != "" {
		restore, err := b.server.set(ctx, "hash-max-listpack-value", packed)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, restore()) }()
	}
	s, err := p.open(ctx, b.server, l)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	// The first jobs open connections and load scripts, which take memory, too.
	if err := s.enqueue(ctx, b.jobs); err != nil {
		return nil, err
	}
	before, err := b.size(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := s.enqueue(ctx, b.jobs); err != nil {
		return nil, err
	}
	after, err := b.size(ctx, p)
	return []sample{{phase: "waiting", jobs: b.jobs, memory: after - before}}, err
}

// size returns the memory of the server with a peer's jobs, or their size on the server's disk.
func (b *bench) size(ctx context.Context, p peer) (int64, error) {
	if p.other != nil {
		return p.other.size(ctx)
	}
	now, err := b.server.read(ctx)
	return now.Memory, err
}
