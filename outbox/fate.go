package outbox

import (
	"context"
	"fmt"

	"github.com/qless/qless-go"
)

// A fate is what becomes of a job that is not put.
type fate struct {
	jid     string
	kind    string // of a problem; empty for a job whose row is deleted
	message string
	holder  string     // the job that holds its unique key
	code    qless.Code // for callers that wait for the job
}

// kindParent is the kind of the problem of a row whose parent was not put.
const kindParent = "parent"

// condemn sets the rows aside that have a problem, and all rows that need a job that is not put,
// unless they run anyway. It returns all fates.
func (t *table) condemn(ctx context.Context, s session, fates []fate) ([]fate, error) {
	known := map[string]bool{}
	var all []fate
	for i := 0; i < len(fates); i++ {
		f := fates[i]
		if known[f.jid] {
			continue
		}
		known[f.jid] = true
		all = append(all, f)
		if f.kind != "" {
			err := t.exec(ctx, s, `UPDATE qless_outbox_rows SET due = NULL, kind = ?, problem = ?
				WHERE jid = ?`, f.kind, f.message, f.jid)
			if err != nil {
				return nil, err
			}
		}
		children, err := t.children(ctx, s, f)
		if err != nil {
			return nil, err
		}
		fates = append(fates, children...)
	}
	return all, nil
}

// isCircle reports whether a row needs itself.
func (t *table) isCircle(ctx context.Context, jid string) bool {
	found, err := t.texts(ctx, t.db, above+` SELECT parent FROM above WHERE parent = ?`, jid, jid)
	return err == nil && len(found) > 0
}

// children returns the fates of the rows that need a job that is not put.
func (t *table) children(ctx context.Context, s session, f fate) (fates []fate, err error) {
	var jids []string
	err = t.query(ctx, s, func(scan func(...any) error) error {
		var e entry
		var options string
		err := scan(&e.JID, &e.Klass, &e.Data, &options)
		if e.decode(options) != nil || e.runsAnyway() {
			return err
		}
		jids = append(jids, e.JID)
		return err
	}, `SELECT r.jid, r.klass, '{}', r.options FROM qless_outbox_needs n
		JOIN qless_outbox_rows r ON r.jid = n.jid WHERE n.parent = ? AND r.problem IS NULL`, f.jid)
	for _, jid := range jids {
		fates = append(fates, f.ofChild(jid))
	}
	return fates, err
}

// ofChild returns the fate of a row that needs the job.
func (f fate) ofChild(jid string) fate {
	return fate{jid: jid, kind: kindParent, code: qless.ErrInvalid,
		message: fmt.Sprintf("the job %s, which it depends on, was not put: %s", f.jid, f.message)}
}
