package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

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
