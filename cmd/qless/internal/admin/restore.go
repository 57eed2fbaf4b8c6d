package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/internal/dump"
)

func (a *app) dumpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "dump",
		Short: "Print the whole contents of a namespace, for qless restore",
		RunE:  a.Run(a.dumpAll),
	}
}

func (a *app) restoreCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore the output of qless dump into an empty namespace",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			return a.restoreAll(ctx, client, args[0])
		}),
	}
}

// openNamespace opens the namespace of a client. The server's time limit applies to each step.
func (a *app) openNamespace(ctx context.Context, client *qless.Client) (*dump.Namespace, error) {
	return dump.Open(ctx, client.Redis(), client.Namespace(), a.Watch.Restart)
}

func (a *app) dumpAll(ctx context.Context, client *qless.Client, _ []string) error {
	if text.IsTerminal(a.Out) {
		return out.Error(errors.New("a dump is for a file: qless dump > FILE"))
	}
	namespace, err := a.openNamespace(ctx, client)
	if err != nil {
		return err
	}
	n, err := namespace.Write(ctx, a.Out)
	if err != nil {
		return err
	}
	a.Say("dumped %s", text.Count(n, "key"))
	for _, inner := range namespace.Inner() {
		a.Say("left out the keys of %s: it looks like another namespace, to be dumped by itself",
			text.Clean(inner))
	}
	return nil
}

// A restored counts the keys that were restored, or with --dry-run would be restored.
type restored struct {
	Restored  int      `json:"restored"`
	There     int      `json:"there"`
	Differing []string `json:"differing,omitempty"`
	Extra     []string `json:"extra,omitempty"`
}

func (a *app) restoreAll(ctx context.Context, client *qless.Client, path string) error {
	file, err := a.openTwice(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	namespace, err := a.openNamespace(ctx, client)
	if err != nil {
		return err
	}
	found, err := namespace.Compare(ctx, file)
	if wrong := (*dump.FormatError)(nil); errors.As(err, &wrong) {
		return out.Error(fmt.Errorf("%s: %w", path, err))
	} else if err != nil {
		return err
	}
	sum := restored{found.Missing, found.Same, found.Differing, found.Extra}
	err = sum.refused(client.Namespace())
	if found.Resumed && err == nil {
		sum.Restored = 0
		a.Say("everything is restored, and queues that were resumed since stay so")
	}
	if err == nil && !a.DryRun && !found.Resumed {
		if _, err = file.Seek(0, io.SeekStart); err == nil {
			err = namespace.Restore(ctx, file)
		}
	}
	if a.JSON && (err == nil || sum.refused("") != nil) {
		err = errors.Join(a.Print(sum, nil), err)
	} else if err == nil {
		verb := "restored"
		if a.DryRun {
			verb = "would restore"
		}
		a.Say("%s %s, %d are there already", verb, text.Count(sum.Restored, "key"), sum.There)
	}
	return err
}

// refused returns why nothing is restored into a namespace, or nil.
func (r restored) refused(namespace string) error {
	var reasons []string
	for _, part := range []struct {
		names []string
		what  string
	}{{r.Differing, "has other values"}, {r.Extra, "is not in the dump"}} {
		if len(part.names) > 0 {
			reasons = append(reasons, fmt.Sprintf("%s%s %s", namespace, part.names[0], part.what))
		}
		if n := len(part.names) - 1; n > 0 {
			reasons[len(reasons)-1] += fmt.Sprintf(", and so with %d more", n)
		}
	}
	if reasons == nil {
		return nil
	}
	return fmt.Errorf("the namespace differs from the dump: %s", strings.Join(reasons, "; "))
}

// openTwice opens a file to read twice, or copies the standard input to a file.
func (a *app) openTwice(path string) (*os.File, error) {
	if path != out.Stdin {
		file, err := os.Open(path)
		if err != nil {
			return nil, out.Error(err)
		}
		return file, nil
	}
	file, err := os.CreateTemp("", "qless-dump-*")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(file.Name()) // the file disappears when closed
	a.Watch.Stop()             // another program writes the input
	_, err = io.Copy(file, a.In)
	a.Watch.Resume()
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = file.Close()
	}
	return file, err
}
