// Package cli is the command line: it parses, calls the public API of package qless, and prints.
//
// The commands come from sibling packages, one for each group of nouns. Commands print the public
// structs of the API, as JSON or as a table.
package cli

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/qless/qless-go/cmd/qless/internal/admin"
	"github.com/qless/qless-go/cmd/qless/internal/health"
	"github.com/qless/qless-go/cmd/qless/internal/jobs"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/place"
	"github.com/qless/qless-go/cmd/qless/internal/queues"
	"github.com/qless/qless-go/cmd/qless/internal/schedules"
	"github.com/qless/qless-go/cmd/qless/internal/serve"
	"github.com/qless/qless-go/cmd/qless/internal/usage"
	"github.com/qless/qless-go/cmd/qless/internal/workers"
)

// Main runs the program, and returns its exit status.
func Main(args []string, in io.Reader, stdout, stderr io.Writer) int {
	logging.Disable() // errors also contain the messages of go-redis
	p := &place.Place{Console: &out.Console{In: in, Out: stdout, Err: stderr}}
	defer p.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	root := commands(p)
	root.SetArgs(args)
	failed := root.ExecuteContext(ctx)
	if failed != nil && !out.IsPrinted(failed) {
		fmt.Fprintln(stderr, "qless:", usage.Words(failed))
		if hint := out.HintFor(failed); hint != "" {
			fmt.Fprintln(stderr, hint)
		}
	}
	return out.StatusOf(failed)
}

// commands returns the root of all commands.
func commands(p *place.Place) *cobra.Command {
	root := usage.Group("qless", "Watch the queues of a Redis server, and repair them",
		p.ContextCommand())
	for _, group := range []func(*place.Place) []*cobra.Command{
		admin.Commands, health.Commands, jobs.Commands, queues.Commands, schedules.Commands,
		serve.Commands, workers.Commands,
	} {
		root.AddCommand(group(p)...)
	}
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(p.In)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return out.Error(usage.BadFlag(c, err))
	})
	p.AddFlags(root)
	explain(root)
	p.CompleteArguments(root)
	usage.Check(root)
	usage.TakeSeconds(root)
	return root
}

//go:embed help.txt
var help string

// explain gives the commands their descriptions and examples.
func explain(root *cobra.Command) {
	for section := range strings.SplitSeq(help, "\n=== ") {
		path, text, _ := strings.Cut(section, "\n")
		command, rest, err := root.Find(strings.Fields(path))
		if err != nil || len(rest) > 0 {
			continue // the first lines
		}
		text, example, _ := strings.Cut("\n"+text, "\nExamples:\n")
		if text = strings.TrimSpace(text); text != "" {
			command.Long = text
		}
		command.Example = strings.TrimRight(example, "\n")
	}
}
