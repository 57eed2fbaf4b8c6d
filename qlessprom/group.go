package qlessprom

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/together"
)

// namespaces is a metric exported only by a [Group].
var namespaces = prometheus.NewDesc("qless_namespaces",
	"Number of namespaces that match the pattern: those read and those left out.",
	[]string{"state"}, nil)

// readAtOnce is the number of namespaces read concurrently, and maxErrors the maximum number of
// errors of a scrape passed to OnError.
const (
	readAtOnce = 16
	maxErrors  = 5
)

// A Group is a [Collector] of several namespaces. The metrics have the namespace as an additional
// label. A Group is safe for concurrent use.
//
// A scrape runs two scripts in each namespace, and reads the problems of a quarter of the
// namespaces. Codes without problems are omitted. The statistics of queues, which make up most of
// the series, are read only while the namespaces together have at most MaxQueues queues. The
// counters of a namespace that was gone for a while continue.
type Group struct {
	rdb     redis.UniversalClient
	pattern string
	options Options

	mu      sync.Mutex         // held by a scrape
	members []*member          // by namespace
	known   map[string]*member // all members, and some that are gone
	leftOut int
	all     time.Time     // when all namespaces were last known; zero if unknown
	looked  time.Time     // the last search for namespaces
	search  chan []string // of a search in the background, if any: closed after its result

	errors atomic.Int32 // of this scrape
}

// A member is the collector of one namespace.
type member struct {
	*Collector
	label string
}

// NewGroup returns a collector of the namespaces that match a pattern of [inspect.Namespaces], such
// as {mail-*}:ql:. New namespaces are added within Options.NamespacesEvery.
func NewGroup(rdb redis.UniversalClient, pattern string, options Options) *Group {
	return &Group{
		rdb: rdb, pattern: pattern, options: options.withDefaults(), known: map[string]*member{},
	}
}

// Describe implements [prometheus.Collector].
func (g *Group) Describe(descs chan<- *prometheus.Desc) {
	descs <- namespaces
	for _, desc := range serverDescs {
		descs <- inSpaces[desc]
	}
}

// Collect implements [prometheus.Collector].
func (g *Group) Collect(metrics chan<- prometheus.Metric) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.errors.Store(0)
	ctx, cancel := context.WithTimeout(context.Background(), g.options.Timeout)
	defer cancel()
	g.look(ctx)
	g.share()
	all, _ := together.AskFew(readAtOnce, g.members, func(m *member) (*figures, error) {
		return m.current(ctx), nil
	})
	for i, m := range g.members {
		m.write(&writer{metrics, &m.options, m.label}, all[i])
	}
	w := writer{metrics: metrics}
	w.gauge(namespaces, float64(len(g.members)), "read")
	w.gauge(namespaces, float64(g.leftOut), "left_out")
}

// look searches for namespaces: at once the first time, and later in the background for the next
// scrape.
func (g *Group) look(ctx context.Context) {
	select {
	case names, found := <-g.search:
		g.search = nil
		if found {
			g.set(names, g.looked)
		}
	default:
	}
	switch {
	case g.looked.IsZero():
		began := time.Now()
		names, err := inspect.Namespaces(ctx, g.rdb, g.pattern)
		g.failed(err)
		g.set(names, began)
		if err == nil {
			g.looked = began
		} else {
			g.all = time.Time{}
		}
	case g.search == nil && time.Since(g.looked) >= g.options.NamespacesEvery:
		g.looked = time.Now()
		search := make(chan []string, 1)
		g.search = search
		go func() {
			defer close(search)
			const patience = time.Minute
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			if names, err := inspect.Namespaces(ctx, g.rdb, g.pattern); err == nil {
				search <- names
			} else {
				g.failed(err)
			}
		}()
	}
}

// set adds members for new namespaces, and leaves out namespaces that are gone. If these come back,
// their counters continue. The counters of a new namespace begin at 0, if all were known before.
func (g *Group) set(names []string, began time.Time) {
	read := names[:min(len(names), g.options.MaxNamespaces)]
	g.leftOut, g.members = len(names)-len(read), nil
	for _, name := range read {
		m := g.known[name]
		if m == nil {
			client, err := qless.New(g.rdb, &qless.ClientConfig{Namespace: name})
			if err != nil {
				g.failed(err)
				continue
			}
			m = &member{NewCollector(client, g.options), spaceLabel(name)}
			m.options.OnError = g.failed
			m.inGroup = true
			m.ledger.since, m.misses.begun = g.all, !g.all.IsZero()
			g.known[name] = m
		}
		g.members = append(g.members, m)
	}
	g.all = time.Time{}
	if g.leftOut == 0 {
		g.all = began
	}
	if len(g.known) > 2*g.options.MaxNamespaces {
		maps.DeleteFunc(g.known, func(_ string, m *member) bool { return !slices.Contains(g.members, m) })
	}
}

// spaceLabel returns a unique label for a namespace, because two equal series would fail the
// scrape.
func spaceLabel(namespace string) string {
	name := label(namespace)
	if name == namespace {
		return name
	}
	sum := sha256.Sum256([]byte(namespace))
	const length = 8
	return fmt.Sprintf("%s#%x", name, sum[:length])
}

// share decides which members make the expensive reads.
func (g *Group) share() {
	queues := 0
	for _, m := range g.members {
		if m.last == nil {
			queues = g.options.MaxQueues + 1 // not known yet
		} else if m.last.overview != nil {
			queues += m.last.overview.Total
		}
	}
	var due []*member
	for _, m := range g.members {
		m.turn = false
		m.options.StatsAtOnce = -1
		if queues <= g.options.MaxQueues {
			m.options.StatsAtOnce = g.options.StatsAtOnce
		}
		if !m.knowsProblems() {
			due = append(due, m)
		}
	}
	slices.SortStableFunc(due, func(a, b *member) int { return a.problems.at.Compare(b.problems.at) })
	for _, m := range due[:min(len(due), (len(g.members)+maxTurns-1)/maxTurns)] {
		m.turn = true
	}
}

// failed passes on the first errors of a scrape.
func (g *Group) failed(err error) {
	if err != nil && g.options.OnError != nil && g.errors.Add(1) <= maxErrors {
		g.options.OnError(err)
	}
}
