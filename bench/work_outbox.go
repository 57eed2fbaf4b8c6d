package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/outbox"
)

// outboxes measures puts in transactions of Postgres, into an outbox and into River, and a relay
// moving a backlog.
func outboxes(ctx context.Context, b *bench, r *report) (failed error) {
	p := b.postgres
	if p == nil {
		var err error
		if p, err = startPostgres(ctx); err != nil {
			return err
		}
		defer p.remove()
	}
	statements := &tracer{}
	config := p.pool.Config().ConnConfig.Copy()
	config.Tracer = statements
	db := stdlib.OpenDB(*config)
	defer func() { failed = errors.Join(failed, db.Close()) }()
	if err := outbox.Migrate(ctx, db, outbox.Postgres); err != nil {
		return err
	}
	inserter, err := river.NewClient(riverpgxv5.New(p.pool), &river.Config{})
	if err != nil {
		return err
	}
	data, box := json.RawMessage(payloadOf(100)), outbox.Outbox{}
	specs := make([]qless.JobSpec, bulkSize)
	inserts := make([]river.InsertManyParams, bulkSize)
	for i := range bulkSize {
		specs[i] = qless.JobSpec{Klass: klass, Data: data}
		inserts[i] = river.InsertManyParams{Args: riverArgs{data}}
	}
	for _, one := range []struct {
		name string
		jobs int // in a transaction
		put  func(tx pgx.Tx) error
	}{
		{"outbox.Put", 1, func(tx pgx.Tx) error {
			_, err := box.Queue(pgxTx{tx}, queueName).Put(ctx, klass, data)
			return err
		}},
		{"River, InsertTx", 1, func(tx pgx.Tx) error {
			_, err := inserter.InsertTx(ctx, tx, riverArgs{data}, nil)
			return err
		}},
		{"outbox.PutMany of 100", bulkSize, func(tx pgx.Tx) error {
			_, err := box.Queue(pgxTx{tx}, queueName).PutMany(ctx, specs)
			return err
		}},
		{"River, InsertManyFastTx of 100", bulkSize, func(tx pgx.Tx) error {
			_, err := inserter.InsertManyFastTx(ctx, tx, inserts)
			return err
		}},
	} {
		for _, at := range b.concurrency {
			r.in("%s, %d at once", one.name, at)
			if err := p.transactions(ctx, b.jobs/one.jobs, at, one.jobs, r, one.put); err != nil {
				return err
			}
		}
	}
	r.in("relay")
	return moveAll(ctx, b, db, statements, r)
}

// transactions measures transactions with jobs.
func (p *postgres) transactions(
	ctx context.Context, n, atOnce, jobs int, r *report, put func(tx pgx.Tx) error,
) error {
	before, err := p.cpu()
	if err != nil {
		return err
	}
	start := time.Now()
	err = parallel(atOnce, n, func(int) error { return pgx.BeginFunc(ctx, p.pool, put) })
	if err != nil {
		return err
	}
	elapsed := time.Since(start)
	after, err := p.cpu()
	r.add("jobs a second", float64(n*jobs)/elapsed.Seconds(), "")
	r.add("CPU of Postgres a job", us(after-before)/float64(n*jobs), "us")
	return err
}

// moveAll measures a relay moving all rows.
func moveAll(
	ctx context.Context, b *bench, db *sql.DB, statements *tracer, r *report,
) (failed error) {
	rdb := b.server.dial(1)
	trips := &tripCounter{}
	rdb.AddHook(trips)
	client, err := qless.New(rdb, &qless.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, client.Close()) }()
	relay, err := outbox.NewRelay(db, client, outbox.RelayConfig{Dialect: outbox.Postgres})
	if err != nil {
		return err
	}
	stats, err := relay.Stats(ctx)
	if err != nil {
		return err
	}
	if _, err := client.Queue(queueName).Counts(ctx); err != nil { // loads the script
		return err
	}
	moved, passes := 0, 0
	statements.count.Store(0)
	trips.count.Store(0)
	spent, err := b.server.measure(ctx, func() error {
		for moved < stats.Waiting {
			pass := relay.Pass(ctx)
			if pass.Err != nil || pass.Put == 0 {
				return errors.Join(pass.Err, errors.New("the relay did not move all rows"))
			}
			moved, passes = moved+pass.Put, passes+1
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.add("jobs a second", float64(moved)/spent.elapsed.Seconds(), "")
	r.add("CPU of Redis a job", us(spent.CPU)/float64(moved), "us")
	r.add("jobs a batch", float64(moved)/float64(passes), "")
	r.add("statements a batch", float64(statements.count.Load())/float64(passes), "")
	r.add("round trips to Redis a batch", float64(trips.count.Load())/float64(passes), "")
	return nil
}

// pgxTx turns a transaction of pgx into a Tx.
type pgxTx struct{ pgx.Tx }

func (t pgxTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tag, err := t.Exec(ctx, query, args...)
	return driver.RowsAffected(tag.RowsAffected()), err
}

// A tracer counts the statements of Postgres, with the begin and the end of each transaction.
type tracer struct{ count atomic.Int64 }

// TraceQueryStart counts a statement.
func (t *tracer) TraceQueryStart(
	ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData,
) context.Context {
	t.count.Add(1)
	return ctx
}

// TraceQueryEnd does nothing.
func (t *tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A tripCounter counts round trips to Redis.
type tripCounter struct{ count atomic.Int64 }

// DialHook changes nothing.
func (*tripCounter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return next(ctx, network, addr)
	}
}

// ProcessHook counts a command.
func (c *tripCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count.Add(1)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook counts a pipeline.
func (c *tripCounter) ProcessPipelineHook(
	next redis.ProcessPipelineHook,
) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		c.count.Add(1)
		return next(ctx, commands)
	}
}
