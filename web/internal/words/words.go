// Package words formats numbers, times and schedules for people.
package words

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/units"
)

// Number formats a number with separated thousands.
func Number(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "\u202f" + text[at:]
	}
	return text
}

// Plural formats a number of things: "1 job", "3 jobs".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Number(n) + " " + noun + "s"
}

// Percent formats a part of a whole.
func Percent(part float64) string {
	switch {
	case part == 0:
		return "0 %"
	case part < 0.001:
		return "<0.1 %"
	}
	return strconv.FormatFloat(100*part, 'f', 1, 64) + " %"
}

// Ago formats a time relative to now, such as "7m12s ago" or "in 3s".
func Ago(t time.Time) string {
	switch d := time.Since(t); {
	case t.IsZero():
		return "–"
	case d > time.Second:
		return units.Age(d) + " ago"
	case d < -time.Second:
		return "in " + units.Age(-d)
	}
	return "now"
}

// Clock formats a time exactly.
func Clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000 UTC")
}

// Took formats a duration, such as "3.2ms", "1.25s", "7m12s" or "1h".
func Took(d time.Duration) string {
	switch {
	case d <= 0:
		return "–"
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	for text := units.Age(d); ; {
		short := strings.TrimSuffix(text, "00"+text[len(text)-1:])
		if short == text || len(short) == 0 {
			return text
		}
		text = short
	}
}

// Exact formats a duration exactly, in the form of inputs: "1h", "1m30s" or "36h".
func Exact(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if cut, found := strings.CutSuffix(text, zero); found {
			text = cut + zero[:1]
		}
	}
	return text
}

// Short returns the beginning of a text, at most n characters.
func Short(text string, n int) string {
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n-1]) + "…"
}

// The maximum length of a jid shown whole in tables, and the lengths of the shown ends of a longer
// jid.
const maxID, idStart, idEnd = 16, 8, 4

// ID shortens a long jid of digits to its ends.
func ID(jid string) string {
	isHex := strings.Trim(jid, "0123456789abcdefABCDEF-") == ""
	if len(jid) <= maxID || !isHex {
		return Short(jid, 2*maxID)
	}
	return jid[:idStart] + "…" + jid[len(jid)-idEnd:]
}

// maxShown is the maximum size of data, results and failures shown on pages. The JSON is complete.
const maxShown = 256 << 10

// JSON indents JSON, without changing numbers and strings.
func JSON(text json.RawMessage) string {
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		return Shown(string(text))
	}
	return Shown(indented.String())
}

// Shown returns the visible part of a text.
func Shown(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return strings.ToValidUTF8(text[:maxShown], "") + "\n… The rest is in the JSON of this page."
}
