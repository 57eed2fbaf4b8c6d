package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/internal/jobopts"
)

// An Outbox writes jobs in transactions. The zero value is ready to use with PostgreSQL and SQLite.
// All outboxes of a database write to the same tables. An Outbox is safe for concurrent use.
type Outbox struct {
	// Client, if set, is a client with the relay's config. Data is encoded by the client's Codec
	// before being written, the client's Headers are added, and MaxData applies. The client is never
	// connected. Without a Client, MaxData has its default, and the relay's client encodes the data.
	Client *qless.Client

	// Dialect is required only for MySQL and MariaDB.
	Dialect Dialect

	// Headers, if set, returns headers for each job, like Headers of [qless.ClientConfig]: the
	// context of a trace belongs to the job, not to the relay.
	Headers func(ctx context.Context) map[string]string
}

// A Queue writes jobs for one queue in a transaction. It is a [qless.Putter].
type Queue struct {
	outbox *Outbox
	tx     Tx
	name   string
}

// Queue returns a queue for the time of a transaction.
func (o *Outbox) Queue(tx Tx, name string) *Queue { return &Queue{o, tx, name} }

// Put writes a job to the outbox as part of the transaction, and returns its jid. The job is put
// into the queue once the transaction is committed. Put takes the options of [qless.Queue.Put].
// Delays and lifetimes count from the call, by the clock of the database.
//
// Every job is put as with [qless.IfAbsent]. With a [qless.JID], the job is put unless a job with
// that jid exists, or has a row that is not set aside; other conditions are [qless.ErrInvalid]. If
// another job holds the [qless.Unique] key at the time of the relay's put, the job is dropped.
// [qless.Client.Wait] with [qless.AwaitPut] waits for a job from the moment of the commit. If an
// earlier row with the jid was set aside, Wait returns that refusal until a relay has put the job.
//
// If the put would be refused, Put returns the error of qless.Queue.Put, [qless.ErrInvalid], and
// writes nothing. The same applies to a job that depends on itself through other jobs in the
// outbox. Any other error comes from the database. A put costs one statement, two with
// dependencies, and four with a JID.
func (q *Queue) Put(
	ctx context.Context, klass string, data any, options ...qless.PutOption,
) (jid string, err error) {
	spec := qless.JobSpec{Klass: klass, Data: data, Options: options}
	e, err := q.outbox.prepare(ctx, q.name, spec)
	if err != nil {
		return "", err
	}
	return e.JID, q.outbox.write(ctx, q.tx, []*entry{e})
}

// PutMany writes jobs like Put, up to 500 with one statement, and returns their jids in order. All
// jobs are checked before the first is written, as by [qless.Queue.PutMany].
func (q *Queue) PutMany(ctx context.Context, jobs []qless.JobSpec) (jids []string, err error) {
	entries, err := q.outbox.prepareAll(ctx, q.name, jobs)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		jids = append(jids, e.JID)
	}
	return jids, q.outbox.write(ctx, q.tx, entries)
}

// Members are a batch's jobs in one queue.
type Members struct {
	Queue string
	Jobs  []qless.JobSpec
}

// PutBatch writes a whole [qless.Batch]: its callback and its members. It returns the id of the
// batch: the jid of the callback. The callback takes the options of [qless.Client.NewBatch] except
// Unique. The batch is committed after all members were put; running members can add more.
func (o *Outbox) PutBatch(
	ctx context.Context, tx Tx, queue string, callback qless.JobSpec, members ...Members,
) (id string, err error) {
	first, err := o.prepare(ctx, queue, callback)
	if err != nil {
		return "", err
	}
	if len(first.Options.DependsOn) > 0 || first.Options.Unique != nil {
		return "", invalid(first.JID, "the callback of a batch can't have DependsOn or Unique")
	}
	first.Options.OpensBatch, first.Options.Batch = true, &jobopts.Batch{}
	last := &entry{commits: true}
	last.JID, last.Queue, last.Klass, last.Data = first.JID+":commit", queue, first.Klass, "{}"
	last.batch = first.JID
	if err := last.check(time.Now()); err != nil {
		return "", err
	}
	entries, seen := []*entry{first}, map[string]bool{}
	for _, m := range members {
		some, err := o.prepareAll(ctx, m.Queue, m.Jobs)
		if err != nil {
			return "", err
		}
		for _, e := range some {
			switch {
			case e.JID == first.JID || slices.Contains(e.needs, first.JID):
				return "", invalid(e.JID, "the job would wait for its own batch")
			case seen[e.JID]:
				return "", invalid(e.JID, "two members have this jid")
			}
			seen[e.JID] = true
			e.batch = first.JID
			e.needs = append(e.needs, first.JID)
			last.needs = append(last.needs, e.JID)
		}
		entries = append(entries, some...)
	}
	last.needs = append(last.needs, first.JID)
	return first.JID, o.write(ctx, tx, append(entries, last))
}

// prepare checks and encodes a job.
func (o *Outbox) prepare(
	ctx context.Context, queue string, spec qless.JobSpec,
) (*entry, error) {
	if o.Headers != nil {
		headers, err := guard.Value(guard.Call, func() qless.Headers { return o.Headers(ctx) })
		if err != nil {
			return nil, fmt.Errorf("outbox: Headers: %w", err)
		}
		spec.Options = append([]qless.PutOption{headers}, spec.Options...)
	}
	put, err := inside.Prepare(ctx, o.Client, queue, spec)
	if err != nil {
		return nil, err
	}
	e := &entry{Put: put}
	for _, parent := range put.Options.DependsOn {
		if len(parent) <= maxJID && !strings.Contains(parent, "\x00") { // other parents can't have rows
			e.needs = append(e.needs, parent)
		}
	}
	return e, e.check(time.Now())
}

// check returns an error if a job can't be in an outbox, or would be refused by the server.
func (e *entry) check(now time.Time) error {
	o := &e.Options
	switch {
	case len(o.If) > 0 && o.If[0] != "absent":
		return invalid(e.JID, "an outbox puts a job if it is absent, not under the condition %q",
			o.If[0])
	case len(e.JID) > maxJID:
		return invalid(e.JID, "the jid has %d bytes, which is more than %d", len(e.JID), maxJID)
	case strings.Contains(e.Queue+e.Klass+e.JID, "\x00"):
		return invalid(e.JID, "a name has a zero byte, which databases can't store")
	case strings.ToValidUTF8(e.Data, "") != e.Data:
		return invalid(e.JID, "the data is not UTF-8")
	}
	if o.At == nil {
		return nil
	}
	for _, end := range []struct {
		name string
		at   *jobopts.Deadline
	}{{"StartBy", o.StartBy}, {"TTL", o.TTL}} {
		if end.at != nil && !end.at.IsTime && now.Add(end.at.Seconds.Duration()).Before(*o.At) {
			return invalid(e.JID, "%s(%v) is over before At(%v)", end.name,
				end.at.Seconds.Duration(), *o.At)
		}
	}
	return nil
}

// maxJID is the maximum size of a jid, in bytes.
const maxJID = 512

// prepareAll checks and encodes jobs, in the order of their dependencies.
func (o *Outbox) prepareAll(
	ctx context.Context, queue string, jobs []qless.JobSpec,
) ([]*entry, error) {
	entries, places := make([]*entry, len(jobs)), map[string]int{}
	for i, job := range jobs {
		e, err := o.prepare(ctx, queue, job)
		if err == nil {
			if first, found := places[e.JID]; found {
				err = invalid(e.JID, "jobs[%d] has the same jid", first)
			}
		}
		if err != nil {
			return nil, atIndex(i, err)
		}
		entries[i], places[e.JID] = e, i
	}
	for i, e := range entries {
		for _, parent := range e.needs {
			if at := places[parent]; at > i {
				return nil, atIndex(i, invalid(e.JID, "depends on jobs[%d], which comes after it", at))
			}
		}
	}
	return entries, nil
}

// atIndex adds the index of a job to an error about it.
func atIndex(i int, err error) error {
	var cause *qless.Error
	if !errors.As(err, &cause) {
		return err
	}
	own := *cause
	own.Message = fmt.Sprintf("jobs[%d]: %s", i, own.Message)
	return &own
}

// write writes rows, and the rows' needs.
func (o *Outbox) write(ctx context.Context, tx Tx, entries []*entry) error {
	var pairs []pair
	var named []*entry // earlier rows may need these rows, or have the same jids
	for _, e := range entries {
		switch {
		case len(e.needs) == 0:
		case e.Options.JID != "":
			named = append(named, e)
		default:
			pairs = append(pairs, e.pairs()...)
		}
	}
	outside := map[string][]string{} // needs of earlier named rows from elsewhere
	for _, e := range named {
		needs := outsideOf(e, outside)
		outside[e.JID] = needs
		if err := o.refuseCircle(ctx, tx, e, slices.Concat(needs, e.needs)); err != nil {
			return err
		}
	}
	for _, e := range named {
		if err := o.forget(ctx, tx, e); err != nil {
			return err
		}
	}
	if err := o.insert(ctx, tx, entries); err != nil {
		return err
	}
	if err := o.insertNeeds(ctx, tx, pairs); err != nil {
		return err
	}
	for _, e := range named {
		if err := o.insertOwnNeeds(ctx, tx, e); err != nil {
			return err
		}
	}
	return nil
}

// A pair is a row and a needed row.
type pair struct{ jid, parent string }

func (e *entry) pairs() []pair {
	pairs := make([]pair, len(e.needs))
	for i, parent := range e.needs {
		pairs[i] = pair{e.JID, parent}
	}
	return pairs
}

// outsideOf returns the direct and indirect needs of an entry among rows not written with it.
func outsideOf(e *entry, known map[string][]string) (needs []string) {
	for _, parent := range e.needs {
		if others, written := known[parent]; written {
			needs = append(needs, others...)
		} else {
			needs = append(needs, parent)
		}
	}
	slices.Sort(needs)
	return slices.Compact(needs)
}

// exec runs a statement.
func (o *Outbox) exec(ctx context.Context, tx Tx, text string, args ...any) (int64, error) {
	result, err := tx.ExecContext(ctx, o.Dialect.statement(text), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// columns are the columns written by a put.
var columns = []string{"jid", "queue", "klass", "data", "options", "bytes"}

// insert writes rows, up to 500 or some megabytes with one statement.
func (o *Outbox) insert(ctx context.Context, tx Tx, entries []*entry) error {
	var values []any
	size, first := 0, 0
	for i, e := range entries {
		options, err := e.encode()
		if err != nil {
			return err
		}
		bytes := len(e.Data) + len(options)
		if i-first == maxBatch || i > first && size+bytes > maxBytes {
			if err := o.insertSome(ctx, tx, values); err != nil {
				return err
			}
			values, size, first = values[:0], 0, i
		}
		values = append(values, e.JID, e.Queue, e.Klass, e.Data, options, int64(bytes))
		size += bytes
	}
	return o.insertSome(ctx, tx, values)
}

// insertSome writes rows. Rows with known jids replace rows set aside, and no others.
func (o *Outbox) insertSome(ctx context.Context, tx Tx, values []any) error {
	if len(values) == 0 {
		return nil
	}
	text := "INSERT INTO qless_outbox_rows (" + strings.Join(columns, ", ") + ") VALUES " +
		strings.TrimSuffix(strings.Repeat(list(len(columns))+", ", len(values)/len(columns)), ", ")
	change := append(columns[1:len(columns):len(columns)], "created")
	for i, name := range change {
		if o.Dialect == MySQL {
			change[i] = fmt.Sprintf("%[1]s = IF(problem IS NULL, %[1]s, VALUES(%[1]s))", name)
		} else {
			change[i] = name + " = excluded." + name
		}
	}
	set := strings.Join(change, ", ")
	if o.Dialect == MySQL {
		text += " ON DUPLICATE KEY UPDATE " + set + ", due = IF(problem IS NULL, due, 0), " +
			"tries = IF(problem IS NULL, tries, 0), kind = NULL, problem = NULL"
	} else {
		text += " ON CONFLICT (jid) DO UPDATE SET " + set + ", due = 0, tries = 0, kind = NULL, " +
			"problem = NULL WHERE qless_outbox_rows.problem IS NOT NULL"
	}
	_, err := o.exec(ctx, tx, text, values...)
	return err
}

// insertNeeds writes the pairs of rows and needed rows.
func (o *Outbox) insertNeeds(ctx context.Context, tx Tx, pairs []pair) error {
	for some := range slices.Chunk(pairs, maxBatch) {
		var values []any
		for _, p := range some {
			values = append(values, p.jid, p.parent)
		}
		text := "VALUES " + strings.TrimSuffix(strings.Repeat("(?, ?), ", len(some)), ", ")
		if err := o.addNeeds(ctx, tx, text, values); err != nil {
			return err
		}
	}
	return nil
}

// insertOwnNeeds does the same for a row with a given jid, unless an earlier row has the jid.
func (o *Outbox) insertOwnNeeds(ctx context.Context, tx Tx, e *entry) error {
	options, err := e.encode()
	for some := range slices.Chunk(e.needs, maxBatch) {
		if err != nil {
			break
		}
		text := "SELECT r.jid, p.parent FROM qless_outbox_rows r JOIN (SELECT ? AS parent" +
			strings.Repeat(" UNION ALL SELECT ?", len(some)-1) +
			") p ON 1 = 1 WHERE r.jid = ? AND r.options = ?"
		err = o.addNeeds(ctx, tx, text, append(values(some), e.JID, options))
	}
	return err
}

func (o *Outbox) addNeeds(ctx context.Context, tx Tx, rows string, values []any) error {
	text := "INSERT INTO qless_outbox_needs (jid, parent) " + rows
	if o.Dialect == MySQL {
		text = strings.Replace(text, "INSERT", "INSERT IGNORE", 1)
	} else {
		text += " ON CONFLICT DO NOTHING"
	}
	_, err := o.exec(ctx, tx, text, values...)
	return err
}

// forget deletes the needs of a row that is set aside and will be replaced.
func (o *Outbox) forget(ctx context.Context, tx Tx, e *entry) error {
	_, err := o.exec(ctx, tx, `DELETE FROM qless_outbox_needs WHERE jid = ? AND EXISTS
		(SELECT 1 FROM qless_outbox_rows WHERE jid = ? AND problem IS NOT NULL)`, e.JID, e.JID)
	return err
}

// above are the direct and indirect needs of rows. MySQL allows 1,000 steps by default.
const above = `WITH RECURSIVE above (parent) AS (
	SELECT parent FROM qless_outbox_needs WHERE jid IN ??
	UNION SELECT n.parent FROM qless_outbox_needs n JOIN above ON n.jid = above.parent)`

// refuseCircle returns an error if a row needed by a row also needs that row. A row inserted into
// the table of needs reveals a circle, because a Tx has no queries.
func (o *Outbox) refuseCircle(ctx context.Context, tx Tx, e *entry, needs []string) error {
	for some := range slices.Chunk(needs, maxBatch) {
		text, args := spread(`INSERT /*+ SET_VAR(cte_max_recursion_depth = 1000000) */
			INTO qless_outbox_needs (jid, parent) `+above+` SELECT DISTINCT parent, parent FROM above
			WHERE parent = ?`, []any{values(some), e.JID})
		n, err := o.exec(ctx, tx, text, args...)
		if err != nil {
			return err
		}
		if n > 0 {
			_, err := o.exec(ctx, tx, `DELETE FROM qless_outbox_needs WHERE jid = ? AND parent = ?`,
				e.JID, e.JID)
			return cmp.Or(err,
				invalid(e.JID, "the job depends on itself, by way of others in the outbox"))
		}
	}
	return nil
}

func invalid(jid, format string, args ...any) error {
	return &qless.Error{
		Op: "put", Code: qless.ErrInvalid, JID: jid, Message: fmt.Sprintf(format, args...),
	}
}
