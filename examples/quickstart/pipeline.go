package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"slices"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// A file is the data of a file's job: a path at first, and more after each stage.
type file struct {
	Path      string `json:"path"`
	Bytes     int    `json:"bytes,omitempty"`
	Hash      string `json:"hash,omitempty"`
	Lines     int    `json:"lines,omitempty"`
	Functions int    `json:"functions,omitempty"`
	Problem   string `json:"problem,omitempty"` // why some results are missing
}

// The klasses of the jobs.
var (
	fileKlass   = qless.NewKlass[file]("File")
	reportKlass = qless.NewKlass[reportOrder]("Report")
)

// A pipeline is one run over some files.
type pipeline struct {
	client *qless.Client
	worker *qless.Worker
	out    io.Writer
	id     string
	jids   []string // of all jobs put, the report last
}

// The stages of a pipeline. Each stage is a queue.
const (
	hashStage   = "hash"
	countStage  = "count"
	reportStage = "report"
)

var stages = []string{hashStage, countStage, reportStage}

func newPipeline(client *qless.Client, out io.Writer) (*pipeline, error) {
	p := &pipeline{client: client, out: out, id: rand.Text()[:8]}
	var queues []string
	for _, stage := range stages {
		queues = append(queues, p.queue(stage).Name())
	}
	var err error
	p.worker, err = qless.NewWorker(client, qless.WorkerConfig{Queues: queues, Concurrency: 8})
	if err != nil {
		return nil, err
	}
	fileKlass.Handle(p.worker, p.file)
	reportKlass.Handle(p.worker, p.report)
	return p, nil
}

// queue returns the queue of a stage. Each run has separate queues, to keep two runs on one server
// from taking each other's jobs.
func (p *pipeline) queue(stage string) *qless.Queue {
	return p.client.Queue(stage + "-" + p.id)
}

// run puts the jobs, runs them, and prints the server's statistics.
func (p *pipeline) run(ctx context.Context, paths []string, leftOut int) error {
	if err := p.put(ctx, paths, leftOut); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := p.worker.Start(ctx); err != nil {
		return err
	}
	result, err := p.client.Wait(ctx, p.jids[len(p.jids)-1])
	if err := p.worker.Drain(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	if result.State == qless.StateFailed {
		return fmt.Errorf("the report failed: %s", result.Failure.Message)
	}
	return p.printStats(ctx)
}

// put puts a job for each file, and the report, a child of all files.
func (p *pipeline) put(ctx context.Context, paths []string, leftOut int) error {
	jobs := make([]qless.JobSpec, len(paths))
	for i, path := range paths {
		jobs[i] = fileKlass.Spec(file{Path: path})
	}
	var err error
	if p.jids, err = p.queue(hashStage).PutMany(ctx, jobs); err != nil {
		return err
	}
	order := reportOrder{Files: p.jids, LeftOut: leftOut}
	jid, err := reportKlass.Put(ctx, p.queue(reportStage), order, qless.DependsOn(p.jids))
	if err != nil {
		return err
	}
	p.jids = append(p.jids, jid)
	fmt.Fprintf(p.out, "put %d files and a report that depends on them\n", len(paths))
	return nil
}

// file runs a file's job in its current queue. The job of an unreadable file is completed with the
// problem as its result: a failed job would keep the report waiting.
func (p *pipeline) file(_ context.Context, job *qless.Job, f file) error {
	content, err := os.ReadFile(f.Path)
	if err != nil {
		f.Problem = err.Error()
		return job.SetData(f)
	}
	if job.Queue == p.queue(hashStage).Name() {
		sum := sha256.Sum256(content)
		f.Bytes, f.Hash = len(content), hex.EncodeToString(sum[:])
		if err := job.SetData(f); err != nil {
			return err
		}
		return qless.Next(p.queue(countStage).Name())
	}
	f.count(content)
	return job.SetData(f)
}

// count counts a file's lines and functions. In invalid Go, it counts the functions recognized by
// the parser.
func (f *file) count(content []byte) {
	f.Lines = bytes.Count(content, []byte("\n"))
	parsed, err := parser.ParseFile(token.NewFileSet(), f.Path, content, parser.SkipObjectResolution)
	if err != nil {
		f.Problem = err.Error()
	}
	for _, declaration := range parsed.Decls {
		if _, isFunction := declaration.(*ast.FuncDecl); isFunction {
			f.Functions++
		}
	}
}

// tidy cancels the jobs of a run that ended before its report, and removes the queues from the list
// of known queues. Completed jobs stay until they expire on the server.
func (p *pipeline) tidy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var err error
	if len(p.jids) > 0 {
		jids := slices.Clone(p.jids)
		slices.Reverse(jids)                                     // the report depends on the others
		_, err = inspect.New(p.client).JIDs(jids...).Cancel(ctx) // completed jobs are left alone
	}
	for _, stage := range stages {
		err = errors.Join(err, inspect.New(p.client).ForgetQueue(ctx, p.queue(stage).Name()))
	}
	return err
}
