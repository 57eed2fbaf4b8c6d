package cli

import (
	"context"
	"encoding/json"
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
		Short: "Explain why the jobs of a queue wait, and what to do",
		Long: "Explain why the jobs of a queue wait, the likeliest cause first, and what to do." +
			"\n\nIt reads 100 jobs of each state and runs up to 2000 commands on the server. It\n" +
			"changes nothing.",
		Example: "  qless why mail\n  qless why mail --json | jq -r '.causes[0].code'",
		Args:    cobra.ExactArgs(1),
		RunE:    a.run(a.explain),
	}
}

// An advisedCause is a cause with advice.
type advisedCause struct {
	doctor.Cause
	Words   string // the advice
	Command string
}

// MarshalJSON writes the fields of the cause beside its own.
func (c advisedCause) MarshalJSON() ([]byte, error) {
	type cause doctor.Cause
	return json.Marshal(struct {
		cause
		Per     units.Text `json:"per,omitempty"`
		Words   string     `json:"do,omitempty"`
		Command string     `json:"command,omitempty"`
	}{cause(c.Cause), units.Text(c.Per), c.Words, c.Command})
}

func (a *app) explain(ctx context.Context, client *qless.Client, args []string) error {
	found, err := doctor.Why(ctx, client, args[0])
	if err != nil {
		return err
	}
	advised := make([]advisedCause, len(found.Causes))
	for i, cause := range found.Causes {
		advised[i] = advisedCause{cause, cause.Advice(), commandFor(found.Queue, &cause)}
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

// commandFor returns the command that goes with the advice on a cause of a queue, or the empty
// string.
func commandFor(queue string, cause *doctor.Cause) string {
	quoted := text.Quote(queue)
	switch cause.Code {
	case doctor.CodeUnknown:
		return "qless queue ls"
	case doctor.CodeEmpty:
		return "qless failed ls"
	case doctor.CodePaused:
		return "qless queue unpause " + quoted
	case doctor.CodeMaxConcurrency:
		return fmt.Sprintf("qless config set %s %d", text.Quote(queue+"-max-concurrency"), 2*cause.Max)
	case doctor.CodeMaxRate:
		return "qless config get " + text.Quote(queue+"-max-rate")
	case doctor.CodeWorkersPaused, doctor.CodeNoWorkers, doctor.CodeWorkersBusy, doctor.CodeGrace,
		doctor.CodeStalled:
		return "qless worker ls"
	case doctor.CodeNoHandler, doctor.CodeOpenBatch:
		return showJob(cause.JIDs)
	case doctor.CodeScheduled:
		return "qless job ls -q " + quoted + " -s scheduled"
	case doctor.CodeRecurring:
		return "qless recur ls"
	case doctor.CodeUntold, doctor.CodeUnswept:
		return "qless sweep"
	case doctor.CodeFlowing:
		return "qless top --queue " + quoted
	}
	return commandForJobs(cause)
}

// commandForJobs is commandFor for causes whose commands name jobs or groups.
func commandForJobs(cause *doctor.Cause) string {
	switch {
	case cause.Code == doctor.CodeNoCompletions && cause.Failed > 0:
		return "qless failed ls"
	case cause.Code == doctor.CodeNoCompletions, cause.Code == doctor.CodeLimit && cause.Certain:
		return showJob(cause.JIDs)
	case cause.Code == doctor.CodeUnhandled && len(cause.Groups) > 0:
		return "qless failed retry " + text.Quote(cause.Groups[0])
	case cause.Code == doctor.CodeDepends && len(cause.Blockers) > 0:
		return "qless job graph " + text.Quote(cause.Blockers[0].JID)
	case cause.Code == doctor.CodeFailedDependency && len(cause.Blockers) > 0:
		return "qless job retry " + text.Quote(cause.Blockers[0].JID)
	}
	return ""
}

func showJob(jids []string) string {
	if len(jids) == 0 {
		return ""
	}
	return "qless job show " + text.Quote(jids[0])
}
