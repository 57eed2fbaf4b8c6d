package place

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/usage"
	"github.com/qless/qless-go/inspect"
)

// CompletionTime is the longest wait for names after a tab.
var CompletionTime = 700 * time.Millisecond

// A nameSource returns possible names for an argument.
type nameSource func(ctx context.Context, client *qless.Client) ([]string, error)

// completeNames completes names in a shell. Without a server, it completes nothing.
func (p *Place) completeNames(source nameSource) cobra.CompletionFunc {
	return func(
		command *cobra.Command, args []string, begun string,
	) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(command.Context(), CompletionTime)
		defer cancel()
		client, err := p.Client(ctx)
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

// completeEach completes the arguments in order, each from a different source.
func (p *Place) completeEach(sources []nameSource) cobra.CompletionFunc {
	return func(
		command *cobra.Command, args []string, begun string,
	) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(sources) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return p.completeNames(sources[len(args)])(command, args, begun)
	}
}

// sources has the sources of names for arguments, by the words for the arguments in usage texts,
// after the name of the command's group where relevant.
var sources = map[string]nameSource{
	"QUEUE": QueuesKnown, "FROM": QueuesKnown, "TO": QueuesKnown, "KLASS": KlassesKnown,
	"JID": TrackedJIDs, "recur JID": RecurringJIDs, "GROUP": GroupsKnown, "TAG": TagsKnown,
	"WORKER": WorkersKnown, "ID": SchedulesKnown, "limit NAME": LimitsKnown,
	"config NAME": SettingsKnown,
}

// CompleteArguments completes the arguments of commands without a completion.
func (p *Place) CompleteArguments(group *cobra.Command) {
	for _, command := range group.Commands() {
		p.CompleteArguments(command)
		if command.HasSubCommands() || command.ValidArgsFunction != nil {
			continue
		}
		var known []nameSource
		for _, word := range usage.Arguments(command) {
			name := strings.Trim(word, "[.]")
			source := sources[group.Name()+" "+name]
			if source == nil {
				source = sources[name]
			}
			if source == nil {
				break
			}
			known = append(known, source)
			if strings.Contains(word, "...") {
				command.ValidArgsFunction = p.completeNames(source)
			}
		}
		if len(known) > 0 && command.ValidArgsFunction == nil {
			command.ValidArgsFunction = p.completeEach(known)
		}
	}
}

// CompleteFlag completes the value of a flag.
func (p *Place) CompleteFlag(command *cobra.Command, flag string, source nameSource) {
	_ = command.RegisterFlagCompletionFunc(flag,
		func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return p.completeNames(source)(c, nil, begun)
		})
}

// CompleteWords completes the value of a flag that must be one of some words.
func CompleteWords(command *cobra.Command, flag string, words ...string) {
	_ = command.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// QueuesKnown returns the names of the queues.
func QueuesKnown(ctx context.Context, client *qless.Client) ([]string, error) {
	queues, err := client.Queues(ctx)
	return out.Strings(queues, func(q qless.QueueCounts) string { return q.Name }), err
}

// SettingsKnown returns the names of the settings, and of the settings of queues.
func SettingsKnown(ctx context.Context, client *qless.Client) ([]string, error) {
	all, err := client.Config().All(ctx)
	if err != nil {
		return nil, err
	}
	queues, err := QueuesKnown(ctx, client)
	for _, queue := range queues {
		for _, own := range []string{"heartbeat", "max-concurrency", "max-rate"} {
			all[queue+"-"+own] = ""
		}
	}
	return slices.Sorted(maps.Keys(all)), err
}

// GroupsKnown returns the names of the failure groups.
func GroupsKnown(ctx context.Context, client *qless.Client) ([]string, error) {
	groups, err := inspect.New(client).FailureGroups(ctx)
	return slices.Sorted(maps.Keys(groups)), err
}

// TagsKnown returns tags of jobs.
func TagsKnown(ctx context.Context, client *qless.Client) ([]string, error) {
	page, err := inspect.New(client).Tags(ctx, inspect.Range{Limit: 200})
	return page.Items, err
}

// WorkersKnown returns the names of the workers.
func WorkersKnown(ctx context.Context, client *qless.Client) ([]string, error) {
	workers, err := inspect.New(client).Workers(ctx)
	return out.Strings(workers, func(w inspect.WorkerStatus) string { return w.Name }), err
}

// KlassesKnown returns the klasses with handlers in workers.
func KlassesKnown(ctx context.Context, client *qless.Client) ([]string, error) {
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

// TrackedJIDs returns jids of tracked jobs.
func TrackedJIDs(ctx context.Context, client *qless.Client) ([]string, error) {
	page, err := inspect.New(client).Tracked().JIDs(ctx, inspect.Range{Limit: 200})
	return page.Items, err
}

// LimitsKnown returns names of limits.
func LimitsKnown(ctx context.Context, client *qless.Client) ([]string, error) {
	page, err := inspect.New(client).Limits(ctx, inspect.Range{Limit: 200})
	return out.Strings(page.Items, func(l inspect.LimitOverview) string { return l.Name }), err
}

// SchedulesKnown returns ids of schedules.
func SchedulesKnown(ctx context.Context, client *qless.Client) ([]string, error) {
	page, err := inspect.New(client).Schedules(ctx, inspect.Range{Limit: 200})
	return out.Strings(page.Items, func(s inspect.ScheduleInfo) string { return s.ID }), err
}

// RecurringJIDs returns the jids of the recurring jobs of all queues.
func RecurringJIDs(ctx context.Context, client *qless.Client) ([]string, error) {
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
