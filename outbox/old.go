package outbox

import (
	"context"
	"database/sql"
	"time"
)

// The first version of the package had the table qless_outbox. Programs with that version may still
// write to the table while being replaced, so relays move its rows to the new table.

// importEvery is how often a relay looks for old rows.
const importEvery = time.Minute

// importOld moves old rows, if any.
func (r *Relay) importOld(ctx context.Context) error {
	if r.table.dialect == MySQL || time.Since(r.imported) < importEvery {
		return nil
	}
	find := `SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'qless_outbox'`
	if r.table.dialect == Postgres {
		find = `SELECT 'qless_outbox' WHERE to_regclass('qless_outbox') IS NOT NULL`
	}
	found, err := r.table.texts(ctx, r.table.db, find)
	for err == nil && len(found) > 0 {
		moved := 0
		err = r.table.write(ctx, func(s session) error {
			moved, err = r.table.importSome(ctx, s)
			return err
		})
		if moved < maxBatch {
			break
		}
	}
	if err == nil {
		r.imported = time.Now()
	}
	return err
}

// importSome moves some old rows, except for rows claimed by old relays.
func (t *table) importSome(ctx context.Context, s session) (int, error) {
	var entries []*entry
	var numbers []any
	problems := map[string]string{}
	err := t.query(ctx, s, func(scan func(...any) error) error {
		e, number, options, problem := &entry{}, int64(0), "", sql.NullString{}
		err := scan(&number, &e.JID, &e.Queue, &e.Klass, &e.Data, &options, &problem)
		numbers = append(numbers, number)
		if problem.Valid {
			problems[e.JID] = problem.String
		}
		e.text = `{"options": ` + options + `}`
		_ = e.decode(e.text) // a damaged row is set aside by the relay
		e.needs = e.Options.DependsOn
		entries = append(entries, e)
		return err
	}, `SELECT number, jid, queue, klass, data, options, problem FROM qless_outbox
		WHERE claimed < ? ORDER BY number LIMIT ?`+t.dialect.skipLocked(),
		time.Now().UnixMicro(), maxBatch)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	box := Outbox{Dialect: t.dialect}
	if err := box.insert(ctx, s, entries); err != nil {
		return 0, err
	}
	for _, e := range entries {
		if err := box.insertOwnNeeds(ctx, s, e); err != nil {
			return 0, err
		}
	}
	for jid, problem := range problems {
		err := t.exec(ctx, s, `UPDATE qless_outbox_rows SET due = NULL, kind = 'old', problem = ?
			WHERE jid = ?`, problem, jid)
		if err != nil {
			return 0, err
		}
	}
	return len(entries), t.exec(ctx, s, `DELETE FROM qless_outbox WHERE number IN ??`, numbers)
}
