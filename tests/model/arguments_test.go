package model

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/qless/qless-go/tests/scripts"
)

// The fuzz tests give commands arguments that no client should send, and damage the options of
// jobs. A command either is done, or is refused with one of our errors without changing any key.

// FuzzArguments gives arbitrary arguments to every command, through our scripts and the drop-in.
func FuzzArguments(f *testing.F) {
	fuzzLines(f, drawMutated)
}

func drawMutated(d *drawer) []step { return []step{d.mutated(d.step())} }

// FuzzOptions runs commands on jobs with damaged options.
func FuzzOptions(f *testing.F) {
	fuzzLines(f, drawDamage)
}

func drawDamage(d *drawer) []step {
	s := d.step()
	if d.chance(70) {
		return []step{s}
	}
	return []step{{Do: "damage", Raw: []string{d.job(), d.garbage()}}, s}
}

// fuzzLength is the number of commands per seed.
const fuzzLength = 150

func fuzzLines(f *testing.F, draw func(d *drawer) []step) {
	for seed := range uint64(8) {
		f.Add(seed)
	}
	x := newMix(f)
	x.damaged = true
	f.Fuzz(func(t *testing.T, seed uint64) {
		x.t, x.ctx = t, context.WithoutCancel(t.Context())
		if v, taken := x.fuzz(seed, draw); v != nil {
			ctx, cancel := context.WithTimeout(x.ctx, shrinkTime)
			defer cancel()
			shortest, again := minimal(ctx, x, taken, v)
			t.Fatalf("seed %d: %s", seed, report(again, shortest))
		}
	})
}

// fuzz runs drawn commands among valid ones.
func (x *mix) fuzz(seed uint64, draw func(d *drawer) []step) (*violation, []step) {
	x.restart()
	d := newDrawer(seed, x)
	var taken []step
	for range fuzzLength {
		steps := []step{d.step()}
		if d.chance(60) {
			steps = draw(d)
		}
		for _, s := range steps {
			taken = append(taken, s)
			if v := x.play(s); v != nil {
				return v, taken
			}
		}
	}
	return nil, taken
}

// mutated returns a step with some words changed.
func (d *drawer) mutated(s step) step {
	words := slices.Clone(s.Raw)
	if d.chance(25) {
		words = []string{one(d, scripts.Names()...)}
		for range d.IntN(8) {
			words = append(words, d.word())
		}
	}
	for range 1 + d.IntN(3) {
		i := d.IntN(len(words) + 1)
		switch {
		case d.chance(15):
			words = slices.Insert(words, max(i, 1), d.word())
		case i >= len(words) || i == 0:
			words = append(words, d.word())
		case d.chance(20):
			words = slices.Delete(words, i, i+1)
		case d.chance(12):
			words = words[:i]
		case d.chance(25):
			j := 1 + d.IntN(len(words)-1)
			words[i], words[j] = words[j], words[i]
		case d.chance(25):
			words[i] = d.scratched(words[i])
		default:
			words[i] = d.word()
		}
	}
	if d.chance(5) {
		s.Value = one(d, "x", "", "-1", "nan", "1e400", "0x10", "1e18", "1704196800.5", " 1704196800")
	}
	s.Raw = words
	return s
}

// strangeWords are valid and invalid arguments.
var strangeWords = []string{
	"", "0", "1", "-1", "-0", "1.5", "1e400", "-1e400", "nan", "-nan", "inf", "-inf", "+inf", "0x10", "1e3", " 1", "1 ",
	"99999999999999999999", "2147483648", "-2147483649", "9007199254740993", "(1", "[1", "a", "*", "all", "on", "off", "upon",
	"[]", "{}", "[1]", `["a"]`, `["a","a"]`, `{"a":1}`, "null", "true", `"x"`, "[null]", "[[]]", `[{"a":1}]`, `[1e400]`,
	`[NaN]`, `{"a":[NaN]}`, "[", "{", `["x:open"]`, `["j1-history"]`, `["\u0000"]`, strings.Repeat("[", 1100),
	strings.Repeat("x", 70_000), "\x00", "\xff", "é", "x:open", "j1-history", "q1-work", "%s", "%d%n", "\r\n",
	"priority", "tags", "retries", "depends", "o", "if", "replace", "within", "batch", "drop", "at", "next", "delay",
	"result", "checked", "new", "backoff", "from", "beside", "report", "ttl", "timed", "interval", "keep",
	"absent", "finished", "idle", "due", "q1", "q2", "nowhere", "w", "complete", "failed", "running", "waiting",
	"scheduled", "stalled", "recurring", "track", "untrack", "add", "remove", "list", "here", "lock", "ordered", "shuffled",
	"weighted", "weights",
	"order", "ahead", "owner", "place", "throttled", "1 x", "inf x", "3 j1",
}

func (d *drawer) word() string {
	switch {
	case d.chance(15):
		return d.job()
	case d.chance(12):
		return d.garbage()
	case d.chance(5):
		return fmt.Sprint(d.NormFloat64() * 1e6)
	}
	return one(d, strangeWords...)
}

// scratched returns a text with one byte changed, removed or added.
func (d *drawer) scratched(text string) string {
	if text == "" {
		return "\x00"
	}
	i := d.IntN(len(text))
	switch d.IntN(4) {
	case 0:
		return text[:i] + text[i+1:]
	case 1:
		return text[:i] + string(rune(d.IntN(256))) + text[i+1:]
	case 2:
		return text[:i]
	}
	return text[:i] + text[i:i+1] + text[i:]
}

// garbage draws a text of options, perhaps damaged.
func (d *drawer) garbage() string {
	letters, values := d.options(d.chance(40))
	for range d.IntN(3) {
		letter := string("abcdefghijklpqrstuwnK"[d.IntN(21)])
		letters += letter
		values[letter] = one[any](d, 1, -1, 0.5, "x", "", true, nil, []any{}, []any{1}, map[string]any{}, 1e300,
			map[string]any{"k": 1}, map[string]any{"k": "x", "m": 1, "d": "x"}, map[string]any{"t": 1, "w": "x"},
			map[string]any{"do": 1, "of": 1, "failed": 1}, map[string]any{"do": "run", "of": []any{1, nil}},
			map[string]any{"do": "fail", "failed": []any{"x"}}, map[string]any{"n": "x"},
			map[string]any{"k": `["x"]`, "a": 1, "j": 2, "s": 3}, map[string]any{"k": `["x"]`, "s": "a b", "a": "j1"},
			map[string]any{"k": `["x"]`, "m": "for", "d": -1}, []any{"a", "a"}, []any{nil}, []any{"a", 1, "b"})
	}
	text := letters + "|" + jsonOf(values)
	switch {
	case d.chance(10):
		return d.scratched(text)
	case d.chance(5):
		return one(d, "", "|", "|{}", "u|", "u|{", "x|{}", "uc|null", "c|[]", "u{}", "c|{}", "g|{}", "f|{}", "u|{}", "1|{}",
			"st|{}", "b|{}", "n|{}", "kK|{}", "é|{}", "u|{}\n", "d|{}", "w|{}", "r|{}", "p|{}",
			strings.Repeat("u", 1000)+"|{}", "g|"+strings.Repeat(`{"g":`, 1500))
	case d.chance(5):
		return strings.Replace(text, ":1", ":NaN", 1)
	}
	return text
}

// isKnown reports whether an error from the server is expected: for a jid with the name of a list,
// or for a score from a PHP client.
func isKnown(s step, err error) bool {
	return s.Raw[0] == "workerJobs" && strings.Contains(err.Error(), "min or max is not a float") ||
		slices.ContainsFunc(s.Raw, func(word string) bool { return strings.HasSuffix(word, "-history") }) &&
			strings.HasPrefix(err.Error(), "WRONGTYPE ")
}

// probe checks the invariants after any command: a refused command has changed nothing, and stored
// values can be read again.
func (x *mix) probe() *violation {
	var p problems
	for _, jid := range inOrder(x.k.jobs) {
		h := x.k.jobs[jid]
		if !x.k.changed[prefix+"j:"+jid] || h.kind != "hash" || x.garbled[jid] {
			continue
		}
		if text, ok := h.fields["x:o"]; ok && text != "" {
			if _, body, _ := strings.Cut(text, "|"); !json.Valid([]byte(body)) {
				p.add("%s has the options %.200q, which are not JSON", jid, text)
			}
		}
		for _, field := range []string{"priority", "retries", "remaining", "expires", "time", "scheduled"} {
			if n := amount(h.fields[field]); n-n != 0 {
				p.add("%s has the %s %q", jid, field, h.fields[field])
			}
		}
	}
	if len(p) > 0 {
		return &violation{class: "stored", text: p.String()}
	}
	return nil
}
