package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/qless/qless-go"
)

// A RelayConfig configures a [Relay]. Only Dialect is required.
type RelayConfig struct {
	// Batch is the number of rows that are moved at once, from 1 to 500. Defaults to 500.
	Batch int

	// Clock returns the time, which should be that of Redis. Defaults to [time.Now].
	Clock func() time.Time

	// Dialect is the kind of database.
	Dialect Dialect

	// Lease is the time after which another relay takes the rows of one that died. It must be longer
	// than a relay needs for a batch. Defaults to 30 s.
	Lease time.Duration

	// Listen returns when there may be new rows, or with an error, and is then called again. For
	// PostgreSQL, it waits for a notification on the channel qless_outbox. With pgx, for instance, it
	// calls WaitForNotification of a connection after a LISTEN. If Listen is nil, rows are found by
	// [Relay.Notify] and by polling.
	Listen func(ctx context.Context) error

	// Logger defaults to [slog.Default].
	Logger *slog.Logger

	// Observer, if set, is called after each pass that found rows or failed.
	Observer func(Pass)

	// Poll is the interval at which the relay looks for rows. Defaults to 1 s.
	Poll time.Duration
}

// A Pass is the result of one pass of a relay.
type Pass struct {
	Put      int           // jobs that were put
	Known    int           // rows whose jobs, or others with their unique keys, existed
	Expired  int           // rows whose StartBy or TTL was over
	Problems int           // rows that were set aside
	Left     int           // rows that will be tried again
	Duration time.Duration // of the pass
	Err      error         // the reason that rows are left, or nil
}

// A Relay moves jobs from an outbox into their queues. Any number of relays may run, in any
// processes. A single relay puts the jobs of a queue in the order of their rows.
type Relay struct {
	table  table
	client *qless.Client
	config RelayConfig
	wake   chan struct{}

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
	config.Poll = cmp.Or(config.Poll, time.Second)
	if config.Batch < 1 || config.Batch > maxBatch {
		return nil, fmt.Errorf("outbox: the Batch %d is not from 1 to %d", config.Batch, maxBatch)
	}
	if config.Lease < 0 || config.Poll < 0 {
		return nil, errors.New("outbox: a Lease or Poll is negative")
	}
	if config.Clock == nil {
		config.Clock = time.Now
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	return &Relay{
		table: table{db, config.Dialect}, client: client, config: config,
		wake: make(chan struct{}, 1), step: func(string) {},
	}, nil
}

// patience is the longest that a stopping relay waits for the database.
const patience = 5 * time.Second

// maxBatch is the maximum number of jobs that one script puts.
const maxBatch = 500

// Notify makes the relay look for rows at once. It may be called after a commit in the same
// process.
func (r *Relay) Notify() {
	select {
	case r.wake <- struct{}{}:
	default: // it is going to look anyway
	}
}

// Run moves jobs until the context ends. It logs errors, and tries again after Poll.
func (r *Relay) Run(ctx context.Context) {
	var listener sync.WaitGroup
	defer listener.Wait()
	if r.config.Listen != nil {
		listener.Go(func() { r.listen(ctx) })
	}
	timer := time.NewTicker(r.config.Poll)
	defer timer.Stop()
	for ctx.Err() == nil {
		if pass := r.Pass(ctx); pass.Err == nil && pass.moved() > 0 {
			continue // there may be more
		}
		select {
		case <-timer.C:
		case <-r.wake:
		case <-ctx.Done():
		}
	}
}

// listen notifies the relay of new rows until the context ends.
func (r *Relay) listen(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.config.Listen(ctx)
		r.Notify()
		if err == nil || ctx.Err() != nil {
			continue
		}
		r.config.Logger.WarnContext(ctx, "outbox: can't listen, so the relay polls", "error", err)
		select {
		case <-time.After(r.config.Poll):
		case <-ctx.Done():
		}
	}
}

// Pass moves the oldest rows, up to one batch. [Relay.Run] calls it; a program with its own timer
// may call it instead.
func (r *Relay) Pass(ctx context.Context) Pass {
	began := time.Now()
	pass := r.pass(ctx)
	pass.Duration = time.Since(began)
	if pass.Err != nil && ctx.Err() == nil {
		r.config.Logger.ErrorContext(ctx, "outbox: rows will be tried again",
			"rows", pass.Left, "error", pass.Err)
	}
	if r.config.Observer != nil && (pass.Err != nil || pass.moved() > 0) {
		r.config.Observer(pass)
	}
	return pass
}

// moved returns the number of rows that the pass has settled.
func (p *Pass) moved() int { return p.Put + p.Known + p.Expired + p.Problems }

func (r *Relay) pass(ctx context.Context) (pass Pass) {
	r.step("claim")
	now := r.config.Clock()
	rows, err := r.table.claim(ctx, now, now.Add(r.config.Lease), r.config.Batch)
	if err != nil || len(rows) == 0 {
		return Pass{Err: err}
	}
	m := move{Relay: r, now: now}
	r.step("settle")
	if rows, err = m.settleDoubts(ctx, rows); err != nil {
		return m.end(ctx, rows, err)
	}
	for _, group := range byQueue(m.dropExpired(rows)) {
		r.step("put")
		m.put(ctx, group)
	}
	return m.end(ctx, nil, nil)
}

// A move is one pass, with its rows by outcome.
type move struct {
	*Relay
	now    time.Time
	pass   Pass
	done   []row // their jobs exist
	unsent []row // the server is unavailable: they are tried again at once
}

// dropExpired drops the rows whose jobs have expired, and returns the others.
func (m *move) dropExpired(rows []row) []row {
	return slices.DeleteFunc(rows, func(r row) bool {
		over := r.isOver(m.now)
		if over {
			m.done = append(m.done, r)
			m.pass.Expired++
		}
		return over
	})
}

// end deletes the rows that are done, and releases the others.
func (m *move) end(ctx context.Context, left []row, err error) Pass {
	m.note(err)
	m.pass.Left += len(left)
	m.step("delete")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	m.note(m.table.remove(ctx, m.done))
	if m.unsent = append(m.unsent, left...); len(m.unsent) > 0 {
		m.note(m.table.release(ctx, m.unsent))
	}
	return m.pass
}

// note records the first error of the pass.
func (m *move) note(err error) {
	if m.pass.Err == nil {
		m.pass.Err = err
	}
}

// setAside excludes a row from further passes.
func (m *move) setAside(ctx context.Context, r row, problem string) {
	m.config.Logger.ErrorContext(ctx, "outbox: a job is set aside",
		"jid", r.jid, "queue", r.queue, "klass", r.klass, "problem", problem)
	m.pass.Problems++
	m.note(m.table.setAside(ctx, r, problem))
}

// put puts the jobs of one queue, in order, in one step on the server. If that is refused, it puts
// each half, so that in the end only the invalid jobs are not put.
func (m *move) put(ctx context.Context, rows []row) {
	specs := make([]qless.JobSpec, len(rows))
	for i := range rows {
		spec, err := rows[i].spec()
		if err != nil {
			m.setAside(ctx, rows[i], err.Error())
			m.putHalves(ctx, rows[:i], rows[i+1:])
			return
		}
		specs[i] = spec
	}
	_, err := m.client.Queue(rows[0].queue).PutMany(ctx, specs)
	var failed *qless.Error
	switch {
	case err == nil:
		m.done = append(m.done, rows...)
		m.pass.Put += len(rows)
	case errors.Is(err, qless.ErrExists) && !errors.Is(err, qless.ErrNotReplicated):
		m.done = append(m.done, rows...)
		if errors.As(err, &failed) {
			m.pass.Known += len(failed.Indices)
			m.pass.Put += len(rows) - len(failed.Indices)
		}
	case len(rows) > 1 && (errors.Is(err, qless.ErrInvalid) || errors.Is(err, qless.ErrServer)):
		m.putHalves(ctx, rows[:len(rows)/2], rows[len(rows)/2:])
	case errors.Is(err, qless.ErrInvalid):
		m.setAside(ctx, rows[0], err.Error())
	default:
		m.note(err)
		m.pass.Left += len(rows)
		if errors.Is(err, qless.ErrUnavailable) {
			m.unsent = append(m.unsent, rows...)
		} // others, such as a damaged queue, wait until the lease ends
	}
}

func (m *move) putHalves(ctx context.Context, halves ...[]row) {
	for _, half := range halves {
		if len(half) > 0 {
			m.put(ctx, half)
		}
	}
}

// byQueue groups rows by queue and keeps their order.
func byQueue(rows []row) [][]row {
	var groups [][]row
	places := map[string]int{}
	for _, row := range rows {
		i, found := places[row.queue]
		if !found {
			i = len(groups)
			places[row.queue] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], row)
	}
	return groups
}
