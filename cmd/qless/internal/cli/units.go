package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/units"
)

// now is the time to which ages and due times are relative. Tests set it.
var now = time.Now

// since formats the time since t, or until t if that is in the future.
func since(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := now().Sub(t)
	if d.Abs() < time.Second {
		return "now"
	}
	if d < 0 {
		return "in " + units.Duration(-d)
	}
	return units.Duration(d) + " ago"
}

// at formats a time, and the time since then.
func at(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05") + " UTC (" + since(t) + ")"
}

// lockEnds returns the label for the time at which a lock ends.
func lockEnds(t time.Time) string {
	if t.Before(now()) {
		return "lock ended"
	}
	return "lock ends"
}

// elapsed formats a duration; zero is a dash.
func elapsed(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return units.Duration(d)
}

// list joins texts, or returns a word for none.
func list(texts []string) string {
	if len(texts) == 0 {
		return "-"
	}
	return strings.Join(texts, ",")
}

// alternatives returns at least two words, as in "a, b or c".
func alternatives(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// dash returns "-" for an empty text.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// known returns a figure, or ? if its key is damaged.
func known(n int) string {
	if n < 0 {
		return "?"
	}
	return fmt.Sprint(n)
}

func progressText(p *qless.Progress) string {
	text := fmt.Sprint(p.Done)
	if p.Total > 0 {
		text = fmt.Sprintf("%d of %d", p.Done, p.Total)
	}
	return strings.TrimSpace(text + " " + p.Note)
}

// indented returns indented JSON. Data that is not JSON stays as it is.
func indented(data json.RawMessage) string {
	var text bytes.Buffer
	if err := json.Indent(&text, data, "", "  "); err != nil {
		return string(data)
	}
	return text.String()
}
