package jobs

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
)

func (a *app) jobGraphCommand() *cobra.Command {
	var depth, limit int
	command := &cobra.Command{
		Use:   "graph JID",
		Short: "Print the jobs that a job waits for, and the jobs that wait for it",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			return a.graph(ctx, client, args[0], depth, limit)
		}),
	}
	command.Flags().IntVar(&depth, "depth", 5, "number of steps in each direction")
	command.Flags().IntVar(&limit, "limit", 100, "maximum number of jobs in each direction")
	return command
}

// A node is a job of a tree.
type node struct {
	JID   string      `json:"jid"`
	Klass string      `json:"klass,omitempty"`
	Queue string      `json:"queue,omitempty"`
	State qless.State `json:"state,omitempty"`
	Below []*node     `json:"jobs,omitempty"`

	// Cut is the number of jobs omitted below this one. Again is true if they are elsewhere in the
	// graph.
	Cut   int  `json:"cut,omitempty"`
	Again bool `json:"again,omitempty"`

	next []string
}

// A jobGraph has the dependencies and the dependents of a job.
type jobGraph struct {
	Job        *node   `json:"job"`
	WaitsFor   []*node `json:"waits_for"`
	Dependents []*node `json:"dependents"`
	Cut        bool    `json:"cut"`
}

// A grower reads the jobs of a tree level by level.
type grower struct {
	client *qless.Client
	next   func(*qless.Job) []string
	seen   map[string]bool
	left   int
	cut    bool
}

func (a *app) graph(
	ctx context.Context, client *qless.Client, jid string, depth, limit int,
) error {
	job, err := client.Job(ctx, jid)
	if err != nil {
		return err
	}
	g := jobGraph{Job: nodeOf(job, nil)}
	grow := func(next func(*qless.Job) []string) ([]*node, error) {
		root := nodeOf(job, next)
		t := &grower{client, next, map[string]bool{jid: true}, limit, false}
		err := t.grow(ctx, []*node{root}, depth)
		g.Cut = g.Cut || t.cut
		g.Job.Cut += root.Cut
		if root.Below == nil {
			root.Below = []*node{}
		}
		return root.Below, err
	}
	if g.WaitsFor, err = grow(waitsFor); err != nil {
		return err
	}
	if g.Dependents, err = grow(dependents); err != nil {
		return err
	}
	return a.printGraph(g)
}

// waitsFor returns a job's past and present parents.
func waitsFor(job *qless.Job) []string {
	jids := append(slices.Sorted(slices.Values(job.Dependencies)), job.Options.Parents...)
	return slices.Compact(slices.Sorted(slices.Values(jids)))
}

func dependents(job *qless.Job) []string {
	return slices.Sorted(slices.Values(job.Dependents))
}

func nodeOf(job *qless.Job, next func(*qless.Job) []string) *node {
	n := &node{JID: job.JID, Klass: job.Klass, Queue: job.Queue, State: job.State}
	if next != nil {
		n.next = next(job)
	}
	return n
}

// grow reads the jobs below some nodes, down to a depth.
func (g *grower) grow(ctx context.Context, level []*node, depth int) error {
	for ; len(level) > 0; depth-- {
		var wanted []string
		for _, n := range level {
			wanted = append(wanted, g.choose(n, depth)...)
		}
		jobs, err := g.client.Jobs(ctx, wanted...)
		if err != nil {
			return err
		}
		var below []*node
		for _, job := range jobs {
			below = append(below, nodeOf(job, g.next))
		}
		for _, n := range level {
			n.hang(below)
		}
		level = below
	}
	return nil
}

// choose returns the jobs to read below a node: those not read yet, within the limit.
func (g *grower) choose(n *node, depth int) []string {
	var wanted []string
	for _, jid := range n.next {
		switch {
		case g.seen[jid]:
			n.Below = append(n.Below, &node{JID: jid, Again: true})
		case depth <= 0 || g.left <= 0:
			n.Cut++
			g.cut = true
		default:
			g.left--
			g.seen[jid] = true
			wanted = append(wanted, jid)
			n.Below = append(n.Below, &node{JID: jid})
		}
	}
	return wanted
}

// hang replaces the nodes below this one with the nodes that were read.
func (n *node) hang(read []*node) {
	for i, child := range n.Below {
		if child.Again {
			continue
		}
		at := slices.IndexFunc(read, func(r *node) bool { return r.JID == child.JID })
		if at >= 0 {
			n.Below[i] = read[at]
		}
	}
}

func (a *app) printGraph(g jobGraph) error {
	if a.JSON {
		return a.Print(g, nil)
	}
	t := &out.Table{}
	t.Add(a.label(g.Job))
	for _, tree := range []struct {
		name string
		jobs []*node
	}{{"waits for", g.WaitsFor}, {"dependents", g.Dependents}} {
		if len(tree.jobs) > 0 {
			t.Add(tree.name + ":")
			a.branches(t, "", tree.jobs, 0)
		}
	}
	if err := t.Write(a.Out); err != nil {
		return err
	}
	if g.Cut {
		a.Say("not all is shown: see --depth and --limit")
	}
	return nil
}

func (a *app) branches(t *out.Table, indent string, jobs []*node, cut int) {
	for i, n := range jobs {
		branch, below := "├─ ", "│  "
		if i == len(jobs)-1 && cut == 0 {
			branch, below = "└─ ", "   "
		}
		t.Add(out.Paint(indent+branch+a.label(n), out.ColourOf(n.State)))
		a.branches(t, indent+below, n.Below, n.Cut)
	}
	if cut > 0 {
		t.Add(out.Paint(fmt.Sprintf("%s└─ %d more", indent, cut), out.Dim))
	}
}

func (a *app) label(n *node) string {
	switch {
	case n.Again:
		return n.JID + " (see above)"
	case n.State == "":
		return n.JID + " (gone)"
	}
	text := n.JID + " " + n.Klass + " " + string(n.State)
	if n.Queue != "" {
		text += " in " + n.Queue
	}
	return text
}
