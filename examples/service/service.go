package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/outbox"
)

// The queues of the service, and the limit for mails across all processes.
const mailQueue, reportQueue, smtp = "mail", "reports", "smtp"

// A service has an API, a relay and a worker.
type service struct {
	config config
	client *qless.Client
	db     *sql.DB
	box    outbox.Outbox
	relay  *outbox.Relay
	worker *qless.Worker
	*telemetry
}

func newService(
	ctx context.Context, cfg config, client *qless.Client, db *sql.DB, t *telemetry,
) (s *service, err error) {
	s = &service{config: cfg, client: client, db: db, telemetry: t}
	s.box = outbox.Outbox{Client: client} // with the client's headers, for traces
	_, people := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS people (email TEXT PRIMARY KEY)`)
	limit := qless.LimitConfig{Concurrency: 4, Rate: 600, Per: time.Minute}
	err = errors.Join(
		people, outbox.Migrate(ctx, db, outbox.SQLite), client.Limit(smtp).Set(ctx, limit))
	if err != nil {
		return nil, err
	}
	relay := outbox.RelayConfig{Dialect: outbox.SQLite}
	if s.relay, err = outbox.NewRelay(db, client, relay); err != nil {
		return nil, err
	}
	s.worker, err = t.jobs.NewWorker(client, qless.WorkerConfig{
		Queues:     []string{mailQueue, reportQueue},
		MaxRunTime: time.Minute,
		Observer:   t.Observe,
		Schedules: []qless.Schedule{
			{ID: "nightly", When: "CRON_TZ=Europe/Berlin 0 3 * * *", Queue: reportQueue,
				Job: reportKlass.Spec(struct{}{})},
		},
	})
	if err != nil {
		return nil, err
	}
	s.worker.Use(t.Middleware)
	welcomeKlass.Handle(s.worker, s.welcome)
	reminderKlass.Handle(s.worker, s.remind)
	reportKlass.Handle(s.worker, s.report)
	t.watch(s)
	return s, nil
}

// The klasses of the service, with the common options of their jobs.
var (
	welcomeKlass = qless.NewFunction[signup, receipt]("Welcome",
		qless.Limits{smtp}, qless.TTL(24*time.Hour))
	reminderKlass = qless.NewKlass[signup]("Reminder",
		qless.Limits{smtp}, qless.Delay(24*time.Hour), qless.IfAbsent)
	reportKlass = qless.NewKlass[struct{}]("Report")
)

// A signup is the data of the jobs of klass Welcome and Reminder.
type signup struct {
	Email string `json:"email"`
}

// A receipt is the result of a Welcome.
type receipt struct {
	Message string `json:"message"` // the id of the mail
}

// errKnown means that the person has signed up before.
var errKnown = errors.New("this person has signed up before")

// signUp stores a person and the job to welcome the person, or neither, and returns the job's jid.
func (s *service) signUp(ctx context.Context, data signup) (jid string, err error) {
	ctx, span := s.tracer.Start(ctx, "sign up") // with otelhttp, the request has a span
	defer span.End()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	jid, err = welcomeKlass.Put(ctx, s.box.Queue(tx, mailQueue), data,
		qless.Unique("welcome", data.Email))
	if err != nil {
		return "", err
	}
	const insert = `INSERT INTO people VALUES ($1) ON CONFLICT DO NOTHING`
	added, err := tx.ExecContext(ctx, insert, data.Email)
	if err != nil {
		return "", err
	}
	if n, err := added.RowsAffected(); err != nil || n == 0 {
		return "", errors.Join(errKnown, err)
	}
	defer s.relay.Notify()
	return jid, tx.Commit()
}

// welcome mails a person after signing up. The reminder's jid is derived from this job's, to keep a
// second run from putting another reminder.
func (s *service) welcome(ctx context.Context, job *qless.Job, data signup) (receipt, error) {
	id, err := s.mail(ctx, data.Email, "Welcome!")
	if err != nil {
		return receipt{}, err
	}
	_, err = reminderKlass.Put(ctx, s.client.Queue(mailQueue), data, qless.JID(job.JID+"-reminder"))
	if errors.Is(err, qless.ErrExists) {
		err = nil
	}
	return receipt{Message: id}, err
}

func (s *service) remind(ctx context.Context, _ *qless.Job, data signup) error {
	_, err := s.mail(ctx, data.Email, "How do you like it?")
	return err
}

// report mails the number of mails sent the day before.
func (s *service) report(ctx context.Context, job *qless.Job, _ struct{}) error {
	stats, err := s.client.Queue(mailQueue).Stats(ctx, job.PoppedAt.AddDate(0, 0, -1))
	if err != nil {
		return err
	}
	_, err = s.mail(ctx, "office@example.com", fmt.Sprintf("%d mails yesterday", stats.Run.Count))
	return err
}

// A sendFunc sends a mail, and returns the mail's id.
type sendFunc func(ctx context.Context, to, text string) (id string, err error)

// errNoMailbox means that an address does not exist: retrying is useless.
var errNoMailbox = errors.New("no such mailbox")

// mail sends a mail. If the mailbox does not exist, the job fails at once, even if it has retries
// left; any other error is retried.
func (s *service) mail(ctx context.Context, to, text string) (id string, err error) {
	id, err = s.config.mail(ctx, to, text)
	if errors.Is(err, errNoMailbox) {
		err = qless.FailWith("no-mailbox", err)
	}
	return id, err
}

// logMail only logs a mail.
func logMail(ctx context.Context, to, text string) (id string, err error) {
	qless.Logger(ctx).InfoContext(ctx, "mail", "to", to, "text", text)
	return "logged", nil
}

// oldestRow returns the age of the oldest row in the outbox, in seconds.
func (s *service) oldestRow() float64 {
	stats, err := outbox.ReadStats(context.Background(), s.db)
	if err != nil {
		return math.Inf(1)
	}
	return stats.Oldest.Seconds()
}
