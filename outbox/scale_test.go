package outbox

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// A pass costs the database the same with a million rows behind as with few, before and after the
// table is analyzed. A hundred of the rows are set aside, and half wait for a later time. An idle
// relay reads one index.
func TestAPassWithAMillionRowsBehind(t *testing.T) {
	onEach(t, func(s *shop) {
		n := map[Dialect]int{Postgres: 1_000_000, SQLite: 100_000, MySQL: 100_000}[s.dialect]
		s.exec(fmt.Sprintf(`INSERT INTO qless_outbox_rows
			(jid, queue, klass, data, options, bytes, due, kind, problem)
			WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 1000)
			SELECT concat('j', i.n), 'q', 'K', '{}', '{}', 4,
				CASE WHEN i.n <= 100 THEN NULL WHEN i.n %% 2 = 0 THEN 9000000000000000 ELSE 0 END,
				CASE WHEN i.n <= 100 THEN 'invalid' END, CASE WHEN i.n <= 100 THEN 'it is' END
			FROM (SELECT (b.n - 1) * 1000 + a.n AS n FROM s b CROSS JOIN s a WHERE b.n <= %d) i`, n/1000))
		r := s.relay()
		for range 2 {
			s.requirePlans()
			read := s.rowsRead(func() { require.Equal(s, Pass{Put: 500}, s.pass(r)) })
			require.Less(s, read, 500*12)
			stats := must(r.table.estimate(s.Context()))(s)
			require.Equal(s, Stats{100, 100, map[string]int{"invalid": 100}, 0},
				Stats{stats.Waiting / 100, stats.Problems, stats.Kinds, 0})
			s.exec(map[Dialect]string{Postgres: "VACUUM ANALYZE", SQLite: "ANALYZE",
				MySQL: "ANALYZE TABLE qless_outbox_rows"}[s.dialect])
		}
		s.exec(`DELETE FROM qless_outbox_rows WHERE due = 0`)
		s.requirePlans()
		if s.dialect == Postgres {
			s.exec("VACUUM") // as PostgreSQL does by itself
		}
		require.Less(s, s.rowsRead(func() { require.Equal(s, Pass{}, s.pass(r)) }), 20)
	})
}

// requirePlans requires that the queries for due rows read one index in order.
func (s *shop) requirePlans() {
	s.Helper()
	r := s.relay()
	explain := map[Dialect]string{SQLite: "EXPLAIN QUERY PLAN "}[s.dialect]
	if explain == "" {
		explain = "EXPLAIN "
	}
	for _, query := range []struct {
		text string
		args []any
	}{{r.table.findDue(), nil}, {pickAgain, []any{int64(5), 250}}, {pickNew, []any{500}}} {
		rows, err := s.db.QueryContext(s.Context(), s.dialect.statement(explain+query.text), query.args...)
		require.NoError(s, err)
		columns := must(rows.Columns())(s)
		var plan strings.Builder
		for rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new([]byte)
			}
			require.NoError(s, rows.Scan(values...))
			for _, v := range values {
				fmt.Fprintf(&plan, "%s ", *v.(*[]byte))
			}
			plan.WriteString("\n")
		}
		require.NoError(s, rows.Err())
		require.Contains(s, plan.String(), "qless_outbox_due", query.text)
		for _, slow := range []string{"Seq Scan", "Sort", "Bitmap", "filesort", "TEMP B-TREE", "SCAN qless"} {
			require.NotContains(s, plan.String(), slow, query.text)
		}
	}
}

// rowsRead returns the number of rows and index entries read by the database while a function runs.
// SQLite does not count them.
func (s *shop) rowsRead(run func()) int {
	s.Helper()
	before := s.allRead()
	run()
	read := s.allRead() - before
	s.Logf("%s: %d read", s.dialect, read)
	return read
}

func (s *shop) allRead() (n int) {
	s.Helper()
	switch s.dialect {
	case Postgres:
		// The counts of a connection arrive when it is idle for a second, or ends.
		s.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		testkit.Until(s, "the other connections have ended", func() bool {
			var others int
			err := s.db.QueryRow(`SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&others)
			return err == nil && others == 0
		})
		s.exec(`SELECT pg_stat_force_next_flush()`)
		require.NoError(s, s.db.QueryRow(`SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables) +
			(SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)`).Scan(&n))
	case MySQL:
		require.NoError(s, s.db.QueryRow(`SELECT sum(variable_value)
			FROM information_schema.global_status WHERE variable_name LIKE 'handler_read%'`).Scan(&n))
	}
	return n
}
