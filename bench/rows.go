package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"
)

// A sample is what one phase of one run cost. Figures that do not apply are 0.
type sample struct {
	phase string
	jobs  int
	cost
	client time.Duration // CPU time of this process
	memory int64
	waits  []time.Duration // from put to handler
}

// plus adds up two phases of one run.
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

// minus takes off a run of the same phase with fewer jobs, and with it what a run costs by itself.
func (s sample) minus(other sample) sample {
	less := sample{phase: s.phase, jobs: s.jobs - other.jobs}
	less.Commands = s.Commands - other.Commands
	less.Scripts = s.Scripts - other.Scripts
	less.instructions = s.instructions - other.instructions
	return less
}

func (s sample) perJob(of float64) float64   { return of / float64(s.jobs) }
func (s sample) cpuPerJob() float64          { return s.perJob(us(s.CPU)) }
func (s sample) instructionsPerJob() float64 { return s.perJob(float64(s.instructions)) }

// speed is 0 if the elapsed time does not apply.
func (s sample) speed() float64 {
	if s.elapsed == 0 {
		return 0
	}
	return float64(s.jobs) / s.elapsed.Seconds()
}

// perCall returns the instructions of a script, 0 if there were none.
func (s sample) perCall() float64 {
	if s.Scripts == 0 {
		return 0
	}
	return float64(s.instructions) / float64(s.Scripts)
}

// A column is a figure of samples.
type column struct {
	title  string
	digits int
	ratio  string // what its ratios to those of others are called, if there are any
	of     func(s sample) float64
}

var columns = []column{
	{"instr/job", 0, "instr", sample.instructionsPerJob},
	{"instr/call", 0, "", sample.perCall},
	{"CPU us/job", 1, "CPU", sample.cpuPerJob},
	{"client us/job", 1, "", func(s sample) float64 { return s.perJob(us(s.client)) }},
	{"cmds/job", 2, "", func(s sample) float64 { return s.perJob(float64(s.Commands)) }},
	{"scripts/job", 2, "", func(s sample) float64 { return s.perJob(float64(s.Scripts)) }},
	{"jobs/s", 0, "speed", sample.speed},
	{"p50 ms", 2, "", func(s sample) float64 { return longestOf(s.waits, 0.50) }},
	{"p99 ms", 2, "", func(s sample) float64 { return longestOf(s.waits, 0.99) }},
	{"B/job", 0, "B", func(s sample) float64 { return s.perJob(float64(s.memory)) }},
}

// A row is one line of the results: what a phase of a workload costs with a peer, as medians over
// the rounds. Figures that do not apply are left out.
type row struct {
	Workload string             `json:"workload"`
	Case     string             `json:"case"`
	Phase    string             `json:"phase"`
	Peer     string             `json:"peer"`
	Rounds   int                `json:"rounds"`
	Jobs     int                `json:"jobs"`
	Figures  map[string]float64 `json:"figures"`
	Against  []ratio            `json:"against"`

	name string // the peer, and what distinguishes it from its other runs in the table
}

// A ratio compares a row with the same phase of another peer, paired by round. It leaves out
// figures that can't be compared.
type ratio struct {
	Peer    string            `json:"peer"`
	Figures map[string]spread `json:"figures"`
}

// A spread is the median of one figure over the rounds, with its extremes.
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
func median(rounds []sample, figure func(sample) float64) float64 {
	var values []float64
	for _, s := range rounds {
		values = append(values, figure(s))
	}
	return spreadOf(values).Median
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
	var bases []int
	for i, r := range g.runs {
		first := slices.IndexFunc(g.runs, func(other run) bool { return other.peer == r.peer }) == i
		if len(g.runs) > 1 && (i == 0 || first && slices.Contains(against, r.peer)) {
			bases = append(bases, i)
		}
	}
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
			one := row{
				Workload: g.workload, Case: joined(g.label, r.label), Phase: phase, Peer: r.peer,
				Rounds: len(rounds), Jobs: rounds[0].jobs, Figures: map[string]float64{},
				name: joined(r.peer, r.label),
			}
			for _, c := range columns {
				if figure := median(rounds, c.of); figure != 0 {
					one.Figures[c.title] = figure
				}
			}
			for _, base := range bases {
				name := joined(g.runs[base].peer, g.runs[base].label)
				one.Against = append(one.Against, ratioTo(name, rounds, measured[base].byPhase[phase]))
			}
			rows = append(rows, one)
		}
	}
	return rows
}

// ratioTo compares rounds with those of a peer.
func ratioTo(peer string, rounds, base []sample) ratio {
	compared := ratio{Peer: peer, Figures: map[string]spread{}}
	for _, c := range columns {
		if s := ratios(rounds, base, c.of); c.ratio != "" && s.Median != 0 {
			compared.Figures[c.ratio] = s
		}
	}
	return compared
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + " " + b
}

// writeRows prints the rows of one group: as a table without empty columns, or one JSON object a
// line.
func writeRows(out io.Writer, g group, rows []row, asJSON bool) error {
	if asJSON {
		return encodeAll(out, rows)
	}
	fmt.Fprintf(out, "\n%s\n", joined(g.workload, g.label))
	titles := []string{"phase", "peer"}
	cells := make([][]string, len(rows))
	for i, r := range rows {
		cells[i] = []string{r.Phase, r.name}
	}
	show := func(title string, text func(r row) string) {
		if !slices.ContainsFunc(rows, func(r row) bool { return text(r) != "" }) {
			return
		}
		titles = append(titles, title)
		for i, r := range rows {
			cells[i] = append(cells[i], text(r))
		}
	}
	for _, c := range columns {
		show(c.title, func(r row) string { return formatFigure(r.Figures[c.title], c.digits) })
	}
	for i, base := range rows[0].Against {
		for _, c := range columns {
			show(c.ratio+" x "+base.Peer, func(r row) string {
				s, text := r.Against[i].Figures[c.ratio], ""
				if text = formatFigure(s.Median, 2); c.ratio == "CPU" && text != "" {
					text += fmt.Sprintf(" (%.2f-%.2f)", s.Min, s.Max)
				}
				return text
			})
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, line := range append([][]string{titles}, cells...) {
		for _, cell := range line {
			fmt.Fprint(w, cell, "\t")
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

func formatFigure(value float64, digits int) string {
	if value == 0 {
		return ""
	}
	return strconv.FormatFloat(value, 'f', digits, 64)
}

// encodeAll prints things as JSON, one object a line.
func encodeAll[T any](out io.Writer, all []T) error {
	encoder := json.NewEncoder(out)
	for _, one := range all {
		if err := encoder.Encode(one); err != nil {
			return err
		}
	}
	return nil
}
