package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// payload is the body of all jobs.
var payload = []byte(strings.Repeat("0123456789", 10))

// A run is a server under load, with an empty database.
type run struct {
	process *process
	rdb     *redis.Client
}

// A usage is the CPU time that Redis and the server have used, and when.
type usage struct {
	at            time.Time
	redis, server time.Duration
}

func (r *run) usage(ctx context.Context) (usage, error) {
	text, err := r.rdb.Info(ctx, "cpu").Result()
	if err != nil {
		return usage{}, err
	}
	seconds := 0.0
	for line := range strings.Lines(text) {
		for _, name := range []string{"used_cpu_sys:", "used_cpu_user:"} {
			if value, is := strings.CutPrefix(line, name); is {
				var n float64
				if _, err := fmt.Sscan(value, &n); err != nil {
					return usage{}, err
				}
				seconds += n
			}
		}
	}
	server, err := cpu(r.process.command.Process.Pid)
	return usage{time.Now(), time.Duration(seconds * float64(time.Second)), server}, err
}

// measure does something with jobs, and returns its figures.
func (r *run) measure(ctx context.Context, jobs int, do func() error) (figures, error) {
	before, err := r.usage(ctx)
	if err != nil {
		return nil, err
	}
	if err := do(); err != nil {
		return nil, err
	}
	after, err := r.usage(ctx)
	if err != nil {
		return nil, err
	}
	each := func(d time.Duration) float64 {
		return float64(d) / float64(time.Microsecond) / float64(jobs)
	}
	return figures{
		"jobs/s":    float64(jobs) / after.at.Sub(before.at).Seconds(),
		"Redis us":  each(after.redis - before.redis),
		"server us": each(after.server - before.server),
	}, nil
}

// each runs a function for each of a number of clients at once, which have a connection each.
func (r *run) each(clients int, do func(c *client, i int) error) error {
	failures := make([]error, clients)
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() {
			c, err := dial(r.process.api)
			if err == nil {
				defer c.close()
				err = do(c, i)
			}
			failures[i] = err
		})
	}
	running.Wait()
	return errors.Join(failures...)
}

func (r *run) publish(clients, jobs int) error {
	var left atomic.Int64
	left.Store(int64(jobs))
	return r.each(clients, func(c *client, _ int) error {
		for left.Add(-1) >= 0 {
			if _, err := c.ask("PUT", "q", payload, 201); err != nil {
				return err
			}
		}
		return nil
	})
}

// work consumes jobs and deletes them.
func (r *run) work(clients, jobs int) error {
	var left atomic.Int64
	left.Store(int64(jobs))
	seen := make([]map[string]bool, clients)
	err := r.each(clients, func(c *client, i int) error {
		seen[i] = map[string]bool{}
		for left.Add(-1) >= 0 {
			answer, err := c.ask("GET", "q?timeout=5", nil, 200)
			if err != nil {
				return err
			}
			id, err := jobID(answer)
			if err != nil {
				return err
			}
			seen[i][id] = true
			if _, err := c.ask("DELETE", "q/job/"+id, nil, 204); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	all := map[string]bool{}
	for _, ids := range seen {
		for id := range ids {
			all[id] = true
		}
	}
	if len(all) != jobs {
		return fmt.Errorf("%d of %d jobs were consumed", len(all), jobs)
	}
	return nil
}

// wakes is how many jobs are published one by one.
const wakes = 500

// wake publishes jobs while clients wait, and returns how long each took to arrive.
func (r *run) wake(clients int) ([]time.Duration, error) {
	published, err := dial(r.process.api)
	if err != nil {
		return nil, err
	}
	defer published.close()
	arrived := make(chan time.Time, clients)
	var stopping atomic.Bool
	ended := make(chan error, 1)
	go func() {
		ended <- r.each(clients, func(c *client, _ int) error {
			for !stopping.Load() {
				answer, err := c.ask("GET", "w?timeout=5", nil, 200)
				if err != nil {
					return err
				}
				if stopping.Load() {
					return nil
				}
				arrived <- time.Now()
				id, err := jobID(answer)
				if err != nil {
					return err
				}
				if _, err := c.ask("DELETE", "w/job/"+id, nil, 204); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	var took []time.Duration
	for range wakes {
		time.Sleep(2 * time.Millisecond)
		began := time.Now()
		if _, err := published.ask("PUT", "w", payload, 201); err != nil {
			return nil, err
		}
		select {
		case at := <-arrived:
			took = append(took, at.Sub(began))
		case err := <-ended:
			return nil, fmt.Errorf("the consumers have ended: %w", err)
		case <-time.After(slowest):
			return nil, errors.New("a job does not arrive")
		}
	}
	stopping.Store(true)
	for range clients {
		if _, err := published.ask("PUT", "w", payload, 201); err != nil {
			return nil, err
		}
	}
	slices.Sort(took)
	return took, <-ended
}

// wait has clients wait, and then gives each a job.
func (r *run) wait(ctx context.Context, clients int) (figures, error) {
	pid := r.process.command.Process.Pid
	before, err := memory(pid)
	if err != nil {
		return nil, err
	}
	var asked sync.WaitGroup
	asked.Add(clients)
	ended := make(chan error, 1)
	go func() {
		ended <- r.each(clients, func(c *client, _ int) error {
			err := c.send("GET", "many?timeout=50", nil)
			asked.Done()
			if err == nil {
				_, err = c.expect(200)
			}
			return err
		})
	}()
	asked.Wait()
	time.Sleep(3 * time.Second) // so that all wait, and nothing else goes on
	f := figures{"RSS MB before": before}
	if f["RSS MB"], err = memory(pid); err != nil {
		return nil, err
	}
	if f["Redis conns"], err = r.connections(ctx); err != nil {
		return nil, err
	}
	given, err := r.measure(ctx, clients, func() error {
		if err := r.publishTo("many", clients); err != nil {
			return err
		}
		return <-ended
	})
	f["jobs/s"], f["Redis us"], f["server us"] =
		given["jobs/s"], given["Redis us"], given["server us"]
	return f, err
}

func (r *run) publishTo(queue string, jobs int) error {
	var left atomic.Int64
	left.Store(int64(jobs))
	return r.each(16, func(c *client, _ int) error {
		for left.Add(-1) >= 0 {
			if _, err := c.ask("PUT", queue, payload, 201); err != nil {
				return err
			}
		}
		return nil
	})
}

// connections returns how many connections Redis has, without our own.
func (r *run) connections(ctx context.Context) (float64, error) {
	text, err := r.rdb.ClientList(ctx).Result()
	return float64(strings.Count(text, "\n") - 1), err
}
