package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

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

// pages returns the texts of the pages by their names.
func pages(t *testing.T) map[string]string {
	names, err := filepath.Glob("../../../../docs/*.md")
	require.NoError(t, err)
	pages := map[string]string{}
	for _, name := range append(names, "../../../../README.md") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		pages[name] = string(text)
	}
	return pages
}

func TestCommandsOfThePagesExist(t *testing.T) {
	block := regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	found := 0
	for page, text := range pages(t) {
		for _, lines := range block.FindAllStringSubmatch(text, -1) {
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
	for _, command := range All(Root()) {
		for _, run := range programs(command.Example) {
			require.NoError(t, check(run), "%s: qless %s", command.CommandPath(), strings.Join(run, " "))
		}
	}
}

// foreignFlags are flags of other programs mentioned on pages, and the common beginning of several.
var foreignFlags = []string{"cmdlog-"}

func TestFlagsOfThePagesExist(t *testing.T) {
	flags := map[string]bool{"help": true}
	for _, command := range All(Root()) {
		for _, set := range []*pflag.FlagSet{command.Flags(), command.PersistentFlags()} {
			set.VisitAll(func(flag *pflag.Flag) { flags[flag.Name] = true })
		}
	}
	inline, found := regexp.MustCompile("`--([a-z-]+)[^`]*`"), 0
	for page, text := range pages(t) {
		for _, flag := range inline.FindAllStringSubmatch(text, -1) {
			if found++; !flags[flag[1]] && !slices.Contains(foreignFlags, flag[1]) {
				t.Errorf("%s: --%s", page, flag[1])
			}
		}
	}
	require.Greater(t, found, 50)
}
