package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
)

// An endurance is a soak test. This process has two workers, the goroutines that put jobs, and the
// gateways' clients. Other processes have the gateways with the dashboard, and a worker killed now
// and then.
type endurance struct {
	*bench
	client   *qless.Client
	gateways *process
	metrics  string
	doomed   *process
	kills    int
	samples  map[string][]size // by name of the process

	// Each task ends with one of these contexts. Putting ends first.
	putting, working context.Context
	stopPutting      context.CancelFunc
	stopWorking      context.CancelFunc
	tasks            sync.WaitGroup
	odd              func(err error) // records failures
}

// A size holds the sizes of everything at one moment, by name.
type size map[string]float64

// soakFor is the duration of the soak.
var soakFor = flag.Duration("soak", 5*time.Second, "how long to soak")

// soakRate is the approximate number of jobs put per second.
const soakRate = 60

func TestNothingGrowsOrIsLeft(t *testing.T) {
	o := tiny("gateways")
	o.peers = names{"qless-lmstfy"}
	o.lasting = *soakFor
	b, err := newBench(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(b.close)
	noLog := workload{redis: []string{"--slowlog-max-len", "0"}} // it would grow
	require.NoError(t, b.start(t.Context(), noLog))
	var table bytes.Buffer
	r := &report{workload: "soak", out: &table}
	failed := soak(t.Context(), b, r)
	require.NoError(t, r.write())
	t.Log(table.String())
	require.NoError(t, failed)
	require.Positive(t, values(r.figures, "workers killed")[0])
}

func TestGrowthAfterTheFirstTenthIsAnError(t *testing.T) {
	e := &endurance{bench: &bench{options: &options{}}, samples: map[string][]size{}}
	for i := range 100 {
		e.samples["a"] = append(e.samples["a"], size{"goroutines": float64(100 - min(i, 10))})
	}
	require.NoError(t, e.judge(&report{}))
	for i := range 100 {
		e.samples["b"] = append(e.samples["b"], size{"goroutines": float64(i)})
	}
	require.EqualError(t, e.judge(&report{}), "goroutines of b: 60 more")
}

// soak works for a long time, and fails if something grows, if jobs do not end, or if leftovers
// remain.
func soak(ctx context.Context, b *bench, r *report) (failed error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	e := &endurance{bench: b, samples: map[string][]size{}, odd: func(err error) {
		if err != nil && ctx.Err() == nil {
			stop(err)
		}
	}}
	e.working, e.stopWorking = context.WithCancel(ctx)
	e.putting, e.stopPutting = context.WithCancel(e.working)
	c, err := newCrowd(b.server, 1, qless.ClientConfig{})
	if err != nil {
		return err
	}
	e.client = c.clients[0]
	defer func() {
		e.stopWorking()
		e.tasks.Wait()
		for _, p := range []*process{e.gateways, e.doomed} {
			if p != nil {
				p.kill()
			}
		}
		failed = errors.Join(failed, c.dismiss())
	}()
	if err := e.start(ctx, c); err != nil {
		return err
	}
	if err := e.endure(ctx); err != nil {
		return err
	}
	return errors.Join(e.finish(ctx), e.examine(ctx), e.judge(r))
}

func (e *endurance) start(ctx context.Context, c *crowd) error {
	failed := errors.Join(
		e.client.Config().Set(ctx, "jobs-history-count", 100),
		e.client.Config().Set(ctx, "heartbeat", 5),
	)
	for name, config := range soakLimits {
		failed = errors.Join(failed, e.client.Limit(name).Set(ctx, config))
	}
	_, err := e.client.Queue("soak-a").Recur(ctx, klassRecurs, data, 200*time.Millisecond,
		qless.JID("recurs"))
	if failed = errors.Join(failed, err); failed != nil {
		return failed
	}
	for range 2 {
		w, err := soakWorker(e.client)
		if err != nil {
			return err
		}
		c.workers = append(c.workers, w)
	}
	if err := errors.Join(c.start(ctx), e.startDoomed()); err != nil {
		return err
	}
	return e.startTasks(ctx)
}

// doomedVariable is set to the address of a server in a worker process to be killed.
const doomedVariable = "QLESS_BENCH_DOOMED"

func (e *endurance) startDoomed() (err error) {
	if err = os.Setenv(doomedVariable, e.server.addr()); err == nil {
		e.doomed, err = startProcess("/proc/self/exe")
	}
	return errors.Join(err, os.Unsetenv(doomedVariable))
}

// runDoomed runs a worker, and never returns.
func runDoomed(addr string) error {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	client, err := qless.New(rdb, &qless.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	w, err := soakWorker(client)
	if err != nil {
		return err
	}
	return w.Run(context.Background())
}

// endure works until the time is over, taking samples.
func (e *endurance) endure(ctx context.Context) error {
	samples := min(100, max(10, int(e.lasting/time.Second)))
	every := e.lasting / time.Duration(samples)
	// Kill once a minute, and several times in a short soak.
	killEvery := max(1, int(min(time.Minute, e.lasting/10)/every))
	for i := range samples {
		if err := pause(ctx, every); err != nil {
			return context.Cause(ctx)
		}
		if err := e.sample(ctx); err != nil {
			return err
		}
		if i%killEvery == killEvery-1 {
			e.doomed.kill()
			e.kills++
			if err := e.startDoomed(); err != nil {
				return err
			}
		}
	}
	return nil
}

// sample measures the server and both processes.
func (e *endurance) sample(ctx context.Context) error {
	server, err := e.sampleServer(ctx)
	if err != nil {
		return err
	}
	used := inUse()
	bench := size{"heap, KB": float64(used.heap) / 1e3, "goroutines": float64(used.goroutines)}
	gateways, err := scrape(e.metrics)
	if err != nil {
		return err
	}
	pid := e.gateways.command.Process.Pid
	for pid, s := range map[int]size{os.Getpid(): bench, pid: gateways} {
		if s["descriptors"], s["resident, KB"], err = resources(pid); err != nil {
			return err
		}
	}
	line := ""
	for name, s := range map[string]size{"server": server, "bench": bench, "gateways": gateways} {
		e.samples[name] = append(e.samples[name], s)
		line += fmt.Sprint(" ", name, s)
	}
	log.Print(line)
	return nil
}

// sampleServer counts keys, except those of rates and jobs, and reads the server's figures.
func (e *endurance) sampleServer(ctx context.Context) (size, error) {
	s := size{}
	scan := e.server.admin.Scan(ctx, 0, "*", 1000).Iterator()
	for scan.Next(ctx) {
		if !strings.HasPrefix(scan.Val(), "ql:x:rates:") && !strings.HasPrefix(scan.Val(), "ql:j:") {
			s["keys"]++
		}
	}
	text, err := e.server.admin.Info(ctx).Result()
	for name, field := range map[string]string{
		"memory, KB": "used_memory", "resident, KB": "used_memory_rss", "Lua, KB": "used_memory_vm_eval",
		"channels": "pubsub_channels", "connections": "connected_clients",
	} {
		number, failed := infoNumber(text, field)
		if strings.HasSuffix(name, "KB") {
			number /= 1e3
		}
		s[name], err = number, errors.Join(err, failed)
	}
	return s, errors.Join(err, scan.Err())
}

// scrape reads the metrics about a process.
func scrape(addr string) (size, error) {
	text, err := get(context.Background(), addr, "/metrics")
	s := size{}
	for name, metric := range map[string]string{
		"heap, KB": "go_memstats_heap_alloc_bytes ", "goroutines": "go_goroutines ",
	} {
		_, rest, _ := strings.Cut(text, "\n"+metric)
		number := 0.0
		if _, failed := fmt.Sscan(rest, &number); failed != nil {
			err = errors.Join(err, failed)
		}
		s[name] = number
	}
	s["heap, KB"] /= 1e3
	return s, err
}

// clean sweeps until nothing is left to sweep, as programs do now and then.
func (e *endurance) clean(ctx context.Context) error {
	for {
		swept, err := inspect.New(e.client).Sweep(ctx, "*")
		if swept == 0 || err != nil {
			return err
		}
	}
}

// finish stops putting jobs, waits until all have ended, and ends all but the workers.
func (e *endurance) finish(ctx context.Context) error {
	e.stopPutting()
	recurring, err := e.client.RecurringJob(ctx, "recurs")
	if err != nil {
		return err
	}
	if err := recurring.Cancel(ctx); err != nil {
		return err
	}
	// Schedules put jobs as long as a worker is left. These jobs are done at once.
	err = until(ctx, "all jobs to end", 100*time.Millisecond, func() (bool, error) {
		if err := e.clean(ctx); err != nil {
			return false, err
		}
		queues, err := e.client.Queues(ctx)
		return !slices.ContainsFunc(queues, func(n qless.QueueCounts) bool {
			return n.Waiting+n.Running+n.Stalled+n.Scheduled+n.Depends+n.Recurring > 0
		}), err
	})
	e.stopWorking()
	e.tasks.Wait()
	http.DefaultClient.CloseIdleConnections()
	return errors.Join(err, context.Cause(ctx), e.gateways.end(ctx))
}

// leftover matches keys that may exist after all jobs have ended: settings, statistics, complete
// jobs with their tags, known queues, workers, limits and schedules, the turns of tenants, and
// notes about killed workers.
var leftover = regexp.MustCompile(`^ql:(config|queues|workers|completed|` +
	`s:(wait|run|stats):\d+:.+|j:.+|tags|t:.+|` +
	`x:(empty|filled|looked.*|list.*|rates:.+|stats:.+|relay|worker:.+|idle|idle:.+|` +
	`due:.+|history.*|recorded|swept.*|limits|schedule.*|follow:.+|fair:.+))$`)

// wellFindings are the findings that the doctor may report: the server was started without
// persistence, and the turns of tenants are kept until their next put.
var wellFindings = []doctor.ReasonCode{doctor.ReasonNoPersistence, doctor.ReasonTurnLeft}

// examine checks for leftovers until the last lives have ended.
func (e *endurance) examine(ctx context.Context) error {
	var found error
	failed := until(ctx, "nothing to be left", time.Second, func() (bool, error) {
		if err := e.clean(ctx); err != nil {
			return false, err
		}
		var err error
		found, err = e.left(ctx)
		return found == nil, err
	})
	return errors.Join(failed, found)
}

// left returns the leftovers as an error.
func (e *endurance) left(ctx context.Context) (found, err error) {
	report, err := doctor.Examine(ctx, e.server.admin, doctor.Options{Pause: -1})
	if err != nil {
		return nil, err
	}
	for _, finding := range report.Findings {
		if !slices.Contains(wellFindings, finding.Code) {
			found = errors.Join(found, fmt.Errorf("the doctor finds: %s", finding.Sentence))
		}
	}
	keys := e.server.admin.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		if !leftover.MatchString(keys.Val()) {
			found = errors.Join(found, fmt.Errorf("the key %s is left", keys.Val()))
		}
	}
	return found, keys.Err()
}

// mayGrow limits the growth of a median between two thirds of the samples: by a part of the first
// median, and by an absolute amount on top. Heaps reach their size in the first minutes.
var mayGrow = map[string]struct{ part, more float64 }{
	"keys": {0.05, 50}, "channels": {0, 5}, "connections": {0, 10}, "goroutines": {0, 10},
	"descriptors": {0, 10}, "Lua, KB": {0, 1000}, "memory, KB": {0.05, 1500},
	"heap, KB": {0.1, 2000}, "resident, KB": {0.1, 6000},
}

// judge reports the medians, and returns an error if something grew: it ignores the first tenth of
// the samples, and compares the medians of the first and the last third of the rest.
func (e *endurance) judge(r *report) error {
	var failed error
	for _, name := range slices.Sorted(maps.Keys(e.samples)) {
		all := e.samples[name]
		rest := all[len(all)/10:]
		third := max(1, len(rest)/3)
		early, late := medians(rest[:third]), medians(rest[len(rest)-third:])
		r.in("%s", name)
		for _, what := range slices.Sorted(maps.Keys(early)) {
			most := mayGrow[what].part*early[what] + mayGrow[what].more
			if strings.HasSuffix(what, "KB") && e.lasting < 10*time.Minute {
				most += 10_000
			}
			r.add(what, early[what], "early")
			r.add(what, late[what], "late")
			if more := late[what] - early[what]; more > most {
				failed = errors.Join(failed, fmt.Errorf("%s of %s: %.0f more", what, name, more))
			}
		}
	}
	r.in("all")
	r.add("workers killed", float64(e.kills), "")
	return failed
}

// medians returns the median of each figure.
func medians(samples []size) size {
	all := size{}
	for name := range samples[0] {
		var values []float64
		for _, s := range samples {
			values = append(values, s[name])
		}
		all[name] = spreadOf(values).Median
	}
	return all
}

// resources returns the number of a process's open files, and its resident memory in KB.
func resources(pid int) (descriptors, resident float64, err error) {
	folder := fmt.Sprintf("/proc/%d", pid)
	files, err := os.ReadDir(folder + "/fd")
	if err != nil {
		return 0, 0, err
	}
	text, err := os.ReadFile(folder + "/status")
	for line := range strings.Lines(string(text)) {
		if value, is := strings.CutPrefix(line, "VmRSS:"); is {
			resident, err = strconv.ParseFloat(strings.Fields(value)[0], 64)
		}
	}
	return float64(len(files)), resident * 1.024, err
}

// end stops a process gracefully, and returns an error if it fails.
func (p *process) end(ctx context.Context) error {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return fmt.Errorf("%s does not end", p.command)
	}
	if !p.command.ProcessState.Success() {
		return fmt.Errorf("%s: %s", p.command, p.command.ProcessState)
	}
	return nil
}
