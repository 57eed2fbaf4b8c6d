package jobs

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/place"
	"github.com/qless/qless-go/cmd/qless/internal/selection"
	"github.com/qless/qless-go/cmd/qless/internal/usage"
	"github.com/qless/qless-go/inspect"
)

func (a *app) batchCommand() *cobra.Command {
	return usage.Group("batch", "Show and change batches",
		&cobra.Command{
			Use:   "ls",
			Short: "List the batches that wait for their members",
			RunE:  a.Run(a.listBatches),
		},
		&cobra.Command{
			Use:   "show BATCH",
			Short: "Show the progress of a batch; with --jids, the members that it waits for",
			RunE:  a.Run(a.showBatch),
		},
		&cobra.Command{
			Use:   "cancel BATCH",
			Short: "Cancel the callback of a batch with the members that it waits for",
			RunE: a.Run(selection.Each(a.Console, "cancel", "canceled", "batch", true,
				func(ctx context.Context, client *qless.Client, jid string) error {
					return client.Batch(jid).Cancel(ctx)
				})),
		},
		&cobra.Command{
			Use:   "commit BATCH",
			Short: "Close a batch: its callback runs once no members are pending",
			RunE: a.Run(selection.Each(a.Console, "commit", "committed", "batch", false,
				func(ctx context.Context, client *qless.Client, jid string) error {
					return client.Batch(jid).Commit(ctx)
				})),
		},
		&cobra.Command{
			Use:   "retry BATCH",
			Short: "Put the failed members of a batch back into their queues",
			RunE:  a.Run(a.retryBatch),
		})
}

// A batch is a batch with its id, and the number of failed pending members.
type batch struct {
	JID string `json:"jid"`
	qless.BatchStatus
	Stuck int `json:"stuck"`
}

func (a *app) listBatches(ctx context.Context, client *qless.Client, _ []string) error {
	names, err := place.QueuesKnown(ctx, client)
	if err != nil {
		return err
	}
	all := []batch{}
	for _, name := range names {
		jobs := inspect.New(client).Queue(name, inspect.Depends).Where(inspect.Filter{Batch: true})
		for job, err := range jobs.Each(ctx) {
			if err != nil {
				return err
			}
			a.Watch.Restart()
			one, _, err := readBatch(ctx, client, job.JID)
			if errors.Is(err, qless.ErrNotFound) {
				continue // canceled meanwhile
			} else if err != nil {
				return err
			}
			all = append(all, one)
		}
	}
	return a.Print(all, func() *out.Table { return tableOf(all) })
}

func tableOf(all []batch) *out.Table {
	t := out.NewTable("BATCH  MEMBERS  PENDING  FAILED  STATE", "no batch waits for its members")
	for _, b := range all {
		state := string(b.State)
		if b.Open {
			state = "open"
		}
		t.Add(b.JID, b.Total, b.Pending, b.Stuck+len(b.Failed), state)
	}
	return t
}

// readBatch returns a batch, and its failed members.
func readBatch(
	ctx context.Context, client *qless.Client, jid string,
) (one batch, failed []string, err error) {
	one.JID = jid
	if one.BatchStatus, err = client.Batch(jid).Status(ctx); err != nil {
		return one, nil, err
	}
	pending, err := pendingOf(ctx, client, jid)
	if err != nil || len(pending) == 0 {
		return one, nil, err
	}
	for job, err := range inspect.New(client).JIDs(pending...).Each(ctx) {
		if err != nil {
			return one, nil, err
		}
		if job.State == qless.StateFailed {
			failed = append(failed, job.JID)
		}
	}
	one.Stuck = len(failed)
	for _, member := range one.Failed {
		failed = append(failed, member.JID)
	}
	return one, failed, nil
}

func pendingOf(ctx context.Context, client *qless.Client, jid string) (jids []string, err error) {
	for member, err := range client.Batch(jid).Pending(ctx) {
		if err != nil {
			return nil, err
		}
		jids = append(jids, member)
	}
	return jids, nil
}

func (a *app) showBatch(ctx context.Context, client *qless.Client, args []string) error {
	if a.JIDs {
		jids, err := pendingOf(ctx, client, args[0])
		if err != nil {
			return err
		}
		return a.PrintJIDs(jids)
	}
	one, _, err := readBatch(ctx, client, args[0])
	if err != nil {
		return err
	}
	return a.Print(one, func() *out.Table { return tableOf([]batch{one}) })
}

func (a *app) retryBatch(ctx context.Context, client *qless.Client, args []string) error {
	_, failed, err := readBatch(ctx, client, args[0])
	if err != nil {
		return err
	}
	asBefore := func() []qless.UnfailOption { return nil }
	return unfail(asBefore).Of(ctx, a.Console, client, failed)
}
