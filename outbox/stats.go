package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/qless/qless-go"
)

// Stats are counts of the rows in an outbox.
type Stats struct {
	Waiting  int            // rows whose jobs no relay has put
	Problems int            // rows that are set aside: see [Relay.Problems]
	Kinds    map[string]int // the same by the kind of the problem
	Oldest   time.Duration  // the age of the oldest waiting row, or 0
}

// ReadStats counts the rows of an outbox. If Oldest keeps growing, no relay is working. It reads
// the whole table.
func ReadStats(ctx context.Context, db *sql.DB) (Stats, error) {
	t := table{db: db}
	stats, err := t.countProblems(ctx)
	if err != nil {
		return stats, err
	}
	var oldest sql.NullInt64
	count := func(scan func(...any) error) error { return scan(&stats.Waiting, &oldest) }
	err = t.query(ctx, db, count,
		`SELECT count(*), min(created) FROM qless_outbox_rows WHERE problem IS NULL`)
	if oldest.Valid {
		stats.Oldest = max(time.Since(time.UnixMicro(oldest.Int64)), 0)
	}
	return stats, err
}

func (t *table) countProblems(ctx context.Context) (stats Stats, err error) {
	err = t.query(ctx, t.db, func(scan func(...any) error) error {
		var kind sql.NullString
		var n int
		err := scan(&kind, &n)
		if stats.Kinds == nil {
			stats.Kinds = map[string]int{}
		}
		stats.Kinds[kind.String] += n
		stats.Problems += n
		return err
	}, `SELECT kind, count(*) FROM qless_outbox_rows WHERE problem IS NOT NULL GROUP BY kind`)
	return stats, err
}

// maxCounted is the maximum number of waiting rows that a report counts.
const maxCounted = 10_000

// estimate returns the stats for a report. It counts some of the waiting rows, and takes the first
// one for the oldest.
func (t *table) estimate(ctx context.Context) (Stats, error) {
	stats, err := t.countProblems(ctx)
	if err != nil {
		return stats, err
	}
	one := func(v any) func(func(...any) error) error {
		return func(scan func(...any) error) error { return scan(v) }
	}
	err = t.query(ctx, t.db, one(&stats.Waiting), `SELECT count(*) FROM
		(SELECT 1 FROM qless_outbox_rows WHERE due >= 0 LIMIT ?) AS some`, maxCounted)
	if err != nil || stats.Waiting == 0 {
		return stats, err
	}
	var age int64
	err = t.query(ctx, t.db, one(&age), "SELECT "+t.dialect.now()+` - created FROM qless_outbox_rows
		WHERE problem IS NULL ORDER BY number LIMIT 1`)
	stats.Oldest = max(time.Duration(age)*time.Microsecond, 0)
	return stats, err
}

// Stats counts the rows of the outbox, as [ReadStats] does.
func (r *Relay) Stats(ctx context.Context) (Stats, error) { return ReadStats(ctx, r.table.db) }

// A Problem is a row that is set aside, until [Relay.Retry] or [Relay.Drop].
type Problem struct {
	JID, Queue, Klass string

	// Kind is the code of the error of the put, such as "invalid"; "parent", if a job that it
	// depends on was not put; "circle", if it depends on itself; or "damaged".
	Kind string

	// Message describes the problem.
	Message string
}

// Problems returns up to limit rows that are set aside, the oldest first.
func (r *Relay) Problems(ctx context.Context, limit int) (problems []Problem, err error) {
	err = r.table.query(ctx, r.table.db, func(scan func(...any) error) error {
		var p Problem
		err := scan(&p.JID, &p.Queue, &p.Klass, &p.Kind, &p.Message)
		problems = append(problems, p)
		return err
	}, `SELECT jid, queue, klass, kind, problem FROM qless_outbox_rows
		WHERE problem IS NOT NULL ORDER BY number LIMIT ?`, limit)
	return problems, err
}

// Retry tries rows again that are set aside, and the rows set aside only because they depend on
// them. It returns their number. Rows without a problem are left as they are.
func (r *Relay) Retry(ctx context.Context, jids ...string) (n int, err error) {
	var retried []any
	err = r.table.write(ctx, func(s session) error {
		retried = nil
		found, err := r.table.aside(ctx, s, jids)
		for len(found) > 0 && err == nil {
			err = r.table.exec(ctx, s, `UPDATE qless_outbox_rows SET due = 0, tries = 0, kind = NULL,
				problem = NULL WHERE jid IN ??`, values(found))
			retried = append(retried, values(found)...)
			if err == nil {
				found, err = r.table.texts(ctx, s, `SELECT DISTINCT r.jid FROM qless_outbox_needs n
					JOIN qless_outbox_rows r ON r.jid = n.jid
					WHERE n.parent IN ?? AND r.kind = ?`, values(found), kindParent)
			}
		}
		return err
	})
	if err != nil || len(retried) == 0 {
		return 0, err
	}
	r.Notify()
	return len(retried), r.forget(ctx, retried)
}

// Drop deletes rows that are set aside, and returns their number. The jobs that depend on them are
// put if they have [qless.OnFailureRun], and otherwise stay set aside. Rows without a problem are
// left as they are.
func (r *Relay) Drop(ctx context.Context, jids ...string) (n int, err error) {
	var found []string
	var fates []fate
	err = r.table.write(ctx, func(s session) error {
		if found, err = r.table.aside(ctx, s, jids); err != nil || len(found) == 0 {
			return err
		}
		err := r.table.exec(ctx, s, `DELETE FROM qless_outbox_rows WHERE jid IN ??`, values(found))
		if err != nil {
			return err
		}
		var dropped []fate
		for _, jid := range found {
			dropped = append(dropped,
				fate{jid: jid, code: qless.ErrCanceled, message: "the job was dropped from the outbox"})
		}
		if fates, err = r.table.condemn(ctx, s, dropped); err != nil {
			return err
		}
		return r.table.exec(ctx, s, `DELETE FROM qless_outbox_needs WHERE jid IN ??`, values(found))
	})
	if err != nil || len(found) == 0 {
		return 0, err
	}
	if err := r.table.wake(ctx, values(found)); err != nil {
		return len(found), err
	}
	return len(found), r.publish(ctx, fates)
}

// aside returns the jids among these whose rows are set aside.
func (t *table) aside(ctx context.Context, s session, jids []string) ([]string, error) {
	if len(jids) == 0 {
		return nil, nil
	}
	return t.texts(ctx, s, `SELECT jid FROM qless_outbox_rows
		WHERE problem IS NOT NULL AND jid IN ??`, values(jids))
}

// notPut is how long the server knows that a job was not put.
const notPut = 7 * 24 * time.Hour

// publish tells callers that wait for jobs that these were not put.
func (r *Relay) publish(ctx context.Context, fates []fate) error {
	if len(fates) == 0 {
		return nil
	}
	pipe := r.client.Redis().Pipeline()
	for _, f := range fates {
		text, err := json.Marshal(map[string]string{
			"state": "unput", "code": string(f.code), "jid": f.holder, "message": f.explain(),
		})
		if err != nil {
			return err
		}
		pipe.Set(ctx, r.client.Namespace()+"x:outbox:not:"+f.jid, text, notPut)
		pipe.Publish(ctx, r.client.Namespace()+"x:done:"+f.jid, text)
	}
	_, err := pipe.Exec(ctx)
	return err
}

// explain returns the message for callers that wait for the job.
func (f fate) explain() string {
	if f.kind == "" {
		return f.message
	}
	return "the outbox has set the job aside: " + f.message
}

// forget makes the server forget that jobs were not put.
func (r *Relay) forget(ctx context.Context, jids []any) error {
	pipe := r.client.Redis().Pipeline()
	for _, jid := range jids {
		pipe.Del(ctx, r.client.Namespace()+"x:outbox:not:"+jid.(string))
	}
	_, err := pipe.Exec(ctx)
	return err
}

// The report of a relay is a field of the hash x:outbox, by the name of the outbox. The hash ends
// if no relay reports for a day.
const (
	reportEvery = 15 * time.Second
	reportKept  = 24 * time.Hour
)

// report reports the state of the outbox to the server, for tools that don't know the database.
func (r *Relay) report(ctx context.Context) {
	if time.Since(r.reported) < reportEvery {
		return
	}
	r.reported = time.Now()
	stats, err := r.table.estimate(ctx)
	if err != nil {
		return // the next pass tells
	}
	now, err := r.client.Redis().Time(ctx).Result()
	if err != nil {
		now = time.Now()
	}
	text, err := json.Marshal(map[string]any{
		"time": now.Unix(), "rows": stats.Waiting, "oldest": int(stats.Oldest.Seconds()),
		"problems": stats.Kinds,
	})
	if err != nil {
		return
	}
	key := r.client.Namespace() + "x:outbox"
	pipe := r.client.Redis().Pipeline()
	pipe.HSet(ctx, key, r.config.Name, text)
	pipe.Expire(ctx, key, reportKept)
	_, _ = pipe.Exec(ctx) // the next report follows soon
}
