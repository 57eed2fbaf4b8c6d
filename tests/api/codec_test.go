package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/repairs"
)

// reversed is a codec that reverses data, and counts its calls.
type reversed struct {
	name, key string
	fails     error
	encoded   int
}

func (r *reversed) Name() string { return r.name }

func (r *reversed) Encode(klass string, data []byte) ([]byte, string, error) {
	r.encoded++
	if klass == "Plain" {
		return nil, "", r.fails
	}
	return backwards(data), r.key, r.fails
}

func (r *reversed) Decode(key string, encoded []byte) ([]byte, error) {
	if key != r.key && key != "old" {
		return nil, fmt.Errorf("unknown key %q", key)
	}
	return backwards(encoded), r.fails
}

func backwards(text []byte) []byte {
	var out []byte
	for _, b := range text {
		out = append([]byte{b}, out...)
	}
	return out
}

// storedData returns the data of a job as stored on the server.
func (e *env) storedData(jid string) string {
	e.T.Helper()
	return must(e.Redis.HGet(e.T.Context(), "ql:j:"+jid, "data").Result())(e.T)
}

// popFrom pops the next job of the queue q with a client.
func (e *env) popFrom(c *qless.Client) *qless.Job {
	e.T.Helper()
	jobs := must(c.Queue("q").Pop(e.T.Context(), 1))(e.T)
	require.Len(e.T, jobs, 1)
	return jobs[0]
}

const plainData = `{"secret":1}`

// encodedData returns data as encoded by reversed.
func encodedData(codec string) string {
	text, _ := json.Marshal(struct {
		Codec string `json:"x:codec"`
		Bytes []byte `json:"b"`
	}{codec, backwards([]byte(plainData))})
	return string(text)
}

func TestDataIsStoredInTheFormOfTheCodec(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		c := e.NewClient(e.Redis, qless.ClientConfig{Codec: &reversed{name: "rev", key: "k1"}})
		q, data := c.Queue("q"), json.RawMessage(plainData)
		puts := map[string]func(jid string) error{
			"put": func(jid string) error { return errOf(q.Put(t.Context(), "K", data, qless.JID(jid))) },
			"put many": func(jid string) error {
				_, err := q.PutMany(t.Context(), []qless.JobSpec{
					{Klass: "K", Data: data, Options: []qless.PutOption{qless.JID(jid)}}})
				return err
			},
			"move": func(jid string) error {
				e.Put("q", qless.JID(jid))
				job := must(c.Job(t.Context(), jid))(t)
				job.Data = data
				return job.Move(t.Context(), "q")
			},
		}
		for name, put := range puts {
			jid := strings.ReplaceAll(name, " ", "-")
			require.NoError(t, put(jid), name)
			require.Equal(t, encodedData("rev:k1"), e.storedData(jid), name)
			require.JSONEq(t, plainData, string(must(c.Job(t.Context(), jid))(t).Data), name)
			popped := e.popFrom(c)
			require.Equal(t, jid, popped.JID)
			require.JSONEq(t, plainData, string(popped.Data), name)
			require.NoError(t, popped.Complete(t.Context()))
			require.Equal(t, encodedData("rev:k1"), e.storedData(jid), name)
		}
	})
}

func TestChildrenOfARecurringJobHaveItsEncodedData(t *testing.T) {
	e := newEnv(t)
	c := e.NewClient(e.Redis, qless.ClientConfig{Codec: &reversed{name: "rev", key: "k1"}})
	jid := must(c.Queue("q").Recur(t.Context(), "K", nil, time.Minute))(t)
	recurring := must(c.RecurringJob(t.Context(), jid))(t)
	recurring.Data = json.RawMessage(plainData)
	require.NoError(t, recurring.Update(t.Context()))
	require.Equal(t, encodedData("rev:k1"), e.Redis.HGet(t.Context(), "ql:r:"+jid, "data").Val())
	require.NoError(t, recurring.Refresh(t.Context()))
	require.JSONEq(t, plainData, string(recurring.Data))
	e.Clock.Advance(time.Minute)
	require.JSONEq(t, plainData, string(e.popFrom(c).Data))
}

func TestAnEnvelopeIsNeverEncoded(t *testing.T) {
	e := newEnv(t)
	first := &reversed{name: "rev", key: "k1"}
	putter := e.NewClient(e.Redis, qless.ClientConfig{Codec: first})
	jid := must(putter.Queue("q").Put(t.Context(), "K", json.RawMessage(plainData)))(t)
	other := &reversed{name: "other"}
	for _, c := range []*qless.Client{e.Client, e.NewClient(e.Redis, qless.ClientConfig{Codec: other})} {
		job := must(c.Job(t.Context(), jid))(t)
		require.Equal(t, encodedData("rev:k1"), string(job.Data))
		var data any
		own := requireCode(t, qless.ErrInvalid, job.Unmarshal(&data))
		require.Contains(t, own.Message, `encoded by "rev", which the client does not know`)
		require.NoError(t, job.Move(t.Context(), "q2"))
		require.Equal(t, encodedData("rev:k1"), e.storedData(jid))
	}
	require.Equal(t, 1, first.encoded+other.encoded)
}

func TestOldCodecsAndKeysOnlyDecode(t *testing.T) {
	e := newEnv(t)
	put := func(c *qless.Client) string {
		return must(c.Queue("q").Put(t.Context(), "K", json.RawMessage(plainData)))(t)
	}
	recent := e.NewClient(e.Redis, qless.ClientConfig{
		Codec:     &reversed{name: "b", key: "k2"},
		OldCodecs: []qless.Codec{&reversed{name: "a", key: "k1"}},
	})
	for name, c := range map[string]*qless.Client{
		"a:k1":  e.NewClient(e.Redis, qless.ClientConfig{Codec: &reversed{name: "a", key: "k1"}}),
		"b:old": e.NewClient(e.Redis, qless.ClientConfig{Codec: &reversed{name: "b", key: "old"}}),
		"b:k2":  recent,
	} {
		jid := put(c)
		require.Equal(t, encodedData(name), e.storedData(jid))
		require.JSONEq(t, plainData, string(must(recent.Job(t.Context(), jid))(t).Data), name)
	}
	jid := put(recent)
	old := e.NewClient(e.Redis, qless.ClientConfig{OldCodecs: []qless.Codec{&reversed{name: "b", key: "k2"}}})
	require.JSONEq(t, plainData, string(must(old.Job(t.Context(), jid))(t).Data))
	require.JSONEq(t, plainData, e.storedData(put(old)))
}

func TestUniqueDataIsThatBeforeItIsEncoded(t *testing.T) {
	e := newEnv(t)
	codec := &reversed{name: "rev", key: "k1"}
	c := e.NewClient(e.Redis, qless.ClientConfig{Codec: codec})
	jid := must(c.Queue("q").Put(t.Context(), "K", json.RawMessage(plainData), qless.Unique()))(t)
	codec.key = "k2"
	other, err := c.Queue("q").Put(t.Context(), "K", json.RawMessage(plainData), qless.Unique())
	requireCode(t, qless.ErrExists, err)
	require.Equal(t, jid, other)
}

func TestACodecThatFailsPutsNothing(t *testing.T) {
	e := newEnv(t)
	codec := &reversed{name: "rev", key: "k1", fails: errors.New("no key")}
	c := e.NewClient(e.Redis, qless.ClientConfig{Codec: codec})
	e.Unchanged(func() {
		_, err := c.Queue("q").Put(t.Context(), "K", nil)
		require.ErrorIs(t, err, codec.fails)
		require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "the data can't be encoded: no key")
		_, err = c.Queue("q").PutMany(t.Context(), specs(2))
		require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "jobs[0]: ")
	})
	codec.fails = nil
	jid := must(c.Queue("q").Put(t.Context(), "K", nil))(t)
	codec.fails = errors.New("no key")
	job := must(c.Job(t.Context(), jid))(t)
	require.ErrorIs(t, job.Unmarshal(&struct{}{}), codec.fails)
	require.NoError(t, job.SetData(1), "the data can be replaced")
	var n int
	require.NoError(t, job.Unmarshal(&n))
	require.Equal(t, 1, n)
}

func TestWithMaxData(t *testing.T) {
	e := newEnv(t)
	c := e.NewClient(e.Redis, qless.ClientConfig{MaxData: 10})
	big := strings.Repeat("x", 9) // 11 bytes of JSON
	jid := must(c.Queue("q").Put(t.Context(), "K", big[1:]))(t)
	e.Unchanged(func() {
		_, err := c.Queue("q").Put(t.Context(), "K", big)
		require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message,
			"the data has 11 bytes of JSON, which is more than 10")
	})
	job := e.popFrom(c)
	require.NoError(t, job.SetData(big))
	e.Unchanged(func() { requireCode(t, qless.ErrInvalid, job.Complete(t.Context())) })
	require.NoError(t, job.SetData(1))
	require.NoError(t, job.Complete(t.Context()))
	require.Equal(t, "1", e.storedData(jid))

	large := bytes.Repeat([]byte("x"), 8<<20)
	requireCode(t, qless.ErrInvalid, errOf(e.Queue("q").Put(t.Context(), "K", string(large))))
	_, err := e.NewClient(e.Redis, qless.ClientConfig{MaxData: -1}).Queue("q").Put(t.Context(), "K", string(large))
	require.NoError(t, err)
}

func TestNoCallSendsDataThatIsTooLarge(t *testing.T) {
	e := newEnv(t)
	c := e.NewClient(e.Redis, qless.ClientConfig{MaxData: 10})
	t.Cleanup(func() { _ = c.Close() })
	q, big := c.Queue("q"), strings.Repeat("x", 9)
	e.Put("q")
	job := e.popFrom(c)
	changed := func(call func(*qless.Job) error) func(context.Context) error {
		return func(context.Context) error {
			changed := *job
			if err := changed.SetData(big); err != nil {
				return err
			}
			return call(&changed)
		}
	}
	require.NoError(t, errOf(q.Recur(t.Context(), "K", nil, time.Hour, qless.JID("r"))))
	recurring := must(c.RecurringJob(t.Context(), "r"))(t)
	batch := must(c.NewBatch(t.Context(), "q", qless.JobSpec{Klass: "K"}))(t)
	small, large := qless.JobSpec{Klass: "K"}, qless.JobSpec{Klass: "K", Data: big}
	for name, call := range map[string]func(ctx context.Context) error{
		"Put":     func(ctx context.Context) error { return errOf(q.Put(ctx, "K", big)) },
		"PutMany": func(ctx context.Context) error { return errOf(q.PutMany(ctx, []qless.JobSpec{small, large})) },
		"Call":    func(ctx context.Context) error { return errOf(q.Call(ctx, "K", big)) },
		"a batch": func(ctx context.Context) error {
			return errOf(c.NewBatch(ctx, "q", qless.JobSpec{Klass: "K", Data: big}))
		},
		"a member of a batch": func(ctx context.Context) error {
			return errOf(batch.Add(ctx, "q", []qless.JobSpec{small, large}))
		},
		"Recur": func(ctx context.Context) error { return errOf(q.Recur(ctx, "K", big, time.Hour)) },
		"RecurringJob": func(ctx context.Context) error {
			recurring.Data = raw(strconv.Quote(big))
			return recurring.Update(ctx)
		},
		"Complete":          changed(func(j *qless.Job) error { return j.Complete(t.Context()) }),
		"Next":              changed(func(j *qless.Job) error { return j.Next(t.Context(), "q") }),
		"Fail":              changed(func(j *qless.Job) error { return j.Fail(t.Context(), "g", "m") }),
		"Retry":             changed(func(j *qless.Job) error { return errOf(j.Retry(t.Context(), 0, "", "")) }),
		"Release":           changed(func(j *qless.Job) error { return j.Release(t.Context(), 0) }),
		"Heartbeat":         changed(func(j *qless.Job) error { return errOf(j.Heartbeat(t.Context())) }),
		"Move":              changed(func(j *qless.Job) error { return j.Move(t.Context(), "other") }),
		"the result of End": func(ctx context.Context) error { return errOf(repairs.End(ctx, c, "j", repairs.Ending{Result: big})) },
		"SetResult":         func(context.Context) error { return job.SetResult(big) },
	} {
		e.Unchanged(func() {
			err := call(t.Context())
			require.ErrorIs(t, err, qless.ErrInvalid, name)
			require.ErrorContains(t, err, "which is more than 10 (MaxData)", name)
		})
	}
}

func TestCodecsThatCannotBeUsed(t *testing.T) {
	e := newEnv(t)
	a := &reversed{name: "a"}
	for message, config := range map[string]*qless.ClientConfig{
		"a nil codec":            {OldCodecs: []qless.Codec{nil}},
		`the name ""`:            {Codec: &reversed{}},
		`the name "a`:            {Codec: a, OldCodecs: []qless.Codec{a}},
		`the name "x:`:           {OldCodecs: []qless.Codec{&reversed{name: "x:y"}}},
		"MaxData -2 is negative": {MaxData: -2},
	} {
		_, err := qless.New(e.Redis, config)
		require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, message)
	}
}

func TestResultsAreStoredInTheFormOfTheCodec(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		c := e.NewClient(e.Redis, qless.ClientConfig{Codec: &reversed{name: "rev", key: "k1"}})
		t.Cleanup(func() { _ = c.Close() })
		jid := must(c.Queue("q").Put(t.Context(), "K", nil))(t)
		job := e.popFrom(c)
		require.NoError(t, job.SetResult(json.RawMessage(plainData)))
		require.NoError(t, job.Complete(t.Context()))
		require.Contains(t, e.Redis.HGet(t.Context(), "ql:j:"+jid, "x:result").Val(), encodedData("rev:k1"))

		results := must(c.WaitAll(t.Context(), jid))(t)
		one := must(c.Result(t.Context(), jid))(t)
		for _, result := range append(results, one, must(c.Wait(t.Context(), jid))(t)) {
			require.JSONEq(t, plainData, string(result.Data))
		}
		other := e.result(jid)
		require.Equal(t, encodedData("rev:k1"), string(other.Data))
		require.Contains(t, requireCode(t, qless.ErrInvalid, other.Unmarshal(&struct{}{})).Message,
			`the result is encoded by "rev"`)
	})
}

// Clients in other languages that save a job's data write the members of an envelope in any order.
func TestAnEnvelopeThatAnotherClientHasSaved(t *testing.T) {
	e := newEnv(t)
	c := e.NewClient(e.Redis, qless.ClientConfig{Codec: &reversed{name: "x", key: "k"}})
	for name, format := range map[string]string{
		"sorted": `{"b":%[1]s,"x:codec":%[2]s}`, "spaced": ` { "x:codec": %[2]s, "b": %[1]s }`,
		"extended": `{"a":{},"x:codec":%[2]s,"b":%[1]s}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.Queue("q").Put(t.Context(), "K", map[string]int{"N": 7}, qless.JID(name))
			require.NoError(t, err)
			var members map[string]json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(e.storedData(name)), &members))
			saved := fmt.Sprintf(format, members["b"], members["x:codec"])
			require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:"+name, "data", saved).Err())
			job := e.popFrom(c)
			require.JSONEq(t, `{"N":7}`, string(job.Data))
			require.NoError(t, job.Complete(t.Context()))
		})
	}
	for _, data := range []string{
		`{"jobs":[{"x:codec":"x:k","b":"fQ=="}]}`, `["x:codec"]`, `{"a":"\"x:codec\""}`,
	} {
		jid := must(c.Queue("q").Put(t.Context(), "Plain", json.RawMessage(data)))(t)
		require.JSONEq(t, data, string(e.popFrom(c).Data), "it is not an envelope")
		require.JSONEq(t, data, e.storedData(jid))
	}
}
