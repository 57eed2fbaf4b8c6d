package model

import (
	"fmt"
	"strings"

	"github.com/qless/qless-go"
)

// A progress is the progress of a job that its worker reported last.
type progress struct {
	done, total, attempt int
	time                 float64
	note                 string
}

func (p progress) String() string {
	if p.attempt == 0 {
		return "none"
	}
	return fmt.Sprintf("%d of %d in attempt %d at %.14g, %q",
		p.done, p.total, p.attempt, p.time, p.note)
}

// shownProgress returns the progress of a job as readers see it: a put resets it.
func (j *job) shownProgress() progress {
	if !j.options.progressed {
		return progress{}
	}
	return j.progress
}

// progressOf returns the progress of a job returned by the API.
func progressOf(j *qless.Job) progress {
	if j.Progress == nil {
		return progress{}
	}
	p := j.Progress
	return progress{
		done: p.Done, total: p.Total, attempt: p.Attempt, time: secondsUntil(p.Time), note: p.Note,
	}
}

// parseProgress parses the server's representation.
func parseProgress(text string) progress {
	words := strings.SplitN(text, "|", 5)
	if len(words) < 5 {
		return progress{}
	}
	return progress{
		done: int(number(words[0])), total: int(number(words[1])), attempt: int(number(words[2])),
		time: number(words[3]), note: words[4],
	}
}

var progressActions = []action{
	{
		name: "SetProgress", weight: 4,
		draw: func(d *dice) step {
			s := d.onHeld(step{Do: "SetProgress", Done: d.IntN(4), Total: d.IntN(4)})
			if d.chance(50) {
				s.Message = pick(d, []string{"begun", "a|b"})
			}
			return s
		},
		play: onJob(func(w *world, j *qless.Job, s step) outcome {
			return ended(j.SetProgress(w.ctx, s.Done, s.Total, s.Message))
		}),
		predict: onHandle(func(m *queues, h *handle, j *job, s step) outcome {
			if problem := notRun(h, j, s.Worker); problem != "" {
				return problem
			}
			attempt := max(j.retries-max(j.remaining, 0), 0) + 1
			j.progress = progress{s.Done, s.Total, attempt, m.now, s.Message}
			j.options.progressed = true
			return done
		}),
	},
}
