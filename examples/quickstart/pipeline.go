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
	"time"

	"github.com/qless/qless-go"
)

// batch is how many jobs are popped, or fetched, at a time.
const batch = 50

// A file is the data of a file's job: a path at first, and more after each stage.
type file struct {
	Path      string `json:"path"`
	Bytes     int    `json:"bytes,omitempty"`
	Hash      string `json:"hash,omitempty"`
	Lines     int    `json:"lines,omitempty"`
	Functions int    `json:"functions,omitempty"`
	Problem   string `json:"problem,omitempty"` // why something of this is missing
}

// A pipeline is one run over some files.
type pipeline struct {
	client   *qless.Client
	out      io.Writer
	id       string
	stages   []stage
	jids     []string // of all jobs that were put
	reported bool
}

// A stage is what is done with the jobs of one queue.
type stage struct {
	name   string
	handle func(context.Context, *qless.Job) error
}

func newPipeline(client *qless.Client, out io.Writer) *pipeline {
	p := &pipeline{client: client, out: out, id: rand.Text()[:8]}
	p.stages = []stage{{"hash", p.hash}, {"count", p.count}, {"report", p.report}}
	return p
}

// queue returns the queue of a stage. Each run has queues of its own, so that runs on one
// server do not pop each other's jobs.
func (p *pipeline) queue(stage string) *qless.Queue {
	return p.client.Queue(stage + "-" + p.id)
}

func (p *pipeline) run(ctx context.Context, paths []string, leftOut int) error {
	if err := p.put(ctx, paths, leftOut); err != nil {
		return err
	}
	if err := p.work(ctx); err != nil {
		return err
	}
	return p.printStats(ctx)
}

// put puts a job for each file, and the report that waits for all of them.
func (p *pipeline) put(ctx context.Context, paths []string, leftOut int) error {
	for _, path := range paths {
		jid, err := p.queue("hash").Put(ctx, "File", file{Path: path})
		if err != nil {
			return err
		}
		p.jids = append(p.jids, jid)
	}
	fmt.Fprintf(p.out, "put %d files into hash\n", len(paths))
	order := reportOrder{Files: p.jids, LeftOut: leftOut}
	jid, err := p.queue("report").Put(ctx, "Report", order, qless.DependsOn(p.jids...))
	if err != nil {
		return err
	}
	p.jids = append(p.jids, jid)
	return nil
}

// work asks one queue after the other for jobs until the report is done. Nobody else puts
// jobs here, so a round that finds none before that will not be followed by a better one.
func (p *pipeline) work(ctx context.Context) error {
	for !p.reported {
		found := 0
		for _, stage := range p.stages {
			jobs, err := p.queue(stage.name).Pop(ctx, batch)
			if err != nil {
				return err
			}
			if len(jobs) > 0 {
				fmt.Fprintf(p.out, "popped %d from %s\n", len(jobs), stage.name)
			}
			for _, job := range jobs {
				if err := stage.handle(ctx, job); err != nil {
					return err
				}
			}
			found += len(jobs)
		}
		if found == 0 {
			return errors.New("the report waits for jobs that nobody can pop")
		}
	}
	return nil
}

// hash is the first stage. A file that can't be read is complete here, with its problem as
// the result: a failed job would keep the report waiting until someone puts it back.
func (p *pipeline) hash(ctx context.Context, job *qless.Job) error {
	var f file
	if err := job.Unmarshal(&f); err != nil {
		return err
	}
	content, err := os.ReadFile(f.Path)
	if err != nil {
		f.Problem = err.Error()
		return complete(ctx, job, f)
	}
	sum := sha256.Sum256(content)
	f.Bytes, f.Hash = len(content), hex.EncodeToString(sum[:])
	if err := job.SetData(f); err != nil {
		return err
	}
	return job.Next(ctx, p.queue("count").Name())
}

// count is the second stage. A file that is not good Go still has lines, and what functions
// the parser makes out.
func (p *pipeline) count(ctx context.Context, job *qless.Job) error {
	var f file
	if err := job.Unmarshal(&f); err != nil {
		return err
	}
	content, err := os.ReadFile(f.Path)
	if err != nil {
		f.Problem = err.Error()
		return complete(ctx, job, f)
	}
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
	return complete(ctx, job, f)
}

// complete saves what a stage found out and ends the job.
func complete(ctx context.Context, job *qless.Job, f file) error {
	if err := job.SetData(f); err != nil {
		return err
	}
	return job.Complete(ctx)
}

// tidy cancels the jobs of a run that was ended before its report, and takes the queues off
// the list of known ones. Completed jobs stay until the server's settings end them.
func (p *pipeline) tidy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var err error
	if !p.reported && len(p.jids) > 0 {
		err = p.client.Cancel(ctx, p.jids...)
	}
	for _, stage := range p.stages {
		err = errors.Join(err, p.queue(stage.name).Forget(ctx))
	}
	return err
}
