package wire_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/wire"
)

// reply has a field of each type.
type reply struct {
	List   wire.List[wire.Text]
	Text   wire.Text
	Number wire.Number
}

func TestValuesInAnyFormThatScriptsGiveThem(t *testing.T) {
	for raw, want := range map[string]reply{
		`{"List":["a",5,null,false,{}],"Text":"t","Number":1.5}`: {
			List: wire.List[wire.Text]{"a", "5", "", "", ""}, Text: "t", Number: 1.5,
		},
		`{"List":{},"Text":5,"Number":"7"}`:            {Text: "5", Number: 7},
		`{"List":false,"Text":-1.50,"Number":"4.000"}`: {Text: "-1.50", Number: 4},
		`{"List":"a","Text":false,"Number":false}`:     {},
		`{"List":null,"Text":null,"Number":null}`:      {},
		`{"List":5,"Text":{},"Number":"x"}`:            {},
		`{"List":[],"Text":["a"],"Number":1e400}`:      {List: wire.List[wire.Text]{}},
		`{"Number":"NaN"}`:                             {},
		`{"Number":"-Inf"}`:                            {},
		`{}`:                                           {},
	} {
		got, err := wire.DecodeJSON[reply](raw)
		require.NoError(t, err, raw)
		require.Equal(t, want, got, raw)
	}
}

// A value loses its old contents when read into again.
func TestValuesAreReplaced(t *testing.T) {
	value := reply{List: wire.List[wire.Text]{"a"}, Text: "t", Number: 1}
	require.NoError(t, json.Unmarshal([]byte(`{"List":{},"Text":false,"Number":false}`), &value))
	require.Zero(t, value)
}

func TestNumbersAsWholeNumbers(t *testing.T) {
	for n, want := range map[wire.Number]int{
		0: 0, 2.9: 2, -2.1: -3, 1e99: math.MaxInt32, -1e99: math.MinInt32,
	} {
		require.Equal(t, want, n.Int(), n)
	}
}

func TestNumbersAsLargeWholeNumbers(t *testing.T) {
	for n, want := range map[wire.Number]int{
		0: 0, 2.9: 2, -2.1: -3, 1 << 31: 1 << 31, -1<<31 - 1: -1<<31 - 1, 1<<53 - 1: 1<<53 - 1,
		1 << 62: 1 << 62, -1 << 63: math.MinInt, 1 << 63: math.MaxInt, 1e99: math.MaxInt, -1e99: math.MinInt,
	} {
		require.Equal(t, want, n.LargeInt(), n)
	}
}

func TestNumbersAsTimes(t *testing.T) {
	for n, want := range map[wire.Number]time.Time{
		0: {}, -1: {}, 1e12: {}, 1: time.Unix(1, 0), 1.25: time.Unix(1, 250_000_000),
		1704196800.123456: time.Unix(1704196800, 123_456_000),
	} {
		require.Equal(t, want, n.Time(), n)
	}
}

func TestNumbersAsDurations(t *testing.T) {
	for n, want := range map[wire.Number]time.Duration{
		0: 0, 1.5: 1500 * time.Millisecond, -2: -2 * time.Second,
		1e99: 9e9 * time.Second, -1e99: -9e9 * time.Second,
	} {
		require.Equal(t, want, n.Duration(), n)
	}
}

func TestStrings(t *testing.T) {
	require.Equal(t, []string{"a", ""}, wire.Strings([]wire.Text{"a", ""}))
	require.Nil(t, wire.Strings(wire.List[wire.Text]{}))
	require.Nil(t, wire.Strings[wire.Text](nil))
}

func TestRepliesThatAreIntegers(t *testing.T) {
	for _, reply := range []any{int64(7), "7"} {
		n, err := wire.DecodeInt(reply)
		require.NoError(t, err)
		require.Equal(t, 7, n)
	}
	for _, reply := range []any{nil, "", "x", "7.5", []any{int64(7)}} {
		_, err := wire.DecodeInt(reply)
		require.ErrorContains(t, err, "unexpected reply: ")
	}
}

func TestRepliesThatAreStrings(t *testing.T) {
	texts, err := wire.DecodeStrings([]any{"a", ""})
	require.NoError(t, err)
	require.Equal(t, []string{"a", ""}, texts)
	texts, err = wire.DecodeStrings([]any{})
	require.NoError(t, err)
	require.Empty(t, texts)
	for _, reply := range []any{nil, "a", []any{"a", int64(1)}, []any{nil}} {
		_, err := wire.DecodeStrings(reply)
		require.ErrorContains(t, err, "unexpected reply: ")
	}
}

func TestRepliesThatAreNotJSON(t *testing.T) {
	for _, reply := range []any{nil, int64(1), []any{}, true} {
		_, err := wire.DecodeJSON[wire.List[wire.Text]](reply)
		require.ErrorContains(t, err, "unexpected reply: ")
		require.NoError(t, errors.Unwrap(err))
	}
	for _, reply := range []any{"", "x", "[", `[{"a":]`} {
		_, err := wire.DecodeJSON[wire.List[wire.Text]](reply)
		require.ErrorContains(t, err, "unreadable reply: ")
		require.Error(t, errors.Unwrap(err), "the decoder's error is beneath")
	}
}

func TestPartsOfReplies(t *testing.T) {
	require.Equal(t, "a", wire.AsString("a"))
	require.Empty(t, wire.AsString(nil))
	require.Empty(t, wire.AsString(int64(1)))
	require.Equal(t, wire.Number(1.5), wire.AsNumber("1.5"))
	for _, part := range []any{nil, "", "x", "NaN", int64(1)} {
		require.Zero(t, wire.AsNumber(part))
	}
}

func TestDurationsAndTimesAsTheScriptsReadThem(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", time.Second: "1", 1500 * time.Millisecond: "1.5", time.Nanosecond: "0.000000001",
		100 * time.Second: "100", time.Hour + 10*time.Microsecond: "3600.00001",
	} {
		require.Equal(t, want, wire.FormatSeconds(d))
	}
	noon := time.Date(2024, time.January, 2, 12, 0, 0, 0, time.UTC)
	require.Equal(t, "1704196800.000000", wire.FormatTime(noon))
	require.Equal(t, "1704196800.000001", wire.FormatTime(noon.Add(1999)))
}

// FuzzDecodeJSON reads any document: any value read can be written, and reads back equal.
func FuzzDecodeJSON(f *testing.F) {
	for _, raw := range []string{
		`{"List":["a",5,null],"Text":"t","Number":1.5}`, `{"List":{},"Text":5,"Number":"7"}`,
		`{"List":false,"Text":-1e400,"Number":1e400}`, `{"Number":"\u0031"}`, `[]`, `null`, ``, `{`, `5`,
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		value, err := wire.DecodeJSON[reply](raw)
		if err != nil {
			return
		}
		for _, n := range []wire.Number{value.Number, wire.AsNumber(raw)} {
			require.False(t, math.IsNaN(float64(n)) || math.IsInf(float64(n), 0))
			_, _, _, _ = n.Int(), n.LargeInt(), n.Time(), n.Duration()
		}
		written, err := json.Marshal(value)
		require.NoError(t, err)
		again, err := wire.DecodeJSON[reply](string(written))
		require.NoError(t, err)
		require.Equal(t, len(value.List), len(again.List))
		require.Equal(t, value.Text, again.Text)
		require.Equal(t, value.Number, again.Number)
	})
}

func TestATextIsWhatJSONSays(t *testing.T) {
	for _, raw := range []string{
		`""`, `"a"`, `"ä€😀"`, `"a\"b"`, `"\u00e4\n\\"`, `"\ud800"`, "\"a\xff\"", "\"\xed\xa0\x80\"",
	} {
		var want string
		require.NoError(t, json.Unmarshal([]byte(raw), &want))
		var got wire.Text
		require.NoError(t, json.Unmarshal([]byte(raw), &got))
		require.Equal(t, wire.Text(want), got, raw)
	}
}

func TestARawTextKeepsItsBytes(t *testing.T) {
	for raw, want := range map[string]wire.Raw{
		`"a"`: "a", `"\u00e4\n"`: "ä\n", "\"caf\xe9\"": "caf\xe9", "\"\xe9\\n\xff\xfe\\\"ä\"": "\xe9\n\xff\xfe\"ä",
		`5`: "5", `{}`: "", `""`: "",
	} {
		var got wire.Raw
		require.NoError(t, json.Unmarshal([]byte(raw), &got))
		require.Equal(t, want, got, raw)
	}
}

// Lua reads more numbers than JSON has, and control characters in strings.
func TestRepliesThatOnlyLuaReads(t *testing.T) {
	for _, word := range []string{"Infinity", "-Infinity", "NaN", "nan", "-inf", "0x10", "010", "1.", "1e999"} {
		for raw, want := range map[string]reply{
			`{"Number":` + word + `,"Text":"a\"Infinity\\","List":[` + word + `,"b"]}`: {
				Text: `a"Infinity\`, List: wire.List[wire.Text]{"", "b"},
			},
			"{\"Text\":\"a\nb\", \"Number\": " + word + " }": {Text: "a\nb"},
		} {
			got, err := wire.DecodeJSON[reply](raw)
			require.NoError(t, err, raw)
			if word == "1e999" { // 1e999 is JSON
				want.List = got.List
			}
			require.Equal(t, want, got, raw)
		}
	}
}

// Data that is not JSON, or that Lua's decoder does not accept as JSON, is found before sending.
func TestDataThatCanNotBeReadIsFound(t *testing.T) {
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	for _, readable := range []string{
		`"\ud83d\ude00"`, `"\\ud83d"`, `{"a":"\u00e9[[[","b":[1]}`, `"a\"["`, nested(1000),
	} {
		require.Empty(t, wire.CheckJSON([]byte(readable)), readable)
	}
	for text, problem := range map[string]string{
		`"\ud83d"`:             "surrogate",
		`"\uDC00"`:             "surrogate",
		`"\ud83dx\ude00"`:      "surrogate",
		`"\ud83d\n"`:           "surrogate",
		`"\ude00"`:             "surrogate",
		`"\ud83d\ude00\ud83d"`: "surrogate",
		nested(1001):           "deep",
		"\"\xff\"":             "UTF-8",
		"{\"a\":\"\xff\"":      wire.NotJSON,
		nested(1000) + "]":     wire.NotJSON,
	} {
		require.Contains(t, wire.CheckJSON([]byte(text)), problem, text)
		if raw, err := json.Marshal(json.RawMessage(text)); err == nil {
			require.Contains(t, wire.CheckMarshaled(raw), problem, text)
		}
	}
}

// An envelope is read like encoding/json does, in the usual form and in any other.
func TestEnvelopesAreReadAsJSON(t *testing.T) {
	for _, text := range []string{
		`{"x:codec":"zip:k","b":"aGVsbG8="}`, `{"b":"aGVsbG8=","x:codec":"zip:k"}`,
		`{"x:codec":"zip:","b":""}`, `{"x:codec":"zip:","b":null}`, `{"x:codec":"zip:"}`,
		` {"x:codec": "zip:k", "b": "aGVsbG8="} `, `{"x:codec":"zip:k","b":"aGVsbG8=","c":1}`,
		`{"x:codec":"zip:\u006b","b":"aGVsbG8="}`, `{"x:codec":"zip:\"","b":"aGVsbG8="}`,
		"{\"x:codec\":\"zip:\xff\",\"b\":\"aGVsbG8=\"}", "{\"x:codec\":\"zip:\n\",\"b\":\"aGVsbG8=\"}",
		"{\"x:codec\":\"zip:k\",\"b\":\"aGVs\nbG8=\"}", `{"x:codec":"zip:k","b":"aGVs\nbG8="}`,
		`{"x:codec":"zip:k","b":"aGVsbG8"}`, `{"x:codec":"zip:k","b":"aGVsbG8=","b":"aGk="}`,
		`{"x:codec":"","b":"aGVsbG8="}`, `{"x:codec":5,"b":"aGVsbG8="}`, `"{\"x:codec\":\"zip:\"}"`,
	} {
		var read *wire.Envelope
		if json.Unmarshal([]byte(text), &read) != nil || read.Codec == "" {
			read = nil
		}
		require.Equal(t, read, wire.OpenEnvelope(text), text)
	}
}

// FuzzCheckJSON compares CheckJSON with encoding/json.
func FuzzCheckJSON(f *testing.F) {
	for _, text := range []string{
		"", " ", "{}", "[]", "[1,]", "[,1]", `{"a":1}`, `{"a":1,}`, `{"a"}`, `{1:2}`, `{"a":}`, "nul",
		"null", "true ", " false", "truely", "-", "-0", "01", "1.", ".5", "1.5e", "1e+5", "1E-05", "+1",
		`"\x"`, `"\u12g4"`, `"\u12`, `"a`, "\"\n\"", "\"\x7f\"", "[1 2]", "{}{}", `"\ud800\udc00"`,
		"[[[]]", "[{]}", "\ufeff1", "\v1", `"\/\b\f\n\r\t\"\\"`, "[\"a\" , {\t}\r]\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		problem := wire.CheckJSON([]byte(text))
		if raw, err := json.Marshal(json.RawMessage(text)); err == nil {
			require.Equal(t, wire.CheckJSON(raw), wire.CheckMarshaled(raw), "%q", text)
		}
		require.Equal(t, json.Valid([]byte(text)), wire.IsJSON([]byte(text)), "%q", text)
		switch {
		case !json.Valid([]byte(text)):
			require.Contains(t, []string{wire.NotJSON, "has half of a surrogate pair"}, problem)
		case !utf8.ValidString(text):
			require.NotEmpty(t, problem)
		default:
			require.NotEqual(t, wire.NotJSON, problem)
		}
	})
}
