package units

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Period is the time from Since until before Until. Either may be open.
type Period struct {
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// ParsePeriod reads the ends of a period: a time of today or yesterday (14:00), an age (2h, 3d), a
// date, or a date with a time (2024-01-02 14:00), in UTC. Either end may be empty.
func ParsePeriod(since, until string, now time.Time) (p Period, err error) {
	if p.Since, err = moment(since, now.UTC()); err != nil {
		return p, err
	}
	p.Until, err = moment(until, now.UTC())
	return p, err
}

// Has reports whether a time is in the period.
func (p Period) Has(t time.Time) bool {
	return !t.Before(p.Since) && (p.Until.IsZero() || t.Before(p.Until))
}

// Overlaps reports whether any time from first to last is in the period.
func (p Period) Overlaps(first, last time.Time) bool {
	return !last.Before(p.Since) && (p.Until.IsZero() || first.Before(p.Until))
}

func moment(text string, now time.Time) (time.Time, error) {
	if text = strings.TrimSpace(text); text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{
		time.RFC3339Nano, time.DateTime, "2006-01-02 15:04", time.DateOnly,
	} {
		if at, err := time.Parse(layout, text); err == nil {
			return at, nil
		}
	}
	for _, layout := range []string{time.TimeOnly, "15:04"} {
		if at, err := time.Parse(layout, text); err == nil {
			today := now.Truncate(24 * time.Hour).Add(at.Sub(at.Truncate(24 * time.Hour)))
			if today.After(now) {
				return today.AddDate(0, 0, -1), nil
			}
			return today, nil
		}
	}
	age := text
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		n, _ := strconv.Atoi(days)
		age = strconv.Itoa(24*n) + "h"
	}
	if d, err := time.ParseDuration(age); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("%q is not a time such as 14:00, 2h, %s or %s", text,
		now.Format(time.DateOnly), now.Format(`"2006-01-02 15:04"`))
}
