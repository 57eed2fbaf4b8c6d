package cli_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// other returns the env of another namespace of the server.
func (e *env) other() *env {
	other := *e
	other.environ = []string{"QLESS_NAMESPACE={other}:"}
	return &other
}

func TestADumpIsRestoredOnceOnly(t *testing.T) {
	e, client := newReal(t)
	scene(t, client)
	file := filepath.Join(t.TempDir(), "ql.dump")
	text := e.ok("dump")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	keys := strings.Count(text, "\n") - 2
	would := fmt.Sprintf("would restore 0 keys, %d are there already\n", keys)
	require.Equal(t, would, e.run("", "restore", file, "--dry-run").errors)

	other := e.other()
	require.Equal(t, fmt.Sprintf("would restore %d keys, 0 are there already\n", keys),
		other.run(text, "restore", "-", "--dry-run").errors)
	require.Equal(t, fmt.Sprintf("restored %d keys, 0 are there already\n", keys),
		other.run(text, "restore", "-").errors)
	require.Equal(t, would, other.run("", "restore", file, "--dry-run").errors)
	require.JSONEq(t, fmt.Sprintf(`{"restored": 0, "there": %d}`, keys), other.ok("restore", file, "--json"))
	for _, words := range []string{"job show failed done later --json", "limit ls --json", "config dump"} {
		require.Equal(t, e.ok(strings.Fields(words)...), other.ok(strings.Fields(words)...), words)
	}

	other.ok("job", "put", "mail", "Welcome", "--jid", "more")
	other.ok("job", "priority", "waiting", "--to", "3")
	for _, args := range [][]string{{"restore", file}, {"restore", file, "--dry-run", "--json"}} {
		r := other.run("", args...)
		require.Equal(t, 1, r.status)
		require.Contains(t, r.errors, "{other}:j:more is not in the dump, and so with 1 more\n")
		require.Contains(t, r.errors, "has other values, and so with ")
		require.Equal(t, len(args) == 4, strings.Contains(r.out, `"j:more",`), r.out)
	}
}

func TestARestoreThatIsRepeatedPausesNothing(t *testing.T) {
	e, client := newReal(t)
	scene(t, client)
	require.NoError(t, client.Queue("sms").Resume(t.Context()))
	require.NoError(t, client.Queue("mail").Pause(t.Context()))
	text := e.ok("dump")
	other := e.other()
	require.Equal(t, 0, other.run(text, "restore", "-").status)
	paused := func() string { return other.ok("queue", "ls") }
	require.Contains(t, paused(), "paused")
	other.ok("queue", "resume", "mail")
	r := other.run(text, "restore", "-")
	require.Equal(t, 0, r.status, r.errors)
	require.Contains(t, r.errors, "resumed since stay so\nrestored 0 keys, ")
	require.NotContains(t, paused(), "paused")
}

func TestFilesThatAreNoDumpsAreRefused(t *testing.T) {
	e := newEnv(t)
	r := e.run("{}", "restore", "-")
	require.Equal(t, run{2, "", "qless: -: line 1: this is not a dump\n"}, r)
	e.exits(2, "restore "+filepath.Join(t.TempDir(), "none"))
	shown, status := e.terminal("dump").typed("")
	require.Equal(t, 2, status)
	require.Contains(t, shown, "a dump is for a file")
}

// A fleet has workers on a server, and programs putting jobs there.
type fleet struct {
	t      *testing.T
	client *qless.Client

	putting sync.WaitGroup
	halt    chan struct{}
	workers []*qless.Worker
}

// A tally has the jobs put by a fleet, and counts the runs of each, on any server.
type tally struct {
	sync.Mutex
	put   []string
	tried map[string]bool
	done  map[string]int
}

func (l *tally) counts() (put, done int) {
	l.Lock()
	defer l.Unlock()
	return len(l.put), len(l.done)
}

// work starts two workers. Jobs meant to fail do so once, and are tried again.
func (f *fleet) work(all *tally, queues ...string) {
	for range 2 {
		worker := must(qless.NewWorker(f.client, qless.WorkerConfig{
			Queues: queues, Concurrency: 3, Logger: testkit.Quiet(),
			PollInterval: 100 * time.Millisecond,
		}))(f.t)
		worker.Handle("Welcome", func(_ context.Context, job *qless.Job) error {
			all.Lock()
			defer all.Unlock()
			if strings.HasPrefix(job.JID, "retried") && !all.tried[job.JID] {
				all.tried[job.JID] = true
				return errors.New("not the first time")
			}
			all.done[job.JID]++
			return nil
		})
		require.NoError(f.t, worker.Start(f.t.Context()))
		f.workers = append(f.workers, worker)
	}
}

// puts starts programs that put jobs of all kinds until stopped.
func (f *fleet) puts(all *tally, name string) {
	f.halt = make(chan struct{})
	for _, queue := range []string{"mail", "reports"} {
		f.putting.Go(func() {
			last, pace := "", time.NewTicker(3*time.Millisecond)
			defer pace.Stop()
			for i := 0; ; i++ {
				select {
				case <-f.halt:
					return
				case <-pace.C:
				}
				jid := fmt.Sprintf("%s-%s-%d", name, queue, i)
				var options []qless.PutOption
				switch i % 5 {
				case 1:
					options = append(options, qless.DependsOn{last}, qless.Tags{"after"})
				case 2:
					options = append(options, qless.Delay(50*time.Millisecond))
				case 3:
					options = append(options, qless.Limits{"shop"}, qless.Fair("ann"))
				case 4:
					jid = "retried-" + jid
				}
				_, err := f.client.Queue(queue).Put(f.t.Context(), "Welcome", i, append(options, qless.JID(jid))...)
				if err != nil {
					f.t.Errorf("put %s: %v", jid, err)
					return
				}
				last = jid
				all.Lock()
				all.put = append(all.put, jid)
				all.Unlock()
			}
		})
	}
}

func (f *fleet) stop() {
	close(f.halt)
	f.putting.Wait()
	for _, worker := range f.workers {
		require.NoError(f.t, worker.Stop(context.WithoutCancel(f.t.Context())))
	}
}

// The commands are those of docs/operations.md.
func TestANamespaceMovesWhileItWorks(t *testing.T) {
	page := must(os.ReadFile("../../../../docs/operations.md"))(t)
	block := regexp.MustCompile("(?s)<!-- moving -->\n```sh\n(.*?)```").FindSubmatch(page)
	require.NotNil(t, block)

	from, old := newReal(t)
	to, fresh := newReal(t)
	all := &tally{done: map[string]int{}, tried: map[string]bool{}}
	require.NoError(t, old.Config().Set(t.Context(), "grace-period", 0))
	require.NoError(t, old.Limit("shop").Set(t.Context(), qless.LimitConfig{Concurrency: 2}))
	from.put("slow", "Welcome", 0, qless.JID("lost"))
	from.put("slow", "Welcome", 0, qless.JID("failed"), qless.Priority(1))
	from.put("slow", "Welcome", 0, qless.JID("later"), qless.Delay(time.Hour))
	from.put("slow", "Welcome", 0, qless.JID("last"), qless.DependsOn{"later"})
	all.put = append(all.put, "lost", "failed", "later", "last")
	require.NoError(t, old.Queue("slow").SetHeartbeat(t.Context(), time.Millisecond))
	jobs := from.pop("slow", 2) // by a worker that dies with the second one
	require.NoError(t, old.Queue("slow").SetHeartbeat(t.Context(), time.Minute))
	require.Equal(t, "failed", jobs[0].JID)
	require.NoError(t, jobs[0].Fail(t.Context(), "timeout", "no answer"))
	a, b := &fleet{t: t, client: old}, &fleet{t: t, client: fresh}
	a.work(all, "mail", "reports")
	a.puts(all, "a")
	reached := func(n int) {
		testkit.Until(t, "jobs are done", func() bool { _, done := all.counts(); return done >= n })
	}
	reached(50)

	dir := t.TempDir()
	steps := map[string]func(){
		"# stop the programs that put, and the workers": func() {
			put, _ := all.counts()
			testkit.Until(t, "more is put", func() bool { now, _ := all.counts(); return now > put+50 })
			a.stop()
		},
		"# start them again, with the new server": func() {
			b.work(all, "mail", "reports", "slow")
			b.puts(all, "b")
		},
	}
	for line := range strings.Lines(string(block[1])) {
		line = strings.TrimSpace(line)
		if step := steps[line]; step != nil {
			step()
			delete(steps, line)
			continue
		}
		line, says, _ := strings.Cut(line, "#")
		line = strings.NewReplacer("redis://old", from.url, "redis://new", to.url, "'", "").Replace(line)
		words := strings.Fields(strings.TrimPrefix(line, "qless "))
		if command, file, ok := strings.Cut(line, ">"); ok {
			words = strings.Fields(strings.TrimPrefix(command, "qless "))
			out := from.ok(words...)
			require.NoError(t, os.WriteFile(filepath.Join(dir, strings.TrimSpace(file)), []byte(out), 0o600))
			continue
		}
		for i, word := range words {
			if word == "ql.dump" {
				words[i] = filepath.Join(dir, word)
			}
		}
		r := from.run("", words...)
		require.Equal(t, 0, r.status, "%s: %s", line, r.errors)
		require.Contains(t, r.errors, strings.TrimSpace(says))
	}
	require.Empty(t, steps, "comments of the page that ask for something")

	require.NoError(t, jobOf(t, fresh, "failed").Unfail(t.Context()))
	to.ok("job", "promote", "later")
	_, before := all.counts()
	reached(before + 50)
	close(b.halt)
	b.putting.Wait()
	testkit.Until(t, "all jobs are done", func() bool { put, done := all.counts(); return put == done })
	b.halt = make(chan struct{})
	b.stop()
	for _, jid := range all.put {
		require.Equal(t, 1, all.done[jid], jid)
	}
	to.ok("doctor")
}

func TestADumpIsOfOneNamespace(t *testing.T) {
	e, client := newReal(t)
	scene(t, client)
	text := e.ok("dump")
	inner, err := qless.New(client.Redis(), &qless.ClientConfig{Namespace: client.Namespace() + "eu:"})
	require.NoError(t, err)
	must(inner.Queue("mail").Put(t.Context(), "Welcome", nil, qless.JID("inner")))(t)
	r := e.run("", "dump")
	require.Equal(t, 0, r.status)
	require.Equal(t, text, r.out)
	require.Contains(t, r.errors, "left out the keys of ql:eu:")

	file := filepath.Join(t.TempDir(), "two.dump")
	require.NoError(t, os.WriteFile(file, []byte(text+text), 0o600))
	other := e.other()
	for _, words := range []string{"restore " + file, "restore " + file + " --dry-run"} {
		require.Contains(t, other.exits(2, words), "there is more after the end of the dump", words)
	}
	require.Equal(t, 2, strings.Count(other.ok("dump"), "\n"), "nothing was restored")
}
