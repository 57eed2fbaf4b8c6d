package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

// word matches a shell argument, perhaps quoted or a substituted command.
var word = regexp.MustCompile(`'[^']*'|\$\([^)]*\)|[^\s']+`)

// programs returns the arguments of the program's runs in shell lines.
func programs(text string) (runs [][]string) {
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
		var run []string
		inside := false
		for _, argument := range append(word.FindAllString(line, -1), ";") {
			switch {
			case strings.HasPrefix(argument, "#") || strings.ContainsAny(argument, "|&;<>") &&
				!strings.HasPrefix(argument, "'") && !strings.HasPrefix(argument, "$"):
				if inside {
					runs = append(runs, run)
				}
				run, inside = nil, false
			case inside:
				run = append(run, strings.Trim(argument, "'"))
			case argument == "qless" || argument == "./cmd/qless":
				inside = true
			}
			if strings.HasPrefix(argument, "#") {
				break
			}
		}
	}
	return runs
}

// check makes the program parse its arguments and do nothing else.
func check(args []string) error {
	command, rest, err := Root().Find(args)
	if err != nil {
		return err
	}
	if !command.Runnable() || command.HasSubCommands() && len(rest) > 0 && rest[0][0] != '-' {
		return fmt.Errorf("there is no such command")
	}
	if err := command.ParseFlags(rest); err != nil {
		return err
	}
	if err := command.ValidateRequiredFlags(); err != nil {
		return err
	}
	return command.ValidateArgs(command.Flags().Args())
}

func TestProgramsAreFoundInLinesOfAShell(t *testing.T) {
	require.Equal(t, [][]string{{"queue", "ls"}, {"job", "put", "-", `{"a": 1}`}, {"job", "show"}},
		programs("$ qless queue ls | qless job put - '{\"a\": 1}' # qless nothing\nx\nqless job show > f\n"))
	require.Error(t, check([]string{"queue", "nonsense"}))
	require.Error(t, check([]string{"queue", "ls", "--nonsense"}))
	require.Error(t, check([]string{"queue", "pause"}))
	require.NoError(t, check([]string{"queue", "pause", "mail", "--yes"}))
}

func TestCommandsOfThePagesExist(t *testing.T) {
	pages, err := filepath.Glob("../../../../docs/*.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	found := 0
	for _, page := range append(pages, "../../../../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, lines := range block.FindAllStringSubmatch(string(text), -1) {
			if lines[1] != "" && lines[1] != "sh" {
				continue
			}
			for _, run := range programs(lines[2]) {
				found++
				require.NoError(t, check(run), "%s: qless %s", page, strings.Join(run, " "))
			}
		}
	}
	require.Greater(t, found, 25)
}

func TestEachSectionOfTheHelpIsOfACommand(t *testing.T) {
	sections := strings.Split(help, "\n=== ")[1:]
	require.NotEmpty(t, sections)
	for _, section := range sections {
		path, _, _ := strings.Cut(section, "\n")
		command, _, err := Root().Find(strings.Fields(path))
		require.NoError(t, err)
		require.Equal(t, "qless "+path, command.CommandPath())
	}
}

func TestExamplesOfCommandsExist(t *testing.T) {
	var walk func(command *cobra.Command)
	walk = func(command *cobra.Command) {
		for _, run := range programs(command.Example) {
			require.NoError(t, check(run), "%s: qless %s", command.CommandPath(), strings.Join(run, " "))
		}
		for _, below := range command.Commands() {
			walk(below)
		}
	}
	walk(Root())
}

// foreignFlags are flags of other programs mentioned on pages, and the common beginning of several.
var foreignFlags = []string{"cmdlog-"}

func TestFlagsOfThePagesExist(t *testing.T) {
	pages, err := filepath.Glob("../../../../docs/*.md")
	require.NoError(t, err)
	flags := map[string]bool{"help": true}
	var walk func(command *cobra.Command)
	walk = func(command *cobra.Command) {
		for _, set := range []*pflag.FlagSet{command.Flags(), command.PersistentFlags()} {
			set.VisitAll(func(flag *pflag.Flag) { flags[flag.Name] = true })
		}
		for _, below := range command.Commands() {
			walk(below)
		}
	}
	walk(Root())
	inline, found := regexp.MustCompile("`--([a-z-]+)[^`]*`"), 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, flag := range inline.FindAllStringSubmatch(string(text), -1) {
			if found++; !flags[flag[1]] && !slices.Contains(foreignFlags, flag[1]) {
				t.Errorf("%s: --%s", page, flag[1])
			}
		}
	}
	require.Greater(t, found, 50)
}
