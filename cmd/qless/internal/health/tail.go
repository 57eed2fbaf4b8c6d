package health

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/events"
)

// A tail prints the events that pass a filter.
type tail struct {
	*app
	client                 *qless.Client
	style                  text.Style
	queues, klasses, kinds []string
	tracked                bool
}

func (a *app) tailCommand() *cobra.Command {
	t := &tail{app: a}
	command := &cobra.Command{
		Use:   "tail",
		Short: "Print events as they happen",
		RunE:  func(command *cobra.Command, _ []string) error { return t.run(command.Context()) },
	}
	flags := command.Flags()
	flags.StringSliceVar(&t.queues, "queue", nil, "only events of this queue")
	flags.StringSliceVar(&t.klasses, "klass", nil, "only events of jobs of this klass")
	flags.StringSliceVar(&t.kinds, "event", nil, "only this event, such as put or failed")
	flags.BoolVar(&t.tracked, "tracked", false, "also print the second events of tracked jobs")
	return command
}

func (t *tail) run(ctx context.Context) error {
	for _, kind := range t.kinds {
		if !slices.Contains(events.Kinds(), events.Kind(kind)) {
			names := out.Strings(events.Kinds(), func(k events.Kind) string { return string(k) })
			return out.Error(fmt.Errorf("no event is called %q: want one of %s", kind,
				strings.Join(names, ", ")))
		}
	}
	connecting, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	var err error
	if t.client, err = t.app.Client(connecting); err != nil {
		return err
	}
	heard, err := events.Listen(ctx, t.client)
	if err != nil {
		return err
	}
	t.style = text.StyleOf(t.Out)
	if !t.JSON {
		fmt.Fprintln(t.Err, "listening, Ctrl-C ends it")
	}
	for event := range heard {
		if err := t.show(ctx, event); err != nil {
			return err
		}
	}
	return nil // the user has ended the program
}

// A shownEvent is an event with the klass and the queue of its job.
type shownEvent struct {
	Time time.Time `json:"time"`
	events.Event
	Klass string `json:"klass,omitempty"`
}

func (t *tail) show(ctx context.Context, event events.Event) error {
	e := shownEvent{Time: time.Now(), Event: event}
	if event.Kind != events.Gap {
		if wanted, err := t.wants(ctx, &e); err != nil || !wanted {
			return err
		}
	}
	if t.JSON {
		return out.WriteJSON(t.Out, e, "")
	}
	_, err := fmt.Fprintln(t.Out, t.line(&e))
	return err
}

// wants reports whether an event passes the filter.
func (t *tail) wants(ctx context.Context, e *shownEvent) (bool, error) {
	if e.Tracked && !t.tracked && !isOnlyOfTracked(e.Kind) {
		return false, nil
	}
	if len(t.kinds) > 0 && !slices.Contains(t.kinds, string(e.Kind)) {
		return false, nil
	}
	if len(t.klasses) > 0 || len(t.queues) > 0 && e.Queue == "" {
		if err := t.read(ctx, e); err != nil {
			return false, err
		}
	}
	if len(t.queues) > 0 && !slices.Contains(t.queues, e.Queue) && !slices.Contains(t.queues, e.To) {
		return false, nil
	}
	return len(t.klasses) == 0 || slices.Contains(t.klasses, e.Klass), nil
}

// isOnlyOfTracked reports whether an event is published only for tracked jobs.
func isOnlyOfTracked(kind events.Kind) bool {
	switch kind {
	case events.Popped, events.Stalled, events.Tracked, events.Untracked:
		return true
	}
	return false
}

// read reads the klass and the queue of an event's job. Unreadable fields stay empty.
func (t *tail) read(ctx context.Context, e *shownEvent) error {
	if e.JID == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	job, err := t.client.Job(ctx, e.JID)
	switch {
	case err == nil:
		e.Klass = job.Klass
		if e.Queue == "" {
			e.Queue = job.Queue
		}
	case errors.Is(err, qless.ErrNotFound), errors.Is(err, qless.ErrUnavailable):
	default:
		return err
	}
	return nil
}

// line returns an event as a line for a person.
func (t *tail) line(e *shownEvent) string {
	if e.Kind == events.Gap {
		return e.Time.Format(time.TimeOnly) + "  " +
			t.style.Yellow("the connection was lost: events may be missing")
	}
	words := []string{e.Time.Format(time.TimeOnly), t.paint(e.Kind)}
	for _, field := range []struct{ name, value string }{
		{"", e.JID}, {"", e.Klass}, {"queue=", e.Queue}, {"to=", e.To}, {"worker=", e.Worker},
		{"count=", countOf(e.Count)}, {"", e.Option}, {"value=", e.Value}, {"group=", e.Group},
		{"", e.Message},
	} {
		if field.value != "" {
			words = append(words, t.style.Faint(field.name)+text.Cut(text.Clean(field.value), 200))
		}
	}
	return strings.Join(words, "  ")
}

func countOf(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// paint returns the name of an event in the colour of its severity.
func (t *tail) paint(kind events.Kind) string {
	name := text.Pad(string(kind), len(events.ConfigUnset))
	switch kind {
	case events.Failed:
		return t.style.Red(name)
	case events.LockLost, events.Stalled, events.Paused, events.Canceled:
		return t.style.Yellow(name)
	case events.Completed, events.Advanced:
		return t.style.Green(name)
	}
	return t.style.Cyan(name)
}
