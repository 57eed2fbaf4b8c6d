package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// reading holds what the server reports about itself at one moment.
type reading struct {
	at       time.Time
	cpu      time.Duration // of the whole process, user and system
	commands int64         // executed, including those inside scripts
	scripts  int64         // calls of scripts
	memory   int64
}

// uncounted are the commands that open connections and those that the bench itself sends.
var uncounted = map[string]bool{
	"auth": true, "client": true, "command": true, "config": true, "flushall": true, "hello": true,
	"info": true, "lastsave": true, "script": true, "select": true,
}

var scriptCalls = map[string]bool{
	"eval": true, "evalsha": true, "eval_ro": true, "evalsha_ro": true,
	"fcall": true, "fcall_ro": true,
}

func (s *server) read(ctx context.Context) (reading, error) {
	var cpu, stats, memory *redis.StringCmd
	_, err := s.admin.Pipelined(ctx, func(p redis.Pipeliner) error {
		cpu, stats, memory = p.Info(ctx, "cpu"), p.Info(ctx, "commandstats"), p.Info(ctx, "memory")
		return nil
	})
	if err != nil {
		return reading{}, err
	}
	r := reading{at: time.Now()}
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		seconds, err := strconv.ParseFloat(field(cpu.Val(), name), 64)
		if err != nil {
			return reading{}, fmt.Errorf("INFO cpu: %w", err)
		}
		r.cpu += time.Duration(seconds * float64(time.Second))
	}
	if r.memory, err = strconv.ParseInt(field(memory.Val(), "used_memory"), 10, 64); err != nil {
		return reading{}, fmt.Errorf("INFO memory: %w", err)
	}
	r.commands, r.scripts, err = countCalls(stats.Val())
	return r, err
}

// countCalls sums the lines cmdstat_NAME:calls=N,... of INFO commandstats.
func countCalls(stats string) (commands, scripts int64, err error) {
	for line := range strings.Lines(stats) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		count, _, _ := strings.Cut(rest, ",")
		calls, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("INFO commandstats: %w", err)
		}
		name, _, _ = strings.Cut(name, "|")
		switch {
		case scriptCalls[name]:
			scripts += calls
		case !uncounted[name]:
			commands += calls
		}
	}
	return commands, scripts, nil
}

// field returns the value of a line NAME:VALUE of INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// measure runs do, which handles the given number of jobs, and returns what it cost the server.
func (s *server) measure(
	ctx context.Context, phase string, jobs int, do func() error,
) (sample, error) {
	before, err := s.read(ctx)
	if err != nil {
		return sample{}, err
	}
	if err := s.startCounting(ctx); err != nil {
		return sample{}, err
	}
	start := time.Now()
	if err := do(); err != nil {
		return sample{}, fmt.Errorf("%s: %w", phase, err)
	}
	elapsed := time.Since(start)
	instructions, err := s.stopCounting(ctx, phase)
	if err != nil {
		return sample{}, err
	}
	after, err := s.read(ctx)
	one := sample{
		phase:        phase,
		jobs:         jobs,
		elapsed:      elapsed,
		cpu:          after.cpu - before.cpu,
		commands:     after.commands - before.commands,
		scripts:      after.scripts - before.scripts,
		instructions: instructions,
	}
	if s.counter != nil {
		one.elapsed, one.cpu = 0, 0 // of callgrind, not of the server
	}
	return one, err
}
