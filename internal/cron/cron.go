// Package cron parses the specs of schedules.
package cron

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// A Schedule gives the times when jobs are due.
type Schedule = cron.Schedule

// Parse parses a spec. Its errors quote the spec as it was given.
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
	zoned := spec
	if !strings.HasPrefix(spec, "CRON_TZ=") && !strings.HasPrefix(spec, "TZ=") {
		zoned = "CRON_TZ=UTC " + spec
	}
	if _, err := time.LoadLocation(Zone(spec)); err != nil {
		return nil, fmt.Errorf("spec %q: %w", spec, err)
	}
	times, err := cron.ParseStandard(zoned)
	if err != nil {
		return nil, fmt.Errorf("spec %q: %w", spec, err)
	}
	if _, ok := times.(cron.ConstantDelaySchedule); ok {
		return nil, fmt.Errorf("spec %q: an interval has no time zone", spec)
	}
	if times.Next(time.Now()).IsZero() {
		return nil, fmt.Errorf("spec %q: it is never due", spec)
	}
	return times, nil
}

// An interval is due at whole multiples of itself since 1970, the same for every process.
type interval time.Duration

func (i interval) Next(t time.Time) time.Time {
	return time.Unix(0, (t.UnixNano()/int64(i)+1)*int64(i)).UTC()
}

// Zone returns the time zone of a spec, or the empty string for an interval.
func Zone(spec string) string {
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if rest, ok := strings.CutPrefix(spec, prefix); ok {
			zone, _, _ := strings.Cut(rest, " ")
			return zone
		}
	}
	if spec == "" || strings.HasPrefix(spec, "@every ") {
		return ""
	}
	return "UTC"
}

// Lateness is how late a job may be put without counting as missed.
const Lateness = 10 * time.Second

// CheckInterval is how long a worker relies on its own clock before it asks for the server's time.
const CheckInterval = time.Minute
