package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go"
)

// Stats are counts of the rows in an outbox.
type Stats struct {
	Waiting  int            // rows with jobs not yet put
	Problems int            // rows set aside: see [Relay.Problems]
	Kinds    map[string]int // rows set aside, by the kind of problem
	Oldest   time.Duration  // the age of the oldest waiting row, or 0
}

// ReadStats counts the rows of an outbox. If Oldest keeps growing, no relay is working. ReadStats
// reads the whole table, and assumes that the program's clock matches the database's. [Relay.Stats]
// uses the database's clock.
func ReadStats(ctx context.Context, db *sql.DB) (Stats, error) {
	t := table{db: db}
	return t.count(ctx, strconv.FormatInt(time.Now().UnixMicro(), 10))
}

// count counts the rows, with an expression for the time.
func (t *table) count(ctx context.Context, now string) (Stats, error) {
	stats, err := t.countProblems(ctx)
	if err != nil {
		return stats, err
	}
	var age sql.NullInt64
	count := func(scan func(...any) error) error { return scan(&stats.Waiting, &age) }
	err = t.query(ctx, t.db, count, "SELECT count(*), "+now+
		" - min(created) FROM qless_outbox_rows WHERE problem IS NULL")
	stats.Oldest = max(time.Duration(age.Int64)*time.Microsecond, 0)
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

// maxCounted is the maximum number of waiting rows counted for a report.
const maxCounted = 10_000

// estimate returns the stats for a report. It counts some of the waiting rows, and treats the first
// as the oldest.
func (t *table) estimate(ctx context.Context) (Stats, error) {
	stats, err := t.countProblems(ctx)
	if err != nil {
		return stats, err
	}
	one := func(v any) func(func(...any) error) error {
		return func(scan func(...any) error) error { return scan(v) }
	}
	err = t.query(ctx, t.db, one(&stats.Waiting), `SELECT count(*) FROM
		(SELECT 1 FROM qless_outbox_rows WHERE due >= 0 LIMIT ?) AS counted`, maxCounted)
	if err != nil || stats.Waiting == 0 {
		return stats, err
	}
	var age int64
	err = t.query(ctx, t.db, one(&age), "SELECT "+t.dialect.now()+` - created FROM qless_outbox_rows
		WHERE problem IS NULL ORDER BY number LIMIT 1`)
	stats.Oldest = max(time.Duration(age)*time.Microsecond, 0)
	return stats, err
}

// Stats counts the rows of the outbox, like [ReadStats].
func (r *Relay) Stats(ctx context.Context) (Stats, error) {
	return r.table.count(ctx, r.table.dialect.now())
}

// A Problem is a row that is set aside, until [Relay.Retry] or [Relay.Drop].
type Problem struct {
	JID, Queue, Klass string

	// Kind is the code of the error of the put, such as "invalid"; "parent", if a parent was not put;
	// "circle", if the job depends on itself; or "damaged".
	Kind string

	// Message describes the problem.
	Message string
}

// Problems returns up to limit rows set aside, the oldest first.
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

// Retry tries rows set aside again, and any children set aside only because of such rows. It
// returns the number of rows. Rows without a problem are left alone.
func (r *Relay) Retry(ctx context.Context, jids ...string) (n int, err error) {
	var retried []string
	err = r.table.write(ctx, func(s session) error {
		retried = nil
		found, err := r.table.aside(ctx, s, "jid", jids)
		for len(found) > 0 && err == nil {
			err = inChunks(found, func(some []any) error {
				return r.table.exec(ctx, s, `UPDATE qless_outbox_rows SET due = 0, tries = 0, kind = NULL,
					problem = NULL WHERE jid IN ??`, some)
			})
			retried = append(retried, found...)
			if err == nil {
				found, err = r.table.aside(ctx, s, "parent", found)
			}
		}
		return err
	})
	if err != nil || len(retried) == 0 {
		return 0, err
	}
	r.Notify()
	return len(retried), inChunks(retried, func(some []any) error { return r.forget(ctx, some) })
}

// Drop deletes rows set aside, and returns their number. Children are put if they have
// [qless.OnFailureRun], and otherwise stay set aside. Rows without a problem are left alone.
func (r *Relay) Drop(ctx context.Context, jids ...string) (n int, err error) {
	found, err := r.table.aside(ctx, r.table.db, "jid", jids)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	var fates []fate
	for _, jid := range found {
		fates = append(fates,
			fate{jid: jid, code: qless.ErrCanceled, message: "the job was dropped from the outbox"})
	}
	condemned, err := r.table.condemn(ctx, fates)
	if err != nil {
		return 0, err
	}
	err = r.table.write(ctx, func(s session) error {
		return inChunks(found, func(some []any) error { return r.table.delete(ctx, s, some) })
	})
	if err != nil {
		return 0, err
	}
	fates = append(fates, condemned...)
	gone := make([]any, len(fates))
	for i, f := range fates {
		gone[i] = f.jid
	}
	if err := r.table.wake(ctx, gone); err != nil {
		return len(found), err
	}
	return len(found), r.publish(ctx, fates)
}

// inChunks calls a function for jids, some hundred at a time.
func inChunks(jids []string, do func(some []any) error) error {
	for some := range slices.Chunk(jids, maxBatch) {
		if err := do(values(some)); err != nil {
			return err
		}
	}
	return nil
}

// aside returns the jids of rows set aside: the named rows, or their children without a problem of
// their own.
func (t *table) aside(
	ctx context.Context, s session, by string, jids []string,
) (found []string, err error) {
	text := `SELECT jid FROM qless_outbox_rows WHERE problem IS NOT NULL AND jid IN ??`
	if by == "parent" {
		text = `SELECT DISTINCT r.jid FROM qless_outbox_needs n JOIN qless_outbox_rows r ON r.jid = n.jid
			WHERE r.kind = '` + kindParent + `' AND n.parent IN ??`
	}
	err = inChunks(jids, func(some []any) error {
		more, err := t.texts(ctx, s, text, some)
		found = append(found, more...)
		return err
	})
	return found, err
}

// notPut is how long the server remembers that a job was not put.
const notPut = 7 * 24 * time.Hour

// publish notifies callers waiting for jobs that the jobs were not put.
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

// explain returns the message for callers waiting for the job.
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

// The report of a relay is a field of the hash x:outbox, by the name of the outbox. Fields and the
// hash are deleted after a day without a report.
const (
	reportEvery = 15 * time.Second
	reportKept  = 24 * time.Hour
)

// report reports the state of the outbox to the server, for tools without access to the database.
func (r *Relay) report(ctx context.Context) {
	if time.Since(r.reported) < reportEvery {
		return
	}
	r.reported = time.Now()
	stats, err := r.table.estimate(ctx)
	if err != nil {
		return // the next pass logs it
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
	others := pipe.HGetAll(ctx, key)
	_, _ = pipe.Exec(ctx) // the next report follows soon
	for name, text := range others.Val() {
		var report struct{ Time int64 }
		_ = json.Unmarshal([]byte(text), &report)
		if now.Sub(time.Unix(report.Time, 0)) > reportKept {
			r.client.Redis().HDel(ctx, key, name)
		}
	}
}
