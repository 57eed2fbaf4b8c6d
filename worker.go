package qless

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Worker takes jobs from queues and passes them to handlers, several at once. It renews the
// lock of every job that runs, wakes up when there is something to do, and survives outages of
// the server.
//
// Register handlers, then call [Worker.Run], or [Worker.Start] and later [Worker.Stop].
type Worker struct {
	client    *Client // under the worker's name
	cfg       WorkerConfig
	named     bool // the user chose the name, so another process may share it
	schedules []*schedule
	base      context.Context // the parent of the handlers' contexts

	// The parts have their own mutexes. None is held while the worker talks to the server, logs, or
	// calls handlers, the Observer or other user code.
	counters counters
	health   health
	listener *listener
	locks    *lockKeeper
	log      *workerLog
	loop     *workLoop
	observer *observer
	outbox   *outbox
	progress *progressKeeper
	rates    *rateKeeper
	registry *registrar

	quit    latch // take no more jobs
	quiet   latch // after quit: all handlers have returned, and the server knows all outcomes
	abandon latch // release running jobs
	closed  latch // everything has ended

	finishing atomic.Int32 // how many handlers have returned and are being dealt with

	mu         sync.Mutex
	mux        mux          // not changed after the start
	middleware []Middleware // not changed after the start
	state      workerState
	paused     bool
	active     map[*activeJob]bool // jobs whose handlers have not returned, held or not
	ahead      *prefetch           // jobs that wait for a free slot
	unfinished []string            // jids of jobs whose handlers may outlive the worker
	cutShort   error               // the error of the context that cut them short
	stopErr    error               // the result of Stop
}

type workerState int

const (
	workerNew workerState = iota
	workerRunning
	workerStopping
	workerClosed
)

// NewWorker returns a worker for a client's queues. It does nothing until it is started. Workers of
// one client share its connections: an idle one takes the program about 13 KB of memory. If the
// configuration is invalid, the error is [ErrInvalid]. NewWorker panics if the client is nil.
func NewWorker(client *Client, config WorkerConfig) (*Worker, error) {
	if client == nil {
		panic("qless: NewWorker: nil client")
	}
	return newWorker(client, client.hub, config)
}

// newWorker returns a worker that listens by a hub.
func newWorker(client *Client, hub *hub, config WorkerConfig) (*Worker, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	schedules, err := newSchedules(config.Schedules)
	if err != nil {
		return nil, err
	}
	cfg := config.withDefaults(client)
	own := client.as(cmp.Or(cfg.Name, newWorkerName()))
	own.hub = hub
	own.guardObserver()
	w := &Worker{
		client:    own,
		cfg:       cfg,
		named:     cfg.Name != "",
		schedules: schedules,
		log:       &workerLog{logger: cfg.Logger.With("worker", own.worker)},
		observer:  &observer{worker: own.worker, notify: cfg.Observer, logger: cfg.Logger},
		active:    map[*activeJob]bool{},
		quit:      newLatch(),
		quiet:     newLatch(),
		abandon:   newLatch(),
		closed:    newLatch(),
	}
	w.locks = newLockKeeper(own, w.log, w.lost)
	w.ahead = newPrefetch(cfg.Prefetch, w.releaseOverdue)
	w.loop = newWorkLoop(w)
	w.progress = newProgressKeeper(w.loop.due)
	w.registry = newRegistrar(own, w.log, w.describe)
	w.rates = newRateKeeper(own, w.log)
	w.outbox = newOutbox(w.log, &w.counters, w.observer, w.rates, w.loop.due)
	w.listener = newListener(own, w.locks, w.loop.lookup.choice.Patterns, w.loop.jobsReady, w.recheck)
	return w, nil
}

// Name returns the worker's name, under which it holds its locks.
func (w *Worker) Name() string { return w.client.worker }

// Handle registers a handler for a klass or, with a * at the end, for every klass with that prefix:
// "Mail::*" matches Mail::Welcome, and "*" every klass. An exact match takes precedence, then the
// longest prefix.
//
// It panics if the klass is empty or already has a handler, the handler or an option is nil or
// invalid, or the worker was started.
func (w *Worker) Handle(klass string, handler Handler, options ...HandleOption) {
	r := newRoute(klass, handler, options)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != workerNew {
		panic(fmt.Sprintf("qless: Handle(%q): the worker was started", klass))
	}
	w.mux.add(klass, r)
}

// Use wraps every handler, whether it was registered before or after. The first middleware is
// the outermost. It panics if a middleware is nil, or the worker was started.
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

// Handler returns what the worker calls for the jobs of a klass: the registered handler with the
// middleware around it, and with [ClientFromContext] and [Logger] set. It returns nil if the klass
// has no handler. It is meant for tests of handlers, see the package qlesstest.
func (w *Worker) Handler(klass string) Handler {
	w.mu.Lock()
	r := w.mux.find(klass)
	w.mu.Unlock()
	if r == nil {
		return nil
	}
	handler := w.wrap(r.handler)
	return func(ctx context.Context, job *Job) error {
		return handler(w.withJobLog(w.withClient(ctx), job), job)
	}
}

// wrap puts the middleware around a handler.
func (w *Worker) wrap(handler Handler) Handler {
	w.mu.Lock()
	middleware := w.middleware
	w.mu.Unlock()
	for i := len(middleware) - 1; i >= 0; i-- {
		handler = middleware[i](handler)
	}
	return handler
}

// middlewareWraps reports whether every middleware makes a handler of a handler. The mutex is held.
func (w *Worker) middlewareWraps() bool {
	next := Handler(func(context.Context, *Job) error { return nil })
	return !slices.ContainsFunc(w.middleware, func(m Middleware) bool { return m(next) == nil })
}

// withClient returns a context in which ClientFromContext returns the worker's client.
func (w *Worker) withClient(ctx context.Context) context.Context {
	return context.WithValue(ctx, clientKey{}, w.client)
}

// Run starts the worker and blocks until it has stopped: because the context has ended, or by
// [Worker.Stop] or [Worker.Drain]. It returns the error of [Worker.Start], or what Stop
// returned. Use [os/signal.NotifyContext] to stop the worker when the process gets a signal.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.Start(ctx); err != nil {
		return err
	}
	return w.wait()
}

// Start starts the worker and returns at once. When the context ends, the worker stops as if by
// [Worker.Stop]. The contexts of handlers inherit its values.
//
// Start returns [ErrInvalid] if no handler is registered, the worker was started or stopped before,
// or this process runs another worker with its name on the same server and namespace. It is not an
// error if the server is away: the worker waits for it.
func (w *Worker) Start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.state != workerNew:
		return invalid("work", "", "a worker can be started only once")
	case w.mux.isEmpty():
		return invalid("work", "", "no handler is registered: call Worker.Handle before Start")
	case !w.middlewareWraps():
		return invalid("work", "", "a middleware returned a nil handler")
	case !w.claimName():
		return invalid("work", "", "a worker named %q runs in this process already", w.Name())
	}
	w.state = workerRunning
	w.base = w.withClient(context.WithoutCancel(ctx))
	go w.run(ctx)
	return nil
}

// Stop stops the worker. It takes no new jobs, releases the jobs that it took ahead, and waits
// until the running ones have ended and the server knows their outcomes, for up to the
// ShutdownTimeout or until the context ends. Then it ends the contexts of the jobs that are still
// running, and releases the jobs for other workers without using up a retry. It does not wait for
// their handlers. A job that was canceled or lost counts as running until its handler returns.
//
// If everything ended in time, Stop returns nil. Otherwise it returns an [ErrStopped] that names
// the jobs whose handlers may still be running, or gives the number of outcomes that the server did
// not accept. It wraps the error of the context if that ended first. Later calls return the same.
//
// If the server does not answer, Stop returns about a second after the last job has ended, or
// when the connection's read timeout is over: the locks then expire. A worker that
// was never started can't be started after Stop.
func (w *Worker) Stop(ctx context.Context) error {
	timer := time.NewTimer(w.cfg.ShutdownTimeout)
	defer timer.Stop()
	return w.end(ctx, timer.C)
}

// Drain stops the worker as [Worker.Stop] does, but without the ShutdownTimeout: it waits until the
// running jobs or the context have ended.
func (w *Worker) Drain(ctx context.Context) error {
	return w.end(ctx, nil)
}

// end stops the worker. Running jobs have until the timeout or the end of the context to finish.
func (w *Worker) end(ctx context.Context, timeout <-chan time.Time) error {
	w.mu.Lock()
	if w.state == workerNew {
		w.state = workerClosed
		w.closed.open()
	}
	w.mu.Unlock()
	w.quit.open()
	select {
	case <-w.closed.c:
	case <-timeout:
		w.cut(nil)
	case <-ctx.Done():
		w.cut(ctx.Err())
	}
	return w.wait()
}

// cut has running jobs released. The cause is the error of the context, or nil for the timeout.
func (w *Worker) cut(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.abandon.open() {
		w.cutShort = cause
	}
}

// wait waits until the worker has stopped, and returns the result of Stop.
func (w *Worker) wait() error {
	<-w.closed.c
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stopErr
}

// Closed returns a channel that is closed when the worker has stopped.
func (w *Worker) Closed() <-chan struct{} { return w.closed.c }

// Pause stops taking jobs until [Worker.Resume], and releases the jobs that were taken ahead.
// Running jobs continue.
func (w *Worker) Pause() { w.setPaused(true) }

// Resume takes jobs again after [Worker.Pause]. The worker asks for jobs at once, and whether a
// schedule is due, even if it was not paused.
func (w *Worker) Resume() {
	w.setPaused(false)
	w.recheck()
}

func (w *Worker) setPaused(paused bool) {
	w.mu.Lock()
	w.paused = paused
	var ahead []*activeJob
	if paused {
		ahead = w.ahead.takeAll()
	}
	w.mu.Unlock()
	w.releaseAhead(ahead)
	w.loop.jobsReady()
	w.registry.again.notify()
}

func (w *Worker) isPaused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paused
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

// start calls the handler of a job. The mutex is held.
func (w *Worker) start(a *activeJob) {
	ctx, cancel := context.WithCancelCause(w.base)
	a.cancel, a.started = cancel, time.Now()
	w.active[a] = true
	go w.work(ctx, a)
}

// retire records that the handler of a job has returned. It adds the report to the outbox in the
// same step, so that it is sent together with the request for the next job, and starts a job that
// was taken ahead.
func (w *Worker) retire(a *activeJob, reports ...*report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.active, a)
	w.outbox.add(reports...)
	if a.route != nil {
		w.ahead.ran(a.ran)
	}
	w.startNext()
}

// A workload is the state that the loop needs.
type workload struct {
	state   workerState
	paused  bool
	active  int
	ahead   int // how many jobs to take ahead
	reports []*report
}

// load returns the state that the loop needs, and takes the reports from the outbox.
func (w *Worker) load() workload {
	w.mu.Lock()
	defer w.mu.Unlock()
	return workload{w.state, w.paused, len(w.active), w.wantedAhead(), w.outbox.take()}
}

// isQuiet reports whether no handler runs, no lock is held, and the server knows all outcomes. Jobs
// move from the handlers and the lock keeper to the outbox, so they are checked in that order.
func (w *Worker) isQuiet() bool {
	return !w.runsHandlers() && w.locks.isEmpty() && w.outbox.isEmpty()
}

func (w *Worker) runsHandlers() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.active) > 0
}

// checkQuiet opens quiet if the worker is stopping and has nothing left to wait for.
func (w *Worker) checkQuiet() {
	if w.currentState() == workerStopping && w.isQuiet() {
		w.quiet.open()
	}
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

// run runs all parts of the worker until it has stopped.
func (w *Worker) run(ctx context.Context) {
	base, cancel := context.WithCancel(w.base)
	telling, stopTelling := context.WithCancel(base)
	var following, tellers, loop, others sync.WaitGroup
	w.listener.begin()
	tellers.Go(func() { w.registry.run(telling) })
	tellers.Go(func() { w.rates.keep(telling) })
	tellers.Go(func() { w.settleDeferred(telling) })
	others.Go(func() { w.locks.run(base) })
	for _, schedule := range w.schedules {
		following.Go(func() { w.follow(base, schedule) })
	}
	loop.Go(func() { w.loop.run(base) })

	select {
	case <-ctx.Done():
		go func() { _ = w.Stop(context.Background()) }()
		<-w.quit.c
	case <-w.quit.c:
	}
	w.releaseAhead(w.setState(workerStopping))
	w.checkQuiet()
	if !w.isQuiet() {
		w.registry.again.notify()
	}
	w.loop.due.notify()
	looped := closedAfter(loop.Wait)
	select {
	case <-looped:
	case <-w.quiet.c:
	case <-w.abandon.c:
		w.setUnfinished()
		w.releaseAll()
	}
	patience := leaveTimeout
	if !within(patience, looped) {
		cancel() // the server is away: leave the locks to expire
		patience = 0
	}
	stopTelling()
	left := closedAfter(func() {
		relayed := w.listener.end(base)
		tellers.Wait()
		w.rates.flush(base)
		w.loop.leave(base, relayed)
		following.Wait()
		w.leaveSchedules(base)
		cancel()
		others.Wait()
	})
	if !within(patience, left) {
		cancel()
		within(cutTimeout, left)
	}
	w.close()
}

// leaveTimeout limits each of a worker's last steps, reporting outcomes and deregistering, because
// the server may be away.
const leaveTimeout = time.Second

// cutTimeout is how long to wait for the parts of a worker once their context has ended. A part
// that waits for a reply can't be interrupted: go-redis waits until its read timeout.
const cutTimeout = 100 * time.Millisecond

// setState sets the state, and returns the jobs that were taken ahead: they are not started any
// more.
func (w *Worker) setState(state workerState) (ahead []*activeJob) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = state
	return w.ahead.takeAll()
}

// setUnfinished records, once, which handlers have not returned.
func (w *Worker) setUnfinished() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unfinished != nil {
		return
	}
	for a := range w.active {
		w.unfinished = append(w.unfinished, a.jid)
	}
	slices.Sort(w.unfinished)
}

// close marks the worker as stopped.
func (w *Worker) close() {
	w.setState(workerClosed)
	undelivered := w.outbox.close()
	w.setUnfinished() // a handler that has lost its lock may still be running
	w.mu.Lock()
	w.stopErr = stopError(w.unfinished, undelivered, w.cutShort)
	w.mu.Unlock()
	w.freeName()
	w.closed.open()
}

// stopError returns the result of Stop.
func stopError(unfinished []string, undelivered int, cause error) error {
	var problems []string
	if n := len(unfinished); n > 0 {
		list := strings.Join(unfinished[:min(n, 10)], ", ")
		if n > 10 {
			list += fmt.Sprintf(" and %d more", n-10)
		}
		problems = append(problems, "the handlers of these jobs may still run: "+list)
	}
	if undelivered > 0 {
		problems = append(problems,
			fmt.Sprintf("outcomes that the server did not take: %d", undelivered))
	}
	if problems == nil {
		return nil
	}
	return &Error{Op: "stop", Code: ErrStopped, Message: strings.Join(problems, "; "), Err: cause}
}

// closedAfter runs a function and returns a channel that is closed when it has returned.
func closedAfter(run func()) <-chan struct{} {
	done := make(chan struct{})
	go func() { run(); close(done) }()
	return done
}

// within waits for a channel to be closed, and reports whether that happened within d.
func within(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// A WorkerGroup is a list of workers for several namespaces, such as those of [Shards] or of
// tenants. They have the same handlers, and are started and stopped together. Other methods of
// [Worker] are called for each:
//
//	for _, w := range group {
//		w.Use(middleware)
//	}
type WorkerGroup []*Worker

// NewWorkerGroup returns a group with one worker for each client, in their order. Each has the
// whole config, so the group runs up to Concurrency jobs of each namespace at once. The workers of
// clients that share a go-redis client of a single server share one subscription. Each of the
// Schedules is followed in one of the namespaces, chosen by its ID. If the configuration is invalid
// or there are no clients, the error is [ErrInvalid]. NewWorkerGroup panics if a client is nil.
func NewWorkerGroup(clients []*Client, config WorkerConfig) (WorkerGroup, error) {
	if len(clients) == 0 {
		return nil, invalid("work", "", "no clients")
	}
	if slices.Contains(clients, nil) {
		panic("qless: NewWorkerGroup: nil client")
	}
	var g WorkerGroup
	hubs := sharedHubs{}
	shards := Shards{key: ShardByQueue, clients: clients}
	for _, c := range clients {
		own := config
		own.Schedules = slices.DeleteFunc(slices.Clone(config.Schedules), func(s Schedule) bool {
			return shards.ClientFor(s.ID, "") != c
		})
		w, err := newWorker(c, hubs.of(c), own)
		if err != nil {
			return nil, err
		}
		g = append(g, w)
	}
	return g, nil
}

// sharedHubs are the hubs of clients that share a go-redis client. On a cluster there are none, as
// namespaces may be on different servers.
type sharedHubs map[*redis.Client]*hub

// of returns the hub for a client's worker.
func (h sharedHubs) of(c *Client) *hub {
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

// Run starts the workers and blocks until all have stopped, because the context has ended or
// [WorkerGroup.Stop] or [WorkerGroup.Drain] was called. It returns the error of [WorkerGroup.Start]
// or Stop.
func (g WorkerGroup) Run(ctx context.Context) error {
	if err := g.Start(ctx); err != nil {
		return err
	}
	return each(g, (*Worker).wait)
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

// Stop stops all workers at once, each as [Worker.Stop] does. It returns the first error, in
// the order of the clients.
func (g WorkerGroup) Stop(ctx context.Context) error {
	return each(g, func(w *Worker) error { return w.Stop(ctx) })
}

// Drain drains all workers at once, each as [Worker.Drain] does. It returns the first error, in
// the order of the clients.
func (g WorkerGroup) Drain(ctx context.Context) error {
	return each(g, func(w *Worker) error { return w.Drain(ctx) })
}
