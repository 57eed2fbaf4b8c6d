package main

import (
	"slices"
	"time"
)

// sample is what one phase of one run cost. Figures that do not apply are 0.
type sample struct {
	phase        string
	jobs         int
	elapsed      time.Duration
	cpu          time.Duration
	client       time.Duration // CPU time of this process
	commands     int64
	scripts      int64
	instructions int64
	memory       int64
	waits        []time.Duration // from put to handler
}

// plus adds up two phases of one run.
func (s sample) plus(other sample, phase string) sample {
	return sample{
		phase:        phase,
		jobs:         s.jobs,
		elapsed:      s.elapsed + other.elapsed,
		cpu:          s.cpu + other.cpu,
		client:       s.client + other.client,
		commands:     s.commands + other.commands,
		scripts:      s.scripts + other.scripts,
		instructions: s.instructions + other.instructions,
	}
}

// minus takes off a run of the same phase with fewer jobs, and with it what a run costs by itself.
func (s sample) minus(other sample) sample {
	return sample{
		phase:        s.phase,
		jobs:         s.jobs - other.jobs,
		commands:     s.commands - other.commands,
		scripts:      s.scripts - other.scripts,
		instructions: s.instructions - other.instructions,
	}
}

func (s sample) cpuPerJob() float64          { return s.cpu.Seconds() * 1e6 / float64(s.jobs) }
func (s sample) clientPerJob() float64       { return s.client.Seconds() * 1e6 / float64(s.jobs) }
func (s sample) commandsPerJob() float64     { return float64(s.commands) / float64(s.jobs) }
func (s sample) scriptsPerJob() float64      { return float64(s.scripts) / float64(s.jobs) }
func (s sample) instructionsPerJob() float64 { return float64(s.instructions) / float64(s.jobs) }
func (s sample) bytesPerJob() float64        { return float64(s.memory) / float64(s.jobs) }

// instructionsPerCall is 0 if there were no scripts.
func (s sample) instructionsPerCall() float64 {
	if s.scripts == 0 {
		return 0
	}
	return float64(s.instructions) / float64(s.scripts)
}

// speed is 0 if the elapsed time does not apply.
func (s sample) speed() float64 {
	if s.elapsed == 0 {
		return 0
	}
	return float64(s.jobs) / s.elapsed.Seconds()
}

// wait returns the longest wait, in milliseconds, of the given share of the jobs.
func (s sample) wait(share float64) float64 {
	if len(s.waits) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.waits))
	return float64(sorted[min(int(share*float64(len(sorted))), len(sorted)-1)].Microseconds()) / 1e3
}

// spread is the median of one figure over the rounds, with its extremes.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return spread{}
	}
	return spread{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1]}
}

// median returns the median of a figure over the rounds.
func median(samples []sample, figure func(sample) float64) float64 {
	var values []float64
	for _, s := range samples {
		values = append(values, figure(s))
	}
	return spreadOf(values).Median
}

// ratios divides a figure by another peer's, round by round.
func ratios(samples, base []sample, figure func(sample) float64) spread {
	var values []float64
	for round := range min(len(samples), len(base)) {
		if divisor := figure(base[round]); divisor != 0 {
			values = append(values, figure(samples[round])/divisor)
		}
	}
	return spreadOf(values)
}
