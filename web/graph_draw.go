package web

import (
	"fmt"
	"html/template"

	"github.com/qless/qless-go"
)

// The sizes of a graph.
const (
	nodeWidth  = 170.0
	nodeHeight = 40.0
	gapWidth   = 56.0
	gapHeight  = 14.0
	graphEdge  = 12.0
)

func (n *graphNode) left() float64 { return graphEdge + float64(n.layer)*(nodeWidth+gapWidth) }
func (n *graphNode) top() float64  { return graphEdge + float64(n.row)*(nodeHeight+gapHeight) }

// drawGraph draws a column for each layer, and a box with a link for each job.
func drawGraph(g *graphData, s *site) template.HTML {
	width, height := 0.0, 0.0
	for _, node := range g.Nodes {
		width = max(width, node.left()+nodeWidth+graphEdge)
		height = max(height, node.top()+nodeHeight+graphEdge)
	}
	d := newDrawing(fmt.Sprintf("Graph of %d jobs", len(g.Nodes)), width, height)
	for _, node := range g.Nodes {
		for _, jid := range node.Needs {
			d.edge(g.byJID[jid], node)
		}
	}
	for _, node := range g.Nodes {
		d.node(node, s, node.JID == g.JID)
	}
	return d.natural()
}

// edge draws a line from a job to one that needs it. Its end is a dot.
func (d *drawing) edge(from, to *graphNode) {
	class := "edge"
	switch {
	case from.IsCritical && to.IsCritical:
		class += " critical"
	case !from.isOpen():
		class += " over"
	}
	x1, y1 := from.left()+nodeWidth, from.top()+nodeHeight/2
	x2, y2 := to.left(), to.top()+nodeHeight/2
	middle := (x1 + x2) / 2
	d.path(class, "", fmt.Sprintf("M%s %sC%s %s %s %s %s %s", coordinate(x1), coordinate(y1),
		coordinate(middle), coordinate(y1), coordinate(middle), coordinate(y2),
		coordinate(x2), coordinate(y2)))
	fmt.Fprintf(&d.b, `<circle class="tip" cx="%s" cy="%s" r="3"/>`, coordinate(x2), coordinate(y2))
}

// node draws the box of a job.
func (d *drawing) node(n *graphNode, s *site, isRoot bool) {
	class := "node"
	switch {
	case n.State == qless.StateFailed:
		class += " failed"
	case n.State == qless.StateRunning:
		class += " running"
	case !n.isOpen():
		class += " over"
	}
	if n.IsCritical {
		class += " critical"
	}
	if isRoot {
		class += " root"
	}
	title := fmt.Sprintf("%s: %s, %s", n.JID, n.Klass, n.StateText())
	if n.Blocks > 0 {
		title += ", blocks " + plural(n.Blocks, "job")
	}
	if !n.IsBatch() {
		fmt.Fprintf(&d.b, `<a href="%s">`, escaped(s.sub("jobs", n.JID, "graph")))
	}
	x, y := n.left(), n.top()
	d.rect(class, x, y, nodeWidth, nodeHeight, title)
	d.text(x+8, y+17, "start", n.Sign()+" "+shortText(n.JID, 21))
	second := n.Klass
	if n.Blocks > 0 {
		second = "blocks " + number(n.Blocks) + ": " + n.Klass
	}
	d.text(x+8, y+33, "start", shortText(n.StateText()+" · "+second, 26))
	if !n.IsBatch() {
		d.b.WriteString("</a>")
	}
}

// natural returns the drawing in its own size, as a group of links.
func (d *drawing) natural() template.HTML {
	width, height := coordinate(d.width), coordinate(d.height)
	return template.HTML(fmt.Sprintf(`<svg class="graph" width="%s" height="%s" viewBox="0 0 %s %s" `+
		`role="group" aria-label="%s">%s</svg>`,
		width, height, width, height, escaped(d.label), d.b.String()))
}
