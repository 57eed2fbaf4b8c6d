package main

import (
	"context"
	"fmt"
	"time"

	"github.com/qless/qless-go/bench/internal/info"
)

func (s *server) read(ctx context.Context) (info.Reading, error) { return info.Read(ctx, s.admin) }

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
		cpu:          after.CPU - before.CPU,
		commands:     after.Commands - before.Commands,
		scripts:      after.Scripts - before.Scripts,
		instructions: instructions,
	}
	if s.counter != nil {
		one.elapsed, one.cpu = 0, 0 // of callgrind, not of the server
	}
	return one, err
}
