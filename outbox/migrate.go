package outbox

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"strings"
	"time"
)

// Migrations has SQL files, numbered in order, in the folders postgres, sqlite and mysql. Each may
// be run repeatedly.
//
//go:embed migrations
var Migrations embed.FS

// version is the number of the last migration.
const version = 1

// Migrate creates the tables of the outbox unless they exist. Any number of programs may call
// Migrate at once. Migrate does not wait for transactions with puts, nor do puts wait for Migrate.
func Migrate(ctx context.Context, db *sql.DB, dialect Dialect) error {
	if err := dialect.check(); err != nil {
		return err
	}
	const file = "001_outbox.sql"
	text, err := Migrations.ReadFile("migrations/" + string(dialect) + "/" + file)
	if err != nil {
		return err
	}
	t := &table{db, dialect}
	for tries := 0; ; tries++ {
		if t.isCurrent(ctx) {
			return nil
		}
		err := t.create(ctx, string(text))
		if err == nil || tries == 50 || ctx.Err() != nil {
			return wrap(file, err)
		}
		pause(ctx, 20*time.Millisecond) // another program creates them, or SQLite is busy
	}
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("outbox: %s: %w", what, err)
}

// isCurrent reports whether the last migration was run.
func (t *table) isCurrent(ctx context.Context) bool {
	var last int
	err := t.db.QueryRowContext(ctx, `SELECT max(version) FROM qless_outbox_version`).Scan(&last)
	return err == nil && last >= version
}

// create runs a migration.
func (t *table) create(ctx context.Context, text string) error {
	if t.dialect == Postgres {
		_, err := t.db.ExecContext(ctx, text) // one statement
		return err
	}
	run := func(s session) error {
		for statement := range strings.SplitSeq(text, ";\n") {
			if strings.TrimSpace(statement) == "" {
				continue
			}
			if _, err := s.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}
	if t.dialect == SQLite {
		return t.writeAlone(ctx, run)
	}
	return run(t.db)
}

// pause waits for a time, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
