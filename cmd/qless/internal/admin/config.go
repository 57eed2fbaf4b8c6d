package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/place"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/cmd/qless/internal/usage"
	"github.com/qless/qless-go/qlesstest"
)

// Commands returns the commands of this package.
func Commands(p *place.Place) []*cobra.Command {
	a := &app{p}
	return []*cobra.Command{
		a.configCommand(), a.dumpCommand(), a.restoreCommand(),
		a.scriptCommand(), a.benchCommand(), a.versionCommand(),
	}
}

func (a *app) configCommand() *cobra.Command {
	return usage.Group("config", "Show and change settings",
		&cobra.Command{
			Use:   "ls",
			Short: "List the settings that are set or have defaults",
			RunE:  a.Run(a.listConfig),
		},
		&cobra.Command{
			Use:   "get NAME",
			Short: "Print a setting, or its default",
			RunE:  a.Run(a.getConfig),
		},
		a.configSetCommand(),
		&cobra.Command{
			Use:   "unset NAME...",
			Short: "Reset settings to their defaults",
			RunE:  a.Run(a.unsetConfig),
		},
		&cobra.Command{
			Use:   "dump",
			Short: "Print the settings, the paused queues and the definitions of limits as JSON",
			RunE:  a.Run(a.dumpConfig),
		},
		a.configLoadCommand(),
	)
}

func (a *app) configSetCommand() *cobra.Command {
	var raw bool
	command := &cobra.Command{
		Use:   "set NAME VALUE",
		Short: "Change a setting",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			return a.setConfig(ctx, client, args[0], args[1], raw)
		}),
	}
	command.Flags().BoolVar(&raw, "raw", false, "accept any name and value, for other clients")
	return command
}

func (a *app) configLoadCommand() *cobra.Command {
	var exact, raw bool
	command := &cobra.Command{
		Use:   "load FILE",
		Short: "Restore settings, paused queues and limits from the output of qless config dump",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			return a.loadConfig(ctx, client, args[0], exact, raw)
		}),
	}
	command.Flags().BoolVar(&exact, "clear", false, "remove anything that is not in the file")
	command.Flags().BoolVar(&raw, "raw", false, "accept any name of a setting, for other clients")
	return command
}

func (a *app) listConfig(ctx context.Context, client *qless.Client, _ []string) error {
	all, err := client.Config().All(ctx)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.Print(all, nil)
	}
	defaults, err := defaultSettings(ctx)
	if err != nil {
		return err
	}
	t := out.NewTable("SETTING  VALUE  DEFAULT", "")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		standard, found := defaults[name]
		if !found {
			standard = "-"
		}
		t.Add(name, all[name], standard)
	}
	return t.Write(a.Out)
}

// defaultSettings returns the settings of a new namespace.
func defaultSettings(ctx context.Context) (map[string]string, error) {
	empty, err := qlesstest.Start()
	if err != nil {
		return nil, err
	}
	defer empty.Close()
	return empty.Client().Config().All(ctx)
}

func (a *app) getConfig(ctx context.Context, client *qless.Client, args []string) error {
	value, err := client.Config().Get(ctx, args[0])
	if err != nil {
		return err
	}
	if value == "" {
		return &qless.Error{Code: qless.ErrNotFound, Message: args[0] + " is not set"}
	}
	if a.JSON {
		return a.Print(map[string]string{args[0]: value}, nil)
	}
	_, err = fmt.Fprintln(a.Out, value)
	return err
}

func (a *app) setConfig(
	ctx context.Context, client *qless.Client, name, value string, raw bool,
) error {
	wanted := configChange{Action: actSet, Name: name, To: value, raw: raw}
	if err := rehearse(ctx, []configChange{wanted}); err != nil {
		return err
	}
	if goOn, err := a.Confirm(fmt.Sprintf("set %s to %s", name, value)); !goOn {
		return err
	}
	if err := wanted.make(ctx, client); err != nil {
		return err
	}
	return a.printSettings(ctx, client, name)
}

// printSettings prints settings after a change, as JSON if requested.
func (a *app) printSettings(ctx context.Context, client *qless.Client, names ...string) error {
	if !a.JSON {
		return nil
	}
	all, err := client.Config().All(ctx)
	if err != nil {
		return err
	}
	values := map[string]string{}
	for _, name := range names {
		values[name] = all[name]
	}
	return a.Print(values, nil)
}

func (a *app) unsetConfig(ctx context.Context, client *qless.Client, names []string) error {
	if goOn, err := a.Confirm("unset " + text.Count(len(names), "setting")); !goOn {
		return err
	}
	for _, name := range names {
		if err := client.Config().Unset(ctx, name); err != nil {
			return err
		}
	}
	return a.printSettings(ctx, client, names...)
}

// settingValue parses the value of a setting: seconds may be written as 90s or 2h.
func settingValue(name, text string) any {
	_, notNumber := strconv.ParseFloat(text, 64)
	d, notTime := time.ParseDuration(text)
	if name != "application" && notNumber != nil && notTime == nil {
		return d
	}
	return text
}

func (a *app) dumpConfig(ctx context.Context, client *qless.Client, _ []string) error {
	dump, err := dumpOf(ctx, client)
	if err != nil {
		return err
	}
	a.JSON = true
	return a.Print(dump, nil)
}

func (a *app) loadConfig(
	ctx context.Context, client *qless.Client, path string, exact, raw bool,
) error {
	wanted, err := a.readDump(path)
	if err != nil {
		return err
	}
	changes, err := changesTo(ctx, client, wanted, exact, raw)
	if err != nil {
		return err
	}
	if err := rehearse(ctx, changes); err != nil {
		return err
	}
	if err := a.printChanges(changes); err != nil || len(changes) == 0 {
		return err
	}
	if goOn, err := a.Confirm("make " + text.Count(len(changes), "change")); !goOn {
		return err
	}
	for i, c := range changes {
		if err := c.make(ctx, client); err != nil {
			return fmt.Errorf("%d of %s made: %w", i, text.Count(len(changes), "change"), err)
		}
	}
	return nil
}

func (a *app) printChanges(changes []configChange) error {
	return a.Print(changes, func() *out.Table {
		t := out.NewTable("CHANGE  NAME  FROM  TO", "nothing to change")
		for _, c := range changes {
			t.Add(c.Action, c.Name, c.From, c.To)
		}
		return t
	})
}

// rehearse makes changes in memory, to detect impossible changes before making any.
func rehearse(ctx context.Context, changes []configChange) error {
	stage, err := qlesstest.Start()
	if err != nil {
		return err
	}
	defer stage.Close()
	for _, c := range changes {
		if err := c.make(ctx, stage.Client()); err != nil {
			return err
		}
	}
	return nil
}
