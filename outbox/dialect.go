package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
)

// A Dialect is a kind of database.
type Dialect string

// The supported databases. MySQL includes MariaDB.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
	MySQL    Dialect = "mysql"
)

func (d Dialect) check() error {
	if d != Postgres && d != SQLite && d != MySQL {
		return fmt.Errorf("outbox: the dialect %q is not postgres, sqlite or mysql", string(d))
	}
	return nil
}

// statement returns a statement with the placeholders of the dialect in place of question marks.
// The placeholders of PostgreSQL also suit SQLite.
func (d Dialect) statement(text string) string {
	if d == MySQL {
		return text
	}
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(text, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		text = after
	}
}

// list returns n placeholders in parentheses.
func list(n int) string { return "(" + strings.TrimSuffix(strings.Repeat("?, ", n), ", ") + ")" }

// spread replaces each ?? in a statement by a list of placeholders, and its argument, a []any, by
// its values.
func spread(text string, args []any) (string, []any) {
	var flat []any
	for _, arg := range args {
		if values, isList := arg.([]any); isList {
			text = strings.Replace(text, "??", list(len(values)), 1)
			flat = append(flat, values...)
		} else {
			flat = append(flat, arg)
		}
	}
	return text, flat
}

// values returns texts as arguments.
func values(texts []string) []any {
	args := make([]any, len(texts))
	for i, text := range texts {
		args[i] = text
	}
	return args
}

// now is the time by the database, in microseconds, the same in a whole statement.
func (d Dialect) now() string {
	switch d {
	case Postgres:
		return "(extract(epoch FROM statement_timestamp()) * 1000000)::bigint"
	case SQLite:
		return "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)"
	}
	return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))"
}

// skipLocked ends a query for rows to change, and leaves out rows locked by other transactions.
func (d Dialect) skipLocked() string {
	if d == SQLite {
		return "" // no other transaction writes
	}
	return " FOR UPDATE SKIP LOCKED"
}

// A Tx is a transaction, such as *sql.Tx.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// A session is a transaction or a connection of a relay.
type session interface {
	Tx
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// write runs a function in a write transaction, up to 3 times, because other transactions may be in
// the way.
func (t *table) write(ctx context.Context, do func(s session) error) (err error) {
	once := t.writeOnce
	if t.dialect == SQLite {
		once = t.writeAlone
	}
	for range 3 {
		if err = once(ctx, do); err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

// writeOnce runs a function in a transaction. The transaction is read committed, regardless of the
// database's default, to keep two relays from disturbing each other.
func (t *table) writeOnce(ctx context.Context, do func(s session) error) error {
	tx, err := t.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

// writeAlone does the same in SQLite. The transaction begins as a write transaction: in SQLite,
// becoming one later fails if another transaction has written.
func (t *table) writeAlone(ctx context.Context, do func(s session) error) error {
	conn, err := t.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err = do(conn)
	if err == nil {
		_, err = conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	}
	return err
}
