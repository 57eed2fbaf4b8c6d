package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/text"
)

func (a *app) jobWaitCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "wait JID...",
		Short: "Wait until jobs have ended, and print their results",
		RunE:  a.RunWaiting(a.waitForJobs),
	}
}

// An ended job is the result of a wait.
type ended struct {
	JID string `json:"jid"`
	qless.Result
}

func (a *app) waitForJobs(ctx context.Context, client *qless.Client, args []string) error {
	jids, err := a.Names(args)
	if err != nil {
		return err
	}
	results := []ended{}
	var failed error
	for _, jid := range jids {
		result, err := client.Wait(ctx, jid, a.progress(jid))
		a.clearLine()
		switch {
		case errors.Is(err, qless.ErrCanceled), errors.Is(err, qless.ErrNotFound):
			failed = errors.Join(failed, err)
			continue
		case err != nil:
			return err
		case result.State == qless.StateFailed:
			failed = errors.Join(failed, fmt.Errorf("%s has failed: %s", jid, result.Failure.Group))
		}
		results = append(results, ended{jid, result})
	}
	if err := a.printResults(results, len(jids) == 1); err != nil {
		return err
	}
	return failed
}

func (a *app) printResults(results []ended, single bool) error {
	switch {
	case single && len(results) == 0:
		return nil
	case single && a.JSON:
		return a.Print(results[0], nil)
	}
	return a.Print(results, func() *out.Table {
		t := out.NewTable("JID  STATE  RESULT", "no jobs")
		for _, r := range results {
			text := string(r.Data)
			if r.Failure != nil {
				text = r.Failure.Group + ": " + r.Failure.Message
			}
			t.Add(r.JID, out.PaintedState(r.State), out.Dash(text))
		}
		return t
	})
}

// progress shows the progress of a job to a person.
func (a *app) progress(jid string) qless.OnProgress {
	return func(p qless.Progress) {
		if text.IsTerminal(a.Err) {
			fmt.Fprintf(a.Err, "\r\x1b[K%s: %s", text.Clean(jid), text.Clean(out.ProgressText(&p)))
		}
	}
}

func (a *app) clearLine() {
	if text.IsTerminal(a.Err) {
		fmt.Fprint(a.Err, "\r\x1b[K")
	}
}

// followEvery is how often a followed job is read.
const followEvery = time.Second

// follow prints the history of a job, entry by entry, until the job has ended.
func (a *app) follow(ctx context.Context, client *qless.Client, jid string) error {
	for printed := 0; ; {
		a.Watch.Restart()
		job, err := client.Job(ctx, jid)
		if err != nil {
			return err
		}
		if len(job.History) > printed {
			rest := *job
			rest.History = job.History[printed:]
			printed = len(job.History)
			t := history(&rest)
			t.Header = nil
			if err := t.Write(a.Out); err != nil {
				return err
			}
		}
		if job.State == qless.StateComplete || job.State == qless.StateFailed {
			return nil
		}
		if !out.Pause(ctx, followEvery) {
			return nil
		}
	}
}
