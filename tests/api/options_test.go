package api

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/shards"
	"github.com/qless/qless-go/tests/scripts"
)

// root is the folder of package qless.
const root = "../.."

// samples are values for options without use for their kind's usual values.
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

// besides has the options required by other options.
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
		runEnv(t, row.Key, func(t *testing.T, e *env) {
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
		`{"unique_data": "[7]"}`:          `unique_data: "[7]" is not possible, want a bool`,
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
	require.NoError(t, json.Unmarshal([]byte(`{"klass": "K", "unique": [1], "unique_data": "data:1"}`), &spec))
	_, err = e.Queue("q").PutMany(t.Context(), []qless.JobSpec{spec})
	require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "either parts or the data")
}

func TestAJobSpecIsWrittenAsJSON(t *testing.T) {
	e := newEnv(t)
	for name, options := range optionsOfJobs {
		e.requireSameFromJSON(name, options)
	}
	e.requireSameFromJSON("lost", []qless.PutOption{qless.OnLostFirst, qless.Tags{}, qless.Retries(0)})
	e.requireSameFromJSON("none of the former options", []qless.PutOption{
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
	require.Contains(e.T, string(text), `"data":{"b":  "<&>"}`, "byte by byte")
	text = must(json.Marshal(spec))(e.T) // encoding/json changes the bytes
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
		for _, at := range []*time.Time{&put[i].Due, &put[i].Until, &kept.StartBy, &kept.TTL} {
			*at = at.Round(time.Millisecond)
		}
	}
	require.Equal(e.T, shown(e.T, put[0]), shown(e.T, put[1]), jid)
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

// The script has names for the letters of options.
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

// optionsOfJobs has every put option kept by a job.
var optionsOfJobs = map[string][]qless.PutOption{
	"none":            {},
	"all at once":     {qless.Priority(-7), qless.Tags{"b", "a"}, qless.Retries(0), qless.Delay(time.Hour)},
	"a delay":         {qless.Delay(90 * time.Second)},
	"a time":          {qless.At(noon.Add(time.Hour + 1234*time.Microsecond))},
	"dependencies":    {qless.DependsOn{"waiting", "complete", "none"}},
	"a late waiter":   {qless.DependsOn{"waiting"}, qless.Delay(time.Hour)},
	"run on failure":  {qless.DependsOn{"waiting", "complete", "failed"}, qless.OnFailure("run")},
	"fail on failure": {qless.DependsOn{"waiting", "complete"}, qless.OnFailure("fail")},
	"wait on failure": {qless.DependsOn{"waiting", "failed"}, qless.OnFailure("wait")},
	"a policy":        {qless.OnFailure("run")},
	"headers":         {qless.Headers{"b": "", "a": "\u2028 x", "Käse": "\"ä\"\\\n\x00"}},
	"limits":          {qless.Limits{"l2", "l1"}},
	"a lock time":     {qless.LockTime(333 * time.Millisecond)},
	"lost jobs last":  {qless.OnLostLast},
	"lost in place":   {qless.OnLostInPlace, qless.LockTime(time.Hour)},
	"a start":         {qless.StartBy(time.Minute)},
	"a late start":    {qless.StartBy(2 * time.Hour), qless.Delay(time.Hour)},
	"a life":          {qless.TTL(90 * time.Minute), qless.StartBy(time.Hour)},
	"kept":            {qless.KeepFor(time.Minute), qless.KeepFailedFor(1500 * time.Millisecond)},
	"not kept":        {qless.KeepFor(0), qless.KeepFailedFor(0)},
	"kept for ever":   {qless.KeepFailedFor(qless.Forever)},
	"a run time":      {qless.MaxRunTime(1100 * time.Millisecond)},
	"a key":           {qless.Unique("invoice", 7, map[string]any{"eu": true})},
	"a key of data":   {qless.Unique()},
	"a key for now":   {qless.Unique("x").UntilStarted()},
	"a key for long":  {qless.Unique("y").For(time.Hour)},
	"a tenant":        {qless.Fair("ann")},
	"a heavy tenant":  {qless.Fair("bob", qless.Weight(2.5)), qless.Priority(3)},
}

// putAgain cancels a job, and puts it again from its JSON.
func (e *env) putAgain(job *qless.Job) {
	e.T.Helper()
	receipt := must(json.Marshal(job))(e.T)
	require.NoError(e.T, e.Cancel(e.T.Context(), job.JID))
	var read qless.Job
	require.NoError(e.T, json.Unmarshal(receipt, &read))
	_, err := e.Queue(read.Queue).PutMany(e.T.Context(), []qless.JobSpec{read.Spec()})
	require.NoError(e.T, err)
}

// The methods of optionOnEach are tests on a real server, and on miniredis.
type optionOnEach struct{}

func TestOptionsOnEachServer(t *testing.T) { runEach(t, optionOnEach{}) }

func (optionOnEach) ACanceledJobIsPutAgainFromItsJSONAsItWas(t *testing.T, e *env) {
	e.Put("q", qless.JID("waiting"))
	e.Put("done", qless.JID("complete"))
	require.NoError(t, e.Pop("done").Complete(t.Context()))
	require.NoError(t, e.start("done", qless.JID("failed")).Fail(t.Context(), "g", "m"))
	for name, options := range optionsOfJobs {
		t.Run(name, func(t *testing.T) {
			options := append([]qless.PutOption{qless.JID(name)}, options...)
			_, err := e.Queue("other").Put(t.Context(), "Klass",
				json.RawMessage(`{"big": 12345678901234567890}`), options...)
			require.NoError(t, err)
			before, stored := e.Read(name), e.stored(name)
			receipt := must(before.Spec().MarshalJSON())(t)
			e.Clock.Advance(10 * time.Second)
			e.putAgain(before)
			after := e.Read(name)
			before.History, after.History = nil, nil
			require.Equal(t, shown(t, before), shown(t, after))
			var read qless.JobSpec // the other form in which a job can be kept
			require.NoError(t, json.Unmarshal(receipt, &read))
			require.NoError(t, e.Cancel(t.Context(), name))
			e.puts("other", read)
			after = e.Read(name)
			after.History = nil
			require.Equal(t, shown(t, before), shown(t, after))
			require.Equal(t, withoutPutTime(t, stored), withoutPutTime(t, e.stored(name)))
			require.NoError(t, e.Cancel(t.Context(), name))
		})
	}
}

func shown(t testing.TB, job *qless.Job) string {
	t.Helper()
	return string(must(json.MarshalIndent(job, "", "  "))(t))
}

// withoutPutTime returns stored options without the times at which their lifetimes were put.
func withoutPutTime(t *testing.T, stored string) map[string]any {
	t.Helper()
	if stored == "" {
		return nil
	}
	_, text, _ := strings.Cut(stored, "|")
	var values map[string]any
	require.NoError(t, json.Unmarshal([]byte(text), &values))
	delete(values, "put")
	return values
}

func TestOptionsBeforeThoseOfASpecCount(t *testing.T) {
	e := newEnv(t)
	spec := e.Read(e.Put("q", qless.Priority(7))).Spec()
	spec.Options = append([]qless.PutOption{
		qless.Priority(1), qless.DependsOn{"x"}, qless.KeepFor(time.Minute), qless.Limits{"l"},
	}, append(spec.Options, qless.JID("again"))...)
	e.puts("q", spec)
	job := e.Read("again")
	require.Equal(t, 7, job.Priority)
	require.Equal(t, time.Minute, *job.Options.KeepFor)
	require.Equal(t, qless.Limits{"l"}, job.Options.Limits)
}

func TestAJobWhoseLifeIsOverIsNotPutAgain(t *testing.T) {
	for name, option := range map[string]qless.PutOption{
		"StartBy": qless.StartBy(time.Minute), "TTL": qless.TTL(time.Minute),
	} {
		runEnv(t, name, func(t *testing.T, e *env) {
			jid := e.Put("q", option)
			job := e.Read(jid)
			require.NoError(t, e.Cancel(t.Context(), jid))
			e.Clock.Advance(90 * time.Second)
			_, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{job.Spec()})
			require.ErrorIs(t, err, qless.ErrInvalid)
			require.ErrorContains(t, err, name+" was over 30.000 s ago")

			spec := job.Spec()
			spec.Options = append(spec.Options, qless.StartBy(time.Hour), qless.TTL(time.Hour))
			e.puts("q", spec)
			require.WithinDuration(t, e.Clock.Now().Add(time.Hour), e.Read(jid).Options.TTL, time.Millisecond)
		})
	}
}

func TestEndedJobIsPutAgainWithoutItsLifetimes(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q", qless.TTL(time.Hour), qless.KeepFor(time.Minute))
	require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
	e.putAgain(e.Read(jid))
	job := e.Read(jid)
	require.Zero(t, job.Options.TTL)
	require.Equal(t, time.Minute, *job.Options.KeepFor)
	require.Equal(t, qless.StateWaiting, job.State)
	require.Nil(t, job.Failure)
}

func TestTheCallbackOfABatchIsPutAgain(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	batch := must(e.NewBatch(ctx, "q", qless.NewKlass[any]("Done").Spec(nil, qless.JID("batch"))))(t)
	require.NoError(t, errOf(batch.Add(ctx, "q", []qless.JobSpec{spec(qless.JID("a"))})))
	before := e.Read("batch")
	require.Equal(t, 1, *before.BatchSize)
	e.putAgain(before)
	require.ElementsMatch(t, before.Dependencies, e.Read("batch").Dependencies)
	require.NoError(t, errOf(batch.Add(ctx, "q", []qless.JobSpec{spec(qless.JID("b"))})))
	require.Equal(t, 2, *e.Read("batch").BatchSize)
	require.NoError(t, batch.Commit(ctx))
	for range 2 {
		require.NoError(t, e.Pop("q").Complete(ctx))
	}
	require.Equal(t, "batch", e.Pop("q").JID)
}

func TestAJobThatIsParkedIsPutAgainWithoutATime(t *testing.T) {
	e := newEnv(t)
	e.limit("l", qless.LimitConfig{Concurrency: 1})
	e.Put("q", qless.JID("first"), qless.Limits{"l"})
	e.Put("q", qless.JID("second"), qless.Limits{"l"})
	e.Pop("q")
	require.Empty(t, must(e.Queue("q").Pop(t.Context(), 1))(t))
	parked := e.Read("second")
	require.Equal(t, "l", parked.Parked)
	e.putAgain(parked)
	require.Equal(t, qless.StateWaiting, e.Read("second").State)
}

func TestWhenAJobIsDueIsSaidToThoseWhoAsk(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("j"), qless.Delay(time.Hour))
	require.Contains(t, e.run("get", "j", "x:due"), `"due":`)
	require.NotContains(t, e.run("get", "j"), `"due":`)
	require.WithinDuration(t, e.Clock.Now().Add(time.Hour), e.Read("j").Due, time.Millisecond)
	reply := must(e.Redis.Eval(t.Context(), qless.DropInScript(), nil, "get", "0", "j").Result())(t)
	require.NotContains(t, reply, `"due":`)
}

// stored returns the options in the one field of a job's hash, or the empty string.
func (e *env) stored(jid string) string {
	e.T.Helper()
	text, err := e.Redis.HGet(e.T.Context(), "ql:j:"+jid, "x:o").Result()
	if err != redis.Nil {
		require.NoError(e.T, err)
	}
	return text
}

// putStored runs the command put for the job j in the queue q, with pairs of options.
func (e *env) putStored(pairs ...any) {
	e.T.Helper()
	e.run("put", append([]any{"w1", "q", "j", "K", "{}", "0"}, pairs...)...)
}

func (optionOnEach) AJobWithoutOptionsHasNoFieldOfOurs(t *testing.T, e *env) {
	jid := e.Put("q", qless.Priority(1), qless.Tags{"t"}, qless.Headers(nil))
	require.NoError(t, e.Pop("q").Next(t.Context(), "q2", qless.Headers(nil)))
	require.NoError(t, e.Pop("q2").Complete(t.Context()))
	e.start("q", qless.JID(jid))
	for _, field := range must(e.Redis.HKeys(t.Context(), "ql:j:"+jid).Result())(t) {
		require.NotContains(t, field, ":")
	}
	for _, read := range []string{"get", "multiget"} {
		require.NotContains(t, e.run(read, jid), `"x"`)
	}
}

func TestOptionsThatAPutSaysReplaceTheSameOnesOfAJob(t *testing.T) {
	for _, c := range []struct {
		name, before string
		pairs        []any
		after        string
	}{
		{"others stay", `h|{"h":{"a":"1"}}`, []any{"o", `l|{"l":5}`}, `hl|{"h":{"a":"1"},"l":5}`},
		{"whole values are replaced", `h|{"h":{"a":"1","b":"2"}}`,
			[]any{"o", `h|{"h":{"a":"3"}}`}, `h|{"h":{"a":"3"}}`},
		{"taken away", `hl|{"h":{"a":"1"},"l":5}`, []any{"drop", "h"}, `l|{"l":5}`},
		{"the last one taken away", `h|{"h":{"a":"1"}}`, []any{"drop", "h"}, ""},
		{"taken away and set", `hl|{"h":{"a":"1"},"l":5}`, []any{"drop", "h", "o", `k|{"k":9}`},
			`lk|{"l":5,"k":9}`},
		{"none before", "", []any{"o", `h|{"h":{"a":"1"}}`}, `h|{"h":{"a":"1"}}`},
		{"nothing to take away", "", []any{"drop", "h"}, ""},
		{"damaged before", "nonsense", []any{"o", `h|{"h":{"a":"1"}}`}, `h|{"h":{"a":"1"}}`},
		{"damaged before, and nothing said", "h|{", nil, "h|{"},
	} {
		runOnEach(t, c.name, func(t *testing.T, e *env) {
			before := func() {
				e.putStored()
				if c.before != "" {
					require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:j", "x:o", c.before).Err())
				}
			}
			before()
			e.putStored(c.pairs...)
			requireStored(t, c.after, e.stored("j"))
			require.NoError(t, e.Cancel(t.Context(), "j"))
			before()
			e.Pop("q")
			e.run("complete", append([]any{"j", "w1", "q", "{}", "next", "q2"}, c.pairs...)...)
			requireStored(t, c.after, e.stored("j"))
		})
	}
}

// requireStored compares options, with the members of JSON in any order.
func requireStored(t *testing.T, want, got string) {
	t.Helper()
	var letters, values [2]string
	for i, text := range []string{want, got} {
		var found bool
		if letters[i], values[i], found = strings.Cut(text, "|"); !found {
			require.Equal(t, want, got)
			return
		}
	}
	require.Equal(t, letters[0], letters[1])
	if want != got {
		require.JSONEq(t, values[0], values[1])
	}
}

// member is the member of a reply for a job with one header.
const member = `,"x":{"h":{"a":"1"}}`

func (optionOnEach) OptionsInReplies(t *testing.T, e *env) {
	e.putStored("o", `h|{"h":{"a":"1"}}`)
	e.Put("q", qless.JID("plain"))
	for _, command := range [][]any{
		{"get", "j"}, {"multiget", "j", "plain"}, {"peek", "q", "2"}, {"pop", "q", "w1", "2"},
	} {
		name, args := command[0].(string), command[1:]
		require.Equal(t, 1, strings.Count(e.run(name, args...).(string), member), name)
		e.putStored() // a pop has removed them
		e.Put("q", qless.JID("plain"))
		reply := must(scripts.RunDropIn(t.Context(), e.Redis,
			append([]any{name, scripts.Time(e.Clock.Now())}, args...)...))(t)
		require.Equal(t, 1, strings.Count(reply.(string), member), name)
	}
	require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:j", "x:o", "h|{").Err())
	require.NotContains(t, e.run("get", "j"), `"x"`, "it can't be read")
	require.Equal(t, "j", e.Read("j").JID)
}

func (optionOnEach) ReserveReturnsOptionsOnlyOfJobsThatHaveSome(t *testing.T, e *env) {
	e.Put("q", qless.JID("plain"), qless.Priority(2))
	e.putStored("o", `h|{"h":{"a":"1"}}`)
	reply := e.run("reserve", "w1", "2", "10", "0", "q").([]any)
	names := fmt.Sprint(reply[4])
	require.Regexp(t, " x:o$", names)
	require.Len(t, strings.Split(reply[5].(string), "\x01"), 11)
	values := strings.Split(reply[6].(string), "\x01")
	require.Len(t, values, 14)
	require.Equal(t, `h|{"h":{"a":"1"}}`, values[13])
}

// Damaged options, stored by an earlier version or by hand, count as not set: the job is read,
// popped, failed and notified of failures like any other.
func TestDamagedOptionsDamageNoOtherJob(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	damage := func(jid, options string) { require.NoError(t, e.Redis.HSet(ctx, "ql:j:"+jid, "x:o", options).Err()) }
	e.Put("q", qless.JID("bad"))
	e.Put("q", qless.JID("sound"))
	damage("bad", `gh|{"g":{"t":"x","w":Infinity},"h":{"k":"v"}}`)
	for _, jid := range []string{"one", "two", "three"} {
		e.Put("q", qless.JID(jid), qless.DependsOn{"bad"}, qless.OnFailureRun)
	}
	damage("two", `fg|{"f":{"do":"run","of":["bad"]},"g":{"w":-Infinity}}`)
	require.Equal(t, qless.Headers{"k": "v"}, e.Read("bad").Headers)
	require.Len(t, must(e.Queue("q").Peek(ctx, 5))(t), 2)
	popped := e.Pops("q", 5)
	require.Len(t, popped, 2)
	require.NoError(t, popped[0].Fail(ctx, "g", "m"))
	require.NoError(t, popped[1].Complete(ctx))
	for _, jid := range []string{"one", "two", "three"} {
		require.Equal(t, qless.StateWaiting, e.Read(jid).State)
	}
	require.Len(t, e.Pops("q", 5), 3)
}

// The jid of a client that writes Latin-1 is returned unchanged.
func TestJIDsThatAreNotUTF8(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	const jid = "caf\xe9"
	e.run("put", "w", "q", jid, "K", `{"n":1}`, "0")
	require.Equal(t, jid, must(e.Queue("q").Peek(ctx, 5))(t)[0].JID)
	job := e.Pop("q")
	require.Equal(t, jid, job.JID)
	require.NoError(t, errOf(job.Heartbeat(ctx)))
	require.NoError(t, job.Complete(ctx))
	require.Equal(t, "complete", e.Redis.HGet(ctx, "ql:j:"+jid, "state").Val())
}

type headers = map[string]string

// A requestKey is the key of a request's id in a context.
type requestKey struct{}

func (optionOnEach) HeadersOfTheContext(t *testing.T, e *env) {
	var given headers
	var asked int
	c := e.NewClient(e.Redis, qless.ClientConfig{Headers: func(ctx context.Context) map[string]string {
		asked++
		if ctx.Value(requestKey{}) != "r" {
			return nil
		}
		return given
	}})
	given = headers{"a": "1", "b": "2"}
	ctx := context.WithValue(t.Context(), requestKey{}, "r")
	put := func(options ...qless.PutOption) headers {
		return e.Read(must(c.Queue("q").Put(ctx, "K", nil, options...))(t)).Headers
	}
	require.Equal(t, given, put())
	require.Equal(t, headers{"a": "3", "b": "2", "c": "4"}, put(qless.Headers{"a": "3"}, qless.Headers{"c": "4"}))
	require.Equal(t, headers{"a": "1", "b": "2"}, given, "it is copied")
	require.Nil(t, put(qless.Headers(nil)))
	require.Equal(t, headers{"c": "4"}, put(qless.Headers(nil), qless.Headers{"c": "4"}))

	many := must(c.Queue("q").PutMany(ctx, []qless.JobSpec{{Klass: "K"}, spec(qless.Headers{"a": "3"})}))(t)
	require.Equal(t, qless.Headers(given), e.Read(many[0]).Headers)
	require.Equal(t, qless.Headers{"a": "3", "b": "2"}, e.Read(many[1]).Headers)

	jid := must(c.Queue("other").Put(t.Context(), "K", nil))(t)
	require.Nil(t, e.Read(jid).Headers, "another context")

	before := asked
	jobs := must(c.Queue("other").Pop(ctx, 1))(t)
	require.NoError(t, jobs[0].Next(ctx, "other"))
	require.NoError(t, jobs[0].Move(ctx, "other"))
	require.NoError(t, errOf(c.Queue("q").Recur(ctx, "K", nil, time.Hour)))
	require.Equal(t, before, asked)
	require.Nil(t, e.Read(jid).Headers)

	given = headers{"a": strings.Repeat("x", 9000)}
	requireCode(t, qless.ErrInvalid, errOf(c.Queue("q").Put(ctx, "K", nil)))
	_, err := c.Queue("q").PutMany(ctx, []qless.JobSpec{{Klass: "K"}})
	require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "jobs[0]: ")
}

func TestTheHeadersOfNextAreAskedFor(t *testing.T) {
	e := newEnvWith(t, qless.ClientConfig{NextHeaders: func(_ context.Context, headers map[string]string) map[string]string {
		if headers == nil {
			headers = map[string]string{}
		}
		headers["run"] = "2"
		return headers
	}})
	large := strings.Repeat("x", 8<<10-2)
	for name, test := range map[string]struct {
		options []qless.NextOption
		want    map[string]string
	}{
		"nothing":   {nil, map[string]string{"a": "1", "run": "2"}},
		"a header":  {[]qless.NextOption{qless.Headers{"b": "3"}}, map[string]string{"b": "3", "run": "2"}},
		"its own":   {[]qless.NextOption{qless.Headers{"run": "4"}}, map[string]string{"run": "4"}},
		"none":      {[]qless.NextOption{qless.Headers(nil)}, nil},
		"too large": {[]qless.NextOption{qless.Headers{"b": large}}, map[string]string{"b": large}},
	} {
		t.Run(name, func(t *testing.T) {
			jid := e.Put("q", qless.Headers{"a": "1"}, qless.Headers{"run": "1"})
			job := e.Pop("q")
			require.NoError(t, job.Next(t.Context(), "other", test.options...))
			require.Equal(t, qless.Headers(test.want), e.Read(jid).Headers)
			require.Equal(t, "1", job.Headers["run"])
		})
	}
}

// long is a header value that gives a job's headers the maximum size.
var long = strings.Repeat("x", 8<<10-1)

// refusedOptions has options refused for every job, by parts of their errors.
var refusedOptions = map[string][]qless.PutOption{
	"StartBy(0s) is less than 1ms":                      {qless.StartBy(0)},
	"StartBy(-1s) is less than 1ms":                     {qless.StartBy(-time.Second)},
	"TTL(999µs) is less than 1ms":                       {qless.TTL(999 * time.Microsecond)},
	"KeepFor(-1s) is less than 0s":                      {qless.KeepFor(-time.Second)},
	"KeepFailedFor(-2ns) is less than 0s":               {qless.KeepFailedFor(-2)},
	"MaxRunTime(0s) is less than 1ms":                   {qless.MaxRunTime(0)},
	"StartBy(1s) is over before the Delay of 2s":        {qless.StartBy(time.Second), qless.Delay(2 * time.Second)},
	"TTL(2s) is over before the Delay of 2s":            {qless.TTL(2 * time.Second), qless.Delay(2 * time.Second)},
	"Delay and At can't be used together":               {qless.Delay(0), qless.At(noon)},
	"At(0001-01-01 00:00:00 +0000 UTC) is not a time":   {qless.At(time.Time{})},
	"At(10000-01-01 00:00:00 +0000 UTC) is not a time":  {qless.At(time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))},
	"StartBy is over after 60 s, but Delay or At makes": {qless.StartBy(time.Minute), qless.At(noon.Add(time.Hour))},
	"TTL is over after 60 s, but Delay or At makes":     {qless.TTL(time.Minute), qless.At(noon.Add(2 * time.Minute))},

	"the delay -1ns is negative":                      {qless.Delay(-1)},
	"the retries -1 is not from 0 to 2147483647":      {qless.Retries(-1)},
	"the retries 9223372036854775807 is not from 0":   {qless.Retries(math.MaxInt)},
	"the priority 9223372036854775807 is not from -2": {qless.Priority(math.MaxInt)},
	"the priority -9223372036854775808 is not from -": {qless.Priority(math.MinInt)},

	"part 0 of the unique key is empty":      {qless.Unique("")},
	"part 1 of the unique key is empty":      {qless.Unique("a", nil)},
	"which is more than 512":                 {qless.Unique(strings.Repeat("x", 600))},
	"can't be JSON":                          {qless.Unique(math.NaN())},
	"UntilStarted and For":                   {qless.Unique("k").UntilStarted().For(time.Hour)},
	"Unique.For needs at least 1ms, not 0s":  {qless.Unique("k").For(0)},
	"Unique.For needs at least 1ms, not -1s": {qless.Unique().For(-time.Second)},

	"JID and Unique.Replace":                  {again(), qless.JID("j")},
	"DependsOn and Unique.Replace":            {again(), qless.DependsOn{"a"}},
	"OnFailure and Unique.Replace":            {qless.OnFailureWait, again()},
	"IfAbsent and Unique.Replace":             {again(), qless.IfAbsent},
	"IfFinished and Unique.Replace":           {again(), qless.IfFinished},
	"IfNotRunning and Unique.Replace":         {again(), qless.IfNotRunning},
	"Unique.Replace and For":                  {again().For(time.Minute)},
	"Unique.KeepDue needs Replace":            {qless.Unique("k").KeepDue()},
	"Unique.Within needs Replace":             {qless.Unique("k").Within(time.Minute)},
	"Unique.KeepDue and Within":               {again().KeepDue().Within(time.Minute)},
	"Unique.Within needs at least 1ms, not 0": {again().Within(0)},
	"not -1s": {again().Within(-time.Second)},
	"the delay 1m0s is longer than Unique.Within(1s)": {again().Within(time.Second), qless.Delay(time.Minute)},

	"IfAbsent and IfFinished can't be used together":     {qless.IfAbsent, qless.IfFinished},
	"IfNotRunning and IfFinished can't be used together": {qless.IfNotRunning, qless.IfFinished, qless.IfNotRunning},
	`the condition If("never") is unknown`:               {qless.If("never")},
	"IfAbsent needs a JID":                               {qless.IfAbsent},
	"IfFinished needs a JID":                             {qless.IfFinished, qless.Unique("k")},
	"IfNotRunning needs a JID":                           {qless.IfNotRunning},

	"the tenant of Fair is empty":             {qless.Fair("")},
	`the tenant of Fair "\xff" is not UTF-8`:  {qless.Fair("\xff")},
	"has 513 bytes, which is more than 512":   {qless.Fair(strings.Repeat("a", 513))},
	"the Weight 0 of Fair":                    {qless.Fair("a", qless.Weight(0))},
	"the Weight -1 of Fair":                   {qless.Fair("a", qless.Weight(-1))},
	"the Weight 101 of Fair":                  {qless.Fair("a", qless.Weight(101))},
	"the Weight NaN of Fair":                  {qless.Fair("a", qless.Weight(math.NaN()))},
	"Fair can't be used with the Priority 10": {qless.Fair("a"), qless.Priority(10001)},
	"Fair can't be used with the Priority -1": {qless.Priority(-10001), qless.Fair("a")},

	"the lock time 0s is not from 1ms to 24h0m0s":         {qless.LockTime(0)},
	"the lock time -1ns is not from 1ms to 24h0m0s":       {qless.LockTime(-1)},
	"the lock time 999.999µs is not from 1ms to 24h0m0s":  {qless.LockTime(time.Millisecond - 1)},
	"lock time 24h0m0.000000001s is not from 1ms to 24h0": {qless.LockTime(24*time.Hour + 1)},
	"the lock time -2562047h47m16.854775808s is not":      {qless.LockTime(math.MinInt64)},
	"the lock time 2562047h47m16.854775807s is not":       {qless.LockTime(math.MaxInt64)},
	`OnLost("middle")`:                           {qless.OnLost("middle")},
	`the OnFailure "Run" is unknown`:             {qless.OnFailure("Run")},
	"the key of a header is empty":               {qless.Headers{"": "1"}},
	`the key of a header "\xff" is not UTF-8`:    {qless.Headers{"\xff": "1"}},
	`the value of the header "a" is not UTF-8`:   {qless.Headers{"a": "\xff"}},
	"the headers have 8193 bytes, which is more": {qless.Headers{"a": long, "b": ""}},
	"a job has 1 to 8 Limits, not 0":             {qless.Limits(nil)},
	"a job has 1 to 8 Limits, not 9":             {qless.Limits(numbered("l", 9))},
	`the Limits have "a" twice`:                  {qless.Limits{"a", "b", "a"}},
	"the name of a limit is empty":               {qless.Limits{""}},
	`the name of a limit, "a b", has a space`:    {qless.Limits{"a b"}},
}

func TestOptionsThatAreRefused(t *testing.T) {
	e := newEnv(t)
	running := e.start("q", qless.JID("running"))
	e.Put("q", qless.JID("longest"), qless.Headers{"a": long})
	for message, options := range refusedOptions {
		e.Unchanged(func() {
			err := errOf(e.Queue("q").Put(t.Context(), "K", nil, options...))
			require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, message)
			err = errOf(e.Queue("q").PutMany(t.Context(), []qless.JobSpec{{Klass: "K"}, {Klass: "K", Options: options}}))
			require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, message)
			if !strings.Contains(message, "Delay or At makes") { // only the script knows
				require.ErrorContains(t, err, "jobs[1]: ")
			}
			var next []qless.NextOption
			for _, option := range options {
				if option, ok := option.(qless.NextOption); ok {
					next = append(next, option)
				}
			}
			if len(next) == len(options) {
				require.Contains(t, requireCode(t, qless.ErrInvalid, running.Next(t.Context(), "q", next...)).Message, message)
				err := qless.OutcomeOf(qless.Next("q", next...)).Err
				require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, message)
			}
			if !strings.Contains(message, "needs a JID") { // the job has one
				requireCode(t, qless.ErrInvalid, running.Move(t.Context(), "q", options...))
			}
		})
	}
	for message, option := range map[string]qless.PutOption{
		"Unique.Replace can't be used with Move": again(), "IfAbsent": qless.IfAbsent, "can't change its jid": qless.JID("j"),
	} {
		err := running.Move(t.Context(), "q", option)
		require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, message)
	}
	e.Put("q", qless.JID("j"), qless.IfAbsent, qless.IfAbsent) // the same twice
}

// refusedTexts are stored options refused by every script, even from clients that check options.
var refusedTexts = []string{
	`s|{}`, `s|{"s":0}`, `s|{"s":-1}`, `t|{"t":"x"}`, `t|{"t":[]}`, `k|{"k":-1}`, `K|{"K":-2}`, `s|{"s":1e999}`,
	`u|{}`, `u|{"u":1}`, `u|{"u":{"k":""}}`, `u|{"u":{"k":"k","m":"for"}}`, `f|{}`, `f|{"f":1}`, `f|{"f":{"do":"x"}}`,
}

// refusedNext are stored options also refused by the next queue of a job.
var refusedNext = []string{
	"", "h", "|{}", "h|", "h|[]", "h|{", "1|{}", `h|{"h":}`, `f|{}`, `f|{"f":1}`, `f|{"f":{"do":"x"}}`,
}

// refusedPairs are other arguments after the delay of a put, refused by its script.
var refusedPairs = [][]any{
	{"at", ""}, {"at", "x"}, {"at", "inf"}, {"if", "never"},
	{"o", `c|{"c":[]}`}, {"o", `c|{}`}, {"o", `c|{"c":["a","a"]}`}, {"o", `c|{"c":["a b"]}`}, {"o", `c|{"c":[1]}`}, {"o", `c|{"c":"a"}`},
	{"o", "g|{}"}, {"o", `g|{"g":{"t":""}}`}, {"o", `g|{"g":7}`},
	// Python's text for infinity is not JSON, and no script could write it again.
	{"o", `g|{"g":{"t":"x","w":Infinity}}`}, {"o", `g|{"g":{"t":"x","w":-Infinity}}`}, {"o", `g|{"g":{"t":"x","w":NaN}}`}, {"o", `g|{"g":{"t":"x","w":1e999}}`},
	{"o", `h|{"h":{"a":"1"}}`, "replace", "delay"}, {"o", key, "replace", "all"}, {"o", key, "replace", "delay", "within", "x"},
	{"o", key, "replace", "delay", "depends", `["a"]`}, {"o", key, "replace", "delay", "if", "absent"},
	{"o", `u|{"u":{"k":"k","m":"for","d":5}}`, "replace", "delay"},
}

// key is the stored option of a unique key.
const key = `u|{"u":{"k":"k"}}`

func (optionOnEach) OptionsThatAScriptRefuses(t *testing.T, e *env) {
	e.start("q", qless.JID("running"))
	put := []any{"w1", "q", "j", "K", "{}", "0"}
	refuses := func(command string, args ...any) {
		t.Helper()
		e.Unchanged(func() {
			require.ErrorIs(t, errOf(e.Run(t.Context(), command, "j", args...)), qless.ErrInvalid, args)
			args = append([]any{command, scripts.Time(noon)}, args...)
			require.ErrorContains(t, errOf(scripts.RunDropIn(t.Context(), e.Redis, args...)), "(): ", args)
		})
	}
	for _, text := range refusedTexts {
		refuses("put", append(slices.Clip(put), "o", text)...)
		refuses("put", append(slices.Clip(put), "o", text, "checked", "1")...)
	}
	for _, text := range refusedNext {
		refuses("put", append(slices.Clip(put), "o", text)...)
		refuses("complete", "running", "w1", "q", "{}", "next", "q", "o", text)
	}
	for _, pairs := range refusedPairs {
		refuses("put", append(slices.Clip(put), pairs...)...)
	}
}

type given = []qless.PutOption

// merged gives defaults of a klass, options of a put, and the options with the same effect.
var merged = map[string]struct{ defaults, put, same given }{
	"no defaults": {nil, given{qless.Retries(1)}, given{qless.Retries(1)}},
	"defaults only": {given{qless.Retries(3), qless.Limits{"psp"}}, nil,
		given{qless.Retries(3), qless.Limits{"psp"}}},
	"different types": {given{qless.Retries(3)}, given{qless.Priority(2)},
		given{qless.Retries(3), qless.Priority(2)}},
	"a zero":  {given{qless.Retries(3)}, given{qless.Retries(0)}, given{qless.Retries(0)}},
	"tags":    {given{qless.Tags{"a", "b"}}, given{qless.Tags{"c"}}, given{qless.Tags{"c"}}},
	"no tags": {given{qless.Tags{"a"}}, given{qless.Tags{}}, given{qless.Tags{}}},
	"limits":  {given{qless.Limits{"a", "b"}}, given{qless.Limits{"c"}}, given{qless.Limits{"c"}}},
	"a unique key": {given{qless.Unique("a").Replace()}, given{qless.Unique("b")},
		given{qless.Unique("b")}},
	"a tenant": {given{qless.Fair("a", 2)}, given{qless.Fair("b")}, given{qless.Fair("b")}},
	"a policy": {given{qless.OnFailureRun}, given{qless.OnFailureFail},
		given{qless.OnFailureFail}},
	"a place":     {given{qless.OnLostLast}, given{qless.OnLostFirst}, given{qless.OnLostFirst}},
	"a lock time": {given{qless.LockTime(1e9)}, given{qless.LockTime(2e9)}, given{qless.LockTime(2e9)}},
	"a life":      {given{qless.TTL(time.Hour)}, given{qless.TTL(1e9)}, given{qless.TTL(1e9)}},
	"without a life": {given{qless.TTL(time.Hour)}, given{qless.TTL(qless.Forever)},
		given{qless.TTL(qless.Forever)}},
	"a record": {given{qless.KeepFor(time.Hour)}, given{qless.KeepFor(0)}, given{qless.KeepFor(0)}},
	"headers": {given{qless.Headers{"a": "1", "b": "1"}}, given{qless.Headers{"b": "2"}},
		given{qless.Headers{"a": "1", "b": "2"}}},
	"no headers": {given{qless.Headers{"a": "1"}}, given{qless.Headers(nil)},
		given{qless.Headers(nil)}},
	"delays": {given{qless.Delay(1e9)}, given{qless.Delay(2e9)}, given{qless.Delay(2e9)}},
	"a time": {given{qless.Delay(1e9)}, given{qless.At(noon)}, given{qless.At(noon)}},
	"conditions": {given{qless.IfAbsent}, given{qless.JID("j"), qless.IfFinished},
		given{qless.JID("j"), qless.IfFinished}},
	"a condition": {given{qless.IfAbsent}, given{qless.JID("j")},
		given{qless.JID("j"), qless.IfAbsent}},
	"two defaults": {given{qless.Retries(1), qless.Retries(2)}, nil, given{qless.Retries(2)}},
}

func TestOptionsOfAPutReplaceDefaults(t *testing.T) {
	for name, c := range merged {
		t.Run(name, func(t *testing.T) {
			klass := qless.NewKlass[[]int]("K", c.defaults...)
			want := jsonOf(t, qless.JobSpec{Klass: "K", Data: []int{1}, Options: c.same})
			require.Equal(t, want, jsonOf(t, klass.Spec([]int{1}, c.put...)))
			require.Equal(t, want, jsonOf(t, klass.Spec([]int{1}, c.put...)), "a klass never changes")
		})
	}
}

func TestJobsOfAKlassRecur(t *testing.T) {
	e := newEnv(t)
	q := e.Queue("q")
	klass := qless.NewKlass[[]int]("K", qless.Retries(2), qless.Tags{"t"})
	jid := must(klass.Recur(t.Context(), q, []int{1}, time.Hour, qless.Priority(3)))(t)
	job := must(e.RecurringJob(t.Context(), jid))(t)
	require.Equal(t, []any{"K", "[1]", 2, 3, qless.Tags{"t"}, time.Hour},
		[]any{job.Klass, string(job.Data), job.Retries, job.Priority, job.Tags, job.Interval})

	limited := qless.NewKlass[any]("K", qless.Limits{"l"})
	_, err := limited.Recur(t.Context(), q, nil, time.Hour)
	requireCode(t, qless.ErrInvalid, err)
	require.ErrorContains(t, err, "recurring jobs have no qless.Limits, a default of K")
}

func TestNewKlassRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		name     string
		defaults given
		problem  string
	}{
		"an empty name":      {"", nil, "the klass is empty"},
		"a name not UTF-8":   {"\xff", nil, "is not UTF-8"},
		"a pattern":          {"Mail::*", nil, "the klass is a pattern"},
		"a nil option":       {"K", given{nil}, "nil option"},
		"an invalid option":  {"K", given{qless.Retries(-1)}, "retries -1"},
		"a jid":              {"K", given{qless.JID("j")}, "JID, At and DependsOn can't be defaults"},
		"an empty jid":       {"K", given{qless.JID("")}, "the jid is empty"},
		"a time":             {"K", given{qless.At(noon)}, "JID, At and DependsOn"},
		"dependencies":       {"K", given{qless.DependsOn{"j"}}, "JID, At and DependsOn"},
		"known dependencies": {"K", given{qless.DependsOn{}.MustExist()}, "JID, At and DependsOn"},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() { require.Contains(t, fmt.Sprint(recover()), c.problem) }()
			qless.NewFunction[any, any](c.name, c.defaults...)
		})
	}
}

func TestAPutOfAKlassIsRefused(t *testing.T) {
	e := newEnv(t)
	q := e.Queue("q")
	unique := qless.NewKlass[int]("Once", qless.IfAbsent)
	plain := qless.NewKlass[func()]("Plain", qless.Retries(1))
	for name, err := range map[string]error{
		"a condition needs a jid": errOf(unique.Put(t.Context(), q, 1)),
		"an empty jid":            errOf(unique.Put(t.Context(), q, 1, qless.JID(""))),
		"a nil option":            errOf(unique.Put(t.Context(), q, 1, qless.JID("j"), nil)),
		"data that is not JSON":   errOf(plain.Put(t.Context(), q, func() {})),
		"a zero klass":            errOf(qless.Klass[int]{}.Put(t.Context(), q, 1)),
	} {
		requireCode(t, qless.ErrInvalid, err)
		require.Empty(t, e.unfinished("q"), name)
	}
}

func TestDataOfAKlass(t *testing.T) {
	e := newEnv(t)
	numbers := qless.NewKlass[[]int]("Numbers")
	put := func(data any) *qless.Job {
		t.Helper()
		return e.Read(must(e.Queue("q").Put(t.Context(), "Numbers", data))(t))
	}
	require.Equal(t, []int{1, 2}, must(numbers.Data(put([]int{1, 2})))(t))
	requireCode(t, qless.ErrInvalid, errOf(numbers.Data(put("text"))))
	_, err := qless.NewKlass[[]int]("Others").Data(put([]int{1}))
	require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, `"Numbers", not "Others"`)
}

// One klass is put, put with others, put into a batch and called, and handled by a group.
func TestAKlassInEveryCall(t *testing.T) {
	e := newEnv(t)
	client := e.NewLiveClient(e.Redis, qless.ClientConfig{})
	defer client.Close()
	ctx, q := t.Context(), client.Queue("q")
	length := qless.NewFunction[string, int]("Length", qless.Tags{"short"}, qless.Retries(0))
	group := must(qless.NewWorkerGroup([]*qless.Client{client},
		qless.WorkerConfig{Queues: []string{"q"}, Logger: testkit.Quiet()}))(t)
	length.Handle(group, func(_ context.Context, job *qless.Job, text string) (int, error) {
		if text == "" || len(job.Tags) != 1 || job.Tags[0] != "short" {
			return 0, fmt.Errorf("%q has the tags %v", text, job.Tags)
		}
		return len(text), nil
	})
	require.NoError(t, group.Start(ctx))
	defer group.Stop(context.WithoutCancel(ctx))

	n := must(length.Call(ctx, q, "four"))(t)
	require.Equal(t, 4, n)
	requireCode(t, qless.ErrFailed, errOf(length.Call(ctx, q, "")))
	n = must(length.Call(ctx, must(shards.New(shards.ByJID, client))(t).Queue("q"), "fives"))(t)
	require.Equal(t, 5, n)

	jids := []string{"put", "many", "callback", "member"}
	put := must(length.Put(ctx, q, "a", qless.JID(jids[0])))(t)
	require.Equal(t, jids[0], put)
	require.NoError(t, errOf(q.PutMany(ctx, []qless.JobSpec{length.Spec("ab", qless.JID(jids[1]))})))
	batch := must(client.NewBatch(ctx, "q", length.Spec("abc", qless.JID(jids[2]))))(t)
	_, err := batch.Add(ctx, "q", []qless.JobSpec{length.Spec("abcd", qless.JID(jids[3]))})
	require.NoError(t, err)
	require.NoError(t, batch.Commit(ctx))
	for i, jid := range jids {
		n := must(length.Wait(ctx, client, jid))(t)
		require.Equal(t, i+1, n, jid)
	}
}
