package qless

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
)

// A WorkerConfig configures a worker. Only Queues is required.
//
// In a number or a duration 0 stands for the default. Where a field can be switched off, -1
// does so; other negative values are refused.
type WorkerConfig struct {
	// Backoff returns how long a job waits before it is retried after an error.
	//
	// Defaults to [DefaultBackoff].
	Backoff Backoff

	// Concurrency is how many jobs are worked at once.
	//
	// Defaults to 10.
	Concurrency int

	// FailGroup names the failure group of a job that fails because it has no retries left.
	//
	// Defaults to [DefaultFailGroup].
	FailGroup func(job *Job, err error) string

	// Logger is what the worker logs to.
	//
	// Defaults to the client's logger.
	Logger *slog.Logger

	// MaxRunTime ends a handler's context after a time, with the cause [ErrMaxRunTime]. The
	// worker keeps the job's lock: the job is complete if the handler returns nil
	// nevertheless, and is retried if it returns an error. The option [MaxRunTime] sets it
	// for one klass.
	//
	// Defaults to 0, which means never, as -1 does.
	MaxRunTime time.Duration

	// Name is the worker's name, under which it holds its locks. No other live worker of the
	// namespace may have it.
	//
	// Defaults to host-pid-random.
	Name string

	// Observer is called when a job starts, when it ends, and when something goes wrong in
	// between, for metrics and traces. It is called from several goroutines at once, in order
	// for each job. The worker waits for it, so it should be quick, and must not stop the
	// worker.
	//
	// Defaults to nil: nobody is told.
	Observer func(event JobEvent)

	// Order is the order in which the queues are asked for jobs.
	//
	// Defaults to [OrderStrict].
	Order Order

	// PollInterval is the longest that an idle worker waits before it asks for jobs again if
	// nothing wakes it. It should be the same for all workers of a queue, and less than an
	// hour, as a job with a longer delay wakes nobody.
	//
	// Defaults to 10 s.
	PollInterval time.Duration

	// Queues are the queues to take jobs from, at most 1000. A name may be a pattern: in
	// "mail-*" the * stands for any text, and "!mail-slow" excludes a queue that the others
	// match. Patterns match queues as they appear. If they match more than 1000, queues that
	// had jobs at the last poll are preferred.
	Queues []string

	// Schedules put jobs at certain times while the worker runs. No two may have the same ID.
	Schedules []Schedule

	// ShutdownTimeout is how long running jobs may take to end when the worker is stopped.
	// After that their contexts end, and they are released for other workers.
	//
	// Defaults to 20 s. The value -1 means no time.
	ShutdownTimeout time.Duration

	// UnknownKlassDelay is how long a job waits if its klass has no handler here. It is
	// released for a worker that has one, without using up a retry.
	//
	// Defaults to 15 s. The value -1 means at once.
	UnknownKlassDelay time.Duration
}

func (c WorkerConfig) withDefaults(client *Client) WorkerConfig {
	if c.Backoff == nil {
		c.Backoff = DefaultBackoff
	}
	if c.FailGroup == nil {
		c.FailGroup = DefaultFailGroup
	}
	c.Concurrency = cmp.Or(c.Concurrency, 10)
	c.Logger = cmp.Or(c.Logger, client.logger)
	c.Order = cmp.Or(c.Order, OrderStrict)
	c.PollInterval = cmp.Or(c.PollInterval, 10*time.Second)
	c.ShutdownTimeout = max(0, cmp.Or(c.ShutdownTimeout, 20*time.Second))
	c.UnknownKlassDelay = max(0, cmp.Or(c.UnknownKlassDelay, 15*time.Second))
	return c
}

func (c WorkerConfig) check() error {
	if c.Concurrency < 0 {
		return badConfig("Concurrency %d is negative", c.Concurrency)
	}
	if c.PollInterval < 0 {
		return badConfig("PollInterval %v is negative", c.PollInterval)
	}
	for name, d := range map[string]time.Duration{
		"MaxRunTime":        c.MaxRunTime,
		"ShutdownTimeout":   c.ShutdownTimeout,
		"UnknownKlassDelay": c.UnknownKlassDelay,
	} {
		if d < 0 && d != none {
			return badConfig("%s %v is negative, and not -1", name, d)
		}
	}
	if !utf8.ValidString(c.Name) {
		return badConfig("Name %q is not UTF-8", c.Name)
	}
	if !slices.Contains([]Order{"", OrderStrict, OrderRoundRobin, OrderShuffled}, c.Order) {
		return badConfig("Order %q is unknown", c.Order)
	}
	return c.checkQueues()
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
	if names := len(named(c.Queues)); names > maxReserve {
		return badConfig("Queues names %d queues; a worker asks at most %d", names, maxReserve)
	}
	return nil
}

// badConfig returns the error for a field of a WorkerConfig.
func badConfig(format string, args ...any) *Error {
	return invalid("work", "", "WorkerConfig."+format, args...)
}

// A Worker takes jobs from queues and passes them to handlers, several at once. It renews the
// lock of every job that runs, wakes up when there is something to do, and rides out times in
// which the server is away.
//
// Register handlers, then call [Worker.Run], or [Worker.Start] and later [Worker.Stop].
type Worker struct {
	client    *Client
	cfg       WorkerConfig
	named     bool // the name was chosen by the user, and might be shared
	schedules []*schedule
	log       *slog.Logger
	base      context.Context // what the contexts of handlers are made of

	kick chan struct{} // tells the loop to look again
	beat chan struct{} // tells the keeper of locks to look again

	mu       sync.Mutex
	mux      mux          // not changed after the start
	around   []Middleware // not changed after the start
	state    workerState
	paused   bool
	hungry   bool              // there may be jobs: ask as soon as there is room
	idle     bool              // the server counts it among the idle ones
	working  map[*run]struct{} // runs whose handlers are at work, whether they have the lock or not
	running  map[string]*run
	nextBeat time.Time // when the keeper of locks looks again by itself
	outcomes []*outcome
	held     map[*outcome]*time.Timer // outcomes that are held back, and when they are sent again
	telling  []*outcome               // outcomes that are being sent
	health   health

	listener listener

	quit    chan struct{} // closed when no more jobs are to be taken
	quiet   chan struct{} // closed when none runs after that, and the server knows all outcomes
	abandon chan struct{} // closed when running jobs are to be given back
	closed  chan struct{} // closed when all has ended
	once    struct{ quit, quiet, abandon sync.Once }

	cutShort   error    // why running jobs were released: that of a context, or nil. Guarded by mu.
	unfinished []string // jobs whose handlers may still run. Guarded by mu.
	stopErr    error    // what Stop returns, once closed is
}

type workerState int

const (
	workerNew workerState = iota
	workerRunning
	workerStopping
	workerClosed
)

// NewWorker returns a worker of a client's queues. It does nothing until it is started. A
// configuration that can't be used is [ErrInvalid]. A nil client panics.
func NewWorker(client *Client, config WorkerConfig) (*Worker, error) {
	if client == nil {
		panic("qless: NewWorker: nil client")
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	schedules, err := newSchedules(config.Schedules)
	if err != nil {
		return nil, err
	}
	cfg := config.withDefaults(client)
	own := client.as(cmp.Or(cfg.Name, newWorkerName()))
	return &Worker{
		client:    own,
		cfg:       cfg,
		named:     cfg.Name != "",
		schedules: schedules,
		log:       cfg.Logger.With("worker", own.worker),
		kick:      make(chan struct{}, 1),
		beat:      make(chan struct{}, 1),
		hungry:    true,
		working:   map[*run]struct{}{},
		running:   map[string]*run{},
		held:      map[*outcome]*time.Timer{},
		listener: listener{
			quiet: map[string]bool{},
			relay: make(chan struct{}, 1),
		},
		quit:    make(chan struct{}),
		quiet:   make(chan struct{}),
		abandon: make(chan struct{}),
		closed:  make(chan struct{}),
	}, nil
}

// Name returns the name under which the worker holds its locks.
func (w *Worker) Name() string { return w.client.worker }

// Handle registers a handler for a klass or, with a * at the end, for every klass with that
// prefix: "Mail::*" takes Mail::Welcome, and "*" takes every klass. The handler of the klass
// itself goes first, then that of the longest prefix.
//
// It panics if the klass is empty or has a handler already, the handler or an option is nil
// or invalid, or the worker was started.
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
	w.around = append(w.around, middleware...)
}

// Run starts the worker and blocks until it has stopped: because the context has ended, or by
// [Worker.Stop] or [Worker.Drain]. It returns the error of [Worker.Start], or what Stop
// returned. Use [os/signal.NotifyContext] to stop the worker when the process is told to end.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.Start(ctx); err != nil {
		return err
	}
	<-w.closed
	return w.stopErr
}

// Start starts the worker and returns at once. When the context ends, the worker stops as by
// [Worker.Stop]. The contexts of handlers inherit the values of the context.
//
// Start returns [ErrInvalid] if no handler is registered, the worker was started or stopped
// before, or this process runs another worker with its name on the same server and namespace.
// It is no error if the server is away: the worker waits for it.
func (w *Worker) Start(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.state != workerNew:
		return invalid("work", "", "a worker can be started only once")
	case w.mux.isEmpty():
		return invalid("work", "", "no handler is registered: call Worker.Handle before Start")
	case !w.claimName():
		return invalid("work", "", "a worker named %q runs in this process already", w.Name())
	}
	w.state = workerRunning
	w.base = context.WithValue(context.WithoutCancel(ctx), clientKey{}, w.client)
	go w.live(ctx)
	return nil
}

// Stop stops the worker. It takes no new jobs, and waits until the running ones have ended and
// the server knows their outcomes, for up to the ShutdownTimeout or until the context ends.
// Then it ends the contexts of the jobs that still run, and releases them for other workers
// without using up a retry. It does not wait for their handlers.
//
// If everything ended in time, Stop returns nil. Else it returns an [ErrStopped] that names the
// jobs whose handlers may still run, or says how many outcomes the server did not take. It
// wraps the error of the context if that has ended first. A later call returns the same.
//
// If the server does not answer, Stop returns about a second after the last job has ended, or
// when the connection's read timeout is over: the locks then end by themselves. A worker that
// was never started can't be started after Stop.
func (w *Worker) Stop(ctx context.Context) error {
	timer := time.NewTimer(w.cfg.ShutdownTimeout)
	defer timer.Stop()
	return w.end(ctx, timer.C)
}

// Drain stops the worker as [Worker.Stop] does, but waits for running jobs without a timeout,
// until they have ended or the context has.
func (w *Worker) Drain(ctx context.Context) error {
	return w.end(ctx, nil)
}

// end stops the worker; running jobs have until the timeout or the end of the context.
func (w *Worker) end(ctx context.Context, timeout <-chan time.Time) error {
	w.mu.Lock()
	if w.state == workerNew {
		w.state = workerClosed
		close(w.closed)
	}
	w.mu.Unlock()
	w.once.quit.Do(func() { close(w.quit) })
	var cause error
	select {
	case <-w.closed:
		return w.stopErr
	case <-timeout:
	case <-ctx.Done():
		cause = ctx.Err()
	}
	w.once.abandon.Do(func() {
		w.mu.Lock()
		w.cutShort = cause
		w.mu.Unlock()
		close(w.abandon)
	})
	<-w.closed
	return w.stopErr
}

// Closed returns a channel that is closed when the worker has stopped.
func (w *Worker) Closed() <-chan struct{} { return w.closed }

// Pause takes no further jobs until [Worker.Resume]. Running ones go on.
func (w *Worker) Pause() { w.setPaused(true) }

// Resume takes jobs again after [Worker.Pause].
func (w *Worker) Resume() { w.setPaused(false) }

func (w *Worker) setPaused(paused bool) {
	w.mu.Lock()
	w.paused = paused
	w.hungry = true
	w.mu.Unlock()
	w.nudge()
}

// live runs all parts of the worker, from start to end.
func (w *Worker) live(ctx context.Context) {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	listening, deafen := context.WithCancel(base)
	var parts, ears, loop sync.WaitGroup
	ears.Go(func() { w.listen(listening) })
	parts.Go(func() { w.keepLocks(base) })
	for _, schedule := range w.schedules {
		parts.Go(func() { w.follow(base, schedule) })
	}
	loop.Go(func() { w.loop(base) })

	select {
	case <-ctx.Done():
		go func() { _ = w.Stop(context.Background()) }()
		<-w.quit
	case <-w.quit:
	}
	w.beginStopping()
	ended := closedAfter(loop.Wait)
	select {
	case <-ended:
	case <-w.quiet:
	case <-w.abandon:
		w.giveBack()
	}
	patience := departTimeout
	if !within(patience, ended) {
		cancel() // the server is away: the locks will end by themselves
		patience = 0
	}
	deafen()
	left := closedAfter(func() {
		ears.Wait()
		w.depart(base)
		cancel()
		parts.Wait()
	})
	if !within(patience, left) {
		cancel()
		within(cutTimeout, left)
	}
	w.close()
}

// closedAfter returns a channel that is closed when a function has returned.
func closedAfter(run func()) <-chan struct{} {
	done := make(chan struct{})
	go func() { run(); close(done) }()
	return done
}

// within reports whether a channel is closed within a time.
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

func (w *Worker) beginStopping() {
	w.mu.Lock()
	w.state = workerStopping
	w.noteQuiet()
	w.mu.Unlock()
	w.nudge()
}

// noteQuiet notes when a worker that stops waits for nothing any more. The mutex is held.
func (w *Worker) noteQuiet() {
	if w.state == workerStopping && w.isQuiet() {
		w.once.quiet.Do(func() { close(w.quiet) })
	}
}

// isQuiet reports whether no job runs and no outcome waits to be told. The mutex is held.
func (w *Worker) isQuiet() bool {
	return len(w.running)+len(w.outcomes)+len(w.held)+len(w.telling) == 0
}

// close notes that the worker has stopped.
func (w *Worker) close() {
	w.mu.Lock()
	w.state = workerClosed
	undelivered := slices.Concat(w.outcomes, w.telling)
	for o, again := range w.held {
		again.Stop()
		undelivered = append(undelivered, o)
	}
	clear(w.held)
	if w.unfinished == nil {
		w.unfinished = w.atWork()
	}
	w.stopErr = stopError(w.unfinished, len(undelivered), w.cutShort)
	w.mu.Unlock()
	if len(undelivered) > 0 {
		w.log.Warn("qless: the worker stopped before the server took all outcomes",
			"outcomes", len(undelivered))
	}
	for _, o := range undelivered {
		w.observeEnd(o.run, o.Outcome, ErrStopped)
	}
	w.freeName()
	close(w.closed)
}

// atWork returns the jids of the jobs whose handlers have not returned. The mutex is held.
func (w *Worker) atWork() []string {
	var jids []string
	for r := range w.working {
		jids = append(jids, r.jid)
	}
	slices.Sort(jids)
	return jids
}

// stopError returns what Stop returns for a worker that did not end everything in time.
func stopError(unfinished []string, undelivered int, cause error) error {
	var parts []string
	if n := len(unfinished); n > 0 {
		list := strings.Join(unfinished[:min(n, 10)], ", ")
		if n > 10 {
			list += fmt.Sprintf(" and %d more", n-10)
		}
		parts = append(parts, "the handlers of these jobs may still run: "+list)
	}
	if undelivered > 0 {
		parts = append(parts, fmt.Sprintf("outcomes that the server did not take: %d", undelivered))
	}
	if parts == nil {
		return nil
	}
	return &Error{Op: "stop", Code: CodeStopped, Message: strings.Join(parts, "; "), Err: cause}
}

// giveBack ends the contexts of the jobs that still run, and gives the jobs back.
func (w *Worker) giveBack() {
	var after notes
	w.mu.Lock()
	w.unfinished = w.atWork()
	for _, r := range w.running {
		if !r.hold.ended.Load() {
			o := r.handBack(0)
			o.until = r.until
			w.outcomes = append(w.outcomes, o)
		}
		w.drop(r, ErrStopped, &after)
	}
	w.mu.Unlock()
	w.nudge()
	w.report(after)
}

// liveWorkers has the workers that this process runs, by workerKey.
var liveWorkers sync.Map

// A workerKey is what no two live workers may have in common.
type workerKey struct{ server, namespace, name string }

func (w *Worker) key() workerKey {
	return workerKey{serverOf(w.client.rdb), w.client.Namespace(), w.Name()}
}

// claimName reports whether no other worker of this process has the name, and takes it.
func (w *Worker) claimName() bool {
	_, taken := liveWorkers.LoadOrStore(w.key(), w)
	return !taken
}

func (w *Worker) freeName() { liveWorkers.CompareAndDelete(w.key(), w) }

// serverOf identifies the server of a go-redis client, as far as its options tell.
func serverOf(rdb redis.UniversalClient) string {
	switch c := rdb.(type) {
	case *redis.Client:
		if o := c.Options(); o.Addr != "FailoverClient" { // that of every client of a sentinel
			return fmt.Sprintf("%s:%s/%d", o.Network, o.Addr, o.DB)
		}
	case *redis.ClusterClient:
		return strings.Join(slices.Sorted(slices.Values(c.Options().Addrs)), ",")
	}
	return fmt.Sprintf("%p", rdb)
}

// departTimeout bounds each of the goodbyes of a worker whose server may be away: the last
// outcomes, and signing off.
const departTimeout = time.Second

// cutTimeout is how long the parts of a worker may take to end once their context has ended. One
// that waits for an answer can't be interrupted: go-redis waits until its read timeout.
const cutTimeout = 100 * time.Millisecond

// depart takes the worker off the server's lists, and lets others look after what it may have
// been woken for, and listened to.
func (w *Worker) depart(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, departTimeout)
	defer cancel()
	relays := "0"
	if w.relaying() {
		relays = "1"
	}
	args := anys([]any{w.client.worker, w.claimed(), relays}, w.resolved()...)
	if _, err := w.client.run(ctx, "depart", "", args...); err != nil {
		w.log.Warn("qless: the worker could not sign off", "error", err)
	}
}

// nudge makes the loop look again.
func (w *Worker) nudge() { poke(w.kick) }

// poke puts a token into a channel that holds one, unless it is there already.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
