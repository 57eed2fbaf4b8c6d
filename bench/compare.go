package main

import (
	"context"
	"slices"
)

// A run performs a workload once with a peer, on an empty server.
type run struct {
	peer  string
	label string // distinguishes the run from other runs of the peer in the group
	do    func(ctx context.Context) ([]sample, error)
}

func (r run) name() string { return joined(r.peer, r.label) }

// A group is a set of runs to compare.
type group struct {
	label string
	runs  []run
}

// plus adds two phases of a run.
func (s sample) plus(other sample, phase string) sample {
	s.phase = phase
	s.elapsed += other.elapsed
	s.CPU += other.CPU
	s.client += other.client
	s.Commands += other.Commands
	s.Scripts += other.Scripts
	s.instructions += other.instructions
	return s
}

// minus subtracts the same phase of a run with fewer jobs, to eliminate the fixed cost of a run.
func (s sample) minus(other sample) sample {
	less := sample{phase: s.phase, jobs: s.jobs - other.jobs}
	less.Commands = s.Commands - other.Commands
	less.Scripts = s.Scripts - other.Scripts
	less.instructions = s.instructions - other.instructions
	return less
}

func (s sample) perJob(of float64) float64   { return over(of, float64(s.jobs)) }
func (s sample) cpuPerJob() float64          { return s.perJob(us(s.CPU)) }
func (s sample) instructionsPerJob() float64 { return s.perJob(float64(s.instructions)) }
func (s sample) instructionsPerCall() float64 {
	return over(float64(s.instructions), float64(s.Scripts))
}

// A column computes a figure from samples.
type column struct {
	title string
	ratio string // the name of ratios of this figure; empty for none
	of    func(s sample) float64
}

var columns = []column{
	{"instr/job", "instr", sample.instructionsPerJob},
	{"instr/call", "", sample.instructionsPerCall},
	{"CPU us/job", "CPU", sample.cpuPerJob},
	{"client us/job", "", func(s sample) float64 { return s.perJob(us(s.client)) }},
	{"cmds/job", "", func(s sample) float64 { return s.perJob(float64(s.Commands)) }},
	{"scripts/job", "", func(s sample) float64 { return s.perJob(float64(s.Scripts)) }},
	{"jobs/s", "speed", func(s sample) float64 { return over(float64(s.jobs), s.elapsed.Seconds()) }},
	{"p50 ms", "", func(s sample) float64 { return longestOf(s.waits, 0.50) }},
	{"p99 ms", "", func(s sample) float64 { return longestOf(s.waits, 0.99) }},
	{"longest call ms", "", func(s sample) float64 { return ms(s.longest) }},
	{"B/job", "B", func(s sample) float64 { return s.perJob(float64(s.memory)) }},
}

func spreadOf(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return spread{}
	}
	return spread{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1]}
}

// overRounds returns the spread of a figure over the rounds.
func overRounds(rounds []sample, figure func(sample) float64) spread {
	var values []float64
	for _, s := range rounds {
		values = append(values, figure(s))
	}
	return spreadOf(values)
}

// ratios divides a figure by another peer's, round by round.
func ratios(rounds, base []sample, figure func(sample) float64) spread {
	var values []float64
	for round := range min(len(rounds), len(base)) {
		if divisor := figure(base[round]); divisor != 0 {
			values = append(values, figure(rounds[round])/divisor)
		}
	}
	return spreadOf(values)
}

// samples holds the rounds of a run by phase; phases is in the order of the first round.
type samples struct {
	phases  []string
	byPhase map[string][]sample
}

func (s *samples) add(round []sample) {
	if s.byPhase == nil {
		s.byPhase = map[string][]sample{}
	}
	for _, one := range round {
		s.phases = including(s.phases, one.phase)
		s.byPhase[one.phase] = append(s.byPhase[one.phase], one)
	}
}

// compare adds the figures of a group, phase by phase, with the runs in order. Each run is compared
// with the first run, and with the first run of each peer named in against. Figures of 0 in all
// rounds are left out.
func (r *report) compare(g group, measured []samples, against []string) {
	r.table = g.label
	var bases []int
	for i, one := range g.runs {
		first := slices.IndexFunc(g.runs, func(other run) bool { return other.peer == one.peer }) == i
		if len(g.runs) > 1 && (i == 0 || first && slices.Contains(against, one.peer)) {
			bases = append(bases, i)
		}
	}
	var phases []string
	for _, s := range measured {
		for _, phase := range s.phases {
			phases = including(phases, phase)
		}
	}
	for _, phase := range phases {
		for i, one := range g.runs {
			rounds := measured[i].byPhase[phase]
			r.in("%s, %s", phase, one.name())
			for _, c := range columns {
				if s := overRounds(rounds, c.of); s.Median != 0 {
					r.add(c.title, s.Median, "")
				}
			}
			for _, base := range bases {
				r.ratios(g.runs[base].name(), rounds, measured[base].byPhase[phase])
			}
		}
	}
}

// ratios adds the ratios of rounds to a peer's.
func (r *report) ratios(peer string, rounds, base []sample) {
	for _, c := range columns {
		if s := ratios(rounds, base, c.of); c.ratio != "" && s.Median != 0 {
			r.add(c.ratio+" x "+peer, s.Median, "")
			r.figures[len(r.figures)-1].Spread = &s
		}
	}
}
