package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// Eight programs start at once, while a transaction with a put is open.
func TestMigrateAtOnce(t *testing.T) {
	onEach(t, func(s *shop) {
		for _, table := range []string{"rows", "needs", "version"} {
			s.exec("DROP TABLE qless_outbox_" + table)
		}
		if s.dialect == Postgres {
			s.exec("DROP FUNCTION qless_outbox_notify")
		}
		errs := make([]error, 8)
		var programs sync.WaitGroup
		for i := range errs {
			db := open(s.T, s.dialect, s.url)
			programs.Go(func() { errs[i] = Migrate(s.Context(), db, s.dialect) })
		}
		programs.Wait()
		require.NoError(s, errors.Join(errs...))
		tx := must(s.db.BeginTx(s.Context(), nil))(s)
		must(s.box.Queue(tx, "q").Put(s.Context(), "K", nil))(s)
		require.NoError(s, Migrate(s.Context(), open(s.T, s.dialect, s.url), s.dialect))
		require.NoError(s, tx.Commit())
		text := must(Migrations.ReadFile("migrations/" + string(s.dialect) + "/001_outbox.sql"))(s)
		require.NoError(s, (&table{s.db, s.dialect}).create(s.Context(), string(text)))
		require.Equal(s, Pass{Put: 1}, s.pass(s.relay()))
	})
}

// Programs with the first version of the package write to another table.
func TestRowsOfTheFirstTableArePut(t *testing.T) {
	onEach(t, func(s *shop) {
		number := map[Dialect]string{SQLite: "INTEGER PRIMARY KEY AUTOINCREMENT",
			Postgres: "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"}[s.dialect]
		s.exec(`CREATE TABLE qless_outbox (number ` + number + `, jid TEXT UNIQUE,
			queue TEXT, klass TEXT, data TEXT, options TEXT, created BIGINT,
			claimed BIGINT DEFAULT 0, tried BIGINT DEFAULT 0, problem TEXT)`)
		insert := `INSERT INTO qless_outbox (jid, queue, klass, data, options, created, problem)
			VALUES (?, 'q', 'K', '7', ?, 1, ?)`
		s.exec(insert, "a", `{"jid": "a", "if": "absent", "priority": 3,
			"start_by": "2999-01-01T00:00:00Z"}`, nil)
		s.exec(insert, "b", `{"jid": "b", "if": "absent", "depends": ["a"]}`, nil)
		s.exec(insert, "c", `{"jid": "c", "if": "absent"}`, "it may have run")
		require.Equal(s, Pass{Put: 2}, s.pass(s.relay()))
		require.Equal(s, 3, s.job("a").Priority)
		require.Equal(s, []string{"a"}, s.job("b").Dependencies)
		require.Equal(s, aside(1, "old"), s.stats())
	}, SQLite, Postgres)
}

// A pgxTx is a transaction of pgx.
type pgxTx struct{ pgx.Tx }

func (t pgxTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	tag, err := t.Exec(ctx, query, args...)
	return driver.RowsAffected(tag.RowsAffected()), err
}

func TestOtherDriversOfPostgres(t *testing.T) {
	s := newShop(t, Postgres)
	conn := must(pgx.Connect(s.Context(), s.url))(t)
	defer func() { require.NoError(t, conn.Close(context.Background())) }()
	require.NoError(t, pgx.BeginFunc(s.Context(), conn, func(tx pgx.Tx) error {
		_, err := s.box.Queue(pgxTx{tx}, "q").Put(s.Context(), "K", nil, qless.DependsOn{"x"})
		return err
	}))
	s.db = must(sql.Open("postgres", s.url))(t)
	defer func() { require.NoError(t, s.db.Close()) }()
	s.exec(`ALTER DATABASE ` + s.url[strings.LastIndex(s.url, "/")+1:strings.Index(s.url, "?")] +
		` SET default_transaction_isolation = 'serializable'`)
	require.NoError(t, Migrate(s.Context(), s.db, Postgres))
	s.put("q", nil, qless.Tags{"a"})
	require.Equal(t, Pass{Put: 2}, s.pass(s.relay()))
}

// Data that the relay's client would refuse is refused, and a codec encodes data before it is
// written.
func TestDataIsCheckedByTheClientOfTheOutbox(t *testing.T) {
	onEach(t, func(s *shop) {
		large := json.RawMessage(`"` + strings.Repeat("x", 9<<20) + `"`)
		_, want := s.client.Queue("q").Put(s.Context(), "K", large)
		_, err := s.box.Queue(s.db, "q").Put(s.Context(), "K", large)
		require.ErrorIs(s, err, qless.ErrInvalid)
		require.Equal(s, want.(*qless.Error).Message, err.(*qless.Error).Message)

		// MariaDB refuses statements of more than 16 MiB.
		many := make([]qless.JobSpec, 5)
		for i := range many {
			many[i] = qless.JobSpec{Klass: "K", Data: json.RawMessage(`"` + strings.Repeat("x", 4<<20) + `"`)}
		}
		must(s.box.Queue(s.db, "q").PutMany(s.Context(), many))(s)
		s.exec(`DELETE FROM qless_outbox_rows`)

		// Unless rows are read in batches of some megabytes, these need much memory.
		for range 5 {
			s.put("q", json.RawMessage(`"`+strings.Repeat("x", 1<<20)+`"`))
		}
		require.Equal(s, Pass{Put: 3}, s.pass(s.relay()))
		require.Equal(s, Pass{Put: 2}, s.pass(s.relay()))
	})
}
