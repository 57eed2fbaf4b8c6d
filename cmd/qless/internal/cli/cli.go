// Package cli is the command line: it parses, calls the public API of package qless, and prints.
//
// Each file has the commands of one noun. They print the public structs of the API, as JSON or as a
// table.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
)

// An app is one run of the program.
type app struct{ *place }

// Main runs the program, and returns its exit status.
func Main(args []string, in io.Reader, out, err io.Writer) int {
	logging.Disable() // errors also contain the messages of go-redis
	a := &app{newPlace(&console{in: in, out: out, err: err})}
	defer a.close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	root := a.root()
	root.SetArgs(args)
	failed := root.ExecuteContext(ctx)
	if failed != nil && !isPrinted(failed) {
		fmt.Fprintln(err, "qless:", inWords(failed))
		if hint := hintFor(failed); hint != "" {
			fmt.Fprintln(err, hint)
		}
	}
	return statusOf(failed)
}

func (a *app) root() *cobra.Command {
	root := group("qless", "Watch the queues of a Redis server, and repair them",
		a.configCommand(),
		a.contextCommand(),
		a.checkCommand(),
		a.doctorCommand(),
		a.dumpCommand(),
		a.queueCommand(),
		a.jobCommand(),
		a.failedCommand(),
		a.recurCommand(),
		a.restoreCommand(),
		a.scheduleCommand(),
		a.workerCommand(),
		a.tagCommand(),
		a.limitCommand(),
		a.serveCommand(),
		a.exporterCommand(),
		a.benchCommand(),
		a.scriptCommand(),
		a.versionCommand(),
		a.statusCommand(),
		a.sweepCommand(),
		a.tailCommand(),
		a.topCommand(),
		a.whyCommand(),
	)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{badFlag(c, err)}
	})
	a.addFlags(root)
	checkArguments(root)
	takeSeconds(root)
	return root
}
