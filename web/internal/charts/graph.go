package charts

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"slices"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/web/internal/words"
)

// A Graph holds a job's dependencies, its dependents, and the other dependencies of its dependents.
type Graph struct {
	JID   string  `json:"jid"`
	Nodes []*Node `json:"nodes"` // by depth
	IsCut bool    `json:"is_cut"`

	byJID map[string]*Node
}

// A Node is a job of a graph.
type Node struct {
	JID   string      `json:"jid"`
	Klass string      `json:"klass,omitempty"`
	Queue string      `json:"queue,omitempty"`
	State qless.State `json:"state,omitempty"` // empty if the job is gone

	// Depth is the distance from the first job of the graph, negative for its dependencies.
	Depth int `json:"depth"`

	// Needs are the jobs of the graph that the job waits for, or was put to wait for.
	Needs []string `json:"needs,omitempty"`

	// IsCritical is true if the job is on the critical path: the longest chain of incomplete jobs
	// through the first job.
	IsCritical bool `json:"is_critical,omitempty"`

	// Blocks is the number of jobs of the graph that wait because this job has failed.
	Blocks int `json:"blocks,omitempty"`

	job         *qless.Job
	needs, next []*Node // dependencies and dependents
	open, held  []*Node // the jobs among these with an unfinished wait
	isDown      bool    // dependents belong to the graph
	isPlaced    bool
	layer, row  int
}

// OpenBatch is the jid that the callback of an open batch depends on. It is not the jid of a job.
const OpenBatch = "x:open"

const (
	maxNodes    = 500 // the maximum number of jobs of a graph
	nodesAtOnce = 50  // the number of jobs read at once
)

// IsBatch reports whether n stands for an uncommitted batch.
func (n *Node) IsBatch() bool { return n.JID == OpenBatch }

// isOpen reports whether the job has yet to complete.
func (n *Node) isOpen() bool {
	return n.IsBatch() || n.State != "" && n.State != qless.StateComplete
}

// ReadGraph reads the graph of a job, the nearest jobs first.
func ReadGraph(ctx context.Context, client *qless.Client, jid string) (*Graph, error) {
	if _, err := client.Job(ctx, jid); err != nil {
		return nil, err
	}
	g := &Graph{JID: jid, byJID: map[string]*Node{}}
	for queue := g.add(nil, true, jid); len(queue) > 0; {
		part := queue[:min(len(queue), nodesAtOnce)]
		queue = queue[len(part):]
		if err := g.read(ctx, client, part); err != nil {
			return nil, err
		}
		for _, node := range part {
			if node.job == nil {
				continue
			}
			queue = g.add(queue, false, node.job.Dependencies...)
			queue = g.add(queue, false, node.job.Options.Parents...)
			if node.isDown {
				queue = g.add(queue, true, node.job.Dependents...)
			}
		}
	}
	g.connect()
	g.arrange()
	return g, nil
}

// add adds jobs to the graph, and appends the jobs to follow further to a queue.
func (g *Graph) add(queue []*Node, isDown bool, jids ...string) []*Node {
	for _, jid := range slices.Sorted(slices.Values(jids)) {
		node := g.byJID[jid]
		if node != nil && (node.isDown || !isDown) {
			continue
		}
		if node == nil && len(g.Nodes) >= maxNodes {
			g.IsCut = true
			continue
		}
		if node == nil {
			node = &Node{JID: jid}
			g.byJID[jid] = node
			g.Nodes = append(g.Nodes, node)
		}
		node.isDown = isDown
		queue = append(queue, node)
	}
	return queue
}

// read reads the jobs not read yet.
func (g *Graph) read(ctx context.Context, client *qless.Client, nodes []*Node) error {
	var jids []string
	for _, node := range nodes {
		if node.job == nil && !node.IsBatch() {
			jids = append(jids, node.JID)
		}
	}
	jobs, err := client.Jobs(ctx, jids...)
	for _, job := range jobs {
		node := g.byJID[job.JID]
		node.job, node.Klass, node.Queue, node.State = job, job.Klass, job.Queue, job.State
	}
	return err
}

// connect sets the links between the jobs.
func (g *Graph) connect() {
	for _, node := range g.Nodes {
		if node.job == nil {
			continue
		}
		for i, jid := range slices.Concat(node.job.Dependencies, node.job.Options.Parents) {
			other := g.byJID[jid]
			if other == nil || slices.Contains(node.needs, other) {
				continue
			}
			node.needs, other.next = append(node.needs, other), append(other.next, node)
			if i < len(node.job.Dependencies) {
				node.open, other.held = append(node.open, other), append(other.held, node)
			}
			node.Needs = append(node.Needs, jid)
		}
		slices.Sort(node.Needs)
	}
}

// arrange places the jobs, and determines the critical path and the blocked jobs.
func (g *Graph) arrange() {
	for _, node := range g.Nodes {
		node.setLayer()
	}
	for _, node := range g.Nodes {
		if len(node.needs) == 0 && len(node.next) > 0 { // next to the first dependent
			node.layer = max(0, slices.MinFunc(node.next, byLayer).layer-1)
		}
	}
	root := g.byJID[g.JID]
	for _, node := range g.Nodes {
		node.Depth = node.layer - root.layer
		if node.State == qless.StateFailed {
			node.Blocks = node.waiting()
		}
	}
	before := root.chain(func(n *Node) []*Node { return n.open }, map[*Node][]*Node{})
	after := root.chain(func(n *Node) []*Node { return n.held }, map[*Node][]*Node{})
	for _, node := range slices.Concat(before, after) {
		node.IsCritical = true
	}
	g.setRows()
	slices.SortStableFunc(g.Nodes, func(a, b *Node) int {
		return cmp.Or(byLayer(a, b), cmp.Compare(a.row, b.row))
	})
}

func byLayer(a, b *Node) int { return cmp.Compare(a.layer, b.layer) }

// setLayer places a job to the right of its dependencies, and returns its layer. Cyclic
// dependencies, which no client allows, lead to arbitrary places.
func (n *Node) setLayer() int {
	if !n.isPlaced {
		n.isPlaced = true
		for _, needed := range n.needs {
			n.layer = max(n.layer, needed.setLayer()+1)
		}
	}
	return n.layer
}

// chain returns the longest chain of open jobs that begins at a job, if the job itself is open.
func (n *Node) chain(next func(*Node) []*Node, known map[*Node][]*Node) []*Node {
	if chain, isKnown := known[n]; isKnown || !n.isOpen() {
		return chain
	}
	known[n] = nil // which ends cycles
	var longest []*Node
	for _, other := range next(n) {
		if chain := other.chain(next, known); len(chain) > len(longest) {
			longest = chain
		}
	}
	known[n] = append([]*Node{n}, longest...)
	return known[n]
}

// waiting returns the number of jobs waiting for a job, directly or indirectly.
func (n *Node) waiting() int {
	seen := map[*Node]bool{n: true}
	for queue := []*Node{n}; len(queue) > 0; queue = queue[1:] {
		for _, next := range queue[0].held {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return len(seen) - 1
}

// orderings is how often the jobs of a layer are sorted by their neighbors.
const orderings = 6

// setRows gives each job a row in its layer, near its neighbors.
func (g *Graph) setRows() {
	layers := map[int][]*Node{}
	for _, node := range g.Nodes {
		node.row = len(layers[node.layer])
		layers[node.layer] = append(layers[node.layer], node)
	}
	byMiddle := func(a, b *Node) int { return cmp.Compare(a.middle(), b.middle()) }
	for range orderings {
		for i := range len(layers) {
			slices.SortStableFunc(layers[i], byMiddle)
			for row, node := range layers[i] {
				node.row = row
			}
		}
	}
}

// middle returns the mean row of the neighbors of a job.
func (n *Node) middle() float64 {
	neighbors := slices.Concat(n.needs, n.next)
	sum := 0
	for _, other := range neighbors {
		sum += other.row
	}
	if len(neighbors) == 0 {
		return float64(n.row)
	}
	return float64(sum) / float64(len(neighbors))
}

// StateText returns the state in a word.
func (n *Node) StateText() string {
	switch {
	case n.IsBatch():
		return "open batch"
	case n.State == "":
		return "gone"
	}
	return string(n.State)
}

// stateSigns distinguish the states without color.
var stateSigns = map[qless.State]string{
	"": "–", qless.StateComplete: "✓", qless.StateFailed: "✕", qless.StateRunning: "▶",
	qless.StateScheduled: "◷", qless.StateDepends: "⋯", qless.StateTimedOut: "!",
	qless.StateWaiting: "○",
}

// The sizes of a graph.
const (
	nodeWidth  = 172.0
	nodeHeight = 40.0
	gapWidth   = 30.0
	gapHeight  = 14.0
	graphEdge  = 12.0
)

func (n *Node) left() float64 { return graphEdge + float64(n.layer)*(nodeWidth+gapWidth) }
func (n *Node) top() float64  { return graphEdge + float64(n.row)*(nodeHeight+gapHeight) }

// A drawing is a drawing of a graph, with a column for each layer and a box for each job.
type drawing struct {
	Label                              string
	Width, Height, BoxWidth, BoxHeight float64
	Edges                              []edge
	Boxes                              []box
}

// An edge is a line from a job to a dependent. Its end is a dot.
type edge struct {
	Class, Path string
	X, Y        float64
}

// A box is a job, with its place and two lines of text.
type box struct {
	Class, Title, URL, Name, Text string
	X, Y                          float64
}

// Draw draws the graph. Its jobs are links.
func (g *Graph) Draw(link func(jid string) string) template.HTML {
	d := &drawing{
		Label: fmt.Sprintf("Graph of %d jobs", len(g.Nodes)), BoxWidth: nodeWidth, BoxHeight: nodeHeight,
	}
	for _, node := range g.Nodes {
		d.Width = max(d.Width, node.left()+nodeWidth+graphEdge)
		d.Height = max(d.Height, node.top()+nodeHeight+graphEdge)
		for _, needed := range node.needs {
			d.Edges = append(d.Edges, edgeOf(needed, node))
		}
		box := node.draw(node.JID == g.JID)
		if !node.IsBatch() {
			box.URL = link(node.JID)
		}
		d.Boxes = append(d.Boxes, box)
	}
	return execute("graph", d)
}

func edgeOf(from, to *Node) edge {
	class := "edge"
	switch {
	case from.IsCritical && to.IsCritical:
		class += " critical"
	case !from.isOpen():
		class += " over"
	}
	x1, y1 := from.left()+nodeWidth, coordinate(from.top()+nodeHeight/2)
	x2, y2 := to.left(), to.top()+nodeHeight/2
	middle := coordinate((x1 + x2) / 2)
	return edge{class, fmt.Sprintf("M%s %sC%s %s %s %s %s %s", coordinate(x1), y1, middle, y1, middle,
		coordinate(y2), coordinate(x2), coordinate(y2)), x2, y2}
}

func (n *Node) draw(isRoot bool) box {
	class := "node"
	if n.State != "" {
		class += " hue " + string(n.State)
	}
	if !n.isOpen() {
		class += " over"
	}
	if n.IsCritical {
		class += " critical"
	}
	if isRoot {
		class += " root"
	}
	title, blocks := fmt.Sprintf("%s: %s, %s", n.JID, n.Klass, n.StateText()), ""
	if n.Blocks > 0 {
		blocks = "blocks " + words.Plural(n.Blocks, "job")
		title += ", " + blocks
		blocks += " · "
	}
	return box{
		class, title, "", stateSigns[n.State] + " " + words.Short(cmp.Or(n.Klass, n.StateText()), 20),
		words.Short(blocks+words.ID(n.JID), 24), n.left(), n.top(),
	}
}
