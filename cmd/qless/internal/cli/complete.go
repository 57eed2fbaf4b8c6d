package cli

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// completionTime is the longest wait for names after a tab.
var completionTime = 700 * time.Millisecond

// A nameSource returns possible names for an argument.
type nameSource func(ctx context.Context, client *qless.Client) ([]string, error)

// completeNames completes names in a shell. Without a server, there are none.
func (p *place) completeNames(source nameSource) cobra.CompletionFunc {
	return func(
		command *cobra.Command, args []string, begun string,
	) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(command.Context(), completionTime)
		defer cancel()
		client, err := p.client(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, err := source(ctx, client)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.DeleteFunc(names, func(name string) bool {
			return !strings.HasPrefix(name, begun) || slices.Contains(args, name)
		}), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeEach completes the arguments in their order, each from a source of its own.
func (p *place) completeEach(sources ...nameSource) cobra.CompletionFunc {
	return func(
		command *cobra.Command, args []string, begun string,
	) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(sources) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return p.completeNames(sources[len(args)])(command, args, begun)
	}
}

// completeFlag completes the value of a flag.
func (p *place) completeFlag(command *cobra.Command, flag string, source nameSource) {
	_ = command.RegisterFlagCompletionFunc(flag,
		func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return p.completeNames(source)(c, nil, begun)
		})
}

// completeWords completes the value of a flag that has to be one of some words.
func completeWords(command *cobra.Command, flag string, words ...string) {
	_ = command.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// queuesKnown returns the names of the queues.
func queuesKnown(ctx context.Context, client *qless.Client) ([]string, error) {
	queues, err := client.Queues(ctx)
	names := make([]string, len(queues))
	for i, queue := range queues {
		names[i] = queue.Name
	}
	return names, err
}

// settingsKnown returns the names of the settings, and of the settings of queues.
func settingsKnown(ctx context.Context, client *qless.Client) ([]string, error) {
	all, err := client.Config().All(ctx)
	if err != nil {
		return nil, err
	}
	queues, err := queuesKnown(ctx, client)
	for _, queue := range queues {
		for _, own := range []string{"heartbeat", "max-concurrency", "max-rate"} {
			all[queue+"-"+own] = ""
		}
	}
	return slices.Sorted(maps.Keys(all)), err
}

func groupsKnown(ctx context.Context, client *qless.Client) ([]string, error) {
	groups, err := inspect.New(client).FailureGroups(ctx)
	return slices.Sorted(maps.Keys(groups)), err
}

func tagsKnown(ctx context.Context, client *qless.Client) ([]string, error) {
	page, err := inspect.New(client).Tags(ctx, inspect.Range{Limit: 200})
	return page.Items, err
}

func workersKnown(ctx context.Context, client *qless.Client) ([]string, error) {
	workers, err := inspect.New(client).Workers(ctx)
	names := make([]string, len(workers))
	for i, worker := range workers {
		names[i] = worker.Name
	}
	return names, err
}

// klassesKnown returns the klasses that workers have handlers for.
func klassesKnown(ctx context.Context, client *qless.Client) ([]string, error) {
	workers, err := inspect.New(client).Workers(ctx)
	var klasses []string
	for _, worker := range workers {
		if worker.Info != nil {
			klasses = append(klasses, worker.Info.Klasses...)
		}
	}
	slices.Sort(klasses)
	return slices.Compact(klasses), err
}

func trackedJIDs(ctx context.Context, client *qless.Client) ([]string, error) {
	page, err := inspect.New(client).Tracked().JIDs(ctx, inspect.Range{Limit: 200})
	return page.Items, err
}

func limitsKnown(ctx context.Context, client *qless.Client) ([]string, error) {
	page, err := inspect.New(client).Limits(ctx, inspect.Range{Limit: 200})
	names := make([]string, len(page.Items))
	for i, limit := range page.Items {
		names[i] = limit.Name
	}
	return names, err
}

func schedulesKnown(ctx context.Context, client *qless.Client) ([]string, error) {
	page, err := inspect.New(client).Schedules(ctx, inspect.Range{Limit: 200})
	names := make([]string, len(page.Items))
	for i, schedule := range page.Items {
		names[i] = schedule.ID
	}
	return names, err
}

// recurringJIDs returns the jids of the recurring jobs of all queues.
func recurringJIDs(ctx context.Context, client *qless.Client) ([]string, error) {
	queues, err := client.Queues(ctx)
	if err != nil {
		return nil, err
	}
	var jids []string
	for _, queue := range queues {
		if queue.Recurring == 0 {
			continue
		}
		first := inspect.Range{Limit: 200}
		page, err := inspect.New(client).Queue(queue.Name, inspect.Recurring).JIDs(ctx, first)
		if err != nil {
			return nil, err
		}
		jids = append(jids, page.Items...)
	}
	return jids, nil
}
