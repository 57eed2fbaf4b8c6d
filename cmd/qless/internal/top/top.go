// Package top shows the state of a namespace in a terminal, and keeps it up to date.
//
// Only messages change the model (model.go, keys.go), and the view (view.go, grid.go) renders it.
// All data of the server comes from a [Source].
package top

import (
	"context"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
)

// A Source reads and changes the data on the screen.
type Source interface {
	Overview(ctx context.Context) (*doctor.Status, error)
	Jobs(ctx context.Context, queue string, list inspect.List) (*JobsOfQueue, error)
	Why(ctx context.Context, queue string) (*doctor.Explanation, error)
	Held(ctx context.Context, worker string) ([]*qless.Job, error)
	Failures(ctx context.Context, group string) (inspect.FailureSummary, error)
	SetPaused(ctx context.Context, queue string, paused bool) error
	Unfail(ctx context.Context, group string) (inspect.Repair, error)
	Cancel(ctx context.Context, jid string) (inspect.Repair, error)
	Promote(ctx context.Context, jid string) (inspect.Repair, error)
}

// JobsOfQueue is a list of a queue with its counts.
type JobsOfQueue struct {
	Counts  qless.QueueCounts
	Latency inspect.Latency
	Page    inspect.Page[inspect.Row]
}

// A Config has the data source and the terminal.
type Config struct {
	Server  string        // the server's name
	Queue   string        // the queue to start with, or empty
	Every   time.Duration // the interval between two readings
	Timeout time.Duration // the time limit of a reading

	ReadOnly bool // disables the keys for changes

	In    io.Reader
	Out   io.Writer
	Style text.Style
}

// Run shows the data of the source until the user quits or the context ends. Afterwards, even after
// a panic, Run restores the terminal.
func Run(ctx context.Context, source Source, config Config) error {
	program := tea.NewProgram(newModel(source, config),
		tea.WithInput(config.In), tea.WithOutput(config.Out), tea.WithoutSignalHandler())
	// If a program's own context ended, it would close the terminal while reading it.
	defer context.AfterFunc(ctx, program.Quit)()
	_, err := program.Run()
	return err
}
