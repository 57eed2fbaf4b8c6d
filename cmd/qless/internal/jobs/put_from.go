package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/text"
)

// putPage is the number of jobs put at once.
const putPage = 500

// A putFrom puts the jobs of a file.
type putFrom struct {
	*app
	path         string // or "-"
	queue, klass string // of jobs without their own
	stopOnError  bool
	left         string // the file for lines not put

	total int
	sum   putSum
	bar   *out.Progress
}

// A putSum is the outcome for the jobs of a file.
type putSum struct {
	Put   int         `json:"put"`
	JIDs  []string    `json:"jids"`            // of the jobs put
	There []string    `json:"there,omitempty"` // jids of existing jobs, left unchanged
	Wrong []wrongLine `json:"wrong,omitempty"`
	Left  int         `json:"left,omitempty"` // the number of jobs not tried
}

// A wrongLine is a line without a valid job.
type wrongLine struct {
	Line  int    `json:"line"`
	Error string `json:"error"`
}

// addPutFrom adds the flag --from to a command that puts a job. The flag puts the jobs of a file.
func (a *app) addPutFrom(command *cobra.Command) {
	p := &putFrom{app: a}
	single := pflag.NewFlagSet("", pflag.ContinueOnError)
	single.AddFlagSet(command.Flags())
	flags := command.Flags()
	flags.StringVar(&p.path, "from", "", "put the jobs of a file, or of the standard input (-)")
	flags.BoolVar(&p.stopOnError, "stop-on-error", false, "with --from: stop at an invalid line")
	flags.StringVar(&p.left, "left", "", "with --from: write the lines that were not put to this file")
	check, put := command.Args, command.RunE
	command.Args = func(command *cobra.Command, args []string) error {
		if p.path == "" {
			return check(command, args)
		}
		var other error
		single.VisitAll(func(flag *pflag.Flag) {
			if flag.Changed {
				other = fmt.Errorf("--%s can't be used with --from: the lines say it", flag.Name)
			}
		})
		return errors.Join(other, cobra.MaximumNArgs(2)(command, args))
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		if p.path == "" {
			return put(command, args)
		}
		args = append(args, "", "")
		p.queue, p.klass = args[0], args[1]
		return p.run(command.Context())
	}
}

// run puts the jobs. The server's time limit applies to each page.
func (p *putFrom) run(ctx context.Context) error {
	jobs, err := p.read()
	if err != nil {
		return err
	}
	p.total = len(jobs)
	ready := p.prepare(jobs)
	if len(p.sum.Wrong) > 0 && p.stopOnError {
		p.sum.Left = len(ready)
		return p.report(jobs, nil)
	}
	if p.DryRun {
		p.tellWrong()
		fmt.Fprintf(p.Err, "would put %s\n", text.Count(len(ready), "job"))
		return p.failure()
	}
	p.bar = p.NewProgress("job", len(ready))
	if p.JIDs && text.IsTerminal(p.Out) {
		p.bar.Out = nil // progress would be mixed with the jids
	}
	err = p.putAll(ctx, ready)
	p.bar.End()
	return p.report(jobs, err)
}

// prepare gives each job a jid, and returns the valid jobs, each after its parents.
func (p *putFrom) prepare(jobs []*fileJob) []*fileJob {
	byJID := map[string]*fileJob{}
	for _, job := range jobs {
		job.fill(p.queue, p.klass)
		other := byJID[job.JID]
		switch {
		case job.JID == "":
			id := uuid.New()
			job.JID, job.isNew = fmt.Sprintf("%x", id[:]), true
		case other == nil:
			byJID[job.JID] = job
		case job.wrong == nil:
			job.wrong = fmt.Errorf("line %d has the same jid", other.line)
		}
	}
	for _, job := range jobs {
		job.setLevel(byJID)
	}
	var ready []*fileJob
	for _, job := range jobs {
		if job.wrong == nil {
			ready = append(ready, job)
			continue
		}
		p.wrong(job, job.wrong)
	}
	slices.SortStableFunc(ready, func(a, b *fileJob) int {
		if a.level != b.level {
			return a.level - b.level
		}
		return strings.Compare(a.Queue, b.Queue)
	})
	return ready
}

func (p *putFrom) wrong(job *fileJob, err error) {
	p.sum.Wrong = append(p.sum.Wrong, wrongLine{job.line, strings.TrimPrefix(err.Error(), "qless: ")})
}

// putAll puts jobs page by page. The jobs of a page are for one queue and do not depend on each
// other.
func (p *putFrom) putAll(ctx context.Context, jobs []*fileJob) error {
	for len(jobs) > 0 {
		n, first := 1, jobs[0]
		for n < min(len(jobs), putPage) &&
			jobs[n].Queue == first.Queue && jobs[n].level == first.level {
			n++
		}
		if err := p.putPage(ctx, jobs[:n]); err != nil {
			p.sum.Left = len(jobs)
			for _, job := range jobs {
				if job.done || job.wrong != nil {
					p.sum.Left--
				}
			}
			return err
		}
		jobs = jobs[n:]
	}
	return nil
}

// errStopped is the error of a run stopped by --stop-on-error.
var errStopped = errors.New("stopped at a line that is wrong")

// putPage puts the jobs of a page, without the invalid jobs named by the server's errors.
func (p *putFrom) putPage(ctx context.Context, jobs []*fileJob) error {
	jobs, err := p.withoutWrong(jobs)
	for err == nil && len(jobs) > 0 {
		err := p.send(ctx, jobs)
		if err == nil {
			break
		}
		at := slices.IndexFunc(jobs, func(job *fileJob) bool { return isAbout(err, job.JID) })
		if at < 0 {
			return err
		}
		jobs[at].wrong = err
		if _, reason, found := strings.Cut(err.Error(), "]: "); found {
			jobs[at].wrong = errors.New(reason)
		}
		if jobs, err = p.withoutWrong(jobs); err != nil {
			return err
		}
	}
	p.bar.Add(len(jobs))
	return err
}

// withoutWrong drops the invalid jobs.
func (p *putFrom) withoutWrong(jobs []*fileJob) ([]*fileJob, error) {
	var rest []*fileJob
	var err error
	for _, job := range jobs {
		job.checkBefore()
		if job.wrong == nil {
			rest = append(rest, job)
			continue
		}
		p.wrong(job, job.wrong)
		p.bar.Add(1)
		if p.stopOnError {
			err = errStopped
		}
	}
	return rest, err
}

// isAbout reports whether an error is about an invalid job.
func isAbout(err error, jid string) bool {
	var coded *qless.Error
	return errors.As(err, &coded) && coded.Code == qless.ErrInvalid && coded.JID == jid
}

// send sends a page, and retries without harm if no answer comes: existing jobs are not changed.
func (p *putFrom) send(ctx context.Context, jobs []*fileJob) error {
	specs := make([]qless.JobSpec, len(jobs))
	for i, job := range jobs {
		specs[i] = job.spec()
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	client, err := p.Client(ctx)
	if err != nil {
		return err
	}
	const pause = 200 * time.Millisecond
	for tries := 1; ; tries++ {
		_, err = client.Queue(jobs[0].Queue).PutMany(ctx, specs)
		if !errors.Is(err, qless.ErrUnavailable) || ctx.Err() != nil {
			return p.ended(jobs, tries, err)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// ended records which jobs of a page were put, and returns an error about all jobs.
func (p *putFrom) ended(jobs []*fileJob, tries int, err error) error {
	var refused *qless.Error
	if errors.Is(err, qless.ErrExists) && errors.As(err, &refused) {
		err = nil
	}
	if err != nil {
		return err
	}
	for i, job := range jobs {
		job.done = true
		isThere := refused != nil && slices.Contains(refused.Indices, i)
		if isThere && !(job.isNew && tries > 1) { // put by an earlier try
			p.sum.There = append(p.sum.There, job.JID)
			continue
		}
		p.sum.Put++
		p.sum.JIDs = append(p.sum.JIDs, job.JID)
		if p.JIDs && !p.JSON {
			fmt.Fprintln(p.Out, job.JID)
		}
	}
	return nil
}

// report prints the outcome for each job.
func (p *putFrom) report(jobs []*fileJob, failed error) error {
	if err := p.writeLeft(jobs); err != nil {
		failed = errors.Join(failed, err)
	}
	if p.JSON {
		if err := p.Print(p.sum, nil); err != nil {
			return err
		}
	}
	p.tellWrong()
	fmt.Fprintf(p.Err, "put %s", text.Count(p.sum.Put, "job"))
	for _, part := range []struct {
		n    int
		what string
	}{
		{len(p.sum.There), "there already"}, {len(p.sum.Wrong), "wrong"}, {p.sum.Left, "not tried"},
	} {
		if part.n > 0 {
			fmt.Fprintf(p.Err, ", %d %s", part.n, part.what)
		}
	}
	fmt.Fprintln(p.Err)
	if failed != nil && failed != errStopped {
		return failed
	}
	return p.failure()
}

func (p *putFrom) tellWrong() {
	slices.SortFunc(p.sum.Wrong, func(a, b wrongLine) int { return a.Line - b.Line })
	for _, wrong := range p.sum.Wrong {
		fmt.Fprintf(p.Err, "line %d: %s\n", wrong.Line, text.Clean(wrong.Error))
	}
}

func (p *putFrom) failure() error {
	if n := len(p.sum.Wrong); n > 0 {
		return fmt.Errorf("%s of %d wrong", text.Count(n, "job"), p.total)
	}
	return nil
}

// writeLeft writes the lines not put to a file, with the jids of their jobs.
func (p *putFrom) writeLeft(jobs []*fileJob) error {
	if p.left == "" {
		return nil
	}
	var text bytes.Buffer
	for _, job := range jobs {
		if !job.done {
			text.Write(job.rawWithJID())
			text.WriteByte('\n')
		}
	}
	return os.WriteFile(p.left, text.Bytes(), 0o600)
}

// read reads all jobs of the file.
func (p *putFrom) read() ([]*fileJob, error) {
	file, err := p.Open(p.path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	return parseJobs(text), nil
}
