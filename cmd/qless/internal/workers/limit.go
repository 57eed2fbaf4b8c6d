package workers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/selection"
	"github.com/qless/qless-go/cmd/qless/internal/usage"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/holders"
	"github.com/qless/qless-go/internal/units"
)

func (a *app) limitCommand() *cobra.Command {
	return usage.Group("limit", "Show and change the limits of jobs",
		a.limitListCommand(), a.limitShowCommand(), a.limitSetCommand(), a.limitUnsetCommand(),
		a.limitHoldCommand())
}

func (a *app) limitListCommand() *cobra.Command {
	var flags out.RangeFlags
	command := &cobra.Command{
		Use:   "ls",
		Short: "List the limits that are defined",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, _ []string) error {
			page, err := inspect.New(client).Limits(ctx, flags.Get())
			if err != nil {
				return err
			}
			err = a.Print(page, func() *out.Table {
				t := out.NewTable("LIMIT  CONCURRENCY  RATE", "no limits")
				for _, l := range page.Items {
					t.Add(l.Name, concurrencyOf(l.Config), rateOf(l.Config))
				}
				return t
			})
			a.Footer(len(page.Items), page.Total, "limit")
			return err
		}),
	}
	flags.Add(command)
	return command
}

func concurrencyOf(c qless.LimitConfig) string {
	if c.Concurrency == 0 {
		return "-"
	}
	return fmt.Sprint(c.Concurrency)
}

func rateOf(c qless.LimitConfig) string {
	if c.Rate == 0 {
		return "-"
	}
	return fmt.Sprintf("%d in %s", c.Rate, units.Duration(c.Per))
}

func (a *app) limitShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a limit, the jobs that hold its slots, and how many wait",
		RunE:  a.Run(a.showLimit),
	}
}

func (a *app) showLimit(ctx context.Context, client *qless.Client, args []string) error {
	info, err := inspect.New(client).Limit(ctx, args[0])
	if err != nil {
		return err
	}
	if info.Config == (qless.LimitConfig{}) && info.Parked == 0 && info.HeldUntil.IsZero() {
		return out.NotFound("limit", args[0])
	}
	if a.JIDs {
		return a.PrintJIDs(info.Running)
	}
	sum, err := holders.Read(ctx, inspect.New(client), &info)
	if err != nil {
		return err
	}
	shown := struct {
		inspect.LimitInfo
		Holders holders.Sum `json:"holders"`
	}{info, sum}
	return a.Print(shown, func() *out.Table { return limitTable(&info, &sum) })
}

func limitTable(info *inspect.LimitInfo, sum *holders.Sum) *out.Table {
	t := &out.Table{}
	t.Add("limit", info.Name)
	t.Add("concurrency", concurrencyOf(info.Config))
	t.Add("rate", rateOf(info.Config))
	if !info.Own && info.Config != (qless.LimitConfig{}) {
		t.Add("defined by", "its family")
	}
	if !info.HeldUntil.IsZero() {
		t.Add("held until", out.Paint(out.At(info.HeldUntil), out.Yellow))
	}
	t.Add("next start", out.At(info.Next))
	t.Add("running", len(info.Running))
	t.Add("waiting", info.Parked)
	t.Add("jobs", out.List(info.Running))
	of := ""
	if sum.Examined < sum.Of {
		of = fmt.Sprintf(" of %d", sum.Examined)
	}
	for _, kind := range slices.Sorted(maps.Keys(sum.By)) {
		if len(sum.By[kind]) > 0 {
			t.Add(kind+of, out.List(out.Strings(sum.By[kind], func(c holders.Count) string {
				return fmt.Sprintf("%s %d", c.Name, c.Jobs)
			})))
		}
	}
	return t
}

func (a *app) limitSetCommand() *cobra.Command {
	var config qless.LimitConfig
	command := &cobra.Command{
		Use:   "set NAME",
		Short: "Define a limit, or change the values given as flags",
		RunE: func(command *cobra.Command, args []string) error {
			return a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
				return a.setLimit(ctx, client, args[0], config, command.Flags().Changed)
			})(command, args)
		},
	}
	flags := command.Flags()
	flags.IntVar(&config.Concurrency, "concurrency", 0, "maximum number of jobs that run at once")
	flags.IntVar(&config.Rate, "rate", 0, "maximum number of jobs that start in the time --per")
	flags.DurationVar(&config.Per, "per", 0, "the period of --rate")
	return command
}

func (a *app) setLimit(
	ctx context.Context, client *qless.Client, name string, config qless.LimitConfig,
	changed func(string) bool,
) error {
	if !changed("concurrency") && !changed("rate") && !changed("per") {
		return out.Error(errors.New("one of --concurrency and --rate is needed"))
	}
	info, err := inspect.New(client).Limit(ctx, name)
	if err != nil {
		return err
	}
	if info.Own {
		config = merged(info.Config, config, changed)
	}
	if config == (qless.LimitConfig{}) {
		return out.Error(fmt.Errorf("a limit needs --concurrency or --rate; "+
			"qless limit unset %s removes it", units.Quote(name)))
	}
	if config.Rate > 0 && config.Per == 0 {
		return out.Error(errors.New("--rate needs --per, the time in which so many jobs may start"))
	}
	if !a.GoOn("set %s to concurrency %s, rate %s",
		name, concurrencyOf(config), rateOf(config)) {
		return nil
	}
	if err := client.Limit(name).Set(ctx, config); err != nil {
		return err
	}
	a.Say("set %s to concurrency %s, rate %s", name, concurrencyOf(config), rateOf(config))
	return a.printLimit(ctx, client, name)
}

// printLimit prints a limit after a change, as JSON if requested.
func (a *app) printLimit(ctx context.Context, client *qless.Client, name string) error {
	if !a.JSON {
		return nil
	}
	info, err := inspect.New(client).Limit(ctx, name)
	if err != nil {
		return err
	}
	return a.Print(info, nil)
}

// merged returns a definition with the values of the changed flags.
func merged(config, other qless.LimitConfig, changed func(string) bool) qless.LimitConfig {
	if changed("concurrency") {
		config.Concurrency = other.Concurrency
	}
	if changed("rate") {
		config.Rate = other.Rate
	}
	if changed("per") {
		config.Per = other.Per
	}
	if config.Rate == 0 {
		config.Per = 0
	}
	return config
}

func (a *app) limitUnsetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "unset NAME...",
		Short: "Remove the definitions of limits; jobs that wait for them are started",
		RunE: a.Run(selection.Each(a.Console, "unset", "unset", "limit", true,
			func(ctx context.Context, client *qless.Client, name string) error {
				return client.Limit(name).Unset(ctx)
			})),
	}
}

func (a *app) limitHoldCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "hold NAME TIME",
		Short: "Start no jobs with a limit for some time; 0 ends the hold",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			d, err := time.ParseDuration(usage.Duration(args[1]))
			if err != nil {
				return out.Error(fmt.Errorf("%s is not a time such as 5m", args[1]))
			}
			return a.holdLimit(ctx, client, args[0], d)
		}),
	}
}

func (a *app) holdLimit(
	ctx context.Context, client *qless.Client, name string, d time.Duration,
) error {
	if d == 0 {
		if !a.GoOn("end the hold of %s", name) {
			return nil
		}
	} else if goOn, err := a.Confirm("hold " + name + " for " + units.Duration(d)); !goOn {
		return err
	}
	if err := client.Limit(name).Hold(ctx, d); err != nil {
		return err
	}
	return a.printLimit(ctx, client, name)
}
