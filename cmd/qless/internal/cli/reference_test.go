package cli_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/cli"
	"github.com/qless/qless-go/internal/jobopts"
)

// The page lists all commands between these lines. With -update, the test writes the list.
const (
	listBegins = "\n<!-- the flag -update of the tests of cmd/qless/internal/cli writes this list -->\n```text\n"
	listEnds   = "```\n"
)

func TestThePageListsTheCommands(t *testing.T) {
	const page = "../../../../docs/cli.md"
	text := must(os.ReadFile(page))(t)
	before, rest, found := strings.Cut(string(text), listBegins)
	require.True(t, found)
	old, after, found := strings.Cut(rest, listEnds)
	require.True(t, found)
	list := reference(cli.Root())
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(before+listBegins+list+listEnds+after), 0o644))
		old = list
	}
	require.Equal(t, list, old)
}

// theShell has everything used by the page's examples beside the program.
const theShell = `set -e
qless() { "$PROGRAM" "$@" --yes; } # nobody can be asked
pass() { echo "$QLESS_REDIS_URL"; }
echo '{"to": "ann"}' > data.json
echo '{"klass": "Welcome"}' > jobs.jsonl
for name in staging old new; do
  qless context set $name --redis "$QLESS_REDIS_URL" --namespace $name:
done
qless job put mail Welcome --context old
set -x
`

func TestTheExamplesOfThePageRun(t *testing.T) {
	e := newLiveEnv(t)
	e.folder = t.TempDir()
	worker := must(qless.NewWorker(e.Client(), qless.WorkerConfig{Queues: []string{"reports"}}))(t)
	worker.Handle("Monthly", nothing)
	require.NoError(t, worker.Start(t.Context()))
	e.put("mail", "Welcome", 0)

	text := must(os.ReadFile("../../../../docs/cli.md"))(t)
	lines := theShell
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			if !regexp.MustCompile(`^go install |^export |^qless serve `).MatchString(line) {
				lines += line
			}
		}
	}
	program := e.command()
	shell := exec.CommandContext(t.Context(), "sh", "-c", lines)
	shell.Dir = e.folder
	shell.Env = append(program.Env, "PROGRAM="+program.Path, "PATH="+os.Getenv("PATH"))
	r := e.finish(shell, "")
	require.Equal(t, 0, r.status, r.errors)
	require.NoError(t, worker.Stop(context.WithoutCancel(t.Context())))
}

// reference lists the flags of all commands, then each command with its arguments, its summary and
// its specific flags.
func reference(root *cobra.Command) string {
	var b strings.Builder
	root.PersistentFlags().VisitAll(func(flag *pflag.Flag) {
		writeWrapped(&b, named(flag), flag.Usage)
	})
	b.WriteString("\n")
	describe(&b, root, "")
	return b.String()
}

// describe lists a command, with an indent, and its subcommands.
func describe(b *strings.Builder, command *cobra.Command, indent string) {
	var flags, options []string
	command.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		switch {
		case flag.Name == "help" || strings.HasPrefix(flag.Usage, "has no effect"):
		case isOption(flag):
			options = append(options, named(flag))
		default:
			flags = append(flags, named(flag))
		}
	})
	if len(options) > 10 { // another page lists them
		flags = append(flags, "and those of options")
	} else {
		flags = append(flags, options...)
	}
	switch {
	case !command.HasParent():
	case command.HasSubCommands() && len(flags) == 0:
		fmt.Fprintln(b, command.Name())
	default:
		usage, more, _ := strings.Cut(command.Use, "\n")
		if more = strings.TrimSpace(more); more != "" { // another way to call it
			fmt.Fprintln(b, indent+usage)
			usage = strings.TrimPrefix(more, "qless "+command.Parent().Name()+" ")
		}
		writeWrapped(b, indent+usage, command.Short)
		writeWrapped(b, indent, strings.Join(flags, " "))
	}
	for _, below := range command.Commands() {
		if below.Name() == "help" || below.Name() == "completion" {
			continue
		}
		if command.HasParent() {
			describe(b, below, "  ")
		} else {
			describe(b, below, "")
		}
	}
}

// isOption reports whether a flag is for an option of a job.
func isOption(flag *pflag.Flag) bool {
	return slices.ContainsFunc(jobopts.Table, func(row *jobopts.Row) bool {
		return row.Key != "" && row.FlagName() == flag.Name
	})
}

// named returns a flag's names as typed.
func named(flag *pflag.Flag) string {
	if flag.Shorthand == "" {
		return "--" + flag.Name
	}
	return "-" + flag.Shorthand + "/--" + flag.Name
}

// writeWrapped writes two columns, the second in lines of up to 100 letters.
func writeWrapped(b *strings.Builder, left, right string) {
	const width = 100
	line := fmt.Sprintf("%-24s", left)
	for word := range strings.FieldsSeq(right) {
		if len(line)+1+len(word) > width {
			fmt.Fprintln(b, line)
			line = fmt.Sprintf("%-24s", "")
		}
		line += " " + word
	}
	if right != "" {
		fmt.Fprintln(b, line)
	}
}
