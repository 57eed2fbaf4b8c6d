package outbox

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/qless/qless-go"
)

// A fate is the outcome of a job that is not put.
type fate struct {
	jid     string
	kind    string // of a problem; empty for a job with a deleted row
	message string
	holder  string     // the holder of the job's unique key
	code    qless.Code // for callers waiting for the job
}

// kindParent is the kind of problem of a row with a parent that was not put.
const kindParent = "parent"

// setAside sets rows without a problem aside.
func (t *table) setAside(ctx context.Context, s session, f fate, jids []any) error {
	return t.exec(ctx, s, `UPDATE qless_outbox_rows SET due = NULL, kind = ?, problem = ?
		WHERE jid IN ?? AND problem IS NULL`, f.kind, f.message, jids)
}

// condemn sets the rows aside that need a job whose row will be deleted without a put, unless the
// rows run anyway, and returns their fates. Children of these rows are set aside when claimed by a
// relay.
func (t *table) condemn(ctx context.Context, fates []fate) (condemned []fate, err error) {
	known, deleted := map[string]bool{}, []any{}
	for _, f := range fates {
		if known[f.jid] = true; f.kind == "" {
			deleted = append(deleted, f.jid)
		}
	}
	var parents []string
	for some := range slices.Chunk(deleted, maxBatch) {
		found, err := t.texts(ctx, t.db,
			`SELECT DISTINCT parent FROM qless_outbox_needs WHERE parent IN ??`, some)
		if err != nil {
			return nil, err
		}
		parents = append(parents, found...)
	}
	for _, f := range fates {
		if f.kind != "" || !slices.Contains(parents, f.jid) {
			continue
		}
		jids, err := t.children(ctx, f.jid)
		if err != nil {
			return nil, err
		}
		jids = slices.DeleteFunc(jids, func(jid string) bool { return known[jid] })
		for some := range slices.Chunk(jids, maxBatch) {
			err := t.write(ctx, func(s session) error {
				return t.setAside(ctx, s, f.ofChild(""), values(some))
			})
			if err != nil {
				return nil, err
			}
		}
		for _, jid := range jids {
			known[jid] = true
			condemned = append(condemned, f.ofChild(jid))
		}
	}
	return condemned, nil
}

// isCircle reports whether a row needs itself.
func (t *table) isCircle(ctx context.Context, jid string) bool {
	found, err := t.texts(ctx, t.db, above+` SELECT parent FROM above WHERE parent = ?`,
		[]any{jid}, jid)
	return err == nil && len(found) > 0
}

// children returns the jids of a job's children, except for rows that run anyway.
func (t *table) children(ctx context.Context, parent string) (jids []string, err error) {
	err = t.query(ctx, t.db, func(scan func(...any) error) error {
		var e entry
		var options string
		err := scan(&e.JID, &e.Klass, &e.Data, &options)
		if e.decode(options) == nil && !e.runsAnyway() {
			jids = append(jids, e.JID)
		}
		return err
	}, `SELECT r.jid, r.klass, '{}', r.options FROM qless_outbox_needs n
		JOIN qless_outbox_rows r ON r.jid = n.jid WHERE n.parent = ? AND r.problem IS NULL`, parent)
	return jids, err
}

// ofChild returns the fate of a child of the job.
func (f fate) ofChild(jid string) fate {
	return fate{jid: jid, kind: kindParent, code: qless.ErrInvalid, message: storable(
		fmt.Sprintf("the job %s, which it depends on, was not put: %s", f.jid, f.message))}
}

// maxMessage is the maximum size of the message of a problem, in bytes.
const maxMessage = 2000

// storable returns a message suitable for every database.
func storable(message string) string {
	message = strings.ReplaceAll(message[:min(len(message), maxMessage)], "\x00", "")
	return strings.ToValidUTF8(message, "")
}
