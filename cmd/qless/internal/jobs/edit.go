package jobs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/inspect"
)

func (a *app) jobEditCommand() *cobra.Command {
	var data string
	command := &cobra.Command{
		Use:   "edit JID",
		Short: "Change the data of a job, with an editor",
		RunE: func(command *cobra.Command, args []string) error {
			return a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
				if command.Flags().Changed("data") {
					return a.editJob(ctx, client, args[0], func([]byte) (any, error) {
						return a.Data([]string{data})
					})
				}
				return a.editJob(ctx, client, args[0], a.editor)
			})(command, args)
		},
	}
	command.Flags().StringVarP(&data, "data", "d", "",
		"the data, as JSON; - stands for the standard input")
	return command
}

func (a *app) editJob(
	ctx context.Context, client *qless.Client, jid string, edit func([]byte) (any, error),
) error {
	job, err := client.Job(ctx, jid)
	if err != nil {
		return err
	}
	switch job.State {
	case qless.StateRunning, qless.StateTimedOut:
		return stateError(job, qless.ErrRunning, "a worker may still run it")
	case qless.StateComplete:
		return stateError(job, qless.ErrFinished, "it is complete")
	}
	options, err := keepPlace(ctx, client, job)
	if err != nil {
		return err
	}
	data, err := edit(job.Data)
	if err != nil {
		return err
	}
	if same(data, job.Data) {
		a.Say("nothing has changed")
		return a.PrintJSON(out.OfJID{JID: jid})
	}
	return a.putEdited(ctx, job, data, options)
}

func (a *app) putEdited(
	ctx context.Context, job *qless.Job, data any, options []qless.PutOption,
) error {
	what := "change the data of 1 job"
	if job.State == qless.StateFailed {
		what += ", and retry it"
	}
	if goOn, err := a.Confirm(what); !goOn {
		return err
	}
	if err := job.SetData(data); err != nil {
		return err
	}
	if err := job.Move(ctx, job.Queue, options...); err != nil {
		return err
	}
	a.Say("changed %s", job.JID)
	return a.PrintJSON(out.OfJID{JID: job.JID})
}

func stateError(job *qless.Job, code qless.Code, why string) error {
	return &qless.Error{Op: "edit", Code: code, JID: job.JID, Message: why}
}

// keepPlace returns the options for a put that leaves a job in its place.
func keepPlace(
	ctx context.Context, client *qless.Client, job *qless.Job,
) ([]qless.PutOption, error) {
	options := []qless.PutOption{qless.IfNotRunning}
	if len(job.Dependencies) > 0 {
		options = append(options, qless.DependsOn(job.Dependencies))
	}
	list := inspect.List(job.State)
	if list != inspect.Scheduled && list != inspect.Depends || job.Parked != "" {
		return options, nil
	}
	jobs := inspect.New(client).Queue(job.Queue, list).Where(inspect.Filter{JID: job.JID})
	for row, err := range jobs.Each(ctx) {
		if err != nil {
			return nil, err
		}
		if row.JID == job.JID && !row.Due.IsZero() {
			return append(options, qless.At(row.Due)), nil
		}
	}
	return options, nil
}

// editor lets the user edit JSON, and returns the result.
func (a *app) editor(data []byte) (any, error) {
	a.Watch.Stop()
	defer a.Watch.Resume()
	program := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"))
	if program == "" {
		return nil, out.Error(errors.New("neither --data nor $EDITOR is set"))
	}
	file, err := os.CreateTemp("", "qless-*.json")
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	_, err = fmt.Fprintln(file, out.Indented(data))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	words := append(strings.Fields(program), file.Name())
	command := exec.Command(words[0], words[1:]...)
	command.Stdin, command.Stdout, command.Stderr = a.In, a.Out, a.Err
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("the editor: %w", err)
	}
	text, err := os.ReadFile(file.Name())
	if err != nil {
		return nil, err
	}
	if err := out.CheckJSON(text); err != nil {
		return nil, err
	}
	return compacted(text), nil
}

func compacted(text []byte) json.RawMessage {
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return text
	}
	return compact.Bytes()
}

// same reports whether two texts are the same JSON except for whitespace.
func same(edited any, data []byte) bool {
	text, ok := edited.(json.RawMessage)
	return ok && bytes.Equal(compacted(text), compacted(data))
}
