package api

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestPutJobReadsBack(t *testing.T) {
	e := newEnv(t)
	jid := must(e.Queue("q").Put(t.Context(), "Mail::Welcome", map[string]any{"to": "ann"},
		qless.JID("j"), qless.Priority(-3), qless.Retries(7), qless.Tags{"b", "a"}))(t)
	require.Equal(t, "j", jid)

	job := e.Read("j")
	require.Equal(t, "j", job.JID)
	require.Equal(t, "Mail::Welcome", job.Klass)
	require.Equal(t, `{"to":"ann"}`, string(job.Data))
	require.Equal(t, "q", job.Queue)
	require.Equal(t, qless.StateWaiting, job.State)
	require.Equal(t, -3, job.Priority)
	require.Equal(t, 7, job.Retries)
	require.Equal(t, 7, job.Remaining)
	require.Equal(t, qless.Tags{"b", "a"}, job.Tags)
	require.Empty(t, job.Worker)
	require.Empty(t, job.SpawnedFrom)
	require.Empty(t, job.Dependencies)
	require.Empty(t, job.Dependents)
	require.Nil(t, job.Failure)
	require.False(t, job.Tracked)
	require.True(t, job.Expires.IsZero())
	require.Equal(t, []qless.HistoryEntry{{When: noon.Local(), What: "put", Queue: "q"}}, job.History)
}

func TestPutDefaults(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	require.Regexp(t, "^[0-9a-f]{32}$", jid)
	require.NotEqual(t, jid, e.Put("q"))

	job := e.Read(jid)
	require.Equal(t, 0, job.Priority)
	require.Equal(t, 5, job.Retries)
	require.Equal(t, 5, job.Remaining)
	require.Empty(t, job.Tags)
	require.Equal(t, "{}", string(job.Data))
}

func TestDataIsKeptByteForByte(t *testing.T) {
	e := newEnv(t)
	for _, data := range []string{
		`{ "a" :  1 ,"b":[ ] }`, `[]`, `{}`, `null`, `true`, `"text"`, `""`, `-0.0`, `1e2`,
		`12345678901234567890`, `0.1234567890123456789`, `{"big":12345678901234567890,"empty":[],"none":{}}`,
		"{\n\t\"tab\": \"\\t\\u00e9\\ud83d\\ude00\"\n}", `"é中😀"`, `"\u0000"`, `"<&>"`, `"a\/b"`, ` [1] `,
		`{"a":1,"a":2}`, `{"":{"":[[[[]]]]}}`,
	} {
		jid, err := e.Queue("q").Put(t.Context(), "K", raw(data))
		require.NoError(t, err, data)
		require.Equal(t, data, string(e.Read(jid).Data))

		job := e.Pop("q")
		require.Equal(t, data, string(job.Data))
		require.NoError(t, errOf(job.Heartbeat(t.Context())))
		require.Equal(t, data, string(e.Read(jid).Data), "after a heartbeat")
		require.NoError(t, job.Fail(t.Context(), "g", "m"))
		require.Equal(t, data, string(e.Read(jid).Data), "after it failed")
		require.NoError(t, job.Move(t.Context(), "q"))
		require.Equal(t, data, string(e.Read(jid).Data), "after a move")
		require.NoError(t, e.Pop("q").Complete(t.Context()))
		require.Equal(t, data, string(e.Read(jid).Data), "after it was completed")
	}
}

func TestDataIsMarshalledOnce(t *testing.T) {
	e := newEnv(t)
	type welcome struct {
		To    string `json:"to"`
		Times []int  `json:"times"`
	}
	for _, c := range []struct {
		data any
		want string
	}{
		{nil, `{}`},
		{"text", `"text"`},
		{`{"a":1}`, `"{\"a\":1}"`},
		{int64(9007199254740993), `9007199254740993`},
		{[]string{}, `[]`},
		{welcome{To: "ann"}, `{"to":"ann","times":null}`},
		{&welcome{To: "<é>", Times: []int{1}}, `{"to":"\u003cé\u003e","times":[1]}`},
	} {
		jid := must(e.Queue("q").Put(t.Context(), "K", c.data))(t)
		require.Equal(t, c.want, string(e.Read(jid).Data))
	}
}

func TestUnmarshalAndSetData(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, errOf(e.Queue("q").Put(t.Context(), "K", raw(`{"n":12345678901234567890}`))))
	job := e.Pop("q")

	var data struct{ N json.Number }
	require.NoError(t, job.Unmarshal(&data))
	require.Equal(t, "12345678901234567890", data.N.String())

	var wrong struct{ N string }
	err := job.Unmarshal(&wrong)
	require.Equal(t, job.JID, requireCode(t, qless.ErrInvalid, err).JID)
	var typeError *json.UnmarshalTypeError
	require.ErrorAs(t, err, &typeError)

	require.NoError(t, job.SetData(map[string]int{"n": 2}))
	require.Equal(t, `{"n":12345678901234567890}`, string(e.Read(job.JID).Data), "it is saved later")
	require.NoError(t, job.Complete(t.Context()))
	require.Equal(t, `{"n":2}`, string(e.Read(job.JID).Data))
}
