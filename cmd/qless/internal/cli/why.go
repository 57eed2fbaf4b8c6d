package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
)

func (a *app) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "why QUEUE",
		Short: "Tell what a queue waits for, and what to do",
		Long: "Tell what keeps the jobs of a queue waiting, the likeliest cause first, and what to do." +
			"\n\nIt looks at 100 jobs of each state and runs up to 2000 commands on the server. It\n" +
			"changes nothing.",
		Example: "  qless why mail\n  qless why mail --json | jq -r '.causes[0].code'",
		Args:    cobra.ExactArgs(1),
		RunE:    a.run(a.explain),
	}
}

// An advice is what to do about a cause.
type advice struct {
	Words   string `json:"do,omitempty"`
	Command string `json:"command,omitempty"`
}

// An advisedCause is a cause with what to do about it.
type advisedCause struct {
	doctor.Cause
	advice
}

func (a *app) explain(ctx context.Context, client *qless.Client, args []string) error {
	found, err := doctor.Why(ctx, client, args[0])
	if err != nil {
		return err
	}
	advised := make([]advisedCause, len(found.Causes))
	for i, cause := range found.Causes {
		advised[i] = advisedCause{cause, adviceFor(found.Queue, &cause)}
	}
	if a.json {
		return a.print(struct {
			Queue   string            `json:"queue"`
			Counts  qless.QueueCounts `json:"counts"`
			Latency inspect.Latency   `json:"latency"`
			Causes  []advisedCause    `json:"causes"`
		}{found.Queue, found.Counts, found.Latency, advised}, nil)
	}
	return a.printCauses(found, advised)
}

func (a *app) printCauses(found *doctor.Explanation, causes []advisedCause) error {
	style := text.StyleOf(a.out)
	c := &found.Counts
	head := fmt.Sprintf("%d waiting, %d running, %d stalled, %d scheduled, %d depend",
		c.Waiting, c.Running, c.Stalled, c.Scheduled, c.Depends)
	if oldest := found.Latency.Oldest; oldest > 0 {
		head += ", the oldest for " + units.Age(oldest)
	}
	_, err := fmt.Fprintf(a.out, "%s  %s\n", style.Bold(text.Clean(found.Queue)), head)
	if err != nil {
		return err
	}
	for i, cause := range causes {
		sentence := text.Clean(cause.Sentence)
		if !cause.Certain {
			sentence = "Maybe: " + sentence
		}
		if i == 0 {
			sentence = style.Yellow(sentence)
		}
		fmt.Fprintf(a.out, "\n%d. %s\n", i+1, sentence)
		if cause.Words != "" {
			fmt.Fprintf(a.out, "   %s\n", text.Clean(cause.Words))
		}
		if cause.Command != "" {
			fmt.Fprintf(a.out, "   %s\n", style.Cyan(text.Clean("$ "+cause.Command)))
		}
	}
	return nil
}

// adviceFor returns what to do about a cause of a queue.
func adviceFor(queue string, cause *doctor.Cause) advice {
	quoted := text.Quote(queue)
	switch cause.Code {
	case doctor.CodeUnknown:
		return advice{"Compare the name with those of the queues.", "qless queue ls"}
	case doctor.CodeEmpty:
		return advice{"See whether the jobs have failed or are complete.", "qless failed ls"}
	case doctor.CodePaused:
		return advice{"Let workers take its jobs again.", "qless queue unpause " + quoted}
	case doctor.CodeMaxConcurrency:
		return advice{"Raise the limit, or find out why those jobs take long.",
			fmt.Sprintf("qless config set %s %d", text.Quote(queue+"-max-concurrency"), 2*cause.Max)}
	case doctor.CodeMaxRate:
		return advice{"Wait, or raise the rate.", "qless config get " + text.Quote(queue+"-max-rate")}
	case doctor.CodeLimit:
		return adviceForLimit(cause)
	case doctor.CodeWorkersPaused:
		return advice{"Resume the workers, or start others.", "qless worker ls"}
	case doctor.CodeNoWorkers:
		return advice{"Start a worker for the queue. These workers are known.", "qless worker ls"}
	case doctor.CodeWorkersBusy:
		return advice{"Start more workers, or find out which jobs take long.", "qless worker ls"}
	case doctor.CodeNoHandler:
		return advice{"Deploy workers that have a handler for it. A job of that klass:",
			showJob(cause.JIDs)}
	case doctor.CodeScheduled:
		return advice{"Wait, or look at when they are due.",
			"qless job ls -q " + quoted + " -s scheduled"}
	case doctor.CodeRecurring:
		return advice{"Wait, or look at when it is due.", "qless recur ls"}
	case doctor.CodeDepends:
		return adviceForBlockers("Look at what they wait for.", cause)
	case doctor.CodeFailedDependency:
		return adviceForFailed(cause)
	case doctor.CodeUntold:
		return advice{"Tell them, or wait: a Go worker does so every 5 minutes.", "qless sweep"}
	}
	return adviceForRest(queue, cause)
}

func adviceForRest(queue string, cause *doctor.Cause) advice {
	switch cause.Code {
	case doctor.CodeOpenBatch:
		return advice{"Commit the batch, or cancel its callback.", showJob(cause.JIDs)}
	case doctor.CodeGrace:
		return advice{"Wait for the end of the grace period. Did a worker die?", "qless worker ls"}
	case doctor.CodeStalled:
		return advice{"Other workers take them when they ask for jobs: start one.", "qless worker ls"}
	case doctor.CodeUnhandled:
		if len(cause.Groups) > 0 {
			return advice{"Deploy the code, then retry the jobs.",
				"qless failed retry " + text.Quote(cause.Groups[0])}
		}
	case doctor.CodeNoCompletions:
		return advice{"Look at how its jobs fail, and at the workers' log.", "qless failed ls"}
	case doctor.CodeFlowing:
		return advice{"See whether the counts go down.", "qless top --queue " + text.Quote(queue)}
	}
	return advice{}
}

func adviceForLimit(cause *doctor.Cause) advice {
	switch {
	case !cause.Certain:
		return advice{"Wait a minute.", ""}
	case len(cause.JIDs) > 0:
		return advice{"Look at a job that has its slots, or let the limit allow more.",
			showJob(cause.JIDs)}
	}
	return advice{"Wait, or let the limit allow more.", ""}
}

func adviceForBlockers(words string, cause *doctor.Cause) advice {
	if len(cause.Blockers) == 0 {
		return advice{}
	}
	return advice{words, "qless job graph " + text.Quote(cause.Blockers[0].JID)}
}

func adviceForFailed(cause *doctor.Cause) advice {
	if len(cause.Blockers) == 0 {
		return advice{}
	}
	return advice{"Retry what has failed, or cancel the jobs that wait.",
		"qless job retry " + text.Quote(cause.Blockers[0].JID)}
}

func showJob(jids []string) string {
	if len(jids) == 0 {
		return ""
	}
	return "qless job show " + text.Quote(jids[0])
}
