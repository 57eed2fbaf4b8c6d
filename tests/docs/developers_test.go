package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// forDevelopers are the pages about the repository itself.
var forDevelopers = []string{"ARCHITECTURE.md", "BENCHMARKS.md", "CONTRIBUTING.md"}

var (
	anyMake = regexp.MustCompile(`\bmake (-C bench )?([a-z][a-z-]+)`)
	target  = regexp.MustCompile(`(?m)^([a-z-]+)(?: [a-z-]+)*:`)
)

func TestTargetsOfMakeExist(t *testing.T) {
	checked := 0
	for _, page := range forDevelopers {
		text := strings.Join(strings.Fields(code(t, page)), " ")
		for _, run := range anyMake.FindAllStringSubmatch(text, -1) {
			file := "Makefile"
			if run[1] != "" {
				file = "bench/Makefile"
			}
			known := false
			for _, m := range target.FindAllStringSubmatch(read(t, file), -1) {
				known = known || m[1] == run[2]
			}
			checked++
			require.True(t, known, "%s: %s", page, run[0])
		}
	}
	require.Greater(t, checked, 20)
}

var (
	benchRun  = regexp.MustCompile("go run \\. (-[^`]+)`")
	benchFlag = regexp.MustCompile(`flags\.\w+\(&o\.\w+, "(\w+)"`)
	workload  = regexp.MustCompile(`-(?:workload|peers|against) ([\w,-]+)`)
)

// The flags, workloads and peers of measurements exist.
func TestFlagsOfMeasurementsExist(t *testing.T) {
	flags, sources, checked := map[string]bool{}, "", 0
	files, err := filepath.Glob(filepath.Join(root, "bench", "*.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		sources += string(text)
	}
	for _, flag := range benchFlag.FindAllStringSubmatch(sources, -1) {
		flags["-"+flag[1]] = true
	}
	for _, page := range forDevelopers {
		text := strings.Join(strings.Fields(read(t, page)), " ")
		for _, run := range benchRun.FindAllStringSubmatch(text, -1) {
			checked++
			for word := range strings.FieldsSeq(run[1]) {
				require.True(t, flags[word] || word[0] != '-', "%s: %s", page, word)
			}
			for _, list := range workload.FindAllStringSubmatch(run[1], -1) {
				for name := range strings.SplitSeq(list[1], ",") {
					require.Contains(t, sources, `"`+name+`"`, page)
				}
			}
		}
	}
	require.Greater(t, checked, 5)
}

var (
	indented = regexp.MustCompile(`(?m)^    .*$`)
	braces   = regexp.MustCompile(`([\w/]+/)?\{([\w, ]+)\}`)
	anyPath  = regexp.MustCompile(`(^|[^\w/.:@$-])([\w.*-]+(?:/[\w.*-]+)+|[\w.*-]+\.(?:go|lua|md|json|sh))`)
)

// code returns the code of a page.
func code(t *testing.T, page string) string {
	t.Helper()
	text, all := read(t, page), ""
	for _, kind := range []*regexp.Regexp{fencedBlock, inlineCode, indented} {
		all += strings.Join(kind.FindAllString(text, -1), "\n") + "\n"
		text = kind.ReplaceAllString(text, "")
	}
	return all
}

// In code, internal/{a, b} is two folders, and <command> any name.
func TestPathsForDevelopersExist(t *testing.T) {
	checked := 0
	for _, page := range forDevelopers {
		text := strings.ReplaceAll(code(t, page), "<command>", "*")
		text = braces.ReplaceAllStringFunc(text, func(group string) string {
			m := braces.FindStringSubmatch(group)
			return m[1] + strings.Join(strings.Split(m[2], ", "), " "+m[1])
		})
		for _, m := range anyPath.FindAllStringSubmatch(text, -1) {
			found := strings.HasSuffix(m[2], ".0") // the tag of a version
			for _, folder := range []string{"", "lua", "gateway", "cmd/qless/internal"} {
				some, err := filepath.Glob(filepath.Join(root, folder, m[2]))
				require.NoError(t, err)
				found = found || len(some) > 0
			}
			if checked++; !found {
				t.Errorf("%s: %s", page, m[2])
			}
		}
	}
	require.Greater(t, checked, 100)
}

// The header about headers is the command's.
func TestTheExampleOfAHeaderIsReal(t *testing.T) {
	text := read(t, "lua/commands/unpause.lua")
	header, _, _ := strings.Cut(text, "\n\n")
	require.Contains(t, read(t, "CONTRIBUTING.md"), "   "+strings.ReplaceAll(header, "\n", "\n   ")+"\n")
}
