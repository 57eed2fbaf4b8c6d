// Package units writes durations and rates for people.
package units

import (
	"fmt"
	"strconv"
	"time"
)

// Age returns a duration with its two largest units, such as 7m12s, or "-" for none.
func Age(d time.Duration) string {
	switch {
	case d <= 0:
		return "-"
	case d < time.Second:
		return "<1s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	day := 24 * time.Hour
	return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
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
