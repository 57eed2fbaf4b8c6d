package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
)

// Migrations has SQL files, numbered in their order, in the folders postgres and sqlite. Each may
// be run repeatedly. The file named notify is optional: see [RelayConfig].Listen.
//
//go:embed migrations
var Migrations embed.FS

// A Dialect is a kind of database.
type Dialect string

// The supported databases.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
)

func (d Dialect) check() error {
	if d != Postgres && d != SQLite {
		return fmt.Errorf("outbox: the dialect %q is neither postgres nor sqlite", string(d))
	}
	return nil
}

// Migrate runs all migrations of the dialect. Running one again changes nothing.
func Migrate(ctx context.Context, db *sql.DB, dialect Dialect) error {
	if err := dialect.check(); err != nil {
		return err
	}
	files, err := fs.Glob(Migrations, "migrations/"+string(dialect)+"/*.sql")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := Migrations.ReadFile(file)
		if err != nil {
			return err
		}
		if _, err := db.ExecContext(ctx, string(text)); err != nil {
			return fmt.Errorf("outbox: %s: %w", file, err)
		}
	}
	return nil
}

// Stats are counts of the rows in an outbox.
type Stats struct {
	Waiting  int           // rows whose jobs no relay has put
	Problems int           // rows that no relay takes: see the column problem
	Oldest   time.Duration // the age of the oldest waiting row, or 0
}

// ReadStats counts the rows of an outbox. If Oldest keeps growing, no relay is working.
func ReadStats(ctx context.Context, db *sql.DB) (Stats, error) {
	var all, problems int
	var oldest sql.NullInt64
	err := db.QueryRowContext(ctx, `SELECT count(*), count(problem),
		min(CASE WHEN problem IS NULL THEN created END) FROM qless_outbox`).
		Scan(&all, &problems, &oldest)
	stats := Stats{Waiting: all - problems, Problems: problems}
	if oldest.Valid {
		stats.Oldest = max(time.Since(time.UnixMicro(oldest.Int64)), 0)
	}
	return stats, err
}

// A row is a job in the outbox that a relay has claimed.
type row struct {
	number                           int64
	jid, queue, klass, data, options string
	tried                            time.Time // when a relay first took it
	isDoubtful                       bool      // it was taken before, so the job may have been put
}

// spec returns the job of a row.
func (r *row) spec() (qless.JobSpec, error) {
	var spec qless.JobSpec
	if err := json.Unmarshal([]byte(r.options), &spec); err != nil {
		return qless.JobSpec{}, err
	}
	spec.Klass, spec.Data = r.klass, json.RawMessage(r.data)
	return spec, nil
}

// isOver reports whether the life of the job ended before it was put.
func (r *row) isOver(now time.Time) bool {
	var options struct {
		StartBy time.Time `json:"start_by"`
		TTL     time.Time `json:"ttl"`
	}
	_ = json.Unmarshal([]byte(r.options), &options) // if damaged, the put reports it
	over := func(t time.Time) bool { return !t.IsZero() && t.Before(now) }
	return over(options.StartBy) || over(options.TTL)
}

// A table is the outbox of a database.
type table struct {
	db      *sql.DB
	dialect Dialect
}

// claim claims up to limit of the oldest unclaimed rows until a time.
func (t *table) claim(ctx context.Context, now, until time.Time, limit int) ([]row, error) {
	var any int
	err := t.db.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1 FROM qless_outbox
		WHERE problem IS NULL AND claimed < $1 LIMIT 1) AS found`, now.UnixMicro()).Scan(&any)
	if err != nil || any == 0 {
		return nil, err // without a lock, as there is nothing to write
	}
	skip := ""
	if t.dialect == Postgres {
		skip = "FOR UPDATE SKIP LOCKED"
	}
	found, err := t.db.QueryContext(ctx, `WITH picked(n) AS MATERIALIZED (
			SELECT number FROM qless_outbox WHERE problem IS NULL AND claimed < $1
			ORDER BY number LIMIT $2 `+skip+`)
		UPDATE qless_outbox SET claimed = $3, tried = CASE tried WHEN 0 THEN $1 ELSE tried END
		FROM picked WHERE number = n
		RETURNING number, jid, queue, klass, data, options, tried`,
		now.UnixMicro(), limit, until.UnixMicro())
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }()
	var rows []row
	for found.Next() {
		var r row
		var tried int64
		err := found.Scan(&r.number, &r.jid, &r.queue, &r.klass, &r.data, &r.options, &tried)
		if err != nil {
			return nil, err
		}
		r.tried, r.isDoubtful = time.UnixMicro(tried), tried != now.UnixMicro()
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.number, b.number) })
	return rows, found.Err()
}

// remove deletes rows.
func (t *table) remove(ctx context.Context, rows []row) error {
	return t.each(ctx, `DELETE FROM qless_outbox WHERE number IN `, rows)
}

// release releases rows, so that they can be claimed at once.
func (t *table) release(ctx context.Context, rows []row) error {
	return t.each(ctx, `UPDATE qless_outbox SET claimed = 0 WHERE number IN `, rows)
}

// each runs a statement for the numbers of rows.
func (t *table) each(ctx context.Context, statement string, rows []row) error {
	if len(rows) == 0 {
		return nil
	}
	places, numbers := make([]string, len(rows)), make([]any, len(rows))
	for i, r := range rows {
		places[i], numbers[i] = fmt.Sprintf("$%d", i+1), r.number
	}
	_, err := t.db.ExecContext(ctx, statement+"("+strings.Join(places, ", ")+")", numbers...)
	return err
}

// setAside keeps a row from being claimed.
func (t *table) setAside(ctx context.Context, r row, problem string) error {
	_, err := t.db.ExecContext(ctx, `UPDATE qless_outbox SET problem = $1, claimed = 0
		WHERE number = $2`, problem, r.number)
	return err
}
