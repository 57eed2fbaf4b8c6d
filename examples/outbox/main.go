// Outbox puts jobs in the transactions of a database that make them necessary: an order and the
// job that packs it are stored together, or neither is. A relay moves the jobs into their queues.
//
//	cd examples/outbox && go run .
//
// The database is SQLite, in a file that is deleted in the end. It uses the Redis server at
// REDIS_URL, in a namespace of its own, or an in-memory one.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"sync"
	"time"

	_ "modernc.org/sqlite"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/examples/internal/connect"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	folder, err := os.MkdirTemp("", "outbox")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	db, err := open(ctx, filepath.Join(folder, "shop.db"))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	client, disconnect, err := connect.Client(ctx, out, &qless.ClientConfig{Namespace: "outbox:ql:"})
	if err != nil {
		return err
	}
	defer disconnect()

	relaying, stop := context.WithCancel(ctx)
	r := newRelay(db, client)
	var done sync.WaitGroup
	done.Go(func() { r.run(relaying) })
	defer done.Wait()
	defer stop()

	for _, item := range []string{"book", "", "lamp"} {
		if err := order(ctx, db, item); err != nil {
			fmt.Fprintln(out, "not ordered:", err)
			continue
		}
		r.notify()
	}
	return pack(ctx, client, out, 2)
}

// open opens the database, and makes its tables.
func open(ctx context.Context, file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite",
		"file:"+file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	orders := `CREATE TABLE IF NOT EXISTS orders (jid TEXT, item TEXT)`
	for _, statement := range []string{createTable, orders} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}

// order stores an order and the job that packs it, or neither.
func order(ctx context.Context, db *sql.DB, item string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	jid, err := put(ctx, tx, message{queue: "pack", klass: "Pack", data: item})
	if err != nil {
		return err
	}
	if item == "" { // found out late: the job is gone with the order
		return errors.New("the order is empty")
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders VALUES (?, ?)`, jid, item); err != nil {
		return err
	}
	return tx.Commit()
}

// pack works the jobs of some orders.
func pack(ctx context.Context, client *qless.Client, out io.Writer, orders int) error {
	worker, err := qless.NewWorker(client, qless.WorkerConfig{
		Queues: []string{"pack"}, Concurrency: 1,
	})
	if err != nil {
		return err
	}
	packed := make(chan string)
	worker.Handle("Pack", qless.Typed(
		func(ctx context.Context, _ *qless.Job, item string) error {
			select {
			case packed <- item:
			case <-ctx.Done():
			}
			return context.Cause(ctx)
		}))
	if err := worker.Start(ctx); err != nil {
		return err
	}
	for range orders {
		select {
		case item := <-packed:
			fmt.Fprintln(out, "packed:", item)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), worker.Stop(ctx))
		}
	}
	return worker.Stop(ctx)
}
