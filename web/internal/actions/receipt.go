package actions

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web/internal/words"
)

// A Receipt keeps canceled jobs, to put them again.
type Receipt struct {
	ID    string
	Began time.Time

	space *Space
	most  ReceiptSize
	mu    sync.Mutex
	jobs  []*qless.Job
	bytes int
}

// A ReceiptSize is the size of a receipt.
type ReceiptSize struct{ Jobs, Bytes int }

// The maximum number of receipts, and of receipts with the maximum size.
const (
	maxReceipts  = 20
	fullReceipts = 4
)

// newReceipt returns a new receipt of a run, and drops the oldest receipts if there are too many.
func (h *History) newReceipt(r *Run) *Receipt {
	receipt := &Receipt{ID: r.ID, Began: r.now.Began, space: r.Space, most: h.MaxReceipt}
	h.mu.Lock()
	defer h.mu.Unlock()
	sum := 0
	for _, one := range h.receipts {
		sum += one.size().Bytes
	}
	for len(h.receipts) > 0 &&
		(len(h.receipts) >= maxReceipts || sum > (fullReceipts-1)*h.MaxReceipt.Bytes) {
		sum -= h.receipts[0].size().Bytes
		h.receipts = slices.Delete(h.receipts, 0, 1)
	}
	h.receipts = append(h.receipts, receipt)
	return receipt
}

// Receipt returns a receipt of a namespace.
func (h *History) Receipt(s *Space, id string) (*Receipt, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, receipt := range h.receipts {
		if receipt.ID == id && receipt.space == s {
			return receipt, nil
		}
	}
	return nil, notFound("there is no such receipt: only the last %d are kept", maxReceipts)
}

// checkRoom returns an error if the receipt has no room for jobs about to be canceled.
func (p *Receipt) checkRoom(jobs []*qless.Job) error {
	sum, err := sizeOf(jobs)
	if err != nil {
		return err
	}
	has := p.size()
	if has.Jobs+len(jobs) > p.most.Jobs {
		return fmt.Errorf("stopped, because a receipt has at most %s jobs: "+
			"download it, and cancel the rest after that", words.Number(p.most.Jobs))
	}
	if has.Bytes+sum > p.most.Bytes {
		return fmt.Errorf("stopped, because a receipt has at most %d MiB: "+
			"download it, and cancel the rest after that", p.most.Bytes>>20)
	}
	return nil
}

// add keeps jobs, except for skipped ones.
func (p *Receipt) add(jobs []*qless.Job, left map[string]*qless.Error) {
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(job *qless.Job) bool {
		return left[job.JID] != nil
	})
	sum, _ := sizeOf(jobs)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.jobs, p.bytes = append(p.jobs, jobs...), p.bytes+sum
}

// sizeOf returns the size of jobs in a receipt.
func sizeOf(jobs []*qless.Job) (sum int, err error) {
	for _, job := range jobs {
		line, err := lineOf(job)
		if err != nil {
			return 0, err
		}
		sum += len(line)
	}
	return sum, nil
}

func (p *Receipt) size() ReceiptSize {
	p.mu.Lock()
	defer p.mu.Unlock()
	return ReceiptSize{len(p.jobs), p.bytes}
}

func (p *Receipt) all() []*qless.Job {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.jobs)
}

// Write writes the jobs as lines of JSON, for "qless job put --from".
func (p *Receipt) Write(w io.Writer) error {
	for _, job := range p.all() {
		line, err := lineOf(job)
		if err != nil {
			return err
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

func lineOf(job *qless.Job) ([]byte, error) {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(job)
	return line.Bytes(), err
}

// isLongReceipt reports whether putting the jobs of a receipt again may take long.
func isLongReceipt(s *Space, f *Form) bool {
	p, err := s.History.Receipt(s, f.Get("receipt"))
	return err == nil && p.size().Jobs > doneAtOnce
}

// A restore puts the jobs of a receipt again, each after its parents. Existing jobs are not
// changed.
type restore struct{}

func (restore) Check(*Form) {}

func (restore) Do(ctx context.Context, r *Run, _ []*qless.Job) (inspect.Repair, error) {
	p, err := r.Space.History.Receipt(r.Space, r.Form.Get("receipt"))
	if err != nil {
		return inspect.Repair{}, err
	}
	t := &restoring{
		run: r, jobs: map[string]*qless.Job{}, levels: map[string]int{}, left: map[string]bool{},
	}
	all := p.all()
	jids := jidsOf(all)
	for _, job := range all {
		t.jobs[job.JID] = job
	}
	r.selects(jids)
	r.enter("working", len(jids))
	return inspect.Repair{}, t.putAll(ctx, all)
}

// A restoring puts jobs again.
type restoring struct {
	run    *Run
	jobs   map[string]*qless.Job
	levels map[string]int  // of jobs; a job is above all its parents
	left   map[string]bool // jobs with a failed put
}

// level returns the level of a job: 0 while being determined, which ends cycles.
func (t *restoring) level(jid string) int {
	job, level := t.jobs[jid], t.levels[jid]
	if _, isKnown := t.levels[jid]; isKnown || job == nil {
		return level
	}
	t.levels[jid] = 0
	for _, before := range waitsFor(job) {
		level = max(level, t.level(before))
	}
	t.levels[jid] = level + 1
	return level + 1
}

// waitsFor returns the jids of a job's parents.
func waitsFor(job *qless.Job) []string {
	return slices.Concat(job.Options.Parents, job.Dependencies)
}

// putAll puts the jobs page by page. The jobs of a page are for one queue and do not depend on each
// other.
func (t *restoring) putAll(ctx context.Context, jobs []*qless.Job) error {
	compare := func(a, b *qless.Job) int {
		return cmp.Or(t.level(a.JID)-t.level(b.JID), cmp.Compare(a.Queue, b.Queue))
	}
	slices.SortStableFunc(jobs, compare)
	for len(jobs) > 0 {
		if err := t.run.checkStopped(); err != nil {
			return err
		}
		n := 1
		for n < min(len(jobs), doneAtOnce) && compare(jobs[n], jobs[0]) == 0 {
			n++
		}
		if err := t.putPage(ctx, slices.Clone(jobs[:n])); err != nil {
			return err
		}
		jobs = jobs[n:]
	}
	return nil
}

// putPage puts jobs of one queue, except for jobs that can no longer be put.
func (t *restoring) putPage(ctx context.Context, jobs []*qless.Job) error {
	jobs = slices.DeleteFunc(jobs, t.isHopeless)
	for len(jobs) > 0 {
		specs := make([]qless.JobSpec, len(jobs))
		for i, job := range jobs {
			specs[i] = job.Spec()
			specs[i].Options = append(specs[i].Options, qless.IfAbsent)
		}
		_, err := t.run.Space.Client.Queue(jobs[0].Queue).PutMany(ctx, specs)
		var refused *qless.Error
		errors.As(err, &refused)
		switch {
		case err == nil:
			t.run.add(inspect.Repair{Changed: len(jobs)})
			return nil
		case refused == nil:
			return err
		case refused.Code == qless.ErrExists:
			t.run.change(func(done *Outcome) {
				for _, i := range refused.Indices {
					done.leave(jobs[i].JID, qless.ErrExists)
				}
				done.Changed += len(jobs) - len(refused.Indices)
			})
			return nil
		}
		at := slices.IndexFunc(jobs, func(job *qless.Job) bool { return job.JID == refused.JID })
		if refused.Code != qless.ErrInvalid || refused.JID == "" || at < 0 {
			return err
		}
		t.leave(jobs[at], err)
		jobs = slices.Delete(jobs, at, at+1)
	}
	return nil
}

// isHopeless reports whether a job waits for a job that could not be put.
func (t *restoring) isHopeless(job *qless.Job) bool {
	for _, before := range waitsFor(job) {
		if t.left[before] {
			t.leave(job, fmt.Errorf("it waits for %s, which could not be put again", before))
			return true
		}
	}
	return false
}

func (t *restoring) leave(job *qless.Job, why error) {
	t.left[job.JID] = true
	t.run.change(func(done *Outcome) { done.leave(job.JID, why) })
}
