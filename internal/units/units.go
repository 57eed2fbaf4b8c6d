// Package units writes durations and rates for people.
package units

import (
	"fmt"
	"strconv"
	"time"
)

// Age returns for how long something has lasted, in whole seconds and two units, such as 7m12s or
// 1h00m, so that a column of them is even, or "-" for none.
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

// Duration returns how long something takes, in at most two units: 850ms, 12s, 5m12s, 1h.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Duration(-d)
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

// A part of a duration is so many of a unit.
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

// Rate returns a number of things in a minute, or "-" for none.
func Rate(r float64) string {
	switch {
	case r == 0:
		return "-"
	case r < 10:
		return strconv.FormatFloat(r, 'f', 1, 64)
	}
	return strconv.FormatFloat(r, 'f', 0, 64)
}
