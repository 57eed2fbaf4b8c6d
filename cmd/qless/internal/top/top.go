// Package top shows in a terminal what a namespace does, and keeps it up to date.
//
// The model (model.go, keys.go) is changed by messages only, and the view (view.go, grid.go) makes
// text of it. All data of the server comes from a Source.
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

// A Source reads and changes what is shown.
type Source interface {
	Overview(ctx context.Context) (*doctor.Status, error)
	Jobs(ctx context.Context, queue string, list inspect.List) (*JobsOfQueue, error)
	Why(ctx context.Context, queue string) (*doctor.Explanation, error)
	Held(ctx context.Context, worker string) ([]*qless.Job, error)
	Failures(ctx context.Context, group string) (inspect.FailureSummary, error)
	SetPaused(ctx context.Context, queue string, paused bool) error
}

// JobsOfQueue is one list of a queue, with its counts.
type JobsOfQueue struct {
	Counts  qless.QueueCounts
	Latency inspect.Latency
	Page    inspect.Page[inspect.Row]
}

// A Config has the data source and the terminal.
type Config struct {
	Server  string        // how the server is called
	Queue   string        // the queue to begin with, or empty
	Every   time.Duration // how often to read
	Timeout time.Duration // how long a reading may take

	ReadOnly bool // the key p does nothing

	In    io.Reader
	Out   io.Writer
	Style text.Style
}

// Run shows what the source has until the user quits or the context ends. In each case, and after a
// panic, the terminal is as it was before.
func Run(ctx context.Context, source Source, config Config) error {
	program := tea.NewProgram(newModel(source, config),
		tea.WithInput(config.In), tea.WithOutput(config.Out), tea.WithoutSignalHandler())
	// A program whose own context ends closes the terminal while it is being read.
	defer context.AfterFunc(ctx, program.Quit)()
	_, err := program.Run()
	return err
}
