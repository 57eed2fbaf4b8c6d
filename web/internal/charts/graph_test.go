package charts

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// graphOf arranges jobs that need others, all of which are waiting.
func graphOf(root string, needs map[string][]string) *Graph {
	g := &Graph{JID: root, byJID: map[string]*Node{}}
	for jid, dependencies := range needs {
		g.add(nil, true, jid)
		g.byJID[jid].State = qless.StateWaiting
		g.byJID[jid].job = &qless.Job{JID: jid, Dependencies: dependencies}
	}
	g.connect()
	g.arrange()
	return g
}

func TestEachJobIsRightOfThoseThatItNeeds(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		needs := map[string][]string{}
		n := 1 + random.IntN(60)
		for i := range n {
			jid := fmt.Sprint(i)
			needs[jid] = nil
			for range random.IntN(3) {
				if i > 0 {
					needs[jid] = append(needs[jid], fmt.Sprint(random.IntN(i)))
				}
			}
		}
		g := graphOf("0", needs)
		places := map[[2]int]bool{}
		for _, node := range g.Nodes {
			at := [2]int{node.layer, node.row}
			require.False(t, places[at], "two jobs are in one place")
			places[at] = true
			for _, jid := range node.Needs {
				require.Less(t, g.byJID[jid].layer, node.layer)
			}
		}
		requireXML(t, string(g.Draw(func(jid string) string { return "/jobs/" + jid })))
	}
}

func TestJobsThatNeedEachOtherAreDrawnToo(t *testing.T) {
	g := graphOf("a", map[string][]string{"a": {"b"}, "b": {"a"}, "c": {"b", "c"}, "d": {"c"}})
	require.Len(t, g.Nodes, 4)
	requireXML(t, string(g.Draw(func(jid string) string { return "/jobs/" + jid })))
}
