package top

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
)

// A model holds the data and the state of the screen.
type model struct {
	source Source
	config Config

	width, height int
	at            place
	back          []place
	turn          int // of the place: readings for an earlier turn are dropped
	help          bool
	question      *question
	note          string // the result of the last action

	status *doctor.Status
	detail detail

	lost error         // the error of the last reading
	read time.Time     // the time of the last successful reading
	took time.Duration // the duration of the last successful reading

	sorted   map[page]sorting
	selected map[page]string
}

// A page is one of the kinds of screens.
type page int

const (
	queuesPage page = iota
	workersPage
	failuresPage
	queuePage   // one queue
	workerPage  // one worker
	failurePage // one failure group
)

// A place is a page with its subject and visible part.
type place struct {
	page page
	name string       // of the queue, worker or group
	list inspect.List // of a queue
	why  bool         // the causes of the queue's wait, in place of a list
}

// lists are the lists of a queue, in display order.
var lists = append(inspect.JobLists(), inspect.Recurring)

// A sorting is the column for sorting rows.
type sorting struct {
	key      string
	reversed bool
}

// A detail holds the data of one queue, worker or group.
type detail struct {
	jobs     *JobsOfQueue
	why      *doctor.Explanation
	held     []*qless.Job
	failures *inspect.FailureSummary
}

// A question precedes a change, which do makes after a yes.
type question struct {
	text string
	do   func(ctx context.Context) (done string, err error)
}

// The messages that change the model.
type (
	readMsg struct {
		turn   int
		status *doctor.Status
		detail detail
		err    error
		at     time.Time
		took   time.Duration
	}
	tickMsg struct{ turn int }
	doneMsg struct {
		done string
		err  error
	}
)

func newModel(source Source, config Config) *model {
	m := &model{
		source: source, config: config, width: 80, height: 24,
		sorted: map[page]sorting{
			queuesPage: {"n", false}, workersPage: {"n", false}, failuresPage: {"c", true},
		},
		selected: map[page]string{},
	}
	if config.Queue != "" {
		m.back = []place{{page: queuesPage}}
		m.at = place{page: queuePage, name: config.Queue, list: inspect.Waiting}
	}
	return m
}

// Init starts the first reading.
func (m *model) Init() tea.Cmd { return m.refresh() }

// Update handles a message.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.press(msg.String())
	case tickMsg:
		if msg.turn == m.turn {
			return m, m.refresh()
		}
	case readMsg:
		if msg.turn == m.turn {
			m.take(msg)
			return m, m.again(msg)
		}
	case doneMsg:
		return m, m.done(msg)
	}
	return m, nil
}

// View shows the model.
func (m *model) View() tea.View {
	view := tea.NewView(m.render())
	view.AltScreen = true
	return view
}

// take stores a reading. If the server did not answer, the earlier data stays.
func (m *model) take(msg readMsg) {
	m.lost = msg.err
	if msg.err != nil {
		return
	}
	m.read = msg.at
	if msg.status != nil {
		m.status = msg.status
	}
	m.detail = msg.detail
}

// share is the shortest time between two readings, in multiples of a reading's duration.
const share = 20

// again schedules the next reading.
func (m *model) again(last readMsg) tea.Cmd {
	turn, wait := m.turn, m.wait(last)
	return tea.Tick(wait, func(time.Time) tea.Msg { return tickMsg{turn} })
}

// wait returns the time until the next reading: the longer readings take, the longer the wait. A
// single slow reading, such as after a server outage, does not count.
func (m *model) wait(last readMsg) time.Duration {
	if last.err != nil {
		return m.config.Every
	}
	took := last.took
	if m.took > 0 {
		took = min(took, m.took)
	}
	m.took = last.took
	return max(m.config.Every, share*took)
}

// visit moves to another place.
func (m *model) visit(to place) tea.Cmd {
	m.at, m.note, m.detail = to, "", detail{}
	return m.now()
}

// now reads at once, and drops the reading under way.
func (m *model) now() tea.Cmd {
	m.turn++
	return m.refresh()
}

// refresh reads the data for the current place.
func (m *model) refresh() tea.Cmd {
	source, at, turn, timeout := m.source, m.at, m.turn, m.config.Timeout
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		began := time.Now()
		msg := readPlace(ctx, source, at)
		msg.turn, msg.at, msg.took = turn, time.Now(), time.Since(began)
		return msg
	}
}

func readPlace(ctx context.Context, source Source, at place) (msg readMsg) {
	switch {
	case at.why:
		msg.detail.why, msg.err = source.Why(ctx, at.name)
	case at.page == queuePage:
		msg.detail.jobs, msg.err = source.Jobs(ctx, at.name, at.list)
	case at.page == workerPage:
		msg.detail.held, msg.err = source.Held(ctx, at.name)
	case at.page == failurePage:
		var found inspect.FailureSummary
		found, msg.err = source.Failures(ctx, at.name)
		msg.detail.failures = &found
	default:
		msg.status, msg.err = source.Overview(ctx)
	}
	return msg
}

func (m *model) done(msg doneMsg) tea.Cmd {
	m.note = msg.done
	if msg.err != nil {
		m.note = "not done: " + msg.err.Error()
	}
	return m.now()
}
