package top

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
)

// A model is what is known, and what the user looks at.
type model struct {
	source Source
	config Config

	width, height int
	at            place
	back          []place
	turn          int // of the place: what was read for an earlier one is dropped
	help          bool
	question      *question
	note          string // what was done last

	status *doctor.Status
	detail detail

	lost error     // why the last reading failed
	read time.Time // when the last one was there

	sorted   map[page]sorting
	selected map[page]string
}

// A page is what fills the screen.
type page int

const (
	queuesPage page = iota
	workersPage
	failuresPage
	queuePage   // one queue
	workerPage  // one worker
	failurePage // one failure group
)

// A place is a page, of what, and which part of it.
type place struct {
	page page
	name string       // of the queue, worker or group
	list inspect.List // of a queue
	why  bool         // what the queue waits for, in place of a list
}

// lists are those of a queue, in the order in which they are shown.
var lists = []inspect.List{
	inspect.Waiting, inspect.Running, inspect.Stalled, inspect.Scheduled, inspect.Depends,
	inspect.Recurring,
}

// A sorting is a column by which rows are sorted.
type sorting struct {
	key      string
	reversed bool
}

// A detail is what was read of one queue, worker or group.
type detail struct {
	jobs     *JobsOfQueue
	why      *doctor.Explanation
	held     []*qless.Job
	failures *inspect.FailureSummary
}

// A question is about a queue, before it is paused or unpaused.
type question struct {
	queue string
	pause bool
	text  string
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
	tickMsg   struct{ turn int }
	pausedMsg struct {
		queue  string
		paused bool
		err    error
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

// Init reads for the first time.
func (m *model) Init() tea.Cmd { return m.refresh() }

// Update changes the model.
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
	case pausedMsg:
		return m, m.paused(msg)
	}
	return m, nil
}

// View shows the model.
func (m *model) View() tea.View {
	view := tea.NewView(m.render())
	view.AltScreen = true
	return view
}

// take keeps a reading. The earlier data stays if the server did not answer.
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

// share is how many times as long as a reading it takes at least until the next one.
const share = 20

// again reads after a while: the longer the last reading has taken, the later.
func (m *model) again(last readMsg) tea.Cmd {
	turn, wait := m.turn, m.config.Every
	if last.err == nil {
		wait = max(wait, share*last.took)
	}
	return tea.Tick(wait, func(time.Time) tea.Msg { return tickMsg{turn} })
}

// visit shows another place.
func (m *model) visit(to place) tea.Cmd {
	m.at, m.note, m.detail = to, "", detail{}
	return m.now()
}

// now reads at once, in place of what is being read.
func (m *model) now() tea.Cmd {
	m.turn++
	return m.refresh()
}

// refresh reads what is shown at the moment.
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

func (m *model) paused(msg pausedMsg) tea.Cmd {
	switch {
	case msg.err != nil:
		m.note = "not done: " + msg.err.Error()
	case msg.paused:
		m.note = "queue " + msg.queue + " is paused"
	default:
		m.note = "queue " + msg.queue + " is not paused any more"
	}
	return m.now()
}
