package jobopts

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOptionsThatAreStoredAreReadAgain(t *testing.T) {
	hour := Span(time.Hour)
	given := Options{
		Headers: map[string]string{"k": "<v>"}, KeepFailedFor: new(Span), KeepFor: &hour,
		OnFailure: &Policy{Do: "run", Of: []string{"a"}}, OnLost: "last", Waited: true,
		Fair: &Fair{Tenant: "ann", Weight: 1}, TTL: At(time.Unix(1_700_000_000, 500_000_000)),
	}
	*given.KeepFailedFor = Forever
	text := given.Text()
	require.Contains(t, text, `"K":-1`)
	require.NotContains(t, text, `"w"`, "weights of 1, and waits, have no value")
	read := Parse(text)
	read.Waited, read.Fair.Weight = true, 1
	require.Equal(t, given, read)
	require.Empty(t, new(Options).Text())
}

func TestOptionsThatAreDamagedCountAsNotGiven(t *testing.T) {
	for _, text := range []string{"", "h", "h|", "h|[]", `h|{"h":7}`, `f|{"f":[]}`, `cs|{"c":7,"s":"x"}`} {
		read := Parse(text)
		require.Empty(t, read.Headers, text)
		require.Empty(t, read.Limits, text)
		require.True(t, read.OnFailure == nil || read.OnFailure.Do == "", text)
		require.True(t, read.StartBy.Time().IsZero(), text)
	}
	read := Parse(`hk|{"h":[1],"k":60,"put":1700000000}`)
	require.Nil(t, read.Headers)
	require.Equal(t, Span(time.Minute), *read.KeepFor, "others are read")
	require.Equal(t, int64(1_700_000_000), read.PutAt.Time().Unix())
}

func TestAJobLosesOptionsThatAreClearedAndNotGiven(t *testing.T) {
	var o Options
	o.Clear("Headers")
	o.Clear("TTL")
	o.Clear("TTL")
	o.SetOnLost("first")
	require.Equal(t, []any{"drop", "htq"}, o.StoredArgs(nil))
	require.True(t, o.IsCleared("Headers"))
	require.False(t, o.IsCleared("StartBy"))
	o.Headers, o.TTL = map[string]string{"a": "b"}, After(time.Minute)
	require.Equal(t, []any{"o", `ht|{"h":{"a":"b"},"t":60}`, "drop", "q"}, o.StoredArgs(nil))
}

func TestEncodingOptionsLeavesThemAsTheyAre(t *testing.T) {
	o := Options{OnFailure: &Policy{Do: "run"}, DependsOn: []string{"a"}}
	before := *o.OnFailure
	want := []any{"depends", `["a"]`, "o", `f|{"f":{"do":"run","of":["a"]}}`}
	require.Equal(t, want, o.PutArgs(nil, false))
	require.Equal(t, before, *o.OnFailure)
	o.DependsOn = []string{"b"}
	want = []any{"delay", "0", "depends", `["b"]`, "o", `f|{"f":{"do":"run","of":["b"]}}`}
	require.Equal(t, want, o.NextArgs(nil))
	require.Equal(t, before, *o.OnFailure)
}

func TestAJIDThatIsGivenIsNotEmpty(t *testing.T) {
	set := func(raw string) error {
		return new(Options).Set(map[string]json.RawMessage{"jid": json.RawMessage(raw)})
	}
	require.ErrorContains(t, set(`""`), "the jid is empty")
	require.NoError(t, set(`"a"`))
	require.NoError(t, set(`null`))
}

func TestMergeKeepsWhatIsNotGivenLater(t *testing.T) {
	one, two := 1, 2
	o := Options{
		DependsOn: []string{"a"}, Headers: map[string]string{"a": "1", "b": "1"}, If: []string{"absent"},
		KeepFor: new(Span), Priority: &one, Retries: &one, Tags: []string{"old"}, TTL: After(time.Hour),
	}
	later := Options{
		DependsOn: []string{"b"}, Headers: map[string]string{"b": "2"}, Priority: &two, Tags: []string{},
	}
	later.Clear("TTL")
	o.Merge(&later)
	require.Equal(t, Options{
		DependsOn: []string{"a", "b"}, Headers: map[string]string{"a": "1", "b": "2"},
		If: []string{"absent"}, KeepFor: new(Span), Priority: &two, Retries: &one, Tags: []string{},
		cleared: "t",
	}, o)
	later.Clear("Headers")
	o.Merge(&later)
	require.Equal(t, map[string]string{"b": "2"}, o.Headers)
}

func TestAFlagThatIsGivenAgainAdds(t *testing.T) {
	for _, c := range []struct {
		key   string
		texts []string
		want  string
	}{
		{"depends", []string{"a,b", "c"}, `["a","b","c"]`},
		{"headers", []string{"a=b=c", "d="}, `{"a":"b=c","d":""}`},
		{"priority", []string{"1", "-2"}, `-2`},
		{"replace", []string{"true"}, `true`},
		{"replace", []string{"true", "false"}, `false`},
		{"tags", []string{"a,b", "c"}, `["a,b","c"]`},
		{"unique", []string{"7", "x", `{"a":1}`}, `[7,"x",{"a":1}]`},
	} {
		row := rowOf(t, c.key)
		var raw json.RawMessage
		for _, text := range c.texts {
			var err error
			raw, err = row.JSON(raw, text)
			require.NoError(t, err)
		}
		require.JSONEq(t, c.want, string(raw), c.key)
	}
	for key, text := range map[string]string{
		"at": "noon", "delay": "1", "headers": "k", "priority": "high",
	} {
		row := rowOf(t, key)
		_, err := row.JSON(nil, text)
		require.Error(t, err, key)
	}
}

func rowOf(t *testing.T, key string) *Row {
	t.Helper()
	for _, row := range Table {
		if row.Key == key {
			return row
		}
	}
	t.Fatalf("there is no row %s", key)
	return nil
}
