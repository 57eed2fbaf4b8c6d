package web

import (
	"cmp"
	"html/template"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/web/internal/charts"
	"github.com/qless/qless-go/web/internal/words"
)

// growth keeps the sizes of the failure groups at the views of the last minutes, or at least at the
// last view.
type growth struct {
	mu    sync.Mutex
	sizes []sizes // in the order of time; the last one may be of this moment
}

const (
	growthTime  = 10 * time.Minute // the time for which sizes of failure groups are kept
	growthStep  = 30 * time.Second // the time between two of them
	growthShown = 5                // the number of groups on the first page
)

// sizes are the numbers of jobs of the failure groups at a time.
type sizes struct {
	at     time.Time
	groups map[string]int
}

// A growing is a failure group that has become larger.
type growing struct {
	Name  string    `json:"name"`
	Jobs  int       `json:"jobs"`
	More  int       `json:"more"` // the number of additional jobs
	Since time.Time `json:"since"`

	values []float64
}

// add records the sizes of the groups.
func (g *growth) add(now sizes) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sizes = keep(g.sizes, now, growthTime, func(one sizes) time.Time { return one.at })
}

// of returns the growth of a group, or nil if it has not grown.
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

// most returns the n groups that have grown most.
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

// Spark draws the sizes of the group.
func (g *growing) Spark() template.HTML {
	label := "from " + strconv.Itoa(g.Jobs-g.More) + " to " + strconv.Itoa(g.Jobs) + " jobs"
	return charts.Spark(label, g.values)
}

// keep appends a value to earlier ones that are at most length old and a step apart.
func keep[T any](all []T, now T, length time.Duration, at func(T) time.Time) []T {
	if n := len(all); n > 1 && at(all[n-1]).Sub(at(all[n-2])) < growthStep {
		all = all[:n-1]
	}
	for len(all) > 1 && at(now).Sub(at(all[0])) > length {
		all = all[1:]
	}
	return append(slices.Clip(all), now)
}
