package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"time"

	"github.com/qless/qless-go"
)

// A relay moves jobs from the outbox into their queues. There may be several, in any processes.
type relay struct {
	db     *sql.DB
	client *qless.Client
	batch  int           // how many rows to move at once, at most 500
	poll   time.Duration // how long to wait for new rows

	wake chan struct{} // see notify
	step func(string)  // called before each step of a pass: tests end the process there
}

func newRelay(db *sql.DB, client *qless.Client) *relay {
	return &relay{
		db: db, client: client, batch: 500, poll: time.Second,
		wake: make(chan struct{}, 1), step: func(string) {},
	}
}

// notify has the relay look at once. Call it after a commit; without it, a job waits for the poll.
func (r *relay) notify() {
	select {
	case r.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// run moves jobs until the context ends.
func (r *relay) run(ctx context.Context) {
	timer := time.NewTicker(r.poll)
	defer timer.Stop()
	for ctx.Err() == nil {
		moved, err := r.pass(ctx)
		if err != nil && ctx.Err() == nil {
			slog.ErrorContext(ctx, "outbox: will try again", "error", err)
		}
		if err == nil && moved > 0 {
			continue // there may be more
		}
		select {
		case <-timer.C:
		case <-r.wake:
		case <-ctx.Done():
		}
	}
}

// pass moves the oldest rows, and returns how many. If the process dies in between, the rows are
// still there, and the next pass finds the jobs that this one has put.
func (r *relay) pass(ctx context.Context) (moved int, err error) {
	r.step("read")
	rows, err := r.read(ctx)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	for _, group := range byQueue(rows) {
		r.step("put")
		if err := r.putAll(ctx, group); err != nil {
			return 0, err
		}
	}
	return len(rows), r.remove(ctx, rows)
}

// read returns the oldest rows. Nothing is locked: a second relay may read the same rows, and then
// finds their jobs.
func (r *relay) read(ctx context.Context) ([]row, error) {
	found, err := r.db.QueryContext(ctx, `SELECT id, queue, klass, data, options FROM qless_outbox
		WHERE problem IS NULL ORDER BY number LIMIT ?`, r.batch)
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }()
	var rows []row
	for found.Next() {
		var r row
		if err := found.Scan(&r.id, &r.queue, &r.klass, &r.data, &r.options); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, found.Err()
}

// putAll puts the jobs of one queue, in their order, in one step on the server. A job that can
// never be put is set aside, so that the others can follow in the next pass.
func (r *relay) putAll(ctx context.Context, rows []row) error {
	specs := make([]qless.JobSpec, len(rows))
	for i, row := range rows {
		spec, err := row.spec()
		if err != nil {
			return r.setAside(ctx, row.id, err)
		}
		specs[i] = spec
	}
	_, err := r.client.Queue(rows[0].queue).PutMany(ctx, specs)
	var refused *qless.Error
	switch {
	case errors.Is(err, qless.ErrExists): // some were put before
		return nil
	case errors.Is(err, qless.ErrInvalid) && errors.As(err, &refused):
		return r.setAside(ctx, refused.JID, err)
	}
	return err
}

// setAside keeps a row from being tried again. It returns the problem.
func (r *relay) setAside(ctx context.Context, id string, problem error) error {
	_, err := r.db.ExecContext(ctx,
		`UPDATE qless_outbox SET problem = ? WHERE id = ?`, problem.Error(), id)
	return errors.Join(problem, err)
}

// remove deletes rows whose jobs are in their queues.
func (r *relay) remove(ctx context.Context, rows []row) error {
	r.step("delete")
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	for _, row := range rows {
		if _, err := tx.ExecContext(ctx, `DELETE FROM qless_outbox WHERE id = ?`, row.id); err != nil {
			return err
		}
	}
	r.step("commit")
	return tx.Commit()
}

// byQueue groups rows by their queues, in their order.
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
