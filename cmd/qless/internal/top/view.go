package top

import (
	"fmt"
	"strings"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/internal/units"
)

// render returns the screen.
func (m *model) render() string {
	if m.width < minWidth || m.height < minHeight {
		return text.Cut("the window is too small", m.width)
	}
	lines := []string{m.title(), m.summary(), m.attention(), m.tabs()}
	switch {
	case m.help:
		for _, line := range helpLines {
			lines = append(lines, text.Cut(line, m.width))
		}
	case m.at.why:
		lines = append(lines, m.causes()...)
	default:
		lines = append(lines, m.table()...)
	}
	for len(lines) < m.height-foot {
		lines = append(lines, "")
	}
	lines = append(lines[:m.height-foot], m.footer())
	return strings.Join(lines, "\n")
}

// head and foot are the numbers of lines above and below the rows of a table.
const (
	head = 5
	foot = 1
)

const minWidth, minHeight = 40, 8

func (m *model) bodyHeight() int { return max(m.height-head-foot, 1) }

// title names the view, and the age of its data.
func (m *model) title() string {
	style := m.config.Style
	left := "qless top  " + m.config.Server
	if m.status != nil {
		left += "  " + text.Clean(m.status.Namespace)
	}
	switch {
	case m.lost != nil && m.read.IsZero():
		return style.Red(text.Pad(left+"  no answer", m.width))
	case m.lost != nil:
		return style.Red(text.Pad(left+"  no answer since "+m.read.Format("15:04:05"), m.width))
	case m.read.IsZero():
		return style.Bold(text.Pad(left+"  reading", m.width))
	}
	right := m.read.Format("15:04:05")
	return style.Bold(text.Pad(left, m.width-len(right)) + right)
}

func (m *model) summary() string {
	if m.lost != nil {
		return text.Cut("trying again: "+text.Clean(m.lost.Error()), m.width)
	}
	if m.at.page > failuresPage {
		return text.Cut(m.detailSummary(), m.width)
	}
	if m.status == nil {
		return ""
	}
	w, r := m.status.Workers, m.status.Rates
	line := fmt.Sprintf("%s, %d/%s busy", text.Count(w.Registered, "worker"), w.Busy,
		text.Count(w.Slots, "slot"))
	if w.Silent > 0 {
		line += fmt.Sprintf(", %d silent", w.Silent)
	}
	line += fmt.Sprintf("; %s ended, %s failed, %s retried a minute", units.Rate(r.Completed),
		units.Rate(r.Failed), units.Rate(r.Retried))
	return text.Cut(line, m.width)
}

// detailSummary describes one queue, worker or group.
func (m *model) detailSummary() string {
	switch {
	case m.detail.jobs != nil:
		line := fmt.Sprintf("the first %d of %s", len(m.detail.jobs.Page.Items),
			text.Count(m.detail.jobs.Page.Total, "job"))
		if oldest := m.detail.jobs.Latency.Oldest; oldest > 0 {
			line += "; the oldest job waits for " + units.Age(oldest)
		}
		return line
	case m.detail.failures != nil:
		return fmt.Sprintf("the latest %d of %s", m.detail.failures.Examined,
			text.Count(m.detail.failures.Total, "failed job"))
	}
	return ""
}

// attention names the worst problem, and the number of others.
func (m *model) attention() string {
	if m.status == nil || m.at.page > failuresPage {
		return ""
	}
	problems := m.status.Attention
	if len(problems) == 0 {
		return m.config.Style.Green("nothing needs attention")
	}
	more := ""
	if len(problems) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(problems)-1)
	}
	line := text.Cut("! "+text.Clean(problems[0].Sentence), m.width-len(more)) + more
	if problems[0].Urgent() {
		return m.config.Style.Red(line)
	}
	return m.config.Style.Yellow(line)
}

// tabs names the pages, or the place below a page.
func (m *model) tabs() string {
	var names []string
	current := int(m.at.page)
	switch m.at.page {
	case queuePage:
		return m.queueTabs()
	case workerPage:
		return m.config.Style.Bold(text.Cut("worker "+text.Clean(m.at.name), m.width))
	case failurePage:
		return m.config.Style.Bold(text.Cut("failures in "+text.Clean(m.at.name), m.width))
	default:
		names = []string{"1 queues", "2 workers", "3 failures"}
	}
	return m.join(names, current)
}

// queueTabs names the lists of a queue with their sizes.
func (m *model) queueTabs() string {
	var counts qless.QueueCounts
	if m.detail.jobs != nil {
		counts = m.detail.jobs.Counts
	}
	title := text.Clean(m.at.name)
	if counts.Paused {
		title += " (paused)"
	}
	names, current := []string{text.Cut(title, m.width/4)}, 0
	for i, list := range lists {
		label := string(list)
		if m.detail.jobs != nil {
			label += fmt.Sprintf(" %d", list.Count(&counts))
		}
		if list == m.at.list && !m.at.why {
			current = i + 1
		}
		names = append(names, label)
	}
	names = append(names, "whY")
	if m.at.why {
		current = len(names) - 1
	}
	return m.join(names, current)
}

// join joins names, with brackets around the current name. If space is short, it keeps the current
// name and its neighbours.
func (m *model) join(names []string, current int) string {
	for first := 0; ; first++ {
		var plain, painted []string
		for i, n := range names {
			if i > 0 && i <= first && i < current {
				continue
			}
			if i == current {
				plain, painted = append(plain, "["+n+"]"), append(painted, m.config.Style.Bold("["+n+"]"))
			} else {
				plain, painted = append(plain, n), append(painted, n)
			}
		}
		line := strings.Join(plain, " ")
		switch {
		case len([]rune(line)) <= m.width:
			return strings.Join(painted, " ")
		case first >= len(names):
			return text.Cut(line, m.width)
		}
	}
}

// table returns the header of the grid and the rows that fit, including the selected one.
func (m *model) table() []string {
	g := m.grid()
	widths := g.widths(m.width - 1)
	lines := []string{m.config.Style.Bold(m.header(g, widths))}
	if len(g.rows) == 0 {
		if m.read.IsZero() || m.isReading() {
			return append(lines, " reading")
		}
		return append(lines, " "+g.empty)
	}
	selected, height := m.selectedIndex(g.rows), m.bodyHeight()
	first := max(min(selected-height/2, len(g.rows)-height), 0)
	for i, r := range g.rows[first:min(first+height, len(g.rows))] {
		lines = append(lines, m.row(g, widths, r, first+i == selected))
	}
	return lines
}

// isReading reports whether the data of the place is still being read.
func (m *model) isReading() bool {
	switch m.at.page {
	case queuePage:
		return m.detail.jobs == nil
	case workerPage:
		return m.detail.held == nil
	case failurePage:
		return m.detail.failures == nil
	}
	return m.status == nil
}

// widths returns the widths of the columns on a line of a width.
func (g *grid) widths(width int) []int {
	widths := make([]int, len(g.columns))
	left := width - (len(g.columns) - 1)
	for i, c := range g.columns {
		widths[i] = c.width
		left -= c.width
	}
	for i, c := range g.columns {
		if c.width == 0 {
			widths[i] = max(left, 8)
		}
	}
	return widths
}

func (m *model) header(g grid, widths []int) string {
	var cells []string
	for i, c := range g.columns {
		cells = append(cells, pad(c, c.title, widths[i]))
	}
	line := " " + strings.Join(cells, " ")
	if by, ok := m.sorted[m.at.page]; ok {
		line = markSorted(line, g, widths, by)
	}
	return text.Cut(line, m.width)
}

// markSorted marks the title of the sorted column.
func markSorted(line string, g grid, widths []int, by sorting) string {
	sign := '^'
	if by.reversed {
		sign = 'v'
	}
	start := 1
	for i, c := range g.columns {
		if c.key == by.key {
			at := start + len(c.title) // after a name
			if c.isNumber {
				at = start + widths[i] - len(c.title) - 1 // before a number
			}
			runes := []rune(line)
			if at < len(runes) {
				runes[at] = sign
			}
			return string(runes)
		}
		start += widths[i] + 1
	}
	return line
}

func pad(c column, s string, width int) string {
	if c.isNumber {
		return text.PadLeft(s, width)
	}
	return text.Pad(s, width)
}

func (m *model) row(g grid, widths []int, r row, selected bool) string {
	var cells []string
	for i, c := range g.columns {
		cells = append(cells, pad(c, r.cells[i].text, widths[i]))
	}
	line := text.Cut(strings.Join(cells, " "), m.width-1)
	switch {
	case selected:
		return m.config.Style.Reverse(">" + line)
	case r.alarm:
		return m.config.Style.Red(" " + line)
	}
	return " " + line
}

// causes shows why the jobs of the queue wait.
func (m *model) causes() []string {
	if m.detail.why == nil {
		return []string{" reading"}
	}
	var lines []string
	for i, c := range m.detail.why.Causes {
		sentence := text.Clean(c.Sentence)
		if !c.Certain {
			sentence = "Maybe: " + sentence
		}
		wrapped := wrap(fmt.Sprintf("%d. %s", i+1, sentence), m.width-1)
		lines = append(lines, "", m.config.Style.Yellow(wrapped[0]))
		lines = append(lines, wrapped[1:]...)
		if c.Advice != "" {
			lines = append(lines, wrap(text.Clean(c.Advice), m.width-1)...)
		}
		if c.Command != "" {
			lines = append(lines, m.config.Style.Cyan(text.Cut("   $ "+text.Clean(c.Command), m.width)))
		}
	}
	return lines
}

// wrap breaks a text into lines.
func wrap(s string, width int) []string {
	lines := []string{""}
	for _, word := range strings.Fields(s) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = text.Cut(word, width)
		case len([]rune(*last))+1+len([]rune(word)) <= width:
			*last += " " + word
		default:
			lines = append(lines, text.Cut("   "+word, width))
		}
	}
	return lines
}

// footer returns the question, the last note, or the keys.
func (m *model) footer() string {
	style := m.config.Style
	switch {
	case m.question != nil:
		return style.Reverse(text.Pad(m.question.text, m.width))
	case m.help:
		return text.Cut("any key: back", m.width)
	case m.note != "":
		return style.Yellow(text.Cut(text.Clean(m.note), m.width))
	}
	keys := map[page]string{
		queuesPage:   "q quit  ? help  enter jobs  p pause  y what to do  tab next page",
		workersPage:  "q quit  ? help  enter jobs  tab next page  capital letters sort",
		failuresPage: "q quit  ? help  enter klasses  u retry  tab next page  capital letters sort",
		failurePage:  "q quit  ? help  esc back  u retry",
		queuePage:    "q quit  ? help  esc back  tab next list  y why  p pause  c cancel  r run now",
	}[m.at.page]
	if keys == "" {
		keys = "q quit  ? help  esc back"
	}
	if m.config.ReadOnly {
		keys = strings.NewReplacer(
			"  p pause", "", "  u retry", "", "  c cancel", "", "  r run now", "").Replace(keys)
	}
	return style.Faint(text.Cut(keys, m.width))
}

var helpLines = []string{
	"",
	"  1 2 3, tab     queues, workers, failures; in a queue, tab is the next list",
	"  up down        select a row; page up and down, home and end, too",
	"  enter          jobs of a queue or a worker, klasses of a failure group",
	"  esc            back",
	"  y              what to do about the selected queue; in a queue: why it waits",
	"  p              pause or resume a queue, after a question",
	"  u              retry the jobs of a failure group, after a question",
	"  c r            in a queue: cancel a job, or make it due now, after a question",
	"  space          read at once",
	"  q, ctrl+c      quit; ctrl+z suspends",
	"",
	"  The capital letter of a column is the key that sorts by it; pressed again, it",
	"  reverses the order. Rates cover the last 5 minutes.",
}
