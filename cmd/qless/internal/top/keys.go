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

// press handles a key.
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
		m.pause()
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

// pressOfPage handles the keys for moving or sorting.
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
		return m.remedy()
	default:
		m.pressToChange(key)
	}
	return nil
}

// pressToChange handles the keys for changing jobs, or sorting.
func (m *model) pressToChange(key string) {
	switch {
	case key == "u" && m.at.page != workersPage:
		m.unfail()
	case key == "c" && m.at.page == queuePage:
		m.changeJob("Cancel", "canceled", m.source.Cancel)
	case key == "r" && m.at.page == queuePage:
		m.changeJob("Make due now", "made due", m.source.Promote)
	default:
		m.sort(strings.ToLower(key))
	}
}

// explained returns the place with the causes of a queue's wait, or with the queue's list if the
// causes are shown.
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

// enter opens the selected row.
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

// sort sorts by the column of a key, or reverses the order of the current column.
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

// pause asks whether to pause or resume the shown or selected queue.
func (m *model) pause() {
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
	verb, done := "Pause", "is paused"
	if counts.Paused {
		verb, done = "Resume", "is not paused any more"
	}
	source, name, pause := m.source, counts.Name, !counts.Paused
	m.ask(fmt.Sprintf("%s queue %s, with %s?", verb, name, text.Count(counts.Waiting, "waiting job")),
		func(ctx context.Context) (string, error) {
			return "queue " + name + " " + done, source.SetPaused(ctx, name, pause)
		})
}

// unfail asks whether to retry the jobs of the shown or selected failure group.
func (m *model) unfail() {
	group := m.at.name
	if m.at.page == failuresPage {
		group = m.selection()
	} else if m.at.page != failurePage {
		return
	}
	if group != "" {
		m.change("Retry the failed jobs of "+group+"?", "retried", group, m.source.Unfail)
	}
}

// changeJob asks whether to change the selected job of a queue.
func (m *model) changeJob(
	verb, done string, do func(ctx context.Context, jid string) (inspect.Repair, error),
) {
	if m.at.page != queuePage || m.at.why {
		return
	}
	if jid := m.selection(); jid != "" {
		m.change(verb+" job "+jid+"?", done, jid, do)
	}
}

// change asks whether to change jobs.
func (m *model) change(
	question, done, name string,
	do func(ctx context.Context, name string) (inspect.Repair, error),
) {
	m.ask(question, func(ctx context.Context) (string, error) {
		result, err := do(ctx, name)
		for _, why := range result.Reasons {
			if err == nil {
				err = why
			}
		}
		return fmt.Sprintf("%s %s", done, text.Count(result.Changed, "job")), err
	})
}

// ask asks a question before a change.
func (m *model) ask(
	words string, do func(ctx context.Context) (done string, err error),
) {
	if m.config.ReadOnly {
		m.note = "read-only: nothing is changed"
		return
	}
	m.question = &question{text.Clean(words) + " y/n", do}
}

// changeTime is the time limit of a change, in multiples of a reading's time limit.
const changeTime = 6

// answer handles the answer to the question. Any key but y means no.
func (m *model) answer(key string) tea.Cmd {
	q := m.question
	m.question = nil
	if strings.ToLower(key) != "y" {
		m.note = "nothing was done"
		return nil
	}
	timeout := changeTime * m.config.Timeout
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		done, err := q.do(ctx)
		return doneMsg{done, err}
	}
}

// remedy copies the command for the problem of the selected queue, or for the first problem, to the
// clipboard of the terminal, and shows the command.
func (m *model) remedy() tea.Cmd {
	if m.status == nil || len(m.status.Attention) == 0 {
		return nil
	}
	problem := &m.status.Attention[0]
	if m.at.page == queuesPage {
		name := m.selection()
		for i := range m.status.Attention {
			p := &m.status.Attention[i]
			if p.Queue == name || slices.Contains(p.Queues, name) {
				problem = p
				break
			}
		}
	}
	if problem.Command == "" {
		return nil
	}
	m.note = text.Clean("What to do, copied: " + problem.Command)
	return tea.SetClipboard(problem.Command)
}
