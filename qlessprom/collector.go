package qlessprom

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/guard"
)

// Options configure the reads of a [Collector]. 0 means the default, and -1 none, unless noted
// otherwise.
type Options struct {
	// MaxAge is how long later scrapes reuse the figures of a scrape. Concurrent scrapes always share
	// one read.
	//
	// Defaults to 5 s. The value -1 means that figures are not reused.
	MaxAge time.Duration

	// MaxGroups is the number of failure groups with separate labels: the largest.
	//
	// Defaults to 50.
	MaxGroups int

	// MaxLimits is the number of limits with separate labels: the first by name.
	//
	// Defaults to 50.
	MaxLimits int

	// MaxNamespaces is the maximum number of namespaces read by a [Group]: the first by name.
	//
	// Defaults to 1000.
	MaxNamespaces int

	// MaxQueues is the number of queues with separate labels: the first seen. The others are counted
	// together. A queue keeps its label for as long as it exists. At most 2000 queues are read.
	//
	// Defaults to 200.
	MaxQueues int

	// MaxSchedules is the number of schedules with separate labels: the first by name.
	//
	// Defaults to 50.
	MaxSchedules int

	// NamespacesEvery is how often a [Group] looks for namespaces, at the cost of
	// [inspect.Namespaces].
	//
	// Defaults to 5 minutes. The value -1 means at each scrape.
	NamespacesEvery time.Duration

	// OnError is called for each failed part of a scrape, and for damaged keys. It must not scrape. A
	// [Group] calls OnError from several goroutines at once.
	//
	// Defaults to nil. The metric qless_scrape_errors_total counts such errors in any case.
	OnError func(err error)

	// ProblemsEvery is how often the collector looks for problems, at the cost of [doctor.ReadStatus].
	// Scrapes in between repeat the known problems.
	//
	// Defaults to 1 minute. The value -1 means never.
	ProblemsEvery time.Duration

	// QueuesAtOnce is the number of queues read by a scrape, but at least a quarter of all queues. If
	// there are more, each scrape reads the queues with the oldest figures, and repeats the figures of
	// the others: four scrapes read all queues. A scrape reads all queues if some are new or gone.
	//
	// Defaults to 50. The value -1 means that each scrape reads all queues.
	QueuesAtOnce int

	// StatsAtOnce is the number of queues for which a scrape reads today's statistics, which cost the
	// most. If there are more, each scrape reads the queues with the oldest statistics. The first
	// scrape reads all statistics, to count from there.
	//
	// Defaults to 25. The value -1 means that none are read.
	StatsAtOnce int

	// Timeout limits how long the server may take to answer a scrape. It should be less than the
	// timeout of the Prometheus server, which is 10 s by default.
	//
	// Defaults to 5 s. The value -1 means no limit.
	Timeout time.Duration
}

const (
	maxQueuesRead    = 2000
	maxSchedulesRead = 100
)

func (o Options) withDefaults() Options {
	o.MaxAge = cmp.Or(o.MaxAge, 5*time.Second)
	if o.Timeout = cmp.Or(o.Timeout, 5*time.Second); o.Timeout < 0 {
		o.Timeout = math.MaxInt64
	}
	o.MaxQueues = labels(o.MaxQueues, 200)
	o.QueuesAtOnce = cmp.Or(o.QueuesAtOnce, 50)
	if o.QueuesAtOnce < 0 {
		o.QueuesAtOnce = maxQueuesRead
	}
	o.MaxGroups = labels(o.MaxGroups, 50)
	o.MaxLimits = labels(o.MaxLimits, 50)
	o.MaxSchedules = labels(o.MaxSchedules, 50)
	o.StatsAtOnce = cmp.Or(o.StatsAtOnce, 25)
	o.ProblemsEvery = cmp.Or(o.ProblemsEvery, time.Minute)
	o.MaxNamespaces = labels(o.MaxNamespaces, 1000)
	o.NamespacesEvery = cmp.Or(o.NamespacesEvery, 5*time.Minute)
	if onError := o.OnError; onError != nil {
		g := guard.New("the function OnError", guard.Logger(slog.Default()))
		o.OnError = func(err error) { _ = g.Call(func() { onError(err) }) }
	}
	return o
}

// labels returns a maximum number of labels: the usual number by default, and 0 for -1.
func labels(most, usual int) int { return max(0, cmp.Or(most, usual)) }

// A Collector reads the figures of a namespace from the server during scrapes. A scrape never
// fails: unreadable figures are omitted and counted in qless_scrape_errors_total. A Collector is
// safe for concurrent use.
type Collector struct {
	client   *qless.Client
	options  Options
	ledger   *ledger   // belongs to the reading scrape
	misses   *misses   // so does this
	turns    turns     // and this
	problems *findings // and this
	errors   atomic.Int64
	inGroup  bool // belongs to a group
	turn     bool // this scrape reads the problems: set by the group

	mu      sync.Mutex
	last    *figures
	reading *reading // nil if no scrape is reading
}

// A reading is a read shared by waiting scrapes.
type reading struct {
	done    chan struct{}
	figures *figures
}

// figures are the results of a read. They don't change.
type figures struct {
	at        time.Time
	overview  *inspect.Overview      // nil if unreadable
	labels    map[string]string      // of the queues with separate labels
	counters  map[string]counts      // by label of queues
	schedules []inspect.ScheduleInfo // nil if unreadable
	missed    map[string]float64     // by label of schedules
	scheduled map[string]string      // the labels of the schedules with separate labels
	problems  *findings
}

// NewCollector returns a collector of a client's namespace.
func NewCollector(client *qless.Client, options Options) *Collector {
	options = options.withDefaults()
	return &Collector{
		client: client, options: options, problems: &findings{}, ledger: newLedger(options.MaxQueues),
		misses: &misses{most: options.MaxSchedules, known: map[string]*miss{}, series: map[string]int{}},
	}
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range serverDescs {
		descs <- desc
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	c.write(&writer{metrics, &c.options, ""}, c.current(context.Background()))
}

func (c *Collector) write(w *writer, f *figures) {
	if f.overview != nil {
		w.writeOverview(f)
	}
	w.writeSchedules(f)
	w.writeProblems(f.problems)
	w.counter(scrapeErrors, float64(c.errors.Load()))
}

// current returns figures younger than MaxAge. One scrape reads the figures, and the others wait.
func (c *Collector) current(ctx context.Context) *figures {
	c.mu.Lock()
	if c.last != nil && time.Since(c.last.at) < c.options.MaxAge {
		defer c.mu.Unlock()
		return c.last
	}
	if r := c.reading; r != nil {
		c.mu.Unlock()
		<-r.done
		return r.figures
	}
	r := &reading{done: make(chan struct{})}
	c.reading = r
	c.mu.Unlock()

	r.figures = c.read(ctx)
	c.mu.Lock()
	c.last, c.reading = r.figures, nil
	c.mu.Unlock()
	close(r.done)
	return r.figures
}

func (c *Collector) read(ctx context.Context) *figures {
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	f := &figures{}
	f.overview = c.readOverview(ctx)
	schedules, err := inspect.New(c.client).Schedules(ctx, inspect.Range{Limit: maxSchedulesRead})
	if err != nil {
		c.failed(err)
	} else {
		c.misses.add(schedules.Items, schedules.Total == len(schedules.Items))
		f.schedules, f.missed, f.scheduled = schedules.Items, c.misses.counters(), c.misses.labels()
	}
	f.problems = &findings{}
	if f.overview != nil {
		f.problems = c.readProblems(ctx)
	}
	f.labels = c.ledger.labels()
	if c.options.StatsAtOnce > 0 {
		f.counters = c.ledger.counters()
	}
	f.at = time.Now()
	return f
}

// statsAtOnce is the number of queues with statistics read in one script, at one time.
const statsAtOnce = 50

// readOverview reads all figures but the schedules', and the statistics of some queues.
func (c *Collector) readOverview(ctx context.Context) *inspect.Overview {
	var asked []string
	if c.last != nil && c.last.counters != nil { // growing figures have been exported before
		asked = c.ledger.next(c.options.StatsAtOnce)
	}
	first := asked[:min(statsAtOnce, len(asked))]
	query := inspect.OverviewQuery{StatsOf: first}
	query.From, query.Queues = c.turns.next(c.options.QueuesAtOnce)
	overview, err := inspect.New(c.client).Overview(ctx, query)
	if err == nil && !c.turns.add(query.From, &overview) {
		query.From, query.Queues = 0, maxQueuesRead
		if overview, err = inspect.New(c.client).Overview(ctx, query); err == nil {
			c.turns = turns{queues: overview.Queues}
		}
	}
	if err != nil {
		c.failed(err)
		return nil
	}
	for _, found := range overview.Damaged {
		c.failed(&qless.Error{
			Op: "overview", Code: qless.ErrServer, Message: "the key " + found.Key + " is damaged",
		})
	}
	c.addStats(ctx, first, &overview)
	c.ledger.list(&overview)
	if c.options.StatsAtOnce > 0 {
		c.readStats(ctx, asked[len(first):])
		c.readStats(ctx, c.ledger.due())
	}
	return &overview
}

// readStats reads the statistics of more queues.
func (c *Collector) readStats(ctx context.Context, queues []string) {
	for some := range slices.Chunk(queues, statsAtOnce) {
		overview, err := inspect.New(c.client).Overview(ctx,
			inspect.OverviewQuery{Queues: -1, StatsOf: some})
		if err != nil {
			c.failed(err)
			return
		}
		c.addStats(ctx, some, &overview)
	}
}

// addStats counts the statistics of queues. Statistics of damaged keys are missing.
func (c *Collector) addStats(ctx context.Context, queues []string, o *inspect.Overview) {
	today := o.Time.UTC().Truncate(day)
	for _, name := range queues {
		a := c.ledger.queues[name]
		a.read, a.settled = o.Time, !a.gone.IsZero()
		stats, found := o.Stats[name]
		if !found || a.begun && (a.day.After(today) || !c.catchUp(ctx, name, a, today)) {
			continue
		}
		c.ledger.add(a, countsOf(&stats), today)
	}
}

// catchUp adds the missing counts of the days before today. It reports false if the counts can't be
// read now.
func (c *Collector) catchUp(ctx context.Context, queue string, a *account, today time.Time) bool {
	for past := 0; a.day.Before(today) && past < maxPastDays; past++ {
		stats, err := c.client.Queue(queue).Stats(ctx, a.day)
		if err == nil {
			c.ledger.add(a, countsOf(&stats), a.day)
		} else if c.failed(err); !errors.Is(err, qless.ErrServer) {
			return false
		}
		a.day, a.last = a.day.Add(day), counts{}
	}
	return true
}

func (c *Collector) failed(err error) {
	c.errors.Add(1)
	if c.options.OnError != nil {
		c.options.OnError(err)
	}
}
