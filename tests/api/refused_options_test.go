package api

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/scripts"
)

// long is the value of a header with which the headers of a job have their maximum size.
var long = strings.Repeat("x", 8<<10-1)

// refusedOptions has options with which no job can be put, by parts of their errors.
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
	e.Put("q", qless.JID("running"))
	running := e.Pop("q")
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

// refusedTexts are stored options that no script accepts, not even from clients that check options.
var refusedTexts = []string{
	`s|{}`, `s|{"s":0}`, `s|{"s":-1}`, `t|{"t":"x"}`, `t|{"t":[]}`, `k|{"k":-1}`, `K|{"K":-2}`, `s|{"s":1e999}`,
	`u|{}`, `u|{"u":1}`, `u|{"u":{"k":""}}`, `u|{"u":{"k":"k","m":"for"}}`, `f|{}`, `f|{"f":1}`, `f|{"f":{"do":"x"}}`,
}

// refusedNext are stored options that are refused by the next queue of a job as well.
var refusedNext = []string{
	"", "h", "|{}", "h|", "h|[]", "h|{", "1|{}", `h|{"h":}`, `f|{}`, `f|{"f":1}`, `f|{"f":{"do":"x"}}`,
}

// refusedPairs are other arguments after the delay of a put that its script refuses.
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

func TestOptionsThatAScriptRefuses(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("running"))
		e.Pop("q")
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
	})
}
