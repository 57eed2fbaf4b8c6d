package top

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
)

var update = flag.Bool("update", false, "write what is drawn to testdata")

var noon = time.Date(2024, time.January, 2, 12, 0, 0, 0, time.UTC)

// A fake is a source with the data of a test.
type fake struct {
	status  doctor.Status
	err     error
	changed []string
}

func (f *fake) Overview(context.Context) (*doctor.Status, error) { return &f.status, f.err }

func (f *fake) Jobs(_ context.Context, queue string, list inspect.List) (*JobsOfQueue, error) {
	items := []inspect.Row{
		{JID: strings.Repeat("a", 32), Klass: "Welcome", Priority: 10, Since: noon.Add(-time.Minute),
			Retries: 5, Remaining: 3},
		{JID: "b", Klass: "Goodbye\x1b[31m", Since: noon.Add(-time.Hour), Worker: "host-1"},
	}
	return &JobsOfQueue{
		Counts: qless.QueueCounts{
			Name: queue, Waiting: 2, Running: 1,
		},
		Latency: inspect.Latency{Oldest: time.Hour},
		Page:    inspect.Page[inspect.Row]{Items: items, Total: 2},
	}, f.err
}

func (f *fake) Why(context.Context, string) (*doctor.Explanation, error) {
	return &doctor.Explanation{Causes: []doctor.Reason{
		{Certain: true, Code: doctor.ReasonPaused,
			Sentence: "The queue is paused: workers get no jobs until it is resumed.",
			Advice:   "Resume it.", Command: "qless queue resume export"},
		{Sentence: strings.Repeat("No worker is known that takes jobs. ", 4)},
	}}, f.err
}

func (f *fake) Held(context.Context, string) ([]*qless.Job, error) {
	job := qless.Job{JID: "a", Klass: "Welcome", Queue: "mail", Expires: noon.Add(time.Minute)}
	return []*qless.Job{&job}, f.err
}

func (f *fake) Failures(context.Context, string) (inspect.FailureSummary, error) {
	return inspect.FailureSummary{Examined: 3, Total: 3, Klasses: []inspect.KlassFailures{
		{Klass: "Resize", Count: 3, First: noon.Add(-time.Hour), Last: noon.Add(-time.Minute),
			Message: "took\ntoo long"},
	}}, f.err
}

func (f *fake) SetPaused(_ context.Context, queue string, paused bool) error {
	word := "resumed "
	if paused {
		word = "paused "
	}
	f.changed = append(f.changed, word+queue)
	return f.err
}

func (f *fake) change(word, name string) (inspect.Repair, error) {
	f.changed = append(f.changed, word+" "+name)
	return inspect.Repair{Changed: 3}, f.err
}

func (f *fake) Unfail(_ context.Context, group string) (inspect.Repair, error) {
	return f.change("unfail", group)
}

func (f *fake) Cancel(_ context.Context, jid string) (inspect.Repair, error) {
	return f.change("cancel", jid)
}

func (f *fake) Promote(_ context.Context, jid string) (inspect.Repair, error) {
	return f.change("promote", jid)
}

func queueOf(name string, waiting int, oldest time.Duration, perMinute float64) doctor.QueueStatus {
	return doctor.QueueStatus{
		QueueOverview: inspect.QueueOverview{
			QueueCounts: qless.QueueCounts{Name: name, Waiting: waiting}, Oldest: oldest,
		},
		Rates: doctor.Throughput{Completed: perMinute},
	}
}

// newFake returns a source with data of all kinds.
func newFake() *fake {
	export := queueOf("export", 0, 0, 0)
	export.Paused = true
	return &fake{status: doctor.Status{
		Namespace: "ql:",
		Attention: []doctor.Reason{
			{Queue: "mail", Gravity: doctor.Urgent,
				Sentence: "queue mail is late: 1200 jobs wait, the oldest for 7m12s"},
			{Queue: "thumbs", Sentence: "something else"},
		},
		Queues: []doctor.QueueStatus{
			export, queueOf("mail", 1200, 432*time.Second, 118),
			queueOf("a-queue-with-quite-a-long-name", 3, time.Second, 2.5),
		},
		Workers:  doctor.Workforce{Registered: 2, Silent: 1, Slots: 20, Busy: 7},
		Rates:    doctor.Throughput{Completed: 120.5, Failed: 0.4},
		Failures: []doctor.Group{{Name: "timeout", Jobs: 12}, {Name: "gone", Jobs: 1}},
		Listed: []inspect.WorkerStatus{
			{Name: "host-1", Jobs: 7, Info: &inspect.WorkerInfo{
				Queues: []string{"mail", "thumbs"}, Slots: 10, Host: "host", Started: noon.Add(-time.Hour),
			}},
			{Name: "ruby-1", Jobs: 1, Stalled: 1},
		},
	}}
}

// A driver stands for the terminal and the source of a model.
type driver struct {
	t *testing.T
	*model
}

func drive(t *testing.T, source *fake, width, height int) *driver {
	m := newModel(source, Config{Server: "localhost:6379", Every: time.Second, Timeout: time.Second})
	d := &driver{t, m}
	d.do(m.Init())
	d.send(tea.WindowSizeMsg{Width: width, Height: height})
	return d
}

func (d *driver) send(msg tea.Msg) {
	_, cmd := d.Update(msg)
	if _, isRead := msg.(readMsg); !isRead { // after which it waits for the next tick
		d.do(cmd)
	}
}

// do runs a command, and sends its result to the model.
func (d *driver) do(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	msg := cmd()
	if read, isRead := msg.(readMsg); isRead {
		read.at = noon
		msg = read
	}
	d.send(msg)
}

// press presses keys, one per word.
func (d *driver) press(keys string) string {
	for _, key := range strings.Fields(keys) {
		d.do(d.model.press(key))
	}
	return d.screen()
}

func (d *driver) screen() string {
	d.t.Helper()
	screen := d.render()
	lines := strings.Split(screen, "\n")
	require.Len(d.t, lines, d.height)
	for i, line := range lines {
		require.LessOrEqual(d.t, len([]rune(line)), d.width, line)
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

func TestScreensAt80By24(t *testing.T) {
	for name, keys := range map[string]string{
		"queues": "", "workers": "2", "failures": "3", "help": "?", "queue": "end enter",
		"why": "end enter y", "worker": "2 enter", "failure": "3 enter", "question": "p",
		"sorted": "w",
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, name+".txt", drive(t, newFake(), 80, 24).press(keys))
		})
	}
}

func TestAnySizeOfTheWindow(t *testing.T) {
	for _, keys := range []string{"", "2", "3", "?", "enter", "enter y", "2 enter", "3 enter", "p"} {
		for _, size := range [][2]int{{1, 1}, {39, 24}, {40, 8}, {60, 10}, {200, 60}} {
			d := drive(t, newFake(), size[0], size[1])
			if size[0] < minWidth {
				require.LessOrEqual(t, len(d.render()), 40)
				continue
			}
			require.NotEmpty(t, d.press(keys))
		}
	}
}

// order returns the first letters of the rows.
func (d *driver) order() string {
	var order string
	for _, r := range d.grid().rows {
		order += r.id[:1]
	}
	return order
}

func TestRowsAreSortedByColumn(t *testing.T) {
	d := drive(t, newFake(), 80, 24)
	require.Equal(t, "aem", d.order(), "by name")
	for _, step := range []struct{ keys, order string }{
		{"w", "mae"}, // most waiting first
		{"w", "eam"}, {"o", "mae"}, {"e", "mae"}, {"n n", "mea"},
		{"z", "mea"}, // no column has this key
	} {
		require.Equal(t, step.order, d.with(step.keys), step.keys)
	}
	require.Equal(t, "tg", drive(t, newFake(), 80, 24).with("3"))
	require.Equal(t, "gt", drive(t, newFake(), 80, 24).with("3 c"))
	require.Equal(t, "rh", drive(t, newFake(), 80, 24).with("2 l"))
}

func (d *driver) with(keys string) string {
	d.press(keys)
	return d.order()
}

func TestTheSelectionStaysWithItsRow(t *testing.T) {
	d := drive(t, newFake(), 80, 24)
	d.press("down")
	require.Equal(t, "export", d.selection())
	d.press("w")
	require.Equal(t, "export", d.selection())
	d.press("down down pgdown")
	require.Equal(t, "export", d.selection(), "it is the last")
	d.press("up pgup k")
	require.Equal(t, "mail", d.selection())
}

func TestManyRowsScroll(t *testing.T) {
	source := newFake()
	for i := range 100 {
		source.status.Queues = append(source.status.Queues, queueOf("q"+string(rune('A'+i%26))+
			strings.Repeat("x", i/26), i, 0, 0))
	}
	d := drive(t, source, 80, 24)
	require.Contains(t, d.screen(), "a-queue")
	require.NotContains(t, d.press("end"), "a-queue")
	require.Contains(t, d.screen(), ">qZxx")
}

func TestAQueueIsPausedAfterAYesOnly(t *testing.T) {
	source := newFake()
	d := drive(t, source, 80, 24)
	require.Contains(t, d.press("end p"), "Pause queue mail, with 1200 waiting jobs? y/n")
	require.Contains(t, d.press("n"), "nothing was done")
	require.Contains(t, d.press("p enter"), "nothing was done")
	require.Contains(t, d.press("p esc"), "nothing was done")
	require.Empty(t, source.changed)
	require.Contains(t, d.press("p y"), "queue mail is paused")
	require.Contains(t, d.press("home down p"), "Resume queue export")
	d.press("y")
	require.Equal(t, []string{"paused mail", "resumed export"}, source.changed)
	d.press("1 end enter p y")
	require.Equal(t, "paused mail", source.changed[2], "in the view of a queue")
	source.err = errors.New("no permission")
	require.Contains(t, d.press("esc p y"), "not done: no permission")
}

func TestWithoutAnAnswerTheLastReadingStays(t *testing.T) {
	source := newFake()
	d := drive(t, source, 80, 24)
	source.err = errors.New("connection\nrefused")
	d.send(tickMsg{d.turn})
	require.Contains(t, d.screen(), "no answer since 12:00:00")
	require.Contains(t, d.screen(), "trying again: connection refused")
	require.Contains(t, d.screen(), "mail")
	source.err = nil
	d.send(tickMsg{d.turn})
	require.NotContains(t, d.screen(), "no answer")
}

func TestReadingsOfAnEarlierPlaceAreDropped(t *testing.T) {
	d := drive(t, newFake(), 80, 24)
	old := d.turn
	d.press("end enter")
	d.send(readMsg{turn: old, status: &doctor.Status{}, err: errors.New("late")})
	require.NotContains(t, d.screen(), "no answer")
	_, cmd := d.Update(tickMsg{old})
	require.Nil(t, cmd)
}

func TestEscGoesBack(t *testing.T) {
	d := drive(t, newFake(), 80, 24)
	require.Contains(t, d.press("2 enter"), "worker host-1")
	require.Contains(t, d.press("esc"), "[2 workers]")
	require.Contains(t, d.press("esc"), "[2 workers]")
	require.Contains(t, d.press("tab"), "[3 failures]")
	require.Contains(t, d.press("tab"), "[1 queues]")
	require.Contains(t, d.press("end enter tab"), "[running 1]")
	require.Contains(t, d.press("left left"), "[recurring 0]")
	require.Contains(t, d.press("y"), "[whY]")
	require.Contains(t, d.press("y"), "[recurring 0]")
	require.Contains(t, d.press("y esc"), "[recurring 0]")
	require.Contains(t, d.press("esc"), "[1 queues]")
}

func TestColoursAreOnlyOnTop(t *testing.T) {
	d := drive(t, newFake(), 80, 24)
	plain := d.render()
	require.NotContains(t, plain, "\x1b")
	d.config.Style = text.Coloured()
	painted := d.render()
	require.Contains(t, painted, "\x1b[31m")
	for _, code := range []string{"0", "1", "2", "7", "31", "32", "33"} {
		painted = strings.ReplaceAll(painted, "\x1b["+code+"m", "")
	}
	require.Equal(t, plain, painted)
}

func TestReadOnlyNoQueueIsPaused(t *testing.T) {
	source := newFake()
	d := drive(t, source, 80, 24)
	d.config.ReadOnly = true
	require.NotContains(t, d.press("down"), "p pause")
	require.Contains(t, d.press("end p"), "read-only: nothing is changed")
	d.press("y")
	require.NotContains(t, d.press("enter"), "p pause")
	require.Contains(t, d.press("p"), "read-only: nothing is changed")
	d.press("y")
	require.Empty(t, source.changed)
}

// After an outage of seconds, as in a failover, the server is read as often as before.
func TestOneSlowReadingDelaysNothing(t *testing.T) {
	m := newModel(&fake{}, Config{Every: time.Second})
	for _, reading := range []struct {
		took time.Duration
		err  error
		wait time.Duration
	}{
		{10 * time.Millisecond, nil, time.Second},
		{5 * time.Second, nil, time.Second},
		{5 * time.Second, errors.New("away"), time.Second},
		{10 * time.Millisecond, nil, time.Second},
		{200 * time.Millisecond, nil, time.Second},
		{300 * time.Millisecond, nil, 4 * time.Second}, // two that were slow
	} {
		require.Equal(t, reading.wait, m.wait(readMsg{took: reading.took, err: reading.err}))
	}
}

func TestActionsAreAskedFirst(t *testing.T) {
	source := newFake()
	d := drive(t, source, 80, 24)
	jid := strings.Repeat("a", 32)
	require.Contains(t, d.press("3 u"), "Retry the failed jobs of timeout? y/n")
	require.Contains(t, d.press("n"), "nothing was done")
	require.Contains(t, d.press("u y"), "retried 3 jobs")
	require.Contains(t, d.press("enter u y"), "retried 3 jobs")
	d.press("1 home enter")
	require.Contains(t, d.press("c"), "Cancel job "+jid+"? y/n")
	require.Contains(t, d.press("y"), "canceled 3 jobs")
	require.Contains(t, d.press("r"), "Make due now job "+jid+"? y/n")
	source.err = errors.New("refused")
	require.Contains(t, d.press("y"), "not done: refused")
	require.Equal(t, []string{
		"unfail timeout", "unfail timeout", "cancel " + jid, "promote " + jid,
	}, source.changed)

	d.config.ReadOnly = true
	require.Contains(t, d.press("c"), "read-only: nothing is changed")
}

func TestRemediesOfProblems(t *testing.T) {
	source := newFake()
	source.status.Attention[0].Command = "qless why mail"
	source.status.Attention[1].Command = "qless queue resume 'my queue'"
	source.status.Attention[1].Queue = "a-queue-with-quite-a-long-name"
	d := drive(t, source, 80, 24)
	require.Contains(t, d.press("end y"), "What to do, copied: qless why mail")
	require.Contains(t, d.press("home y"), "What to do, copied: qless queue resume 'my queue'")
	require.Contains(t, d.press("down y"), "qless why mail", "the first, as this queue has no problem")

	page := d.press("enter y")
	require.Contains(t, page, "Resume it.")
	require.Contains(t, page, "$ qless queue resume export")
}
