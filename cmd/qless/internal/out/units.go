package out

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/units"
)

// Now is the time for computing ages and relative due times. Tests set it.
var Now = time.Now

// Since formats the time since t, or until a future t.
func Since(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := Now().Sub(t)
	if d.Abs() < time.Second {
		return "now"
	}
	if d < 0 {
		return "in " + units.Duration(-d)
	}
	return units.Duration(d) + " ago"
}

// At formats a time, and the time since then.
func At(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05") + " UTC (" + Since(t) + ")"
}

// LockEnds returns the label for the time of a lock's expiry.
func LockEnds(t time.Time) string {
	if t.Before(Now()) {
		return "lock ended"
	}
	return "lock ends"
}

// Elapsed formats a duration; zero is a dash.
func Elapsed(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return units.Duration(d)
}

// List joins texts, or returns a word for none.
func List(texts []string) string {
	if len(texts) == 0 {
		return "-"
	}
	return strings.Join(texts, ",")
}

// Strings returns a text of each thing.
func Strings[T any](things []T, of func(T) string) []string {
	texts := make([]string, len(things))
	for i, thing := range things {
		texts[i] = of(thing)
	}
	return texts
}

// Alternatives returns at least two words, as in "a, b or c".
func Alternatives(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Dash returns "-" for an empty text.
func Dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// Known returns a figure, or ? for a damaged key.
func Known(n int) string {
	if n < 0 {
		return "?"
	}
	return fmt.Sprint(n)
}

// ProgressText returns the progress reported by a handler.
func ProgressText(p *qless.Progress) string {
	text := fmt.Sprint(p.Done)
	if p.Total > 0 {
		text = fmt.Sprintf("%d of %d", p.Done, p.Total)
	}
	return strings.TrimSpace(text + " " + p.Note)
}

// Indented returns indented JSON. Invalid JSON is returned unchanged.
func Indented(data json.RawMessage) string {
	var text bytes.Buffer
	if err := json.Indent(&text, data, "", "  "); err != nil {
		return string(data)
	}
	return text.String()
}
