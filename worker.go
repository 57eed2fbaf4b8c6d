package qless

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"
)

// WorkerConfig says how a worker works. Its zero value works, but for Queues.
type WorkerConfig struct {
	// Backoff says how long a job waits after an error before it is retried. Defaults to
	// [DefaultBackoff].
	Backoff Backoff

	// Concurrency is how many jobs are worked at once. Defaults to 10.
	Concurrency int

	// FailGroup names the failure group of a job that fails for want of retries. Defaults to
	// [DefaultFailGroup].
	FailGroup func(job *Job, err error) string

	// Logger is where the worker reports. Defaults to the client's.
	Logger *slog.Logger

	// MaxRunTime ends a handler's context after a time, with the cause [ErrMaxRunTime]. The job
	// stays the handler's: it is complete when the handler returns nil nevertheless, and is retried
	// when it returns an error. Defaults to 0: never.
	MaxRunTime time.Duration

	// Name is the worker's name, under which it holds its locks. No other live worker may
	// have it. Defaults to host-pid-random.
	Name string

	// Order says in which order queues are asked. Defaults to [Ordered].
	Order Order

	// PollInterval is how long an idle worker waits at most before it asks for jobs again, if
	// nothing wakes it. It should be the same for all workers of a queue, and less than an hour,
	// as a job with a longer delay wakes nobody. Defaults to 10 s.
	PollInterval time.Duration

	// Queues are the queues to take jobs from, at most 1000. One may be a pattern: in "mail-*" the
	// * is any text, and "!mail-slow" takes away what the others match. Patterns match queues as
	// they appear. When there are more than 1000, those that have jobs are preferred, as seen at
	// the last poll.
	Queues []string

	// Schedules put jobs at their times while the worker runs.
	Schedules []*Schedule

	// ShutdownTimeout is how long running jobs may take to end when the worker is stopped.
	// Then their contexts end, and they are given back for another worker. Defaults to 20 s.
	ShutdownTimeout time.Duration

	// UnknownKlassDelay is how long a job waits whose klass has no handler here: it is given
	// back for a worker that has one, and spends no retry. Defaults to 15 s.
	UnknownKlassDelay time.Duration
}

func (c WorkerConfig) withDefaults(client *Client) WorkerConfig {
	if c.Backoff == nil {
		c.Backoff = DefaultBackoff
	}
	if c.Concurrency == 0 {
		c.Concurrency = 10
	}
	if c.FailGroup == nil {
		c.FailGroup = DefaultFailGroup
	}
	if c.Logger == nil {
		c.Logger = client.logger
	}
	if c.PollInterval == 0 {
		c.PollInterval = 10 * time.Second
	}
	if c.ShutdownTimeout == 0 {
		c.ShutdownTimeout = 20 * time.Second
	}
	if c.UnknownKlassDelay == 0 {
		c.UnknownKlassDelay = 15 * time.Second
	}
	return c
}

func (c WorkerConfig) check() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"MaxRunTime", c.MaxRunTime}, {"PollInterval", c.PollInterval},
		{"ShutdownTimeout", c.ShutdownTimeout}, {"UnknownKlassDelay", c.UnknownKlassDelay},
	} {
		if d.value < 0 {
			return invalid("work", "", "%s %v is negative", d.name, d.value)
		}
	}
	if c.Concurrency < 0 {
		return invalid("work", "", "Concurrency %d is negative", c.Concurrency)
	}
	if c.Order < Ordered || c.Order > ShuffledRoundRobin {
		return invalid("work", "", "Order %d is unknown", c.Order)
	}
	if names := len(named(c.Queues)); names > maxReserve {
		return invalid("work", "",
			"WorkerConfig.Queues names %d queues; a worker asks at most %d", names, maxReserve)
	}
	return checkNames("work", "queue name", c.Queues)
}

// A Worker takes jobs from queues and gives them to its handlers, as many at once as its
// concurrency says. It renews the lock of every job that runs, wakes when there is
// something to do, and rides out a server that is away.
//
// Register handlers, then call [Worker.Run], or [Worker.Start] and later [Worker.Stop].
type Worker struct {
	client *Client
	cfg    WorkerConfig
	named  bool // the name was chosen by the user, and might be shared
	mux    mux
	around []Middleware
	log    *slog.Logger

	kick chan struct{} // tells the loop to look again
	beat chan struct{} // tells the keeper of locks to look again

	mu       sync.Mutex
	state    workerState
	paused   bool
	hungry   bool // there may be jobs: ask as soon as there is room
	idle     bool // the server counts it among the idle ones
	busy     int  // handlers at work, whether their locks are lost or not
	running  map[string]*run
	nextBeat time.Time // when the keeper of locks looks again by itself
	outcomes []*outcome
	held     map[*outcome]*time.Timer // outcomes that are held back, and when they are sent again
	telling  int                      // outcomes that are being sent
	health   health

	listener listener

	quit    chan struct{} // closed when no more jobs are to be taken
	quiet   chan struct{} // closed when none runs after that, and the server knows all outcomes
	abandon chan struct{} // closed when running jobs are to be given back
	closed  chan struct{} // closed when all has ended
	once    struct{ quit, quiet, abandon sync.Once }
}

type workerState int

const (
	workerNew workerState = iota
	workerRunning
	workerStopping
	workerClosed
)

// NewWorker returns a worker of a client's queues. It does nothing until it is started.
func NewWorker(client *Client, config WorkerConfig) *Worker {
	own := client.as(cmp.Or(config.Name, newWorkerName()))
	cfg := config.withDefaults(client)
	return &Worker{
		client:  own,
		cfg:     cfg,
		named:   config.Name != "",
		log:     cfg.Logger.With("worker", own.worker),
		kick:    make(chan struct{}, 1),
		beat:    make(chan struct{}, 1),
		hungry:  true,
		running: map[string]*run{},
		held:    map[*outcome]*time.Timer{},
		listener: listener{
			quiet: map[string]bool{},
			relay: make(chan struct{}, 1),
		},
		quit:    make(chan struct{}),
		quiet:   make(chan struct{}),
		abandon: make(chan struct{}),
		closed:  make(chan struct{}),
	}
}

// Name returns the name under which the worker holds its locks.
func (w *Worker) Name() string { return w.client.worker }

// Handle registers a handler for a klass, or for every klass that begins with what stands
// before a * at the end: "Mail::*" takes Mail::Welcome, and "*" takes all. The handler of
// the klass itself goes first, then that of the longest pattern. Handlers are registered
// before the worker is started.
func (w *Worker) Handle(klass string, handler Handler, options ...HandleOption) {
	r := &route{handler: handler}
	for _, option := range options {
		option(r)
	}
	w.mux.add(klass, r)
}

// HandleFunc registers a function as [Worker.Handle] does a handler.
func (w *Worker) HandleFunc(klass string, work func(ctx context.Context, job *Job) error, options ...HandleOption) {
	w.Handle(klass, HandlerFunc(work), options...)
}

// Use wraps every handler, those registered before and after. The first middleware is the
// outermost.
func (w *Worker) Use(middleware ...Middleware) {
	w.around = append(w.around, middleware...)
}

// Run starts the worker and blocks until it has stopped: when the context ends, or by
// [Worker.Stop] or [Worker.Drain].
func (w *Worker) Run(ctx context.Context) error {
	if err := w.Start(ctx); err != nil {
		return err
	}
	<-w.closed
	return nil
}

// Start starts the worker and returns at once. When the context ends, the worker stops as
// [Worker.Stop] does. A configuration that can't be used is [ErrInvalid]; a server that is
// away is waited for.
func (w *Worker) Start(ctx context.Context) error {
	if err := w.cfg.check(); err != nil {
		return err
	}
	if err := checkName("work", "worker name", w.client.worker); err != nil {
		return err
	}
	for _, schedule := range w.cfg.Schedules {
		if schedule.err != nil {
			return schedule.err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != workerNew {
		return invalid("work", "", "a worker can be started once")
	}
	w.state = workerRunning
	go w.live(ctx)
	return nil
}

// Stop takes no new jobs, gives the running ones the ShutdownTimeout to end, and then ends
// their contexts and gives them back, without spending a retry; the end of the context cuts
// that time short. It returns when all has ended, or about a second after the last job when the
// server does not answer: what it was not told by then is left to the ends of the locks, and a
// call that waits for an answer ends with the connection's read timeout. A worker that has stopped,
// or was never started, is left as it is.
func (w *Worker) Stop(ctx context.Context) error {
	timer := time.NewTimer(w.cfg.ShutdownTimeout)
	defer timer.Stop()
	return w.end(ctx, timer.C)
}

// Drain takes no new jobs and waits until the running ones have ended and the server was told,
// however long that takes, or until the context ends: then they are given back, as by
// [Worker.Stop].
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
	select {
	case <-w.closed:
		return nil
	case <-timeout:
	case <-ctx.Done():
	}
	w.once.abandon.Do(func() { close(w.abandon) })
	<-w.closed
	return nil
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
	for _, schedule := range w.cfg.Schedules {
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
	return len(w.running)+len(w.outcomes)+len(w.held)+w.telling == 0
}

// close notes that the worker has stopped.
func (w *Worker) close() {
	w.mu.Lock()
	w.state = workerClosed
	untold := len(w.outcomes) + len(w.held) + w.telling
	for _, again := range w.held {
		again.Stop()
	}
	clear(w.held)
	w.mu.Unlock()
	if untold > 0 {
		w.log.Warn("qless: the worker stopped before the server took all outcomes",
			"outcomes", untold)
	}
	close(w.closed)
}

// giveBack ends the contexts of the jobs that still run, and gives the jobs back.
func (w *Worker) giveBack() {
	w.mu.Lock()
	for _, r := range w.running {
		if !r.hold.ended.Load() {
			o := r.handBack(0)
			o.until = r.until
			w.outcomes = append(w.outcomes, o)
		}
		w.drop(r, ErrStopped)
	}
	w.mu.Unlock()
	w.nudge()
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
