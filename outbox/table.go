package outbox

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"
)

// A row is an entry claimed by a relay.
type row struct {
	entry
	number  int64
	created time.Time
	tries   int   // how often the row was refused
	broken  error // why the options can't be read

	parents []parent // needed rows
}

// A parent is a row needed by another row.
type parent struct {
	jid     string
	problem bool // set aside
}

// A table is the outbox of a database.
type table struct {
	db      *sql.DB
	dialect Dialect
}

// maxBytes is the size at which a batch of rows ends, except for a single larger row.
const maxBytes = 4 << 20

// exec runs a statement with a list of values in place of each ??.
func (t *table) exec(ctx context.Context, s session, text string, args ...any) error {
	text, args = spread(text, args)
	_, err := s.ExecContext(ctx, t.dialect.statement(text), args...)
	return err
}

// query runs a query, and calls scan for each row.
func (t *table) query(
	ctx context.Context, s session, scan func(scan func(...any) error) error, text string, args ...any,
) error {
	text, args = spread(text, args)
	rows, err := s.QueryContext(ctx, t.dialect.statement(text), args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// texts runs a query for one text per row.
func (t *table) texts(
	ctx context.Context, s session, text string, args ...any,
) (found []string, err error) {
	err = t.query(ctx, s, func(scan func(...any) error) error {
		var one string
		err := scan(&one)
		found = append(found, one)
		return err
	}, text, args...)
	return found, err
}

// A claim is a time until which rows belong to a relay.
type claim struct{ now, until int64 }

// time returns the database's time of the claim.
func (c claim) time() time.Time { return time.UnixMicro(c.now) }

// claim claims up to limit rows, in order. A relay with nothing to do reads one index, and changes
// nothing.
func (t *table) claim(
	ctx context.Context, limit int, lease time.Duration,
) (c claim, rows []*row, err error) {
	err = t.query(ctx, t.db, func(scan func(...any) error) error { return scan(&c.now) },
		t.findDue())
	if err != nil || c.now == 0 {
		return c, nil, err
	}
	c.until = c.now + lease.Microseconds()
	var numbers []any
	err = t.write(ctx, func(s session) error {
		numbers, err = t.pick(ctx, s, c.now, limit)
		if err != nil || len(numbers) == 0 {
			return err
		}
		return t.exec(ctx, s, `UPDATE qless_outbox_rows SET due = ? WHERE number IN ??`,
			c.until, numbers)
	})
	if err != nil || len(numbers) == 0 {
		return c, nil, err
	}
	err = t.query(ctx, t.db, func(scan func(...any) error) error {
		r, options, created := &row{}, "", int64(0)
		err := scan(&r.number, &r.JID, &r.Queue, &r.Klass, &r.Data, &options, &created, &r.tries)
		r.created, r.broken = time.UnixMicro(created), r.decode(options)
		rows = append(rows, r)
		return err
	}, `SELECT number, jid, queue, klass, data, options, created, tries FROM qless_outbox_rows
		WHERE number IN ?? ORDER BY number`, numbers)
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_ = t.release(ctx, c, numbers) // or else the rows wait for the end of the lease
		return c, nil, err
	}
	return c, rows, nil
}

// pick returns the numbers of the next rows. Retried rows fill up to half of a batch, so neither
// retried nor new rows hold up the others.
func (t *table) pick(
	ctx context.Context, s session, now int64, limit int,
) (numbers []any, err error) {
	bytes := 0
	add := func(scan func(...any) error) error {
		var number int64
		var size int
		err := scan(&number, &size)
		if bytes += size; bytes <= maxBytes || len(numbers) == 0 {
			numbers = append(numbers, number)
		}
		return err
	}
	err = t.query(ctx, s, add, pickAgain+t.dialect.skipLocked(), now, (limit+1)/2)
	if err == nil && len(numbers) < limit {
		err = t.query(ctx, s, add, pickNew+t.dialect.skipLocked(), limit-len(numbers))
	}
	return numbers, err
}

// The queries of pick read the index of due rows in order. With due = 0, PostgreSQL would sort all
// rows until the table was analyzed.
const (
	pickAgain = `SELECT number, bytes FROM qless_outbox_rows WHERE due > 0 AND due <= ?
		ORDER BY due LIMIT ?`
	pickNew = `SELECT number, bytes FROM qless_outbox_rows WHERE due >= 0 AND due < 1
		ORDER BY due, number LIMIT ?`
)

// findDue is the query of an idle relay.
func (t *table) findDue() string {
	return "SELECT " + t.dialect.now() + " FROM qless_outbox_rows WHERE due <= " + t.dialect.now() +
		" ORDER BY due LIMIT 1"
}

// readParents reads the needed rows, and returns the rows still held by the claim. One statement
// reads both, to put no row after its parent's fate has decided about the row.
func (t *table) readParents(ctx context.Context, c claim, rows []*row) ([]*row, error) {
	byNumber, numbers := map[int64]*row{}, []any{}
	for _, r := range rows {
		byNumber[r.number] = r
		numbers = append(numbers, r.number)
	}
	held := map[int64]bool{}
	err := t.query(ctx, t.db, func(scan func(...any) error) error {
		var number int64
		var jid, problem sql.NullString
		err := scan(&number, &jid, &problem)
		held[number] = true
		if r := byNumber[number]; jid.Valid {
			r.parents = append(r.parents, parent{jid.String, problem.Valid})
		}
		return err
	}, `SELECT r.number, p.jid, p.problem FROM qless_outbox_rows r
		LEFT JOIN qless_outbox_needs n ON n.jid = r.jid LEFT JOIN qless_outbox_rows p ON p.jid = n.parent
		WHERE r.number IN ?? AND r.due = ?`, numbers, c.until)
	if err != nil {
		return rows, err
	}
	return slices.DeleteFunc(rows, func(r *row) bool { return !held[r.number] }), nil
}

// release gives rows back, to be claimed at once, in order.
func (t *table) release(ctx context.Context, c claim, numbers []any) error {
	return t.change(ctx, numbers, `UPDATE qless_outbox_rows SET due = 0
		WHERE number IN ?? AND due = ?`, c.until)
}

// postpone gives refused rows back, for later.
func (t *table) postpone(ctx context.Context, c claim, rows []*row) error {
	byTries := map[int][]any{}
	for _, r := range rows {
		byTries[r.tries] = append(byTries[r.tries], r.number)
	}
	for tries, some := range byTries {
		err := t.change(ctx, some, `UPDATE qless_outbox_rows SET due = ?, tries = tries + 1
			WHERE number IN ?? AND due = ?`, c.now+untilRetry(tries).Microseconds(), c.until)
		if err != nil {
			return err
		}
	}
	return nil
}

// change runs a statement for the numbers of rows, inserted before the last argument.
func (t *table) change(ctx context.Context, numbers []any, text string, args ...any) error {
	if len(numbers) == 0 {
		return nil
	}
	args = slices.Insert(args, len(args)-1, any(numbers))
	return t.write(ctx, func(s session) error { return t.exec(ctx, s, text, args...) })
}

// numbersOf returns the numbers of rows.
func numbersOf(rows []*row) []any {
	numbers := make([]any, len(rows))
	for i, r := range rows {
		numbers[i] = r.number
	}
	return numbers
}

// finish deletes the rows of jobs that were put, and applies the fates of others, except for rows
// lost by the claim. It returns the applied fates, and the fates of children of deleted rows.
func (t *table) finish(
	ctx context.Context, c claim, put []*row, fates []fate,
) (all []fate, err error) {
	if fates, err = t.heldOf(ctx, c, fates); err != nil {
		return nil, err
	}
	children, err := t.condemn(ctx, fates)
	if err != nil {
		return nil, err
	}
	var jids []any
	for _, r := range put {
		jids = append(jids, r.JID)
	}
	err = t.write(ctx, func(s session) error {
		gone := jids
		for _, f := range fates {
			if f.kind == "" {
				gone = append(gone, f.jid)
			} else if err := t.setAside(ctx, s, f, []any{f.jid}); err != nil {
				return err
			}
		}
		return t.delete(ctx, s, gone)
	})
	return append(fates, children...), err
}

// heldOf returns the fates of the rows still held by the claim.
func (t *table) heldOf(ctx context.Context, c claim, fates []fate) ([]fate, error) {
	if len(fates) == 0 {
		return nil, nil
	}
	jids := make([]any, len(fates))
	for i, f := range fates {
		jids[i] = f.jid
	}
	held, err := t.texts(ctx, t.db,
		`SELECT jid FROM qless_outbox_rows WHERE jid IN ?? AND due = ?`, jids, c.until)
	return slices.DeleteFunc(fates, func(f fate) bool { return !slices.Contains(held, f.jid) }), err
}

// delete deletes rows, up to some hundred.
func (t *table) delete(ctx context.Context, s session, jids []any) error {
	if len(jids) == 0 {
		return nil
	}
	err := t.exec(ctx, s, t.deleteFrom("qless_outbox_rows", "jid", len(jids)), jids...)
	if err != nil {
		return err
	}
	return t.exec(ctx, s, t.deleteFrom("qless_outbox_needs", "PRIMARY", len(jids)), jids...)
}

// deleteFrom returns a statement that deletes the rows of n jids by an index. Despite FORCE INDEX,
// MySQL would scan a small table, and wait for the transactions that have written to the table.
// Looking up one jid after another prevents that.
func (t *table) deleteFrom(name, index string, n int) string {
	if t.dialect != MySQL {
		return "DELETE FROM " + name + " WHERE jid IN " + list(n)
	}
	return "DELETE t FROM (SELECT ? AS jid" + strings.Repeat(" UNION ALL SELECT ?", n-1) + ") j" +
		" STRAIGHT_JOIN " + name + " t FORCE INDEX (" + index + ") ON t.jid = j.jid"
}

// wake makes rows claimable that may have waited for others.
func (t *table) wake(ctx context.Context, jids []any) error {
	for some := range slices.Chunk(jids, maxBatch) {
		waiting, err := t.texts(ctx, t.db,
			`SELECT DISTINCT jid FROM qless_outbox_needs WHERE parent IN ??`, some)
		if err != nil {
			return err
		}
		for some := range slices.Chunk(waiting, maxBatch) {
			err := t.write(ctx, func(s session) error {
				return t.exec(ctx, s, `UPDATE qless_outbox_rows SET due = 0 WHERE jid IN ?? AND due > 0`,
					values(some))
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}
