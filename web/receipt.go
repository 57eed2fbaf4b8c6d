package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/qless/qless-go"
)

// A receipt keeps jobs that were canceled, so that they can be put again.
type receipt struct {
	ID    string
	Began time.Time
	site  *site
	most  receiptSize

	mu    sync.Mutex
	jobs  []*qless.Job
	sizes []int
	bytes int
}

// A receiptSize is how much a receipt has.
type receiptSize struct{ jobs, bytes int }

// maxReceipt is how much a receipt has at most.
var maxReceipt = receiptSize{jobs: 100_000, bytes: 64 << 20}

// How many receipts are kept, and how many of them may have the greatest size.
const (
	maxReceipts  = 20
	fullReceipts = 4
)

// reserve keeps jobs that are about to be canceled. If they are too many, it keeps none.
func (p *receipt) reserve(jobs []*qless.Job) error {
	sizes, sum := make([]int, len(jobs)), 0
	for i, job := range jobs {
		line, err := lineOf(job)
		if err != nil {
			return err
		}
		sizes[i] = len(line)
		sum += len(line)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.jobs)+len(jobs) > p.most.jobs {
		return fmt.Errorf("stopped, because a receipt has at most %s jobs: "+
			"download it, and cancel the rest after that", number(p.most.jobs))
	}
	if p.bytes+sum > p.most.bytes {
		return fmt.Errorf("stopped, because a receipt has at most %d MiB: "+
			"download it, and cancel the rest after that", p.most.bytes>>20)
	}
	p.jobs, p.sizes, p.bytes = append(p.jobs, jobs...), append(p.sizes, sizes...), p.bytes+sum
	return nil
}

// drop drops jobs that were not canceled.
func (p *receipt) drop(left map[string]*qless.Error) {
	if len(left) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := 0
	for i, job := range p.jobs {
		if left[job.JID] != nil {
			p.bytes -= p.sizes[i]
			continue
		}
		p.jobs[kept], p.sizes[kept] = job, p.sizes[i]
		kept++
	}
	clear(p.jobs[kept:])
	p.jobs, p.sizes = p.jobs[:kept], p.sizes[:kept]
}

func (p *receipt) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.jobs)
}

func (p *receipt) size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

func (p *receipt) all() []*qless.Job {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.jobs)
}

// lineOf returns a job as a line of JSON, which "qless job put --from" takes.
func lineOf(job *qless.Job) ([]byte, error) {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(job)
	return line.Bytes(), err
}

// receipts are the last receipts.
type receipts struct {
	mu   sync.Mutex
	all  []*receipt
	most receiptSize // of each
}

// add keeps a receipt, and drops the oldest ones if there is too much.
func (a *receipts) add(p *receipt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sum := 0
	for _, one := range a.all {
		sum += one.size()
	}
	for len(a.all) > 0 && (len(a.all) >= maxReceipts || sum > (fullReceipts-1)*a.most.bytes) {
		sum -= a.all[0].size()
		a.all[0] = nil
		a.all = a.all[1:]
	}
	a.all = append(a.all, p)
}

func (s *site) receipt(id string) (*receipt, error) {
	a := &s.handler.receipts
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.all {
		if p.ID == id && p.site == s {
			return p, nil
		}
	}
	return nil, notFound("there is no such receipt: only the last %d are kept", maxReceipts)
}

// download sends a receipt as lines of JSON.
func (s *site) download(w http.ResponseWriter, r *http.Request) {
	if s.handler.options.Redact != nil {
		s.fail(w, r, fmt.Errorf("%w: data of jobs is hidden; the jobs can be put again", errDenied))
		return
	}
	p, err := s.receipt(r.PathValue("id"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl; charset=utf-8")
	w.Header().Set("Content-Disposition",
		`attachment; filename="canceled-`+p.Began.UTC().Format("20060102-150405")+`.jsonl"`)
	for _, job := range p.all() {
		line, err := lineOf(job)
		if err != nil {
			return
		}
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}

// restore puts the jobs of a receipt again, each after those that it waits for. Jobs that are there
// are left alone.
func restore(in *input) doOne {
	id := in.text("receipt")
	return func(ctx context.Context, run *run) error {
		p, err := run.site.receipt(id)
		if err != nil {
			return err
		}
		run.mu.Lock()
		run.done.isOne = false
		run.mu.Unlock()
		return newRestoring(run, p.all()).putAll(ctx)
	}
}

// isLongReceipt reports whether it takes long to put the jobs of a receipt again.
func isLongReceipt(s *site, in *input) bool {
	p, err := s.receipt(in.text("receipt"))
	return err == nil && p.len() > doneAtOnce
}

// A restoring puts jobs again.
type restoring struct {
	run    *run
	jobs   map[string]*qless.Job
	levels map[string]int  // one more than those of the jobs that a job waits for
	left   map[string]bool // jobs that could not be put
	order  []*qless.Job
}

func newRestoring(run *run, jobs []*qless.Job) *restoring {
	t := &restoring{
		run: run, jobs: map[string]*qless.Job{}, levels: map[string]int{}, left: map[string]bool{},
		order: jobs,
	}
	jids := make([]string, 0, len(jobs))
	for _, job := range jobs {
		t.jobs[job.JID] = job
		jids = append(jids, job.JID)
	}
	run.audit.add(jids)
	run.enter("working", len(jobs))
	for _, job := range jobs {
		t.level(job.JID)
	}
	slices.SortStableFunc(t.order, func(a, b *qless.Job) int {
		if byLevel := t.levels[a.JID] - t.levels[b.JID]; byLevel != 0 {
			return byLevel
		}
		return strings.Compare(a.Queue, b.Queue)
	})
	return t
}

// level sets the level of a job. It is 0 while it is looked for, which ends cycles.
func (t *restoring) level(jid string) int {
	if level, isKnown := t.levels[jid]; isKnown {
		return level
	}
	job := t.jobs[jid]
	if job == nil {
		return 0
	}
	t.levels[jid] = 0
	highest := 0
	for _, before := range waitsFor(job) {
		highest = max(highest, t.level(before))
	}
	t.levels[jid] = highest + 1
	return highest + 1
}

// waitsFor returns the jids of the jobs that a job waits for.
func waitsFor(job *qless.Job) []string { return slices.Concat(job.Parents, job.Dependencies) }

// putAll puts the jobs page by page. A page has jobs of one queue, none of which waits for another.
func (t *restoring) putAll(ctx context.Context) error {
	for rest := t.order; len(rest) > 0; {
		if err := t.run.isStopped(); err != nil {
			return err
		}
		n, first := 1, rest[0]
		for n < min(len(rest), doneAtOnce) && rest[n].Queue == first.Queue &&
			t.levels[rest[n].JID] == t.levels[first.JID] {
			n++
		}
		if err := t.putPage(ctx, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// putPage puts jobs of one queue, but for those that can't be put any more.
func (t *restoring) putPage(ctx context.Context, jobs []*qless.Job) error {
	jobs = slices.DeleteFunc(slices.Clone(jobs), t.isHopeless)
	for len(jobs) > 0 {
		specs := make([]qless.JobSpec, len(jobs))
		for i, job := range jobs {
			specs[i] = job.Spec()
			specs[i].Options = append(specs[i].Options, qless.IfAbsent())
		}
		_, err := t.run.site.Client.Queue(jobs[0].Queue).PutMany(ctx, specs)
		at := aboutOne(err, jobs)
		if at < 0 {
			return t.ended(jobs, err)
		}
		t.leave(jobs[at], err)
		jobs = slices.Delete(jobs, at, at+1)
	}
	return nil
}

// aboutOne returns the index of the only job that an error is about, or -1.
func aboutOne(err error, jobs []*qless.Job) int {
	var refused *qless.Error
	if !errors.As(err, &refused) || refused.Code != qless.CodeInvalid || refused.JID == "" {
		return -1
	}
	return slices.IndexFunc(jobs, func(job *qless.Job) bool { return job.JID == refused.JID })
}

// isHopeless reports whether a job waits for one that could not be put: it would not wait for that.
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
	t.run.mu.Lock()
	defer t.run.mu.Unlock()
	t.run.done.leave(job.JID, why)
}

// ended notes which jobs were put, and returns the error if it is about all of them.
func (t *restoring) ended(jobs []*qless.Job, err error) error {
	var refused *qless.Error
	there := 0
	if errors.Is(err, qless.ErrExists) && errors.As(err, &refused) {
		t.run.mu.Lock()
		for _, i := range refused.Indices {
			t.run.done.leave(jobs[i].JID, qless.ErrExists)
		}
		t.run.mu.Unlock()
		there, err = len(refused.Indices), nil
	}
	if err != nil {
		return err
	}
	t.run.mu.Lock()
	defer t.run.mu.Unlock()
	t.run.done.Count += len(jobs) - there
	return nil
}
