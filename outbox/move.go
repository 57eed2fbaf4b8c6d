package outbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/inside"
)

// A move is one pass, with its rows by outcome.
type move struct {
	*Relay
	claim claim
	began time.Time
	pass  Pass

	rows     map[string]*row // all rows of the pass, by jid
	gone     []*row          // the jobs exist now
	put      map[string]bool // jids of the jobs that exist now
	fates    []fate          // of jobs that are not put
	unsent   []*row          // tried again at once
	refused  []*row          // tried again later
	finished bool            // the server refuses all or does not answer, or the lease ends soon
}

func newMove(r *Relay, c claim) *move {
	return &move{Relay: r, claim: c, began: time.Now(), rows: map[string]*row{},
		put: map[string]bool{}}
}

// run moves the rows of a claim.
func (m *move) run(ctx context.Context, rows []*row) {
	for _, r := range rows {
		m.rows[r.JID] = r
	}
	rows, err := m.table.readParents(ctx, m.claim, rows)
	if err != nil {
		m.note(err)
		m.unsent = append(m.unsent, rows...)
	} else {
		rows = m.sift(ctx, rows)
		for len(rows) > 0 {
			n := m.countApart(rows)
			m.send(ctx, rows[:n])
			rows = rows[n:]
		}
	}
	m.end(ctx)
}

// note records the first error of the pass.
func (m *move) note(err error) {
	if m.pass.Err == nil {
		m.pass.Err = err
	}
}

// sift returns the rows to put, parents first.
func (m *move) sift(ctx context.Context, rows []*row) []*row {
	ordered, circles := inOrder(rows, m.rows)
	for _, r := range circles {
		m.setAside(r, "circle", qless.ErrInvalid, "the job depends on itself, by way of others")
	}
	return slices.DeleteFunc(ordered, func(r *row) bool {
		switch {
		case r.broken != nil:
			m.setAside(r, "damaged", qless.ErrInvalid, "its options can't be read: "+r.broken.Error())
		case r.age(m.claim.time(), r.created):
			m.pass.Expired++
			m.fates = append(m.fates, fate{jid: r.JID, code: qless.ErrCanceled,
				message: "the job was not put: its StartBy or TTL was over"})
		default:
			return m.waits(ctx, r)
		}
		return true
	})
}

// inOrder moves each row behind its parents, and otherwise keeps the order. Rows that need
// themselves are returned as circles.
func inOrder(rows []*row, known map[string]*row) (ordered, circles []*row) {
	const entered, left = 1, 2
	visits := map[*row]int{}
	var visit func(r *row) (loops bool)
	visit = func(r *row) bool {
		if visits[r] != 0 {
			return visits[r] == entered
		}
		visits[r] = entered
		loops := false
		for _, p := range r.parents {
			if other := known[p.jid]; other != nil && visit(other) {
				loops = true
			}
		}
		visits[r] = left
		if loops {
			circles = append(circles, r)
		} else {
			ordered = append(ordered, r)
		}
		return loops
	}
	for _, r := range rows {
		visit(r)
	}
	return ordered, circles
}

// waits reports whether a row must wait for a parent, or is set aside because of a parent. A
// waiting row stays claimed. It is woken when the parent is gone, and otherwise checked again after
// the lease.
func (m *move) waits(ctx context.Context, r *row) bool {
	for _, p := range r.parents {
		switch own := m.rows[p.jid]; {
		case own != nil || p.problem && r.runsAnyway() && !r.commits:
			continue
		case p.problem && !r.commits:
			m.setAside(r, kindParent, qless.ErrInvalid,
				fmt.Sprintf("the job %s, which it depends on, is set aside", p.jid))
			return true
		}
		if m.mayBeCircle(r) && m.table.isCircle(ctx, r.JID) {
			m.setAside(r, "circle", qless.ErrInvalid, "the job depends on itself, by way of others")
			return true
		}
		m.pass.Left++
		return true
	}
	return false
}

// A waiting row is checked for a circle at an age of circleAge: two transactions that don't see
// each other can make a circle. A pass checks about circleChecks rows, chosen at random.
const (
	circleAge    = time.Minute
	circleChecks = 20
)

func (m *move) mayBeCircle(r *row) bool {
	return m.claim.time().Sub(r.created) > circleAge && rand.IntN(len(m.rows)) < circleChecks
}

// countApart returns the number of rows for one script: up to a row with a parent that may be left
// out, and up to the commit of a batch.
func (m *move) countApart(rows []*row) int {
	earlier := map[string]bool{}
	for i, r := range rows {
		apart := r.commits && i > 0
		for _, p := range r.parents {
			own := m.rows[p.jid]
			apart = apart || earlier[p.jid] && (own.Options.Unique != nil || own.Options.OpensBatch)
		}
		if apart {
			return i
		}
		if r.commits {
			return 1
		}
		earlier[r.JID] = true
	}
	return len(rows)
}

// send puts rows with as few scripts as possible.
func (m *move) send(ctx context.Context, rows []*row) {
	for rows = m.ready(rows); len(rows) > 0; rows = m.ready(rows) {
		if m.finished || time.Since(m.began) > m.config.Lease/2 {
			m.finished = true
			m.pass.Left += len(rows)
			m.unsent = append(m.unsent, rows...)
			return
		}
		m.step("put")
		if rows[0].commits {
			m.commit(ctx, rows[0])
			rows = rows[1:]
			continue
		}
		puts := make([]inside.Put, len(rows))
		for i, r := range rows {
			puts[i] = r.Put
		}
		n, found, err := inside.PutOnce(ctx, m.client, puts)
		if err != nil {
			m.fail(ctx, rows, n, err)
			return
		}
		m.succeed(rows[:n], found)
		rows = rows[n:]
	}
}

// ready leaves out rows with parents in the pass that were not put.
func (m *move) ready(rows []*row) []*row {
	at := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(rows), func(r *row) bool {
		for _, p := range r.parents {
			if own := m.rows[p.jid]; own != nil && !m.put[p.jid] && !at[p.jid] && !m.yields(r, own) {
				return true
			}
		}
		at[r.JID] = true
		return false
	})
}

// yields reports whether a row can be put although a parent was not put. If not, the row is left to
// wait, or set aside.
func (m *move) yields(r, other *row) bool {
	for _, f := range m.fates {
		if f.jid != other.JID {
			continue
		}
		if r.runsAnyway() && (f.kind == "" || !r.commits) {
			return true
		}
		if !r.commits {
			child := f.ofChild(r.JID)
			m.setAside(r, child.kind, child.code, child.message)
			return false
		}
	}
	m.pass.Left++
	if m.finished {
		m.unsent = append(m.unsent, r)
	}
	return false
}

// succeed notes that jobs were put, or found.
func (m *move) succeed(rows []*row, found []inside.Found) {
	left := map[int]inside.Found{}
	for _, f := range found {
		if f.State != "replaced" {
			left[f.At] = f
		}
	}
	for i, r := range rows {
		f, isLeft := left[i]
		switch {
		case !isLeft:
			m.pass.Put++
		case f.JID != r.JID:
			m.pass.Known++
			m.fates = append(m.fates, fate{jid: r.JID, code: qless.ErrExists, holder: f.JID,
				message: fmt.Sprintf("the job was not put: the job %s holds its unique key", f.JID)})
			continue
		default:
			m.pass.Known++
		}
		m.done(r)
	}
}

// done notes that a row is settled.
func (m *move) done(r *row) {
	m.put[r.JID] = true
	m.gone = append(m.gone, r)
}

// setAside notes that a row is set aside.
func (m *move) setAside(r *row, kind string, code qless.Code, problem string) {
	m.config.Logger.Error("outbox: a job is set aside",
		"jid", r.JID, "queue", r.Queue, "klass", r.Klass, "problem", problem)
	m.pass.Problems++
	m.fates = append(m.fates, fate{jid: r.JID, kind: kind, code: code, message: storable(problem)})
}

// commit commits a batch.
func (m *move) commit(ctx context.Context, r *row) {
	err := m.client.Batch(r.batch).Commit(ctx)
	if err == nil || errors.Is(err, qless.ErrNotFound) || errors.Is(err, qless.ErrNotDepending) {
		m.pass.Put++ // or the batch was canceled
		m.done(r)
		return
	}
	m.fail(ctx, []*row{r}, 1, err)
}

// fail handles an error of a script for the first n of several rows, of which none was put. If one
// of the rows may be the cause, fail puts each half, until only that row is refused.
func (m *move) fail(ctx context.Context, rows []*row, n int, err error) {
	answer := answerOf(err)
	if answer == away || answer == refusesAll {
		m.note(err)
		m.finished = true
		m.pass.Left += len(rows)
		m.unsent = append(m.unsent, rows...)
		return
	}
	if len(rows) > 1 {
		if n == 0 {
			n = len(rows) // none was sent
		}
		half := max(n/2, 1)
		m.send(ctx, rows[:half])
		m.send(ctx, rows[half:])
		return
	}
	r := rows[0]
	if answer == never || answer == later && r.tries >= maxTries {
		code := qless.ErrInvalid
		var cause *qless.Error
		if errors.As(err, &cause) {
			code = cause.Code
		}
		m.setAside(r, string(code), code, err.Error())
		return
	}
	m.pass.Left++
	m.refused = append(m.refused, r)
}

// end settles the rows in the database. A stopping relay waits a little for that.
func (m *move) end(ctx context.Context) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { pause(own, patience); cancel() })()
	ctx = own
	m.step("delete")
	if len(m.gone)+len(m.fates) > 0 {
		before := len(m.fates)
		fates, err := m.table.finish(ctx, m.claim, m.gone, m.fates)
		m.note(err)
		if err == nil {
			m.pass.Problems += max(len(fates)-before, 0)
			m.step("settle")
			m.note(m.settle(ctx, fates))
		}
	}
	m.note(m.table.release(ctx, m.claim, numbersOf(m.unsent)))
	m.note(m.table.postpone(ctx, m.claim, m.refused))
}

// settle wakes the rows waiting for settled rows, and lets the server forget the receipts.
func (m *move) settle(ctx context.Context, fates []fate) error {
	var jids, receipts []any
	for _, r := range m.gone {
		if jids = append(jids, r.JID); !r.commits {
			receipts = append(receipts, r.JID)
		}
	}
	for _, f := range fates {
		jids = append(jids, f.jid)
	}
	if err := m.table.wake(ctx, jids); err != nil {
		return err
	}
	if err := m.publish(ctx, fates); err != nil || len(receipts) == 0 {
		return err
	}
	_, err := m.client.Do(ctx, "put.settled", receipts...)
	return err
}
