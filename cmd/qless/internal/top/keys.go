package top

import (
	"context"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/inspect"
)

// press does what a key means.
func (m *model) press(key string) tea.Cmd {
	switch {
	case key == "ctrl+c":
		return tea.Quit
	case key == "ctrl+z":
		return tea.Suspend
	case m.question != nil:
		return m.answer(key)
	case m.help:
		m.help = false
		return nil
	}
	switch key {
	case "q":
		return tea.Quit
	case "?":
		m.help = true
	case "1", "2", "3":
		m.back = nil
		return m.visit(place{page: page(key[0] - '1')})
	case "esc", "backspace":
		return m.leave()
	case "p":
		m.ask()
	case "enter":
		return m.enter()
	case "tab", "right":
		return m.turnList(1)
	case "shift+tab", "left":
		return m.turnList(-1)
	case "space":
		return m.now()
	default:
		return m.pressOfPage(key)
	}
	return nil
}

// pressOfPage does what a key means that moves or sorts.
func (m *model) pressOfPage(key string) tea.Cmd {
	switch key {
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-m.bodyHeight())
	case "pgdown":
		m.move(m.bodyHeight())
	case "home":
		m.move(-1 << 20)
	case "end":
		m.move(1 << 20)
	case "y":
		if m.at.page == queuePage {
			return m.visit(m.explained())
		}
	default:
		m.sort(strings.ToLower(key))
	}
	return nil
}

// explained returns the place with the causes that the queue waits for, or its list if that is the
// present place.
func (m *model) explained() place {
	to := m.at
	to.why = !to.why
	return to
}

func (m *model) leave() tea.Cmd {
	if m.at.why {
		return m.visit(m.explained())
	}
	if len(m.back) == 0 {
		return nil
	}
	to := m.back[len(m.back)-1]
	m.back = m.back[:len(m.back)-1]
	return m.visit(to)
}

// enter shows what is selected.
func (m *model) enter() tea.Cmd {
	name := m.selection()
	below, found := map[page]page{
		queuesPage: queuePage, workersPage: workerPage, failuresPage: failurePage,
	}[m.at.page]
	if name == "" || !found {
		return nil
	}
	m.back = append(m.back, m.at)
	return m.visit(place{page: below, name: name, list: inspect.Waiting})
}

// turnList shows the next list of a queue, or the next page.
func (m *model) turnList(by int) tea.Cmd {
	switch {
	case m.at.page == queuePage:
		i := slices.Index(lists, m.at.list) + by
		to := m.at
		to.why, to.list = false, lists[(i+len(lists))%len(lists)]
		return m.visit(to)
	case m.at.page <= failuresPage:
		const pages = int(failuresPage) + 1
		return m.visit(place{page: page((int(m.at.page) + by + pages) % pages)})
	}
	return nil
}

// sort sorts by the column with a key, or turns the order if it is sorted by that.
func (m *model) sort(key string) {
	order, sortable := m.sorted[m.at.page]
	if !sortable {
		return
	}
	for _, c := range m.columns() {
		if c.key != key {
			continue
		}
		if order.key == key {
			order.reversed = !order.reversed
		} else {
			order = sorting{key, c.isNumber}
		}
		m.sorted[m.at.page] = order
	}
}

// selection returns the name of the selected row.
func (m *model) selection() string {
	rows := m.grid().rows
	if len(rows) == 0 {
		return ""
	}
	return rows[m.selectedIndex(rows)].id
}

func (m *model) selectedIndex(rows []row) int {
	i := slices.IndexFunc(rows, func(r row) bool { return r.id == m.selected[m.at.page] })
	return max(i, 0)
}

func (m *model) move(by int) {
	rows := m.grid().rows
	if len(rows) == 0 {
		return
	}
	to := min(max(m.selectedIndex(rows)+by, 0), len(rows)-1)
	m.selected[m.at.page] = rows[to].id
}

// ask asks whether to pause or unpause the queue that is shown or selected.
func (m *model) ask() {
	if m.config.ReadOnly {
		m.note = "read-only: nothing is changed"
		return
	}
	var counts *qless.QueueCounts
	switch {
	case m.at.page == queuePage && m.detail.jobs != nil:
		counts = &m.detail.jobs.Counts
	case m.at.page == queuesPage && m.status != nil:
		name := m.selection()
		for i := range m.status.Queues {
			if m.status.Queues[i].Name == name {
				counts = &m.status.Queues[i].QueueCounts
			}
		}
	}
	if counts == nil {
		return
	}
	verb := "Pause"
	if counts.Paused {
		verb = "Unpause"
	}
	m.question = &question{counts.Name, !counts.Paused, fmt.Sprintf("%s queue %s, with %s? y/n",
		verb, text.Clean(counts.Name), text.Count(counts.Waiting, "waiting job"))}
}

// answer takes the answer to the question. Anything but a y means no.
func (m *model) answer(key string) tea.Cmd {
	q := m.question
	m.question = nil
	if strings.ToLower(key) != "y" {
		m.note = "nothing was done"
		return nil
	}
	source, timeout := m.source, m.config.Timeout
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return pausedMsg{q.queue, q.pause, source.SetPaused(ctx, q.queue, q.pause)}
	}
}
