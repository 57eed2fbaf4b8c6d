package browsertest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tools is the folder of the packages that .ci/install browser installs with npm.
const tools = root + "/.cache/browser/node_modules/"

// barriers are the problems of accessibility that axe-core finds.
type barriers struct {
	axe   string // its source, or empty if it is not installed
	found []barrier
}

type barrier struct {
	Page   string   `json:"-"`
	ID     string   `json:"id"`
	Impact string   `json:"impact"`
	Help   string   `json:"help"`
	Nodes  []string `json:"nodes"`
}

func newBarriers(t *testing.T) *barriers {
	t.Helper()
	source, err := os.ReadFile(filepath.FromSlash(tools + "axe-core/axe.min.js"))
	if err != nil {
		t.Log("left out: axe-core is not installed, see .ci/install browser")
	}
	return &barriers{axe: string(source)}
}

// runAxe returns the findings of axe-core on a page.
const runAxe = `axe.run(document, OPTIONS).then(({ violations }) => JSON.stringify(
	violations.map((v) => ({
		id: v.id, impact: v.impact, help: v.help,
		nodes: v.nodes.slice(0, 4).map((n) => n.html + " " + n.failureSummary),
	}))))`

// find looks for barriers on the page in a tab, also with dark colours.
func (b *barriers) find(p *tab, path string) {
	p.t.Helper()
	if b.axe == "" {
		return
	}
	value[bool](p, b.axe+"; true")
	b.add(p, path, `{ resultTypes: ["violations"] }`)
	p.scheme("dark")
	b.add(p, path+" in the dark", `{ runOnly: ["color-contrast"], resultTypes: ["violations"] }`)
	p.scheme("light")
}

func (b *barriers) add(p *tab, path, options string) {
	p.t.Helper()
	var found []barrier
	text := value[string](p, strings.Replace(runAxe, "OPTIONS", options, 1))
	require.NoError(p.t, json.Unmarshal([]byte(text), &found))
	for _, one := range found {
		one.Page = path
		b.found = append(b.found, one)
	}
}

// report fails the test if there are serious barriers, and logs the others.
func (b *barriers) report(t *testing.T) {
	t.Helper()
	for _, one := range b.found {
		say := t.Logf
		if one.Impact == "serious" || one.Impact == "critical" {
			say = t.Errorf
		}
		say("%s: %s: %s: %s\n%s", one.Page, one.Impact, one.ID, one.Help, strings.Join(one.Nodes, "\n"))
	}
}
