package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/internal/testkit"
)

const (
	// lockTime is the duration of a lock.
	lockTime = 2 * time.Second

	// limit limits the duration of a test.
	limit = 10 * time.Minute

	queueName  = "work"
	processes  = 4
	putAtOnce  = 50
	lastJobs   = 200
	jobRetries = 40 // more than the possible disturbances of a long job
)

// plan has the parameters of a test.
type plan struct {
	jobs        int           // the number of jobs
	work        time.Duration // the longest time of a usual job
	longest     time.Duration // the time of a job that outlasts its lock; defaults to 1.5 lock times
	grace       time.Duration // the grace period
	shutdown    time.Duration // the workers' ShutdownTimeout
	redis       []string      // arguments of the server
	concurrency int           // of each process
	receive     bool          // the processes have no workers, but receive jobs
}

// arena has the server, the jobs and the worker processes of a test.
type arena struct {
	*fleet
	plan
	ctx    context.Context
	server *testkit.Server
	rdb    *redis.Client
	client *qless.Client
	events <-chan events.Event
	began  time.Time
	tasks  []qless.JobSpec
	jids   []string

	completed map[string]bool
	wanted    chan struct{} // a token for each putAtOnce jobs to put
	away      sync.RWMutex  // held while the server is away
}

func newArena(t *testing.T, p plan) *arena {
	if testing.Short() {
		p.jobs = min(p.jobs, max(p.jobs/5, 2*lastJobs))
	}
	if p.longest == 0 {
		p.longest = lockTime * 3 / 2
	}
	seed := testkit.Seed(t)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)

	a := &arena{
		plan: p, ctx: ctx, began: time.Now(),
		server:    testkit.Start(t, p.redis...),
		completed: map[string]bool{},
		wanted:    make(chan struct{}, p.jobs/putAtOnce+1),
	}
	options := testkit.Options(a.server.Addr())
	options.ReadTimeout = patience
	a.rdb = redis.NewClient(options)
	t.Cleanup(func() { _ = a.rdb.Close() })
	var err error
	a.client, err = qless.New(a.rdb, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.client.Close() })
	require.NoError(t, a.client.Config().Set(ctx, "heartbeat", lockTime))
	require.NoError(t, a.client.Config().Set(ctx, "grace-period", p.grace))
	a.events, err = events.Listen(ctx, a.client)
	require.NoError(t, err)

	random := rand.New(rand.NewPCG(seed, 0))
	a.fleet = newFleet(t, random)
	a.makeJobs(random)
	return a
}

// makeJobs creates the jobs. A few take longer than their locks last.
func (a *arena) makeJobs(random *rand.Rand) {
	for i := range a.jobs {
		task := work{Micros: random.IntN(int(a.work.Microseconds()))}
		if i < a.jobs-lastJobs && random.IntN(100) == 0 {
			task.Micros = int((lockTime + time.Duration(random.Int64N(int64(a.longest-lockTime)))).Microseconds())
		}
		jid := fmt.Sprintf("job-%d", i)
		a.jids = append(a.jids, jid)
		a.tasks = append(a.tasks, qless.JobSpec{Klass: "Work", Data: task, Options: []qless.PutOption{
			qless.JID(jid), qless.Retries(jobRetries),
		}})
	}
}

// worker returns the settings of a worker process for the server at an address.
func (a *arena) worker(addr string) settings {
	return settings{
		Addr: addr, ServerAddr: a.server.Addr(), Queue: queueName, Concurrency: a.concurrency,
		PollInterval: lockTime / 2, ShutdownTimeout: a.shutdown, Receive: a.receive,
	}
}

// begin puts half of the jobs and starts the processes. The other jobs, except for the last ones,
// are put as jobs are completed.
func (a *arena) begin(addrs ...string) {
	a.t.Helper()
	half := a.jobs / 2
	require.NoError(a.t, a.put(0, half))
	var feeder sync.WaitGroup
	feeder.Go(func() {
		last := a.jobs - lastJobs
		for from := half; from < last; from += putAtOnce {
			select {
			case <-a.wanted:
			case <-a.ctx.Done():
				return
			}
			if err := a.put(from, min(from+putAtOnce, last)); err != nil {
				a.t.Errorf("jobs could not be put: %v", err)
				return
			}
		}
	})
	a.t.Cleanup(feeder.Wait)
	var all []settings
	for i := range processes {
		all = append(all, a.worker(addrs[i%len(addrs)]))
	}
	a.start(all...)
}

// put puts jobs. If the server goes away meanwhile, put checks which jobs the server has.
func (a *arena) put(from, to int) error {
	for {
		_, err := a.client.Queue(queueName).PutMany(a.ctx, a.tasks[from:to])
		if err == nil || a.ctx.Err() != nil {
			return err
		}
		a.whenBack(func() { err = nil })
		known, lookErr := a.client.Jobs(a.ctx, a.jids[from:to]...)
		if lookErr == nil && len(known) == to-from {
			return nil
		}
	}
}

// whenBack calls do while the server is not away.
func (a *arena) whenBack(do func()) {
	a.away.RLock()
	defer a.away.RUnlock()
	do()
}

// until waits until that many jobs are complete.
func (a *arena) until(count int) {
	a.t.Helper()
	for len(a.completed) < count {
		select {
		case event := <-a.events:
			switch event.Kind {
			case events.Completed:
				a.complete(event.JID)
			case events.Failed:
				a.giveUp(count)
			case events.Gap:
				a.whenBack(a.readCompleted)
			}
		case <-a.ctx.Done():
			a.giveUp(count)
		}
	}
}

// giveUp fails the test, and logs the incomplete jobs.
func (a *arena) giveUp(count int) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	counts, err := a.client.Queue(queueName).Counts(ctx)
	a.t.Logf("the queue: %+v (error %v)", counts, err)
	told := 0
	for _, jid := range a.jids {
		if a.completed[jid] || told == 5 {
			continue
		}
		told++
		fields, err := a.rdb.HGetAll(ctx, "ql:j:"+jid).Result()
		history := a.rdb.LRange(ctx, "ql:j:"+jid+"-history", 0, -1).Val()
		a.t.Logf("%s: %v, %v (error %v)", jid, fields, history, err)
	}
	a.t.Fatalf("only %d of %d jobs were completed, %d are awaited", len(a.completed), a.jobs, count)
}

// complete notes a completed job, and requests another put.
func (a *arena) complete(jid string) {
	if !a.completed[jid] {
		a.completed[jid] = true
		if len(a.completed)%putAtOnce == 0 {
			a.wanted <- struct{}{}
		}
	}
}

// readCompleted notes the completed but unreported jobs.
func (a *arena) readCompleted() {
	jids, err := a.rdb.ZRange(a.ctx, "ql:completed", 0, -1).Result()
	require.NoError(a.t, err)
	for _, jid := range jids {
		a.complete(jid)
	}
}

// disturb disturbs the workers several times, at random points of the run. The last jobs, which are
// short, are put when all others are complete. The last disturbance comes in their midst, and they
// are complete soon after it.
func (a *arena) disturb(times int, disturb func(i int)) {
	a.t.Helper()
	if testing.Short() {
		times = (times + 1) / 2
	}
	stretch := (a.jobs - lastJobs) / times
	for i := range times - 1 {
		a.until(i*stretch + a.random.IntN(stretch))
		disturb(i)
	}
	a.until(a.jobs - lastJobs)
	require.NoError(a.t, a.put(a.jobs-lastJobs, a.jobs))
	a.until(a.jobs - lastJobs*3/4)
	disturb(times - 1)
	last := time.Now()
	a.until(a.jobs)
	took := time.Since(last)
	a.t.Logf("%d jobs and %d disturbances in %v, the rest after the last one in %v",
		a.jobs, times, time.Since(a.began).Round(time.Millisecond), took.Round(time.Millisecond))
	require.Less(a.t, took, 10*lockTime, "all jobs are complete soon after the last disturbance")
	a.stop()
}
