package health

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/internal/units"
)

func (a *app) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "why QUEUE",
		Short: "Explain why the jobs of a queue wait, and what to do",
		RunE:  a.Run(a.explain),
	}
}

func (a *app) explain(ctx context.Context, client *qless.Client, args []string) error {
	found, err := doctor.Explain(ctx, client, args[0])
	if err != nil {
		return err
	}
	if a.JSON {
		return a.Print(found, nil)
	}
	return a.printCauses(found)
}

func (a *app) printCauses(found *doctor.Explanation) error {
	style := text.StyleOf(a.Out)
	c := &found.Counts
	head := fmt.Sprintf("%d waiting, %d running, %d stalled, %d scheduled, %d depend",
		c.Waiting, c.Running, c.Stalled, c.Scheduled, c.Depends)
	if oldest := found.Latency.Oldest; oldest > 0 {
		head += ", the oldest for " + units.Age(oldest)
	}
	_, err := fmt.Fprintf(a.Out, "%s  %s\n", style.Bold(text.Clean(found.Queue)), head)
	if err != nil {
		return err
	}
	for i, cause := range found.Causes {
		sentence := text.Clean(cause.Sentence)
		if !cause.Certain {
			sentence = "Maybe: " + sentence
		}
		if i == 0 {
			sentence = style.Yellow(sentence)
		}
		fmt.Fprintf(a.Out, "\n%d. %s\n", i+1, sentence)
		if cause.Advice != "" {
			fmt.Fprintf(a.Out, "   %s\n", text.Clean(cause.Advice))
		}
		if cause.Command != "" {
			fmt.Fprintf(a.Out, "   %s\n", style.Cyan(text.Clean("$ "+cause.Command)))
		}
	}
	return nil
}
