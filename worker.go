package qless

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/ahead"
	"github.com/qless/qless-go/internal/ask"
	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/hub"
	"github.com/qless/qless-go/internal/leases"
	"github.com/qless/qless-go/internal/linger"
	"github.com/qless/qless-go/internal/queues"
	"github.com/qless/qless-go/internal/rendezvous"
	"github.com/qless/qless-go/internal/runs"
	"github.com/qless/qless-go/internal/slots"
	"github.com/qless/qless-go/internal/stacks"
	"github.com/qless/qless-go/internal/together"
)

// A Worker takes jobs from queues and passes them to handlers, several at once. It renews the lock
// of every running job, wakes up when there is something to do, and survives outages of the server.
// The phases:
//
//	new       [NewWorker]; handlers and middleware are registered: [Worker.Handle], [Worker.Use]
//	taking    [Worker.Run] or [Worker.Start]; one exchange with the server at a time reports
//	          outcomes, and asks for as many jobs as there are free slots
//	paused    [Worker.Pause]; running jobs continue, until [Worker.Resume]
//	draining  [Worker.Stop], [Worker.Drain], or the end of the context of Run or Start; no job is
//	          taken, and running jobs have the ShutdownTimeout before their release
//	reporting the last outcomes are sent, for at most a second
//	leaving   the worker is deregistered, for at most a second; others take over its pending work
//	closed    [Worker.Closed]; there is no second start
type Worker struct {
	client    *Client // under the worker's name
	cfg       WorkerConfig
	named     bool // chosen by the user, so another process may have the same name
	schedules []*schedule
	launch    func(r *run) // begins the handler's goroutine; set by Start

	// The parts have their own mutexes. None is held while the worker talks to the server, logs, or
	// calls handlers, the Observer or other user code.
	counters counters
	health   health
	listener *listener
	locks    *leases.Keeper[*run]
	log      *workerLog
	loop     *workLoop
	observer *observer
	outbox   *outbox
	progress *progressKeeper
	rates    *runs.Reporter
	registry *registrar
	stacks   *stacks.Keeper

	shutdown shutdown

	finishing atomic.Int32 // the number of handlers whose outcomes are being processed

	mu         sync.Mutex
	mux        mux   // not changed after the start
	middleware chain // not changed after the start
	state      workerState
	paused     bool
	active     map[*run]bool      // jobs whose handlers have not returned, held or not
	slots      *slots.Table       // of the active jobs
	ahead      *ahead.Queue[*run] // jobs that wait for a free slot
	bulk       bulkCalls          // jobs that wait for a common call
	unfinished []string           // jids of jobs whose handlers may outlive the worker
	cutShort   error              // the error of the context that cut them short
	stopErr    error              // the result of Stop
}

type workerState int

const (
	workerNew workerState = iota
	workerRunning
	workerStopping
	workerClosed
)

// NewWorker returns a worker for a client's queues, idle until started. Workers of one client share
// connections; an idle worker uses about 13 KB of memory. An invalid configuration is [ErrInvalid].
// NewWorker panics if the client is nil.
func NewWorker(client *Client, config WorkerConfig) (*Worker, error) {
	if client == nil {
		panic("qless: NewWorker: nil client")
	}
	return newWorker(client, client.hub, config)
}

// newWorker returns a worker with messages from a hub.
func newWorker(client *Client, listens *hub.Hub, config WorkerConfig) (*Worker, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	schedules, err := newSchedules(config.Schedules)
	if err != nil {
		return nil, err
	}
	cfg := config.withDefaults(client)
	own := client.as(cmp.Or(cfg.Name, newWorkerName()))
	own.hub = listens
	w := &Worker{
		client:    own,
		cfg:       cfg,
		named:     cfg.Name != "",
		schedules: schedules,
		log:       &workerLog{logger: cfg.Logger.With("worker", own.worker)},
		observer:  newObserver(own.worker, cfg),
		active:    map[*run]bool{},
		slots:     slots.New(cfg.Concurrency),
		shutdown:  newShutdown(),
		stacks:    stacks.New(cfg.Stacks, own.rdb, own.prefix),
	}
	w.bulk = bulkCalls{w: w, guard: guard.New("Bulk.By", cfg.Logger)}
	w.locks = newLocks(own, w.log)
	w.ahead = ahead.New[*run](cfg.Prefetch, w.releaseOverdue)
	w.loop = newWorkLoop(w)
	w.outbox = w.loop.outbox
	w.progress = newProgressKeeper(w.loop.asker.Due)
	w.registry = newRegistrar(own, w.log, w.describe)
	w.rates = newRates(own, w.log)
	w.listener = &listener{client: own, locks: w.locks, watch: w.loop.watch, asker: w.loop.asker,
		recheck: w.recheck, stacks: w.stacks, wakes: own.prefix + channelWake + own.worker}
	return w, nil
}

// Name returns the worker's name, the owner of its locks.
func (w *Worker) Name() string { return w.client.worker }

// Handle registers a handler for a klass or, with a * at the end, for every klass with that prefix:
// "Mail::*" matches Mail::Welcome, and "*" every klass. An exact match takes precedence, then the
// longest prefix.
//
// Handle panics if the klass is empty or already has a handler, the handler or an option is nil or
// invalid, or the worker was started.
func (w *Worker) Handle(klass string, handler Handler, options ...HandleOption) {
	r := newRoute(klass, handler, options)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != workerNew {
		panic(fmt.Sprintf("qless: Handle(%q): the worker was started", klass))
	}
	w.mux.add(klass, r)
	if r.bulk != nil {
		w.bulk.add(r)
	}
}

// Use wraps every handler, registered before or after. The first middleware is the outermost. Use
// panics if a middleware is nil, or the worker was started.
func (w *Worker) Use(middleware ...Middleware) {
	for _, m := range middleware {
		if m == nil {
			panic("qless: Use: nil middleware")
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != workerNew {
		panic("qless: Use: the worker was started")
	}
	w.middleware = append(w.middleware, middleware...)
}

// Handler returns the handler that the worker calls for the jobs of a klass, or nil if there is
// none: the registered one inside the middleware, with [ClientFromContext] and [Logger] set. For
// tests of handlers, see package qlesstest.
func (w *Worker) Handler(klass string) Handler {
	w.mu.Lock()
	r, middleware := w.mux.find(klass), w.middleware
	w.mu.Unlock()
	if r == nil {
		return nil
	}
	handler := middleware.wrap(r.handler)
	return func(ctx context.Context, job *Job) error {
		return handler(w.log.withJob(w.withClient(ctx), job), job)
	}
}

// withClient returns a context in which ClientFromContext returns the worker's client.
func (w *Worker) withClient(ctx context.Context) context.Context {
	return context.WithValue(ctx, clientKey{}, w.client)
}

// Run starts the worker and blocks until it has stopped, because of the end of the context,
// [Worker.Stop] or [Worker.Drain]. The error comes from [Worker.Start] or Stop.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.Start(ctx); err != nil {
		return err
	}
	return w.wait()
}

// Start starts the worker and returns at once. When the context ends, the worker stops as if by
// [Worker.Stop]. The contexts of handlers inherit its values. The worker waits for an unreachable
// server.
//
// Start returns [ErrInvalid] if no handler is registered, the worker was started or stopped before,
// or this process runs another worker with the same name on the same server and namespace.
func (w *Worker) Start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.state != workerNew:
		return invalid("work", "", "a worker can be started only once")
	case w.mux.isEmpty():
		return invalid("work", "", "no handler is registered: call Worker.Handle before Start")
	case !w.middleware.wraps():
		return invalid("work", "", "a middleware returned a nil handler")
	case !w.claimName():
		return invalid("work", "", "a worker named %q runs in this process already", w.Name())
	}
	w.state = workerRunning
	base := w.withClient(context.WithoutCancel(ctx))
	w.launch = func(r *run) { r.launch(base) }
	w.bulk.work = func(seats []*seat) { workTogether(base, seats) }
	go w.run(ctx, base)
	return nil
}

// Pause stops taking jobs until [Worker.Resume], and releases prefetched jobs. Running jobs
// continue.
func (w *Worker) Pause() { w.setPaused(true) }

// Resume takes jobs again after [Worker.Pause]. Even without a pause, the worker asks for jobs at
// once, and checks whether schedules are due. Jobs that wait for a call of a bulk handler then wait
// no longer than until no more are ready.
func (w *Worker) Resume() {
	w.setPaused(false)
	w.recheck()
}

func (w *Worker) setPaused(paused bool) {
	w.mu.Lock()
	w.bulk.hurry = !paused && !w.paused
	w.paused = paused
	var jobs []*run
	if paused {
		jobs = w.takeUnstarted()
	}
	w.mu.Unlock()
	w.releaseAhead(jobs)
	w.loop.asker.JobsReady()
	w.registry.again.Notify()
}

func (w *Worker) currentState() workerState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// takesJobs reports whether the worker is running and not paused.
func (w *Worker) takesJobs() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state == workerRunning && !w.paused
}

// A workload is the state needed by the loop.
type workload struct {
	state    workerState
	paused   bool
	room     int      // the number of jobs to take
	ahead    int      // the number of further ones to take ahead
	leaveOut []string // the queues to take none of
	reports  []*report
}

// load returns the state that the loop needs, and takes the reports from the outbox.
func (w *Worker) load() workload {
	w.mu.Lock()
	defer w.mu.Unlock()
	room, leaveOut, few := w.slots.Ask()
	ahead := 0
	if !few && !w.slots.Gathers() {
		ahead = w.wantedAhead()
	}
	return workload{w.state, w.paused, room, ahead, leaveOut, w.outbox.take()}
}

// settleDeferred releases or fails dependent jobs that were too many for one script.
func (w *Worker) settleDeferred(ctx context.Context) {
	for {
		select {
		case <-w.outbox.rest:
			w.client.settleDeferred(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// A WorkerGroup is a list of workers with the same handlers, started and stopped together. They
// serve several namespaces (see [NewWorkerGroup]), or one, where a worker for a single queue
// reserves slots for it, beside a worker for all queues. Call other methods of [Worker] for each.
type WorkerGroup []*Worker

// NewWorkerGroup returns a group with one worker for each client, in their order. Each has the
// whole config, so the group runs up to Concurrency jobs of each namespace at once. Each of the
// Schedules is followed in one of the namespaces, chosen by ID. An invalid configuration, or an
// empty list of clients, is [ErrInvalid]. NewWorkerGroup panics if a client is nil.
func NewWorkerGroup(clients []*Client, config WorkerConfig) (WorkerGroup, error) {
	if len(clients) == 0 {
		return nil, invalid("work", "", "no clients")
	}
	if slices.Contains(clients, nil) {
		panic("qless: NewWorkerGroup: nil client")
	}
	var g WorkerGroup
	hubs := sharedHubs{}
	for _, c := range clients {
		own := config
		own.Schedules = slices.DeleteFunc(slices.Clone(config.Schedules), func(s Schedule) bool {
			return rendezvous.Pick(clients, (*Client).Namespace, s.ID) != c
		})
		w, err := newWorker(c, hubs.of(c), own)
		if err != nil {
			return nil, err
		}
		g = append(g, w)
	}
	return g, nil
}

// sharedHubs are the hubs of clients with a common go-redis client. On a cluster there are none, as
// namespaces may be on different servers.
type sharedHubs map[*redis.Client]*hub.Hub

// of returns the hub for a client's worker.
func (h sharedHubs) of(c *Client) *hub.Hub {
	rdb, single := c.rdb.(*redis.Client)
	if !single {
		return c.hub
	}
	if h[rdb] == nil {
		h[rdb] = c.hub
	}
	return h[rdb]
}

// Handle registers a handler with each worker, as [Worker.Handle] does.
func (g WorkerGroup) Handle(klass string, handler Handler, options ...HandleOption) {
	for _, w := range g {
		w.Handle(klass, handler, options...)
	}
}

// Run starts the workers and blocks until all have stopped, because of the end of the context,
// [WorkerGroup.Stop] or [WorkerGroup.Drain]. The error comes from [WorkerGroup.Start] or Stop.
func (g WorkerGroup) Run(ctx context.Context) error {
	if err := g.Start(ctx); err != nil {
		return err
	}
	return together.Each(g, (*Worker).wait)
}

// Start starts the workers and returns at once, as [Worker.Start] does. If one can't be
// started, none is left running.
func (g WorkerGroup) Start(ctx context.Context) error {
	for i, w := range g {
		if err := w.Start(ctx); err != nil {
			_ = g[:i].Stop(ctx)
			return err
		}
	}
	return nil
}

// Stop stops all workers at once, each as [Worker.Stop] does, and returns the first error, in the
// order of the clients.
func (g WorkerGroup) Stop(ctx context.Context) error {
	return together.Each(g, func(w *Worker) error { return w.Stop(ctx) })
}

// Drain drains all workers at once, each as [Worker.Drain] does, and returns the first error, in
// the order of the clients.
func (g WorkerGroup) Drain(ctx context.Context) error {
	return together.Each(g, func(w *Worker) error { return w.Drain(ctx) })
}

// A WorkerConfig configures a worker. Only Queues is required.
type WorkerConfig struct {
	// Backoff returns how long a job waits for a retry after an error.
	//
	// Defaults to 1 s, doubled with each attempt up to 10 minutes, by [ExponentialBackoff].
	Backoff Backoff

	// Concurrency is the maximum number of jobs at once.
	//
	// Defaults to 10.
	Concurrency int

	// FailGroup returns the failure group of a job that fails for lack of retries.
	//
	// Defaults to [DefaultFailGroup].
	FailGroup func(job *Job, err error) string

	// Linger is how long the worker waits before it asks for jobs again, if at least two are likely
	// to arrive in that time: with the default, at 4000 jobs per second. Outcomes alone wait up to six
	// times as long, even at 400 jobs per second, and then go with the next request. The first job
	// after an idle moment never waits, and neither does a backlog.
	//
	// Defaults to 500 µs. The value -1 means no waiting.
	Linger time.Duration

	// Logger is the worker's logger.
	//
	// Defaults to the client's logger.
	Logger *slog.Logger

	// MaxRunTime is the time after which a handler's context ends, with the cause [ErrMaxRunTime].
	// The option [MaxRunTime] sets it for one klass or one job.
	//
	// Defaults to no limit.
	MaxRunTime time.Duration

	// Name is the worker's name, the owner of its locks. It must be unique among the live workers of
	// the namespace, as workers with the same name share their locks.
	//
	// Defaults to a unique name of the form host-pid-random.
	Name string

	// Observer is called when a job starts, when it ends, and when something goes wrong in between:
	// concurrently, but in order for each job. The worker waits, so Observer should return quickly,
	// and must not stop the worker. A panic is logged. A call that takes a second is logged, and no
	// longer waited for.
	Observer func(event JobEvent)

	// Order is the order of asking the queues for jobs.
	//
	// Defaults to [OrderStrict].
	Order Order

	// PollInterval is the maximum time between an idle worker's requests for jobs. It should be the
	// same for all workers of a queue, and less than an hour: a longer delay of a job wakes no worker.
	//
	// Defaults to 10 s. The minimum is 1 ms.
	PollInterval time.Duration

	// Prefetch is the maximum number of jobs that a worker with short handlers takes ahead of its free
	// slots, to ask the server less often: no more than can run in about 10 ms, none while another
	// worker is idle for one of its queues, and none of a queue with a max-concurrency.
	//
	// Defaults to as many as needed, up to 16. The value -1 means none.
	Prefetch int

	// Queues are the queues to take jobs from, at most 1000. A name may be a pattern: in "mail-*" the
	// * matches any text, and "!mail-slow" excludes a queue that other patterns match. New queues are
	// matched, too. If the patterns match more than 1000 queues, new queues and queues that had jobs
	// at the last poll are asked first, and the others in turn.
	Queues []string

	// Schedules put jobs at certain times while the worker runs. No two may have the same ID.
	Schedules []Schedule

	// ShutdownTimeout is how long running jobs may take to finish when the worker is stopped. After
	// that, their contexts end, and the jobs are released for other workers.
	//
	// Defaults to 20 s. The value -1 means no time.
	ShutdownTimeout time.Duration

	// Stacks lets the dashboard and qless job stack show the stack of a running job's handler.
	//
	// Defaults to false, as a stack has names of functions and files.
	Stacks bool

	// UnknownKlassDelay is the delay of a job without a handler in this worker. The job is
	// released, without using up a retry, for a worker that has one.
	//
	// Defaults to 15 s. The value -1 means at once.
	UnknownKlassDelay time.Duration

	// Weights make the worker draw the queues of its jobs at random, in place of Order: while all
	// queues have jobs, one with weight 6 yields six times as many as one with weight 1. The keys are
	// elements of Queues, including patterns; others have weight 1. Weights are from 1 to 1000. To
	// reserve slots for a queue, use another worker: see [WorkerGroup].
	Weights map[string]int
}

func (c WorkerConfig) withDefaults(client *Client) WorkerConfig {
	if c.Backoff == nil {
		c.Backoff = ExponentialBackoff(time.Second, 10*time.Minute)
	}
	if c.FailGroup == nil {
		c.FailGroup = DefaultFailGroup
	}
	c.Concurrency = cmp.Or(c.Concurrency, 10)
	c.Logger = guard.Logger(cmp.Or(c.Logger, client.logger))
	c.Linger = max(0, cmp.Or(c.Linger, linger.Usual))
	c.Order = cmp.Or(c.Order, OrderStrict)
	c.PollInterval = cmp.Or(c.PollInterval, 10*time.Second)
	c.Prefetch = max(0, cmp.Or(c.Prefetch, ahead.Usual))
	c.ShutdownTimeout = max(0, cmp.Or(c.ShutdownTimeout, 20*time.Second))
	c.UnknownKlassDelay = max(0, cmp.Or(c.UnknownKlassDelay, 15*time.Second))
	return c
}

func (c WorkerConfig) check() error {
	if c.Concurrency < 0 {
		return badConfig("Concurrency %d is negative", c.Concurrency)
	}
	if problem := ask.Check(string(c.Order), c.PollInterval); problem != "" {
		return badConfig("%s", problem)
	}
	if c.Prefetch < -1 {
		return badConfig("Prefetch %d is negative, and not -1", c.Prefetch)
	}
	for _, d := range []struct {
		name string
		time.Duration
	}{
		{"Linger", c.Linger}, {"MaxRunTime", c.MaxRunTime}, {"ShutdownTimeout", c.ShutdownTimeout},
		{"UnknownKlassDelay", c.UnknownKlassDelay},
	} {
		if d.Duration < 0 && d.Duration != none {
			return badConfig("%s %v is negative, and not -1", d.name, d.Duration)
		}
	}
	if !utf8.ValidString(c.Name) || strings.HasPrefix(c.Name, "\x01") { // as lists of queues do
		return badConfig("Name %q is not UTF-8, or begins with the byte 1", c.Name)
	}
	if err := c.checkQueues(); err != nil {
		return err
	}
	return c.checkWeights()
}

func (c WorkerConfig) checkWeights() error {
	if len(c.Weights) > 0 && c.Order != "" {
		return badConfig("Order %q is set beside Weights", c.Order)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Weights)) {
		weight := c.Weights[name]
		if strings.HasPrefix(name, "!") || !slices.Contains(c.Queues, name) {
			return badConfig("Weights has %q, which Queues has not", name)
		}
		if weight < 1 || weight > 1000 {
			return badConfig("Weights[%q] %d is not from 1 to 1000", name, weight)
		}
	}
	return nil
}

// weights returns the weight of each of the Queues, or nil without weights.
func (c WorkerConfig) weights() []int {
	if len(c.Weights) == 0 {
		return nil
	}
	all := make([]int, len(c.Queues))
	for i, name := range c.Queues {
		all[i] = cmp.Or(c.Weights[name], 1)
	}
	return all
}

func (c WorkerConfig) checkQueues() error {
	if len(c.Queues) == 0 {
		return badConfig("Queues is empty")
	}
	asks := false
	for i, name := range c.Queues {
		if name == "" {
			return badConfig("Queues[%d] is empty", i)
		}
		if !utf8.ValidString(name) {
			return badConfig("Queues[%d] %q is not UTF-8", i, name)
		}
		asks = asks || !strings.HasPrefix(name, "!")
	}
	if !asks {
		return badConfig("Queues has only exclusions, as %q", c.Queues[0])
	}
	if names := len(queues.NewPatterns(c.Queues).Names()); names > maxReserve {
		return badConfig("Queues names %d queues; a worker asks at most %d", names, maxReserve)
	}
	return nil
}

// badConfig returns the error for an invalid field of a WorkerConfig.
func badConfig(format string, args ...any) *Error {
	return invalid("work", "", "WorkerConfig."+format, args...)
}
