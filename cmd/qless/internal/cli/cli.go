// Package cli is the command line: it parses, calls the public API of package qless, and prints.
//
// Each file has the commands of one noun. They print the public structs of the API, as JSON or as a
// table.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qless/qless-go"
)

// An app is one run of the program.
type app struct {
	in       io.Reader
	out, err io.Writer

	redis, namespace string
	context          string
	timeout          time.Duration
	json, jids       bool
	yes, dryRun      bool

	located     bool
	location    location
	locationErr error

	connected *qless.Client
	watch     *watch
}

// Tests set these. Ages and due times are printed relative to now.
var (
	now       = time.Now
	testClock func() time.Time
)

// Main runs the program, and returns its exit status.
func Main(args []string, in io.Reader, out, err io.Writer) int {
	logging.Disable() // errors also contain the messages of go-redis
	a := &app{in: in, out: out, err: err}
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
	flags := root.PersistentFlags()
	flags.StringVar(&a.redis, "redis", "", "URL of the server (default $QLESS_REDIS_URL)")
	flags.StringVar(&a.namespace, "namespace", "",
		`prefix of the keys (default $QLESS_NAMESPACE, or "ql:"), or a pattern`)
	flags.StringVar(&a.context, "context", "",
		"name of a server and a namespace, from qless context (default $QLESS_CONTEXT)")
	flags.DurationVar(&a.timeout, "timeout", 30*time.Second,
		"time limit for the server, or for commands that wait")
	flags.BoolVar(&a.json, "json", false, "print JSON")
	flags.BoolVar(&a.jids, "jids", false, "print only the jids, one a line")
	flags.BoolVarP(&a.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&a.dryRun, "dry-run", false, "print what would be done, and do nothing")
	_ = root.RegisterFlagCompletionFunc("context", a.completeContext)
	checkArguments(root)
	takeSeconds(root)
	return root
}

// group returns a command that only has subcommands. Without one, it fails, and prints its help
// where errors are printed.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{
		Use:   use,
		Short: short,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(command, args[0])
			}
			return nil
		},
		RunE: func(command *cobra.Command, _ []string) error {
			command.SetOut(command.ErrOrStderr())
			return usageError{errors.Join(errors.New("want a command"), command.Help())}
		},
	}
	command.AddCommand(commands...)
	return command
}

// checkArguments makes wrong arguments of a command and its subcommands usage errors.
func checkArguments(command *cobra.Command) {
	if check := command.Args; check != nil {
		command.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil && c.HasSubCommands() {
				return usageError{err} // unknown
			} else if err != nil {
				return usageError{fmt.Errorf("%w\nusage: %s", badArguments(c, args, err), c.UseLine())}
			}
			return missingFlags(c)
		}
	}
	for _, below := range command.Commands() {
		checkArguments(below)
	}
}

// missingFlags returns an error if flags are missing that a command needs.
func missingFlags(command *cobra.Command) error {
	var missing []string
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Annotations[cobra.BashCompOneRequiredFlag] != nil && !flag.Changed {
			missing = append(missing, "--"+flag.Name)
		}
	})
	if missing == nil {
		return nil
	}
	return usageError{fmt.Errorf("%s is needed\nusage: %s", strings.Join(missing, " and "),
		command.UseLine())}
}

// client returns the client of the namespace that the flags name. It connects at the first call.
func (a *app) client(ctx context.Context) (*qless.Client, error) {
	if err := a.refusePattern(); err != nil {
		return nil, err
	}
	return a.dial(ctx)
}

// dial is client for a namespace that may be a pattern.
func (a *app) dial(ctx context.Context) (*qless.Client, error) {
	if a.connected != nil {
		return a.connected, nil
	}
	if _, err := a.where(); err != nil {
		return nil, err
	}
	client, err := qless.Dial(ctx, a.redisURL(), a.clientConfig())
	if err != nil {
		return nil, err
	}
	a.connected = client
	return client, nil
}

func (a *app) close() {
	if a.connected != nil {
		_ = a.connected.Close()
	}
}
