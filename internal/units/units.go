// Package units formats durations, rates, amounts of memory and names for people.
package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Age formats an age in whole seconds and two units, such as 7m12s or 1h00m, which keeps a column
// of ages even. It returns "-" for none.
func Age(d time.Duration) string {
	switch {
	case d <= 0:
		return "-"
	case d < time.Second:
		return "<1s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	}
	large, rest := split(d)
	return fmt.Sprintf("%d%s%02d%s", large.count, large.name, rest.count, rest.name)
}

// Duration formats a duration in at most two units: 850ms, 12s, 5m12s, 1h.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Duration(-max(d, -math.MaxInt64))
	case d == 0:
		return "0s"
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second && d%time.Second >= 100*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	}
	large, rest := split(d)
	text := fmt.Sprintf("%d%s", large.count, large.name)
	if rest.count > 0 {
		text += fmt.Sprintf("%d%s", rest.count, rest.name)
	}
	return text
}

// A part of a duration is a count of a unit.
type part struct {
	count time.Duration
	name  string
}

// split returns a duration of at least a minute in its two largest units.
func split(d time.Duration) (large, rest part) {
	const day = 24 * time.Hour
	switch {
	case d < time.Hour:
		return part{d / time.Minute, "m"}, part{d % time.Minute / time.Second, "s"}
	case d < day:
		return part{d / time.Hour, "h"}, part{d % time.Hour / time.Minute, "m"}
	}
	return part{d / day, "d"}, part{d % day / time.Hour, "h"}
}

// Bytes formats an amount of memory.
func Bytes(n float64) string {
	names := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; n >= 1024 && i < len(names)-1; i++ {
		n /= 1024
	}
	return strconv.FormatFloat(n, 'f', min(i, 1), 64) + " " + names[i]
}

// Rate formats a number per minute. It returns "-" for none.
func Rate(r float64) string {
	switch {
	case r == 0:
		return "-"
	case r < 10:
		return strconv.FormatFloat(r, 'f', 1, 64)
	}
	return strconv.FormatFloat(r, 'f', 0, 64)
}

// A Text is a duration written in JSON as text, without loss, such as 1m30s, 250ms or forever.
type Text time.Duration

// forever is the text of an unlimited time, which is -1.
const forever = "forever"

// String returns the text.
func (t Text) String() string {
	if t == -1 {
		return forever
	}
	text := time.Duration(t).String()
	for _, none := range []string{"m0s", "h0m"} {
		if cut, ok := strings.CutSuffix(text, none); ok {
			text = cut + none[:1]
		}
	}
	return text
}

// Known returns a duration as a Text, or nil for a negative (unknown) duration.
func Known(d time.Duration) *Text {
	if d < 0 {
		return nil
	}
	return (*Text)(&d)
}

// Duration returns the duration.
func (t Text) Duration() time.Duration { return time.Duration(t) }

// MarshalText writes the text.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads the output of MarshalText.
func (t *Text) UnmarshalText(text []byte) error {
	if string(text) == forever {
		*t = -1
		return nil
	}
	d, err := time.ParseDuration(string(text))
	*t = Text(d)
	return err
}

// Quote quotes a name for a shell, if necessary.
func Quote(name string) string {
	isPlain := func(r rune) bool {
		return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) ||
			strings.ContainsRune("-_.:/@%+,", r)
	}
	if name != "" && strings.TrimFunc(name, isPlain) == "" {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
