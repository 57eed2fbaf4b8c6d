package dump_test

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/dump"
	"github.com/qless/qless-go/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// A store is a server with namespaces.
type store struct {
	*testing.T
	*redis.Client
}

func newStore(t *testing.T) store { return store{t, testkit.Start(t).Client(t)} }

func (s store) open(namespace string, step func()) *dump.Namespace {
	n, err := dump.Open(s.T.Context(), s.Client, namespace, step)
	require.NoError(s.T, err)
	return n
}

func (s store) do(args ...any) {
	require.NoError(s.T, s.Do(s.T.Context(), args...).Err())
}

func (s store) dump(namespace string) string {
	var out bytes.Buffer
	_, err := s.open(namespace, func() {}).Write(s.T.Context(), &out)
	require.NoError(s.T, err)
	return out.String()
}

func (s store) restore(namespace, text string) {
	require.NoError(s.T, s.open(namespace, func() {}).Restore(s.T.Context(), strings.NewReader(text)))
}

func (s store) compare(namespace, text string) dump.Comparison {
	found, err := s.open(namespace, func() {}).Compare(s.T.Context(), strings.NewReader(text))
	require.NoError(s.T, err)
	return found
}

// fill adds a key of each type, small and large, with values that are hard to write.
func (s store) fill() {
	for i, strange := range []string{"plain", "\xff\xfe\x00", "\u2028<é>", `{"base64":"no"}`, ""} {
		s.do("hset", "ql:j:"+strange, "data", strange, strange+"f", "1")
		s.do("rpush", "ql:j:list", strange, strange)
		s.do("sadd", "ql:failures", strange)
		s.do("zadd", "ql:q:mail-work", float64(i)/3, strange)
		s.do("set", "ql:x:unique:"+strange, strange)
	}
	s.do("zadd", "ql:q:mail-work", "+inf", "first", "-inf", "last", "1e20", "large", "5e-324", "small")
	s.do("set", "ql:x:before:key", "1", "PX", "3600000")
	s.do("sadd", "ql:paused_queues", "mail")
	s.do("set", "ql:x:worker:w", "passes")
	_, err := s.Pipelined(s.T.Context(), func(pipe redis.Pipeliner) error {
		for i := range 3000 {
			pipe.RPush(s.T.Context(), "ql:f:many", i/2)
			pipe.ZAdd(s.T.Context(), "ql:completed", redis.Z{Score: float64(i) + 0.123456, Member: i})
			pipe.HSet(s.T.Context(), "ql:x:fields", i, i)
			pipe.SAdd(s.T.Context(), "ql:x:members", i)
		}
		return nil
	})
	require.NoError(s.T, err)
}

func TestEachTypeIsRestored(t *testing.T) {
	s := newStore(t)
	s.fill()
	before := testkit.Dump(t, s.Client, "ql:*")
	text := s.dump("ql:")
	lines := strings.Split(text, "\n")
	require.Equal(t, `{"qless_dump":1,"namespace":"ql:"}`, lines[0])
	require.Contains(t, lines[1], `"key":"paused_queues"`)

	s.restore("{new}:ql:", text)
	require.Equal(t, strings.Join(lines[1:], "\n"),
		strings.Join(strings.Split(s.dump("{new}:ql:"), "\n")[1:], "\n"), "apart from the namespace")
	s.do("flushdb")
	s.restore("ql:", text)
	delete(before, "ql:x:worker:w")
	require.Equal(t, before, testkit.Dump(t, s.Client, "ql:*"))
	lasts := s.PTTL(t.Context(), "ql:x:before:key").Val()
	require.Greater(t, lasts, time.Minute)
	require.LessOrEqual(t, lasts, time.Hour)
}

// However far a restore comes, each key is as before or missing, and the restore can be repeated.
func TestARestoreThatBrokeOffIsDoneAgain(t *testing.T) {
	s := newStore(t)
	s.fill()
	text := s.dump("ql:")
	s.do("flushdb")
	for after := 1; ; after++ {
		ctx, cancel := context.WithCancel(t.Context())
		steps := 0
		err := s.open("ql:", func() {
			if steps++; steps == after {
				cancel()
			}
		}).Restore(ctx, strings.NewReader(text))
		cancel()
		if n := s.DBSize(t.Context()).Val(); n > 0 {
			require.EqualValues(t, 1, s.Exists(t.Context(), "ql:paused_queues").Val(), "the first of %d", n)
		}
		found := s.compare("ql:", text)
		require.Empty(t, found.Differing)
		require.Empty(t, found.Extra)
		if err == nil {
			require.Zero(t, found.Missing)
			return
		}
		require.ErrorIs(t, err, context.Canceled)
	}
}

// A dump may be older than the existing keys, which must not expire when the dumped keys did.
func TestARestoreLeavesKeysThatExistAlone(t *testing.T) {
	s := newStore(t)
	s.do("set", "ql:x:unique:a", "1", "PX", "3600000")
	s.do("set", "ql:x:unique:b", "1", "PX", "3600000")
	text := regexp.MustCompile(`"expires":\d+`).ReplaceAllString(s.dump("ql:"), `"expires":1`)
	s.do("set", "ql:x:unique:a", "2", "PX", "3600000")
	s.do("del", "ql:x:unique:b")
	s.restore("ql:", text)
	require.Equal(t, "2", s.Get(t.Context(), "ql:x:unique:a").Val())
	require.Positive(t, s.PTTL(t.Context(), "ql:x:unique:a").Val())
	require.Zero(t, s.Exists(t.Context(), "ql:x:unique:b").Val(), "it has ended")
}

func TestDifferencesAreFound(t *testing.T) {
	s := newStore(t)
	s.do("hset", "ql:j:a", "data", "1")
	s.do("rpush", "ql:j:a-history", "put")
	s.do("set", "ql:x:soon", "1", "PX", "10000")
	s.do("set", "ql:x:lasts", "1", "PX", "10000")
	s.do("zadd", "ql:workers", "1", "w")
	text := s.dump("ql:")
	require.Equal(t, dump.Comparison{Same: 5}, s.compare("ql:", text))

	s.do("hset", "ql:j:a", "data", "2")
	s.do("del", "ql:j:a-history", "ql:x:soon")
	s.do("persist", "ql:x:lasts")
	s.do("set", "ql:j:new", "1")
	s.do("zadd", "ql:workers", "2", "w")
	s.do("set", "ql:x:worker:w", "passes")
	past := regexp.MustCompile(`("x:soon".*"expires":)\d+`).ReplaceAllString(text, "${1}1")
	require.Equal(t, dump.Comparison{
		Same: 1, Missing: 1, Differing: []string{"j:a", "x:lasts"}, Extra: []string{"j:new"},
	}, s.compare("ql:", past))
}

func TestDumpsThatAreNoneAreRefused(t *testing.T) {
	s := newStore(t)
	const head = `{"qless_dump":1,"namespace":"ql:"}` + "\n"
	const key = `{"key":"a","type":"string","values":["1"]}` + "\n"
	for text, reason := range map[string]string{
		"":                               "line 1: this is not a dump",
		"{}":                             "line 1: this is not a dump",
		`{"settings":{}}`:                "line 1: this is not a dump",
		`{"qless_dump":2}`:               "line 1: the format is version 2, not 1",
		head:                             "line 2: the dump ends too early",
		head + key:                       "line 3: the dump ends too early",
		head + key[:9]:                   "line 2: unexpected EOF",
		head + key + `{"keys":2}`:        "line 3: 1 keys are there, not 2",
		head + "{}":                      "line 2: this is not a key",
		head + `{"key":"a","more":1}`:    `line 2: json: unknown field "more"`,
		head + pair("string", `"a","b"`): "line 2: this is not a key",
		head + pair("hash", `"a"`):       "line 2: this is not a key",
		head + pair("zset", `"a","b"`):   "line 2: this is not a key",
		head + pair("stream", `"a"`):     "line 2: this is not a key",
		head + pair("list", ``):          "line 2: this is not a key",

		head + key + `{"keys":1}` + "\n" + head + key + `{"keys":1}`: "line 4: there is more after the end of the dump",
		head + `{"keys":0} x`: "line 3: there is more after the end of the dump",
	} {
		for _, err := range []error{
			s.open("ql:", func() {}).Restore(t.Context(), strings.NewReader(text)),
			second(s.open("ql:", func() {}).Compare(t.Context(), strings.NewReader(text))),
		} {
			var format *dump.FormatError
			require.ErrorAs(t, err, &format, text)
			require.Equal(t, reason, err.Error(), text)
		}
	}
	require.Empty(t, testkit.Dump(t, s.Client, "*"))
}

func second(_ dump.Comparison, err error) error { return err }

func pair(kind, values string) string {
	return fmt.Sprintf(`{"key":"a","type":%q,"values":[%s]}`, kind, values)
}

// A meter measures commands and pipelines.
type meter struct{ args, reply int } // the most bytes of any

func (m *meter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *meter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		err := next(ctx, command)
		m.measure(command)
		return err
	}
}

func (m *meter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		err := next(ctx, commands)
		m.measure(commands...)
		return err
	}
}

func (m *meter) measure(commands ...redis.Cmder) {
	args, reply := 0, 0
	for _, command := range commands {
		args += bytesOf(command.Args())
		if with, ok := command.(*redis.Cmd); ok {
			reply += bytesOf(with.Val())
		}
	}
	m.args, m.reply = max(m.args, args), max(m.reply, reply)
}

// bytesOf returns the bytes of the texts in a value.
func bytesOf(value any) int {
	switch value := value.(type) {
	case string:
		return len(value)
	case []any:
		sum := 0
		for _, item := range value {
			sum += bytesOf(item)
		}
		return sum
	}
	return 0
}

// Large values are read and written a few at a time, and small ones many at a time.
func TestStepsAreBoundedByBytes(t *testing.T) {
	s := newStore(t)
	const large = 300_000
	value := strings.Repeat("v", large)
	for i := range 12 {
		s.do("hset", fmt.Sprint("ql:j:", i), "data", value, "state", "waiting")
		s.do("rpush", "ql:j:0-history", value+fmt.Sprint(i))
		s.do("sadd", "ql:failures", value+fmt.Sprint(i))
		s.do("set", fmt.Sprint("ql:x:unique:", i), value)
	}
	for i := range 200 {
		s.do("rpush", "ql:j:1-history", "small")
		s.do("hset", "ql:config", i, value[:10_000])
	}
	s.do("rpush", "ql:j:1-history", value, value, value, value)
	_, err := s.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
		for i := range 10_000 {
			pipe.ZAdd(t.Context(), "ql:completed", redis.Z{Score: float64(i), Member: i})
		}
		return nil
	})
	require.NoError(t, err)

	const most = 1<<20 + 10*large // of a step, including the values that end it
	m := &meter{}
	s.AddHook(m)
	steps := 0
	var out bytes.Buffer
	_, err = s.open("ql:", func() { steps++ }).Write(t.Context(), &out)
	require.NoError(t, err)
	require.Less(t, m.reply, most)
	require.Less(t, steps, 50, "small values are read together")
	s.do("flushdb")
	m.args = 0
	s.restore("ql:", out.String())
	require.Less(t, m.args, most)
	require.True(t, out.String() == s.dump("ql:"), "all is there again")
	m.reply = 0
	require.Equal(t, dump.Comparison{Same: 29}, s.compare("ql:", out.String()))
	require.Less(t, m.reply, most)
}

func TestInnerNamespacesAreNotDumped(t *testing.T) {
	s := newStore(t)
	s.do("zadd", "ql:queues", "1", "mail")
	s.do("zadd", "ql:t:eu:queues", "1", "a")
	s.do("hset", "ql:x:later-versions-know-it", "f", "1")
	own := s.dump("ql:")
	s.do("zadd", "ql:eu:queues", "1", "mail")
	s.do("hset", "ql:eu:j:a", "data", "1")
	s.do("sadd", "ql:west:failures", "g")
	require.Equal(t, own, s.dump("ql:"))
	require.Equal(t, dump.Comparison{Same: 3}, s.compare("ql:", own))
	n := s.open("ql:", func() {})
	require.Empty(t, n.Inner())
	_, err := n.Write(t.Context(), &bytes.Buffer{})
	require.NoError(t, err)
	require.Equal(t, []string{"ql:eu:", "ql:west:"}, n.Inner())
	require.Contains(t, s.dump("ql:eu:"), `"key":"j:a"`)
}

func TestKeysOfOtherTypesAreNotDumped(t *testing.T) {
	s := newStore(t)
	s.do("xadd", "ql:stream", "*", "a", "b")
	_, err := s.open("ql:", func() {}).Write(t.Context(), &bytes.Buffer{})
	require.ErrorContains(t, err, "ql:stream has the type stream")
}
