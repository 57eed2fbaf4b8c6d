package web

import (
	"cmp"
	"html/template"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/web/internal/charts"
	"github.com/qless/qless-go/web/internal/words"
)

// growth keeps how large the failure groups were at recent views: in the last minutes, or else at
// the last one.
type growth struct {
	mu    sync.Mutex
	sizes []sizes // in the order of time; the last one may be of this moment
	notes []note  // the same
}

const (
	growthTime  = 10 * time.Minute // how far back the sizes of failure groups are kept
	growthStep  = 30 * time.Second // how far they are apart
	growthShown = 5                // how many groups the first page names
)

// sizes are how many jobs each failure group had at a time.
type sizes struct {
	at     time.Time
	groups map[string]int
}

// A growing is a failure group that has become larger.
type growing struct {
	Name  string    `json:"name"`
	Jobs  int       `json:"jobs"`
	More  int       `json:"more"` // how many there are more than before
	Since time.Time `json:"since"`

	values []float64
}

// add notes how large the groups are.
func (g *growth) add(now sizes) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.sizes); n > 1 && g.sizes[n-1].at.Sub(g.sizes[n-2].at) < growthStep {
		g.sizes = g.sizes[:n-1]
	}
	isOld := func(one sizes) bool { return now.at.Sub(one.at) > growthTime }
	for len(g.sizes) > 1 && isOld(g.sizes[0]) {
		g.sizes = g.sizes[1:]
	}
	g.sizes = append(slices.Clip(g.sizes), now)
}

// of returns how a group has grown, or nil if it has not.
func (g *growth) of(name string) *growing {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.grown(name)
}

func (g *growth) grown(name string) *growing {
	if len(g.sizes) < 2 {
		return nil
	}
	first, last := g.sizes[0], g.sizes[len(g.sizes)-1]
	group := &growing{
		Name: name, Jobs: last.groups[name], More: last.groups[name] - first.groups[name],
		Since: first.at,
	}
	if group.More <= 0 {
		return nil
	}
	for _, one := range g.sizes {
		group.values = append(group.values, float64(one.groups[name]))
	}
	return group
}

// most returns the groups that have grown most.
func (g *growth) most(n int) []*growing {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := []*growing{}
	if len(g.sizes) == 0 {
		return all
	}
	for name := range g.sizes[len(g.sizes)-1].groups {
		if group := g.grown(name); group != nil {
			all = append(all, group)
		}
	}
	slices.SortFunc(all, func(a, b *growing) int {
		return cmp.Or(cmp.Compare(b.More, a.More), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(n, len(all))]
}

// Words describes the growth: "12 more in 5m".
func (g *growing) Words() string {
	return words.Number(g.More) + " more in " + units.Age(max(time.Second, time.Since(g.Since)))
}

// Spark draws its sizes.
func (g *growing) Spark() template.HTML {
	label := "from " + strconv.Itoa(g.Jobs-g.More) + " to " + strconv.Itoa(g.Jobs) + " jobs"
	return charts.Spark(label, g.values)
}

// A note is what a namespace did at a time.
type note struct {
	at     time.Time
	values [len(trended)]float64
}

// trended are the figures of which a trend is drawn.
var trended = [...]string{"workers", "busy", "waiting", "oldest", "jobs"}

// maxNotes is how many notes are kept: an hour, if a viewer is there.
const maxNotes = 120

// note keeps what the namespace does.
func (g *growth) note(status *doctor.Status) {
	one := note{at: status.Time, values: [...]float64{
		float64(status.Workers.Registered), float64(status.Workers.Busy), 0, 0, float64(status.Failed()),
	}}
	for i := range status.Queues {
		one.values[2] += float64(status.Queues[i].Waiting)
		one.values[3] = max(one.values[3], status.Queues[i].Oldest.Seconds())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.notes); n > 1 && one.at.Sub(g.notes[n-2].at) < growthStep {
		g.notes = g.notes[:n-1]
	}
	g.notes = append(g.notes[max(0, len(g.notes)+1-maxNotes):len(g.notes):len(g.notes)], one)
}

// trends are what a namespace did since the first view, up to now.
type trends []note

func (g *growth) trends() trends {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.notes
}

// Spark draws a figure.
func (t trends) Spark(figure string) template.HTML {
	var values []float64
	if len(t) == 1 { // a line needs two
		t = trends{t[0], t[0]}
	}
	for _, one := range t {
		values = append(values, one.values[slices.Index(trended[:], figure)])
	}
	return charts.Spark("trend of "+figure+" since "+words.Ago(t[0].at), values)
}
