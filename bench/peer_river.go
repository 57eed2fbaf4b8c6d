package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// postgres is a Postgres with River's tables, in a temporary folder. Like the other peers' Redis,
// it does not wait for the disk at the end of a transaction.
type postgres struct {
	folder  string
	process *process
	pool    *pgxpool.Pool
}

// startPostgres starts a Postgres. It returns an error if Postgres is not installed.
func startPostgres(ctx context.Context) (_ *postgres, err error) {
	p := &postgres{}
	defer func() {
		if err != nil {
			p.remove()
		}
	}()
	if p.folder, err = os.MkdirTemp("", "postgres-"); err != nil {
		return nil, err
	}
	addrs, err := freeAddrs(1)
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addrs[0])
	initdb, err := p.command("initdb", "--auth", "trust", "--username", "bench", "--no-sync")
	if err != nil {
		return nil, err
	}
	if output, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, output)
	}
	serve, err := p.command("postgres", "-p", port, "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "synchronous_commit=off",
		"-c", "max_connections=300", "-c", "shared_buffers=256MB", "-c", "log_min_messages=fatal")
	if err != nil {
		return nil, err
	}
	if p.process, err = start(serve); err != nil {
		return nil, err
	}
	p.pool, err = pgxpool.New(ctx, "postgres://bench@"+addrs[0]+"/postgres?pool_max_conns=200")
	if err != nil {
		return nil, err
	}
	err = p.process.ready(ctx, func() (bool, error) { return p.pool.Ping(ctx) == nil, nil })
	if err != nil {
		return nil, err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(p.pool), nil)
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	return p, err
}

// command returns the command that runs a Postgres program on the folder. Postgres does not run as
// root.
func (p *postgres) command(name string, args ...string) (*exec.Cmd, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
		if len(found) == 0 {
			return nil, fmt.Errorf("%w (apt-get install postgresql)", err)
		}
		path = found[len(found)-1]
	}
	command := exec.Command(path, append([]string{"-D", p.folder}, args...)...)
	command.Dir = p.folder
	if os.Geteuid() != 0 {
		return command, nil
	}
	owner, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(owner.Uid)
	if err != nil {
		return nil, err
	}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid)}}
	return command, os.Chown(p.folder, uid, -1)
}

func (p *postgres) remove() {
	if p.pool != nil {
		p.pool.Close()
	}
	if p.process != nil {
		_ = p.process.command.Process.Signal(syscall.SIGINT)
		<-p.process.done
	}
	_ = os.RemoveAll(p.folder)
}

// cpu returns the CPU time of all processes of the server, including ended ones.
func (p *postgres) cpu() (time.Duration, error) {
	own := p.process.command.Process.Pid
	all, err := cpuOf(own, true)
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", own))
	for _, child := range strings.Fields(string(children)) {
		if pid, err := strconv.Atoi(child); err == nil {
			used, _ := cpuOf(pid, false) // the process may have ended
			all += used
		}
	}
	return all, err
}

// size returns the size of the jobs on disk, in bytes.
func (p *postgres) size(ctx context.Context) (size int64, err error) {
	row := p.pool.QueryRow(ctx, "SELECT pg_total_relation_size('river_job')")
	return size, row.Scan(&size)
}

// riverArgs are the arguments of a job of River.
type riverArgs struct {
	Data json.RawMessage `json:"data"`
}

// Kind returns the kind of the jobs.
func (riverArgs) Kind() string { return klass }

// riverSession is github.com/riverqueue/river.
type riverSession struct {
	*postgres
	load    load
	bulk    bool
	putter  *river.Client[pgx.Tx]
	workers []*river.Client[pgx.Tx]
}

// open returns a function that opens sessions, which put jobs singly or in bulk.
func (p *postgres) open(bulk bool) func(context.Context, *server, load) (session, error) {
	return func(ctx context.Context, _ *server, l load) (session, error) {
		if _, err := p.pool.Exec(ctx, "TRUNCATE river_job"); err != nil {
			return nil, err
		}
		putter, err := river.NewClient(riverpgxv5.New(p.pool), &river.Config{})
		return &riverSession{postgres: p, load: l, bulk: bulk, putter: putter}, err
	}
}

func (s *riverSession) enqueue(ctx context.Context, jobs int) error {
	args := riverArgs{json.RawMessage(s.load.payload)}
	if !s.bulk {
		return parallel(s.load.concurrency, jobs, func(int) error {
			_, err := s.putter.Insert(ctx, args, nil)
			return err
		})
	}
	return parallel(s.load.concurrency, (jobs+bulkSize-1)/bulkSize, func(i int) error {
		batch := make([]river.InsertManyParams, min(bulkSize, jobs-i*bulkSize))
		for j := range batch {
			batch[j].Args = args
		}
		_, err := s.putter.InsertManyFast(ctx, batch)
		return err
	})
}

// work starts workers that fetch as often as River allows, not ten times a second as by default.
func (s *riverSession) work(_ context.Context, to *crew) error {
	to.poll = 20 * time.Millisecond // counting has a cost
	for i := range s.load.workers {
		workers := river.NewWorkers()
		river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[riverArgs]) error {
			to.handled()
			return nil
		}))
		client, err := river.NewClient(riverpgxv5.New(s.pool), &river.Config{
			FetchCooldown: river.FetchCooldownMin,
			ID:            fmt.Sprint("worker-", i),
			Logger:        slog.New(slog.DiscardHandler),
			Queues:        map[string]river.QueueConfig{"default": {MaxWorkers: s.load.concurrency}},
			Workers:       workers,
		})
		if err != nil {
			return err
		}
		if err := client.Start(context.Background()); err != nil {
			return err
		}
		s.workers = append(s.workers, client)
	}
	return nil
}

func (s *riverSession) done(ctx context.Context) (count int, err error) {
	row := s.pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state = 'completed'")
	return count, row.Scan(&count)
}

func (s *riverSession) close() error {
	return errors.Join(each(s.workers, func(w *river.Client[pgx.Tx]) error {
		return w.Stop(context.Background())
	}))
}
