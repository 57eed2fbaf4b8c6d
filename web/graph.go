package web

import (
	"cmp"
	"context"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go"
)

const (
	// maxNodes is how many jobs a graph has.
	maxNodes = 500

	// nodesAtOnce is how many of them are read at once.
	nodesAtOnce = 50

	// graphAge is how old a graph may be.
	graphAge = 3 * time.Second
)

// A graphData has the jobs that a job waits for, those that wait for it, and what these wait for.
type graphData struct {
	JID   string       `json:"jid"`
	Nodes []*graphNode `json:"nodes"` // by depth
	IsCut bool         `json:"is_cut"`

	byJID map[string]*graphNode
}

// A graphNode is a job of a graph.
type graphNode struct {
	JID   string      `json:"jid"`
	Klass string      `json:"klass,omitempty"`
	Queue string      `json:"queue,omitempty"`
	State qless.State `json:"state,omitempty"` // empty if it is gone

	// Depth is how far it is from the first job of the graph, below zero before it.
	Depth int `json:"depth"`

	// Needs are the jobs of the graph that it waits for, or was put to wait for.
	Needs []string `json:"needs,omitempty"`

	// IsCritical says that it is on the critical path: the longest chain of jobs that are not
	// complete, through the first job.
	IsCritical bool `json:"is_critical,omitempty"`

	// Blocks is how many jobs of the graph wait because this one has failed.
	Blocks int `json:"blocks,omitempty"`

	open   []string // of Needs, those that it still waits for
	next   []string // the jobs of the graph that need it
	isDown bool     // those that wait for it belong to the graph

	layer, row    int
	before, after int // the longest chains of open jobs that end and begin here
}

// IsBatch reports whether it stands for a batch that is not committed.
func (n *graphNode) IsBatch() bool { return n.JID == openBatch }

// isOpen reports whether the job has yet to be completed.
func (n *graphNode) isOpen() bool {
	return n.IsBatch() || n.State != "" && n.State != qless.StateComplete
}

// graph shows what a job waits for, and what waits for it.
func (s *site) graph(r *http.Request) (*view, error) {
	jid := nameOf(r, "jid")
	data, err := sampledFor(r.Context(), &s.samples, graphAge, "graph "+strconv.Quote(jid),
		func(ctx context.Context) (*graphData, error) {
			g := &graphData{JID: jid, byJID: map[string]*graphNode{}}
			if err := g.read(ctx, s.Client); err != nil {
				return nil, err
			}
			g.arrange()
			return g, nil
		})
	if err != nil {
		return nil, err
	}
	return &view{template: "graph", title: "Graph of " + jid, section: "find", data: data}, nil
}

// read reads the jobs of the graph, the nearest first.
func (g *graphData) read(ctx context.Context, client *qless.Client) error {
	if _, err := client.Job(ctx, g.JID); err != nil {
		return err
	}
	jobs := map[string]*qless.Job{}
	g.add(g.JID, true)
	for queue := []string{g.JID}; len(queue) > 0; {
		part := queue[:min(len(queue), nodesAtOnce)]
		queue = queue[len(part):]
		if err := readNodes(ctx, client, part, jobs); err != nil {
			return err
		}
		for _, jid := range part {
			queue = append(queue, g.follow(g.byJID[jid], jobs[jid])...)
		}
	}
	g.connect(jobs)
	return nil
}

// readNodes reads those of some jobs that have not been read.
func readNodes(
	ctx context.Context, client *qless.Client, jids []string, jobs map[string]*qless.Job,
) error {
	missing := slices.DeleteFunc(realJobs(jids), func(jid string) bool { return jobs[jid] != nil })
	read, err := client.Jobs(ctx, missing...)
	for _, job := range read {
		jobs[job.JID] = job
	}
	return err
}

// add adds a job, and reports whether there is something to follow from it.
func (g *graphData) add(jid string, isDown bool) bool {
	node := g.byJID[jid]
	if node == nil {
		if len(g.Nodes) >= maxNodes {
			g.IsCut = true
			return false
		}
		node = &graphNode{JID: jid}
		g.byJID[jid] = node
		g.Nodes = append(g.Nodes, node)
	} else if node.isDown || !isDown {
		return false
	}
	node.isDown = node.isDown || isDown
	return true
}

// follow adds the jobs that one leads to, and returns those that are to be followed.
func (g *graphData) follow(node *graphNode, job *qless.Job) (found []string) {
	if job == nil {
		return nil
	}
	node.Klass, node.Queue, node.State = job.Klass, job.Queue, job.State
	add := func(jids []string, isDown bool) {
		for _, jid := range slices.Sorted(slices.Values(jids)) {
			if g.add(jid, isDown) {
				found = append(found, jid)
			}
		}
	}
	add(job.Dependencies, false)
	add(job.Parents, false)
	if node.isDown {
		add(job.Dependents, true)
	}
	return found
}

// connect notes who needs whom.
func (g *graphData) connect(jobs map[string]*qless.Job) {
	for _, node := range g.Nodes {
		job := jobs[node.JID]
		if job == nil {
			continue
		}
		for i, needed := range slices.Concat(job.Dependencies, job.Parents) {
			other := g.byJID[needed]
			if other == nil || slices.Contains(node.Needs, needed) {
				continue
			}
			node.Needs = append(node.Needs, needed)
			if i < len(job.Dependencies) {
				node.open = append(node.open, needed)
			}
			other.next = append(other.next, node.JID)
		}
		slices.Sort(node.Needs)
	}
}

// arrange finds out the place of each job, and what is special about it.
func (g *graphData) arrange() {
	order := g.inOrder()
	for _, node := range order {
		for _, jid := range node.Needs {
			node.layer = max(node.layer, g.byJID[jid].layer+1)
		}
	}
	g.pullRight(order)
	root := g.byJID[g.JID].layer
	for _, node := range g.Nodes {
		node.Depth = node.layer - root
	}
	g.markCritical(order)
	for _, node := range g.Nodes {
		if node.State == qless.StateFailed {
			node.Blocks = g.waiting(node)
		}
	}
	g.setRows()
	slices.SortStableFunc(g.Nodes, func(a, b *graphNode) int {
		return cmp.Or(cmp.Compare(a.layer, b.layer), cmp.Compare(a.row, b.row))
	})
}

// inOrder returns the jobs so that each comes after those that it needs. Jobs that need each other,
// which no client allows, come last.
func (g *graphData) inOrder() []*graphNode {
	left := map[*graphNode]int{}
	var order []*graphNode
	for _, node := range g.Nodes {
		if left[node] = len(node.Needs); left[node] == 0 {
			order = append(order, node)
		}
	}
	for i := 0; i < len(order); i++ {
		for _, jid := range order[i].next {
			next := g.byJID[jid]
			if left[next]--; left[next] == 0 {
				order = append(order, next)
			}
		}
	}
	for _, node := range g.Nodes {
		if left[node] > 0 {
			order = append(order, node)
		}
	}
	return order
}

// pullRight moves jobs that need nothing next to the first that needs them.
func (g *graphData) pullRight(order []*graphNode) {
	for _, node := range slices.Backward(order) {
		if len(node.Needs) > 0 || len(node.next) == 0 {
			continue
		}
		nearest := g.byJID[node.next[0]].layer
		for _, jid := range node.next {
			nearest = min(nearest, g.byJID[jid].layer)
		}
		node.layer = max(node.layer, nearest-1)
	}
}

// markCritical marks the longest chain of open jobs through the job that was asked for.
func (g *graphData) markCritical(order []*graphNode) {
	for _, node := range order {
		if node.isOpen() {
			node.before = 1 + g.best(node.open, beforeOf).length
		}
	}
	for _, node := range slices.Backward(order) {
		if node.isOpen() {
			node.after = 1 + g.best(g.openNext(node), afterOf).length
		}
	}
	root := g.byJID[g.JID]
	if !root.isOpen() {
		return
	}
	root.IsCritical = true
	for node := g.best(root.open, beforeOf).node; node != nil && !node.IsCritical; {
		node.IsCritical = true
		node = g.best(node.open, beforeOf).node
	}
	for node := g.best(g.openNext(root), afterOf).node; node != nil && !node.IsCritical; {
		node.IsCritical = true
		node = g.best(g.openNext(node), afterOf).node
	}
}

func beforeOf(n *graphNode) int { return n.before }
func afterOf(n *graphNode) int  { return n.after }

// A chain begins or ends at a job.
type chain struct {
	node   *graphNode
	length int
}

// best returns the longest of the chains at some jobs.
func (g *graphData) best(jids []string, length func(*graphNode) int) (best chain) {
	for _, jid := range jids {
		if node := g.byJID[jid]; node.isOpen() && length(node) > best.length {
			best = chain{node, length(node)}
		}
	}
	return best
}

// openNext returns the jobs that still wait for a job.
func (g *graphData) openNext(node *graphNode) (next []string) {
	for _, jid := range node.next {
		if slices.Contains(g.byJID[jid].open, node.JID) {
			next = append(next, jid)
		}
	}
	return next
}

// waiting returns how many jobs wait for a job, through others too.
func (g *graphData) waiting(node *graphNode) int {
	seen := map[string]bool{node.JID: true}
	for queue := []*graphNode{node}; len(queue) > 0; queue = queue[1:] {
		for _, jid := range g.openNext(queue[0]) {
			if !seen[jid] {
				seen[jid] = true
				queue = append(queue, g.byJID[jid])
			}
		}
	}
	return len(seen) - 1
}

// orderings is how often the jobs of a layer are put into the order of their neighbors.
const orderings = 6

// setRows gives each job a row in its layer, near to those that it is connected with.
func (g *graphData) setRows() {
	var layers [][]*graphNode
	for _, node := range g.Nodes {
		for len(layers) <= node.layer {
			layers = append(layers, nil)
		}
		node.row = len(layers[node.layer])
		layers[node.layer] = append(layers[node.layer], node)
	}
	for round := range orderings {
		for i := range layers {
			neighbors := func(n *graphNode) []string { return n.Needs }
			layer := layers[i]
			if round%2 == 1 {
				neighbors = func(n *graphNode) []string { return n.next }
				layer = layers[len(layers)-1-i]
			}
			g.sortLayer(layer, neighbors)
		}
	}
}

// sortLayer sorts a layer by the mean row of the neighbors on one side.
func (g *graphData) sortLayer(layer []*graphNode, neighbors func(*graphNode) []string) {
	means := map[*graphNode]float64{}
	for _, node := range layer {
		jids := neighbors(node)
		means[node] = float64(node.row)
		if len(jids) == 0 {
			continue
		}
		sum := 0
		for _, jid := range jids {
			sum += g.byJID[jid].row
		}
		means[node] = float64(sum) / float64(len(jids))
	}
	slices.SortStableFunc(layer, func(a, b *graphNode) int { return cmp.Compare(means[a], means[b]) })
	for row, node := range layer {
		node.row = row
	}
}

// Sign returns a sign for a state, so that color is not all that tells it.
func (n *graphNode) Sign() string {
	switch n.State {
	case qless.StateComplete:
		return "✓"
	case qless.StateFailed:
		return "✕"
	case qless.StateRunning:
		return "▶"
	case qless.StateScheduled:
		return "◷"
	case qless.StateDepends:
		return "⋯"
	case qless.StateTimedOut:
		return "!"
	case qless.StateWaiting:
		return "○"
	}
	return "–"
}

// StateText is the state in a word.
func (n *graphNode) StateText() string {
	switch {
	case n.IsBatch():
		return "open batch"
	case n.State == "":
		return "gone"
	}
	return string(n.State)
}

// Drawing draws the graph. Site makes the links.
func (g *graphData) Drawing(s *site) template.HTML { return drawGraph(g, s) }
