package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/qless/qless-go"
)

// The queues of the service.
const (
	mailQueue   = "mail"
	reportQueue = "reports"
)

// A signup is the data of the jobs of klass Welcome and Reminder.
type signup struct {
	Email string `json:"email"`
}

// A sendFunc sends a mail.
type sendFunc func(ctx context.Context, to, text string) error

// errNoMailbox means that an address does not exist, so that retrying is useless.
var errNoMailbox = errors.New("no such mailbox")

// logMail only logs the mail.
func logMail(_ context.Context, to, text string) error {
	slog.Info("mail", "to", to, "text", text)
	return nil
}

// newWorker returns the worker of the service, and its metrics.
func newWorker(client *qless.Client, send sendFunc) (*qless.Worker, *metrics, error) {
	m := newMetrics()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{
		Queues:      []string{mailQueue, reportQueue},
		Concurrency: 10,
		MaxRunTime:  time.Minute,
		Observer:    m.observe,
		Schedules: []qless.Schedule{
			{ID: "nightly", Spec: "CRON_TZ=Europe/Berlin 0 3 * * *", Queue: reportQueue, Klass: "Report"},
		},
	})
	if err != nil {
		return nil, nil, err
	}
	h := handlers{send: send}
	worker.Handle("Welcome", qless.Typed(h.welcome))
	worker.Handle("Reminder", qless.Typed(h.reminder))
	worker.Handle("Report", h.report)
	return worker, m, nil
}

// handlers runs the jobs.
type handlers struct {
	send sendFunc
}

// welcome mails a person who has signed up. The reminder is put with a jid made of this job's and
// depends on it: a second run moves the reminder, which can't have begun, and puts no second one.
func (h handlers) welcome(ctx context.Context, job *qless.Job, data signup) error {
	if err := h.mail(ctx, data.Email, "Welcome!"); err != nil {
		return err
	}
	_, err := qless.ClientFromContext(ctx).Queue(mailQueue).Put(ctx, "Reminder", data,
		qless.JID(job.JID+"-reminder"), qless.Delay(24*time.Hour), qless.DependsOn{job.JID})
	return err
}

func (h handlers) reminder(ctx context.Context, job *qless.Job, data signup) error {
	return h.mail(ctx, data.Email, "How do you like it?")
}

// mail sends a mail. A mailbox that does not exist fails the job at once, whatever retries it has
// left; any other error is retried.
func (h handlers) mail(ctx context.Context, to, text string) error {
	err := h.send(ctx, to, text)
	if errors.Is(err, errNoMailbox) {
		return qless.FailWith("no-mailbox", err)
	}
	return err
}

// report counts the mails that were sent the day before.
func (h handlers) report(ctx context.Context, job *qless.Job) error {
	yesterday := time.Now().AddDate(0, 0, -1)
	stats, err := qless.ClientFromContext(ctx).Queue(mailQueue).Stats(ctx, yesterday)
	if err != nil {
		return err
	}
	return h.send(ctx, "office@example.com", fmt.Sprintf("%d mails yesterday", stats.Run.Count))
}
