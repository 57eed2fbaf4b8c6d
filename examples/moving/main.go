// Moving moves the jobs of a running asynq or Sidekiq into qless, each exactly once: waiting,
// scheduled and retried jobs. Moving may be run again at any time, even after being killed.
//
//	cd examples/moving
//	go run . -from asynq -redis redis://localhost:6379 -to redis://localhost:6379
//
// The queues keep their names. A job that can't be moved is left in place, and listed at the end;
// the exit status is then 1. See docs/moving.md.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/signal"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
)

// settings are the flags.
type settings struct {
	from          string // asynq or sidekiq
	fromNamespace string // prefix of the keys, without the colon
	old           string // the URL of the old Redis
	to            string // the URL of the Redis of qless
	namespace     string // the namespace there
}

func main() {
	var s settings
	flag.StringVar(&s.from, "from", "", "asynq or sidekiq")
	flag.StringVar(&s.fromNamespace, "from-namespace", "", "the namespace of redis-namespace, if any")
	flag.StringVar(&s.old, "redis", "redis://localhost:6379", "the URL of its Redis")
	flag.StringVar(&s.to, "to", "redis://localhost:6379", "the URL of the Redis of qless")
	flag.StringVar(&s.namespace, "namespace", "", "the namespace there (default ql:)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	done, err := run(ctx, s)
	done.print(os.Stdout)
	if err != nil {
		log.Fatal(err)
	}
	if len(done.left) > 0 {
		os.Exit(1)
	}
}

// run moves all jobs. The report is complete even with an error.
func run(ctx context.Context, s settings) (report, error) {
	options, err := redis.ParseURL(s.old)
	if err != nil {
		return report{}, errors.New("-redis is not the URL of a Redis") // err may contain the password
	}
	rdb := redis.NewClient(options)
	defer func() { _ = rdb.Close() }()
	client, err := qless.Dial(ctx, s.to, &qless.ClientConfig{Namespace: s.namespace})
	if err != nil {
		return report{}, err
	}
	defer client.Close()
	m := newMover(rdb, client)
	switch {
	case s.from == "sidekiq":
		if s.fromNamespace != "" {
			m.prefix = s.fromNamespace + ":"
		}
		err = m.moveSidekiq(ctx)
	case s.from == "asynq" && s.fromNamespace == "":
		err = m.moveAsynq(ctx)
	case s.from == "asynq":
		err = errors.New("the keys of asynq have no namespace: leave out -from-namespace")
	default:
		err = errors.New("-from is neither asynq nor sidekiq")
	}
	return m.report, err
}

// A report lists the moved jobs, and the jobs left behind.
type report struct {
	moved  int
	left   []string       // jobs left in the old system, and why
	fields map[string]int // lost fields, and the number of moved jobs that had them
}

func (r report) print(to io.Writer) {
	fmt.Fprintf(to, "moved %d jobs\n", r.moved)
	for _, field := range slices.Sorted(maps.Keys(r.fields)) {
		fmt.Fprintf(to, "%d of them without the field %s, which qless does not have\n",
			r.fields[field], field)
	}
	for _, one := range r.left {
		fmt.Fprintln(to, "left:", one)
	}
}

// A mover moves jobs from an old Redis.
type mover struct {
	report
	rdb     redis.UniversalClient
	prefix  string // of the old keys
	client  *qless.Client
	aside   map[string]bool // entries already reported as left
	refused int             // the number of puts refused in a row
	step    func() error    // for tests: an error ends the program between two steps
}

func newMover(rdb redis.UniversalClient, client *qless.Client) *mover {
	return &mover{
		report: report{fields: map[string]int{}}, rdb: rdb, client: client,
		aside: map[string]bool{}, step: func() error { return nil },
	}
}

// leave reports, once, something left in place.
func (m *mover) leave(id, name, why string) {
	if !m.aside[id] {
		m.aside[id] = true
		m.left = append(m.left, name+": "+why)
	}
}

// A job is the description of a job for qless.
type job struct {
	queue, klass string
	data         []byte // JSON, or nil
	options      []qless.PutOption
}

// freeJID returns an unused jid: an old id if possible, or else that id and a random end.
func (m *mover) freeJID(ctx context.Context, id string) (string, error) {
	_, err := m.client.Job(ctx, id)
	switch {
	case errors.Is(err, qless.ErrNotFound):
		return id, nil
	case errors.Is(err, qless.ErrUnavailable):
		return "", err
	}
	return id + "-" + rand.Text(), nil
}

// mostRefused is how many puts in a row a server may refuse before the program stops: the jobs are
// then not the reason.
const mostRefused = 10

// put puts a job with a jid that was unused when chosen. It returns the problem if the job can't be
// put. After an error, the job may or may not have been put.
func (m *mover) put(ctx context.Context, jid string, j *job) (problem string, err error) {
	var data any
	if j.data != nil {
		data = j.data
	}
	options := append(slices.Clone(j.options), qless.JID(jid), qless.IfAbsent)
	_, err = m.client.Queue(j.queue).Put(ctx, j.klass, data, options...)
	if !errors.Is(err, qless.ErrServer) {
		m.refused = 0
	} else if m.refused++; m.refused == mostRefused {
		return "", err
	}
	switch {
	case err == nil:
		m.moved++
		return "", m.step()
	case errors.Is(err, qless.ErrExists):
		return m.compare(ctx, jid, j)
	case errors.Is(err, qless.ErrInvalid), errors.Is(err, qless.ErrServer):
		return err.Error(), nil
	}
	return "", fmt.Errorf("job %s of %s in %s: %w", jid, j.klass, j.queue, err)
}

// compare compares a job with the existing job of the same jid: unless they differ, an earlier run
// has put the job.
func (m *mover) compare(ctx context.Context, jid string, j *job) (problem string, err error) {
	there, err := m.client.Job(ctx, jid)
	switch {
	case errors.Is(err, qless.ErrUnavailable):
		return "", err
	case err != nil:
		return err.Error(), nil
	case there.Klass != j.klass || j.data != nil && string(there.Data) != string(j.data):
		return "another job has the jid " + jid, nil
	}
	return "", nil
}
