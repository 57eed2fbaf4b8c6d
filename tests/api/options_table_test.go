package api

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/jobopts"
)

// root is the folder of package qless.
const root = "../.."

// samples are values of options for which the usual values of their kind make no sense.
var samples = map[string]string{
	"depends": `["waiting"]`,
	"unique":  `["x", 1]`,
}

// sampleOf returns a value of an option, in JSON.
func sampleOf(t *testing.T, row *jobopts.Row) string {
	t.Helper()
	if sample := samples[row.Key]; sample != "" {
		return sample
	}
	text := map[jobopts.Kind]string{
		jobopts.Bool: "true", jobopts.Duration: "90m", jobopts.List: "a", jobopts.Number: "2",
		jobopts.Pairs: "k=v", jobopts.Text: "mine", jobopts.Time: "2040-01-02T12:00:00Z",
	}[row.Kind()]
	if row.Words != nil {
		text = row.Words[len(row.Words)-1]
	}
	return string(must(row.JSON(nil, text))(t))
}

// besides has the options that other options require.
var besides = map[string]string{
	"if":                   `"jid": "new"`,
	"keep_due":             `"unique": ["x"], "replace": true`,
	"replace":              `"unique": ["x"]`,
	"unique_for":           `"unique": ["x"]`,
	"must_exist":           `"depends": ["waiting"]`,
	"unique_until_started": `"unique": ["x"]`,
	"weight":               `"fair": "ann"`,
	"within":               `"unique": ["x"], "replace": true`,
}

func TestEachOptionHasARow(t *testing.T) {
	var given []string
	for _, row := range jobopts.Table {
		name, _, _ := strings.Cut(row.Name, ".")
		given = append(given, strings.TrimSuffix(name, "Option"))
	}
	for _, option := range putOptions(t) {
		require.Contains(t, given, strings.TrimSuffix(option, "Option"))
	}
}

// putOptions returns the exported types of package qless that are put options.
func putOptions(t *testing.T) []string {
	t.Helper()
	files := must(filepath.Glob(root + "/*.go"))(t)
	var names []string
	for _, path := range files {
		for _, declared := range must(parser.ParseFile(token.NewFileSet(), path, nil, 0))(t).Decls {
			method, ok := declared.(*ast.FuncDecl)
			if !ok || method.Recv == nil || method.Name.Name != "applyPut" {
				continue
			}
			if name := method.Recv.List[0].Type.(*ast.Ident).Name; ast.IsExported(name) {
				names = append(names, name)
			}
		}
	}
	require.Greater(t, len(names), 15)
	return names
}

func TestEachOptionOfAJobIsShown(t *testing.T) {
	shown := []string{"Parents"} // the dependencies of OnFailure
	for _, row := range jobopts.Table {
		field, _, _ := strings.Cut(row.Field, ".")
		shown = append(shown, field)
		require.Equal(t, row.Field == "", row.Label == "", row.Name)
		if row.Letter != "" && row.Name != "" && row.Name != "Headers" {
			require.NotEmpty(t, row.Field, row.Name)
		}
	}
	options := reflect.TypeFor[qless.JobOptions]()
	for i := range options.NumField() {
		require.Contains(t, shown, options.Field(i).Name)
	}
}

// Each option is put from JSON, read back, and put again from the job.
func TestEachOptionIsKept(t *testing.T) {
	for _, row := range jobopts.Table {
		if row.Key == "" {
			continue
		}
		t.Run(row.Key, func(t *testing.T) {
			e := newEnv(t)
			e.Put("q", qless.JID("waiting"))
			text := `{"klass": "K", "` + row.Key + `": ` + sampleOf(t, row) + `}`
			if more := besides[row.Key]; more != "" {
				text = strings.TrimSuffix(text, "}") + ", " + more + "}"
			}
			var spec qless.JobSpec
			require.NoError(t, json.Unmarshal([]byte(text), &spec))
			jids := e.puts("q", spec)
			job, stored := e.Read(jids[0]), e.stored(jids[0])
			_, values, _ := strings.Cut(stored, "|")
			require.Contains(t, stored, row.Letter)
			if row.Field != "" {
				require.Contains(t, labels(job), row.Label)
			}
			e.putAgain(job)
			require.Equal(t, job.Options, e.Read(jids[0]).Options)
			_, valuesAgain, _ := strings.Cut(e.stored(jids[0]), "|")
			if values != "" {
				require.JSONEq(t, values, valuesAgain)
			}
		})
	}
}

// labels returns the human-readable names of a job's options.
func labels(job *qless.Job) []string {
	var labels []string
	style := jobopts.Style{Duration: time.Duration.String, Time: time.Time.String}
	for _, option := range style.Show(job.Options) {
		labels = append(labels, option.Label)
	}
	return labels
}

func TestAJobSpecIsReadFromJSON(t *testing.T) {
	for text, message := range map[string]string{
		`{"klass": 7}`:                    "cannot unmarshal number",
		`{"colour": "blue"}`:              `there is no option "colour"`,
		`{"delay": "soon"}`:               `delay: time: invalid duration "soon"`,
		`{"delay": []}`:                   "delay: [] is not a time",
		`{"priority": "high"}`:            `priority: "high" is not possible, want a number`,
		`{"": 1}`:                         `there is no option ""`,
		`{"klass": "K", "retries": null}`: "",
		`[]`:                              "cannot unmarshal array",
	} {
		var spec qless.JobSpec
		err := json.Unmarshal([]byte(text), &spec)
		if message == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, message)
		require.ErrorIs(t, err, qless.ErrInvalid)
		require.Empty(t, spec)
	}
	e := newEnv(t)
	var spec qless.JobSpec
	require.NoError(t, json.Unmarshal([]byte(`{"klass": "K", "data": [1], "weight": 2}`), &spec))
	_, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{spec})
	require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "the tenant of Fair is empty")
}

func TestAJobSpecIsWrittenAsJSON(t *testing.T) {
	e := newEnv(t)
	for name, options := range optionsOfJobs {
		e.requireSameFromJSON(name, options)
	}
	e.requireSameFromJSON("lost", []qless.PutOption{qless.OnLostFirst, qless.Tags{}, qless.Retries(0)})
	e.requireSameFromJSON("none of those that it had", []qless.PutOption{
		qless.Headers{}, qless.StartBy(qless.Forever), qless.TTL(qless.Forever),
		qless.KeepFor(qless.Forever), qless.MaxRunTime(qless.Forever),
	})
}

// requireSameFromJSON requires that a job with the options is the same when put again from its
// JSON, over a job with all options.
func (e *env) requireSameFromJSON(jid string, options []qless.PutOption) {
	e.T.Helper()
	spec := qless.JobSpec{
		Klass: "K", Data: json.RawMessage(`{"b":  "<&>"}`), Options: append(options, qless.JID(jid)),
	}
	text := must(spec.MarshalJSON())(e.T)
	require.Contains(e.T, string(text), `"data":{"b":  "<&>"}`, "byte by byte, as a unique key is made of it")
	var read qless.JobSpec
	require.NoError(e.T, json.Unmarshal(text, &read))
	var put [2]*qless.Job
	for i, spec := range []qless.JobSpec{spec, read} {
		e.Put("q", qless.JID(jid), qless.Tags{"t"}, qless.Headers{"k": "v"}, qless.OnLostLast,
			qless.StartBy(time.Hour), qless.TTL(time.Hour), qless.KeepFor(time.Hour),
			qless.MaxRunTime(time.Hour))
		e.puts("q", spec)
		put[i] = e.Read(jid)
		require.NoError(e.T, e.Cancel(e.T.Context(), jid))
		put[i].History = nil
		// The clock has advanced a little.
		kept := &put[i].Options
		for _, at := range []*time.Time{
			&put[i].Due, &put[i].Until, &kept.StartBy, &kept.TTL,
		} {
			*at = at.Round(time.Millisecond)
		}
	}
	require.Equal(e.T, shown(e.T, put[0]), shown(e.T, put[1]), jid)
}

func TestAReceiptIsWrittenAsJSON(t *testing.T) {
	e := newEnv(t)
	for name, options := range optionsOfJobs {
		t.Run(name, func(t *testing.T) {
			jid := e.Put("q", append(options, qless.JID(name))...)
			before := e.Read(jid)
			text := must(json.Marshal(before.Spec()))(t)
			require.NoError(t, e.Cancel(t.Context(), jid))
			var read qless.JobSpec
			require.NoError(t, json.Unmarshal(text, &read))
			e.puts("q", read)
			after := e.Read(jid)
			before.History, after.History = nil, nil
			require.Equal(t, shown(t, before), shown(t, after))
			require.NoError(t, e.Cancel(t.Context(), jid))
		})
	}
}

func TestAnInvalidJobSpecIsNotWritten(t *testing.T) {
	for message, spec := range map[string]qless.JobSpec{
		"the klass is empty":     {},
		"the delay -1s is negat": spec(qless.Delay(-time.Second)),
		"is not JSON":            {Klass: "K", Data: json.RawMessage("{")},
		"options[0] is nil":      spec(nil),
	} {
		_, err := json.Marshal(spec)
		require.ErrorContains(t, err, message)
		require.ErrorIs(t, err, qless.ErrInvalid)
	}
	e := newEnv(t)
	_, err := e.NewBatch(t.Context(), "q", qless.NewKlass[any]("Done").Spec(nil, qless.JID("batch")))
	require.NoError(t, err)
	require.ErrorContains(t, errOf(json.Marshal(e.Read("batch").Spec())), "batch can't be JSON")
}

// The script has names for the letters of the options that it reads.
func TestTheLettersOfTheScript(t *testing.T) {
	text := must(os.ReadFile(root + "/lua/lib/letters.lua"))(t)
	var letters, ends []string
	for _, row := range jobopts.Table {
		if row.Letter == "" {
			continue
		}
		require.NotContains(t, letters, row.Letter)
		letters = append(letters, row.Letter)
		if row.Ends {
			ends = append(ends, row.Letter)
		}
	}
	for _, name := range regexp.MustCompile(`(?m)^local \w+ = '(\w)'`).FindAllStringSubmatch(string(text), -1) {
		require.Contains(t, letters, name[1])
	}
	lives := regexp.MustCompile(`OF_A_LIFE = '(\w+)'`).FindStringSubmatch(string(text))
	require.NotNil(t, lives)
	require.ElementsMatch(t, strings.Split(lives[1], ""), ends)
}

func TestTheOptionsAreDocumented(t *testing.T) {
	lines := strings.Split(string(must(os.ReadFile(root+"/docs/extensions.md"))(t)), "\n")
	for _, row := range jobopts.Table {
		require.True(t, row.Key == "" || slices.Contains(lines, row.Line()),
			"docs/extensions.md lacks the line\n%s", row.Line())
	}
	overview := must(os.ReadFile(root + "/doc.go"))(t)
	for _, option := range putOptions(t) {
		require.Contains(t, string(overview), "["+strings.TrimSuffix(option, "Option")+"]")
	}
}
