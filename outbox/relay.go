package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/redisx"
)

// A RelayConfig configures a [Relay]. Only Dialect is required.
type RelayConfig struct {
	// Batch is the maximum number of rows moved at once, from 1 to 500. A batch also ends after 4 MiB.
	// Defaults to 500.
	Batch int

	// Dialect is the kind of database.
	Dialect Dialect

	// Lease is the time after which another relay takes over the rows of a dead relay. It must be
	// longer than a relay needs for a batch. Defaults to 30 s.
	Lease time.Duration

	// Listen calls notify when new rows may exist, until the context ends or Listen fails. The relay
	// then pauses and calls Listen again, so each call should open a connection. In PostgreSQL, each
	// commit with new rows notifies the channel qless_outbox: see docs/outbox.md. Without Listen, the
	// relay learns of rows by [Relay.Notify] and by polling.
	Listen func(ctx context.Context, notify func()) error

	// Logger defaults to [slog.Default].
	Logger *slog.Logger

	// Name is the name of the outbox in the relay's reports, shown by `qless status`, the dashboard
	// and the metrics. Outboxes of several databases need different names if they share a namespace.
	// Defaults to "outbox".
	Name string

	// Observer, if set, is called after each pass that found rows or failed. A panic is logged. The
	// relay waits for a call for a second, and while a call blocks, for other calls for 10 ms.
	Observer func(Pass)

	// Poll is how often the relay looks for rows. Defaults to 1 s.
	Poll time.Duration
}

// A Pass is the result of one pass of a relay.
type Pass struct {
	Put      int           // jobs put
	Known    int           // rows with jobs already put, or with jids or unique keys in use
	Expired  int           // rows with a StartBy or TTL that was over
	Problems int           // rows set aside
	Left     int           // rows to try again, or waiting for others
	Duration time.Duration // of the pass
	Err      error         // why rows will be tried again, or nil
}

// A Relay moves jobs from an outbox into their queues. Any number of relays may run, in any
// processes. Run and Pass must not be called at once; all other methods may.
type Relay struct {
	table    table
	client   *qless.Client
	config   RelayConfig
	wake     chan struct{}
	observer *guard.Guard

	away     bool      // the server did not answer in the last pass
	told     string    // the last problem logged
	imported time.Time // when old rows were last looked for: see importOld
	reported time.Time

	step func(name string) // called before each step of a pass, for tests that end the process there
}

// NewRelay returns a relay from a database to the queues of a client. It does nothing until
// [Relay.Run] or [Relay.Pass] is called.
func NewRelay(db *sql.DB, client *qless.Client, config RelayConfig) (*Relay, error) {
	if db == nil || client == nil {
		return nil, errors.New("outbox: a relay needs a database and a client")
	}
	if err := config.Dialect.check(); err != nil {
		return nil, err
	}
	config.Batch = cmp.Or(config.Batch, maxBatch)
	config.Lease = cmp.Or(config.Lease, 30*time.Second)
	config.Name = cmp.Or(config.Name, "outbox")
	config.Poll = cmp.Or(config.Poll, time.Second)
	if config.Batch < 1 || config.Batch > maxBatch {
		return nil, fmt.Errorf("outbox: the Batch %d is not from 1 to %d", config.Batch, maxBatch)
	}
	if config.Lease < 0 || config.Poll < 0 {
		return nil, errors.New("outbox: a Lease or Poll is negative")
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	config.Logger = guard.Logger(config.Logger)
	return &Relay{
		table: table{db, config.Dialect}, client: client, config: config,
		observer: guard.New("RelayConfig.Observer", config.Logger),
		wake:     make(chan struct{}, 1), step: func(string) {},
	}, nil
}

// patience is how long a stopping relay waits for the database.
const patience = 5 * time.Second

// maxBatch is the maximum number of jobs put by one script.
const maxBatch = 500

// longestPause is the longest time between two passes while the server or the database is away.
const longestPause = 10 * time.Second

// Notify makes the relay look for rows at once. It may be called after a commit in the same
// process.
func (r *Relay) Notify() {
	select {
	case r.wake <- struct{}{}:
	default: // about to look anyway
	}
}

// Run moves jobs until the context ends. A problem of all rows is logged once. The relay tries
// again after Poll, then at growing intervals, up to 10 s. Run must be called only once.
func (r *Relay) Run(ctx context.Context) {
	var listener sync.WaitGroup
	defer listener.Wait()
	if r.config.Listen != nil {
		listener.Go(func() { r.listen(ctx) })
	}
	failures := 0
	for ctx.Err() == nil {
		pass := r.Pass(ctx)
		r.report(ctx)
		if pass.Err == nil {
			failures = 0
			if pass.moved()+pass.Left > 0 {
				continue // more rows may be waiting
			}
			r.sleep(ctx, r.config.Poll, r.wake)
			continue
		}
		failures++
		backoff := redisx.Backoff{First: r.config.Poll, Longest: max(longestPause, r.config.Poll)}
		r.sleep(ctx, backoff.After(failures), nil)
	}
}

// sleep waits for a time, until woken, or until the context ends.
func (r *Relay) sleep(ctx context.Context, d time.Duration, wake chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-ctx.Done():
	}
}

// listen notifies the relay of new rows until the context ends.
func (r *Relay) listen(ctx context.Context) {
	backoff := redisx.Backoff{First: r.config.Poll, Longest: max(30*time.Second, r.config.Poll)}
	for failures := 0; ctx.Err() == nil; {
		began := time.Now()
		err := guard.Try(func() error { return r.config.Listen(ctx, r.Notify) })
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > backoff.Longest {
			failures = 0 // it had listened
		}
		if failures++; failures == 1 {
			r.config.Logger.WarnContext(ctx, "outbox: can't listen, so the relay polls until it can",
				"error", err)
		}
		backoff.Wait(ctx, failures)
	}
}

// Pass moves the oldest rows, up to one batch. [Relay.Run] calls Pass; a program with its own timer
// may call Pass instead.
func (r *Relay) Pass(ctx context.Context) Pass {
	began := time.Now()
	pass := r.pass(ctx)
	pass.Duration = time.Since(began)
	r.tell(ctx, &pass)
	if r.config.Observer != nil && (pass.Err != nil || pass.moved() > 0) {
		_ = r.observer.Call(func() { r.config.Observer(pass) })
	}
	return pass
}

// moved returns the number of rows settled by the pass.
func (p *Pass) moved() int { return p.Put + p.Known + p.Expired + p.Problems }

// tell logs a problem of all rows at the beginning and at the end.
func (r *Relay) tell(ctx context.Context, pass *Pass) {
	problem := ""
	switch {
	case pass.Err != nil && ctx.Err() != nil:
		return
	case pass.Err != nil:
		problem = kindOf(pass.Err)
	case pass.moved() == 0:
		return // perhaps not over
	}
	if problem == r.told {
		return
	}
	r.told = problem
	if problem != "" {
		r.config.Logger.ErrorContext(ctx, "outbox: no rows are moved for now",
			redisx.WithHint(pass.Err, "rows", pass.Left)...)
	} else {
		r.config.Logger.InfoContext(ctx, "outbox: rows are moved again")
	}
}

// kindOf returns the kind of a problem: the first word of the server's refusal, or a code.
func kindOf(err error) string {
	var cause *qless.Error
	if !errors.As(err, &cause) {
		return "database"
	}
	if cause.Code == qless.ErrServer && redisx.IsServerWide(err) {
		return redisx.Refusal(err)
	}
	return string(cause.Code)
}

// pass claims rows and moves them.
func (r *Relay) pass(ctx context.Context) Pass {
	if r.away {
		if err := r.client.Redis().Ping(ctx).Err(); err != nil && !redisx.IsAnswer(err) {
			return Pass{Err: unavailable(err)} // no need to claim rows
		}
	}
	if err := r.importOld(ctx); err != nil {
		return Pass{Err: err}
	}
	r.step("claim")
	c, rows, err := r.table.claim(ctx, r.config.Batch, r.config.Lease)
	if err != nil || len(rows) == 0 {
		return Pass{Err: err}
	}
	m := newMove(r, c)
	m.run(ctx, rows)
	r.away = errors.Is(m.pass.Err, qless.ErrUnavailable)
	return m.pass
}

func unavailable(err error) error {
	return &qless.Error{Op: "put", Code: qless.ErrUnavailable, Message: err.Error(), Err: err}
}
