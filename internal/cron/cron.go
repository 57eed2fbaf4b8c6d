// Package cron parses the specs of schedules.
package cron

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// A Schedule returns the times when jobs are due. Next returns the first due time after a time, or
// the zero time.
type Schedule = cron.Schedule

// Parse parses a spec. Errors quote the spec unchanged.
func Parse(spec string) (Schedule, error) {
	if strings.TrimSpace(spec) == "" {
		return nil, errors.New("the spec is empty")
	}
	if rest, ok := strings.CutPrefix(spec, "@every "); ok {
		every, err := time.ParseDuration(rest)
		if err != nil || every < time.Second {
			return nil, fmt.Errorf("spec %q: not an interval of a second or more", spec)
		}
		return interval(every), nil
	}
	zone, err := time.LoadLocation(Zone(spec))
	if err != nil {
		return nil, fmt.Errorf("spec %q: %w", spec, err)
	}
	clock, err := parseClock(withoutZone(spec))
	if err != nil {
		return nil, fmt.Errorf("spec %q: %w", spec, err)
	}
	return zoned{clock, zone}, nil
}

// parser parses the fields of a spec. If both day fields are restricted, either may match, as in
// POSIX. Leap days are up to eight years apart.
var parser = cron.MustNewParser(
	cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom | cron.Descriptor,
).WithMaxSearchYears(8)

// parseClock parses a spec without a time zone. The schedule follows a clock set to UTC.
func parseClock(spec string) (Schedule, error) {
	if err := checkForm(spec); err != nil {
		return nil, err
	}
	clock, err := parser.Parse("TZ=UTC " + strings.ToLower(spec))
	if err != nil {
		return nil, err
	}
	if clock.Next(time.Unix(0, 0)).IsZero() {
		return nil, errors.New("it is never due")
	}
	return clock, nil
}

// Letters of a spec that are not part of the name of a month or a day.
var (
	names = regexp.MustCompile(
		`(?i)jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|sun|mon|tue|wed|thu|fri|sat`)
	extension = regexp.MustCompile(`(?i)[LWH#]`)
)

// checkForm refuses forms known only to other crons.
func checkForm(spec string) error {
	fields := strings.Fields(spec)
	if len(fields) > 0 && strings.HasPrefix(fields[0], "@") {
		switch fields[0] {
		case "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly":
			return nil
		case "@every":
			return errors.New("an interval has no time zone")
		}
		return fmt.Errorf("%s is not one of @yearly, @monthly, @weekly, @daily, @hourly and @every",
			fields[0])
	}
	if len(fields) != 5 {
		return fmt.Errorf("needs 5 fields (minute, hour, day, month, weekday), has %d", len(fields))
	}
	for _, field := range fields {
		if found := extension.FindString(names.ReplaceAllString(field, "")); found != "" {
			return fmt.Errorf("%q is not supported: %s", found, field)
		}
	}
	return nil
}

// zoned is a schedule by the clocks of a time zone. A time skipped by the clocks is due when they
// are put forward, and a time shown twice is due twice.
type zoned struct {
	clock Schedule
	zone  *time.Location
}

// Next looks for the next time in each period of a constant offset from UTC.
func (z zoned) Next(t time.Time) time.Time {
	t = t.In(z.zone)
	offset, end := offsetOf(t), offsetEnds(t)
	for {
		shown := z.clock.Next(inClock(t, offset))
		if shown.IsZero() {
			return time.Time{}
		}
		due := shown.Add(-time.Duration(offset) * time.Second)
		if end.IsZero() || due.Before(end) {
			return due.In(z.zone)
		}
		t = end.In(z.zone)
		offset = offsetOf(t)
		if shown.Before(inClock(t, offset)) {
			return t // skipped
		}
		end = offsetEnds(t)
		t = t.Add(-time.Nanosecond) // due at once if the clock shows a matching time
	}
}

// inClock returns the time shown by a clock at an offset from UTC in seconds, as if in UTC.
func inClock(t time.Time, offset int) time.Time {
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

func offsetOf(t time.Time) int {
	_, offset := t.Zone()
	return offset
}

// offsetEnds returns a time until which the offset does not change, or the zero time if it never
// changes. On the last day of a leap year, ZoneBounds may return the beginning of the day.
func offsetEnds(t time.Time) time.Time {
	_, end := t.ZoneBounds()
	if !end.IsZero() && !end.After(t) {
		return t.Add(24 * time.Hour)
	}
	return end
}

// An interval is due at whole multiples of itself since 1970, the same for every process.
type interval time.Duration

func (i interval) Next(t time.Time) time.Time {
	return time.Unix(0, (t.UnixNano()/int64(i)+1)*int64(i)).UTC()
}

// Zone returns the time zone of a spec, or the empty string for an interval.
func Zone(spec string) string {
	if zone, _, ok := cutZone(spec); ok {
		return zone
	}
	if spec == "" || strings.HasPrefix(spec, "@every ") {
		return ""
	}
	return "UTC"
}

func withoutZone(spec string) string {
	_, rest, _ := cutZone(spec)
	return rest
}

// cutZone splits a spec into its time zone and the rest, and reports whether it has a zone.
func cutZone(spec string) (zone, rest string, ok bool) {
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if after, found := strings.CutPrefix(spec, prefix); found {
			zone, rest, _ = strings.Cut(after, " ")
			return zone, rest, true
		}
	}
	return "", spec, false
}

// Lateness is how late a job may be put without counting as missed.
const Lateness = 10 * time.Second

// CheckInterval is how long a worker relies on its own clock before asking for the server's time.
const CheckInterval = time.Minute
