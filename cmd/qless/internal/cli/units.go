package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// since tells how long ago a time is, or in how long it comes.
func since(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := now().Sub(t)
	if d.Abs() < time.Second {
		return "now"
	}
	if d < 0 {
		return "in " + short(-d)
	}
	return short(d) + " ago"
}

// at tells a time, and how long ago it is.
func at(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05") + " UTC (" + since(t) + ")"
}

// short tells a duration in at most two units: 850ms, 12s, 5m12s, 3d4h.
func short(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "-" + short(-d)
	case d == 0:
		return "0s"
	case d < time.Millisecond:
		return strconv.Itoa(int(d.Microseconds())) + "µs"
	case d < time.Second:
		return strconv.Itoa(int(d.Milliseconds())) + "ms"
	case d < 10*time.Second && d%time.Second >= 100*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < time.Hour:
		return twoUnits(d, time.Minute, "m", time.Second, "s")
	case d < day:
		return twoUnits(d, time.Hour, "h", time.Minute, "m")
	}
	return twoUnits(d, day, "d", time.Hour, "h")
}

func twoUnits(d, large time.Duration, l string, small time.Duration, s string) string {
	text := strconv.Itoa(int(d/large)) + l
	if rest := d % large / small; rest > 0 {
		text += strconv.Itoa(int(rest)) + s
	}
	return text
}

// elapsed tells a duration, or nothing if it is zero.
func elapsed(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return short(d)
}

// list joins texts, or tells that there are none.
func list(texts []string) string {
	if len(texts) == 0 {
		return "-"
	}
	return strings.Join(texts, ",")
}

// dash stands for a text that is empty.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
