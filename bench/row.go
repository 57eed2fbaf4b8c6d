package main

import "slices"

// row is one line of the results: what a phase of a workload costs with a peer, as medians over the
// rounds. Figures that do not apply are 0 and omitted.
type row struct {
	Workload string  `json:"workload"`
	Case     string  `json:"case"`
	Phase    string  `json:"phase"`
	Peer     string  `json:"peer"`
	Rounds   int     `json:"rounds"`
	Jobs     int     `json:"jobs"`
	CPU      float64 `json:"server_cpu_us_per_job,omitempty"`
	Client   float64 `json:"client_cpu_us_per_job,omitempty"`
	Commands float64 `json:"server_commands_per_job,omitempty"`
	Scripts  float64 `json:"script_calls_per_job,omitempty"`
	Speed    float64 `json:"jobs_per_s,omitempty"`
	P50      float64 `json:"pickup_p50_ms,omitempty"`
	P99      float64 `json:"pickup_p99_ms,omitempty"`
	Bytes    float64 `json:"bytes_per_job,omitempty"`

	Instructions        float64 `json:"instructions_per_job,omitempty"`
	InstructionsPerCall float64 `json:"instructions_per_script_call,omitempty"`

	Against []ratio `json:"against"`

	name string // the peer, and what distinguishes it from its other runs in the table
}

// ratio compares a row with the same phase of another peer, paired by round. Figures that can't be
// compared are omitted.
type ratio struct {
	Peer  string `json:"peer"`
	CPU   spread `json:"server_cpu,omitzero"`
	Speed spread `json:"jobs_per_s,omitzero"`
	Bytes spread `json:"bytes_per_job,omitzero"`

	Instructions spread `json:"instructions_per_job,omitzero"`
}

// samples holds the rounds of one run by phase; phases is in the order of the first round.
type samples struct {
	phases  []string
	byPhase map[string][]sample
}

func (s *samples) add(round []sample) {
	if s.byPhase == nil {
		s.byPhase = map[string][]sample{}
	}
	for _, one := range round {
		if _, known := s.byPhase[one.phase]; !known {
			s.phases = append(s.phases, one.phase)
		}
		s.byPhase[one.phase] = append(s.byPhase[one.phase], one)
	}
}

// rowsOf returns the rows of a group: phase by phase, with the runs in order. Each is compared with
// the first run, and with the first run of each peer named in against.
func rowsOf(g group, measured []samples, against []string) []row {
	bases := basesOf(g, against)
	var phases []string
	for _, s := range measured {
		for _, phase := range s.phases {
			if !slices.Contains(phases, phase) {
				phases = append(phases, phase)
			}
		}
	}
	var rows []row
	for _, phase := range phases {
		for i, r := range g.runs {
			rounds := measured[i].byPhase[phase]
			if len(rounds) == 0 {
				continue
			}
			one := rowOf(rounds)
			one.Workload, one.Case, one.Phase, one.Peer = g.workload, joined(g.label, r.label), phase, r.peer
			one.name = joined(r.peer, r.label)
			for _, b := range bases {
				base := measured[b].byPhase[phase]
				one.Against = append(one.Against, ratio{
					Peer:  joined(g.runs[b].peer, g.runs[b].label),
					CPU:   ratios(rounds, base, sample.cpuPerJob),
					Speed: ratios(rounds, base, sample.speed),
					Bytes: ratios(rounds, base, sample.bytesPerJob),

					Instructions: ratios(rounds, base, sample.instructionsPerJob),
				})
			}
			rows = append(rows, one)
		}
	}
	return rows
}

func rowOf(rounds []sample) row {
	return row{
		Rounds:   len(rounds),
		Jobs:     rounds[0].jobs,
		CPU:      median(rounds, sample.cpuPerJob),
		Client:   median(rounds, sample.clientPerJob),
		Commands: median(rounds, sample.commandsPerJob),
		Scripts:  median(rounds, sample.scriptsPerJob),
		Speed:    median(rounds, sample.speed),
		P50:      median(rounds, func(s sample) float64 { return s.wait(0.50) }),
		P99:      median(rounds, func(s sample) float64 { return s.wait(0.99) }),
		Bytes:    median(rounds, sample.bytesPerJob),

		Instructions:        median(rounds, sample.instructionsPerJob),
		InstructionsPerCall: median(rounds, sample.instructionsPerCall),
	}
}

// basesOf returns the runs that the others are compared with.
func basesOf(g group, against []string) []int {
	if len(g.runs) == 1 {
		return nil
	}
	bases := []int{0}
	for _, name := range against {
		at := slices.IndexFunc(g.runs, func(r run) bool { return r.peer == name })
		if at > 0 && !slices.Contains(bases, at) {
			bases = append(bases, at)
		}
	}
	return bases
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + " " + b
}
