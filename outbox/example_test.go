package outbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/qless/qless-go/outbox"
	"github.com/qless/qless-go/qlesstest"
)

// pgxTx turns a transaction of pgx into a Tx.
type pgxTx struct{ pgx.Tx }

func (t pgxTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tag, err := t.Exec(ctx, query, args...)
	return driver.RowsAffected(tag.RowsAffected()), err
}

// Transactions of pgx need a method.
func ExampleTx() {
	var box outbox.Outbox
	order := func(ctx context.Context, conn *pgx.Conn, item string) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `INSERT INTO orders VALUES ($1)`, item); err != nil {
				return err
			}
			_, err := box.Queue(pgxTx{tx}, "pack").Put(ctx, "Pack", item)
			return err
		})
	}
	_ = order
}

// With pgx, a relay of PostgreSQL moves each row at once.
func ExampleRelayConfig_listen() {
	const url = "postgres://localhost/shop"
	config := outbox.RelayConfig{Dialect: outbox.Postgres}
	config.Listen = func(ctx context.Context, notify func()) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		if _, err := conn.Exec(ctx, "LISTEN qless_outbox"); err != nil {
			return err
		}
		for {
			notify() // also about rows that were written before
			if _, err := conn.WaitForNotification(ctx); err != nil {
				return err // the relay calls it again
			}
		}
	}
}

// An order and the job to pack it are stored together, or neither is.
func Example() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	folder, err := os.MkdirTemp("", "outbox")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	db, err := sql.Open("sqlite", "file:"+filepath.Join(folder, "shop.db")+"?_txlock=immediate")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := outbox.Migrate(ctx, db, outbox.SQLite); err != nil {
		log.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, `CREATE TABLE orders (item TEXT NOT NULL)`); err != nil {
		log.Fatal(err)
	}

	var box outbox.Outbox
	order := func(item string) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // does nothing after the commit
		if _, err := box.Queue(tx, "pack").Put(ctx, "Pack", item); err != nil {
			return err
		}
		if item == "" {
			return errors.New("an empty order")
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO orders VALUES ($1)`, item); err != nil {
			return err
		}
		return tx.Commit()
	}
	for _, item := range []string{"book", "", "lamp"} {
		if err := order(item); err != nil {
			fmt.Println("not ordered:", err)
		}
	}

	relay, err := outbox.NewRelay(db, server.Client(), outbox.RelayConfig{Dialect: outbox.SQLite})
	if err != nil {
		log.Fatal(err)
	}
	pass := relay.Pass(ctx) // a program has relay.Run(ctx) in a goroutine
	fmt.Println(pass.Put, "jobs")
	jobs, err := server.Client().Queue("pack").Pop(ctx, 10)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		fmt.Printf("%s %s\n", job.Klass, job.Data)
	}
	// Output:
	// not ordered: an empty order
	// 2 jobs
	// Pack "book"
	// Pack "lamp"
}
