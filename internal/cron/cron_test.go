package cron

import (
	"archive/zip"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// next returns the first n times of a spec after a time.
func next(t *testing.T, spec, after string, n int) []string {
	t.Helper()
	schedule, err := Parse(spec)
	require.NoError(t, err)
	at, err := time.Parse(time.RFC3339, after)
	require.NoError(t, err)
	var times []string
	for range n {
		at = schedule.Next(at)
		times = append(times, at.Format(time.RFC3339))
	}
	return times
}

func TestEitherDayFieldMayMatch(t *testing.T) {
	require.Equal(t,
		[]string{"2024-03-01T00:00:00Z", "2024-03-08T00:00:00Z", "2024-03-15T00:00:00Z",
			"2024-03-22T00:00:00Z", "2024-03-29T00:00:00Z", "2024-04-01T00:00:00Z"},
		next(t, "0 0 1,15 * 5", "2024-02-29T12:00:00Z", 6), "the 1st, the 15th and each Friday")
	require.Equal(t,
		[]string{"2024-02-05T00:00:00Z", "2024-02-12T00:00:00Z", "2024-02-19T00:00:00Z",
			"2024-02-26T00:00:00Z", "2024-02-29T00:00:00Z", "2025-02-03T00:00:00Z"},
		next(t, "0 0 29 2 1", "2024-01-01T00:00:00Z", 6))
	require.Equal(t, []string{"2104-02-29T00:00:00Z"}, next(t, "0 0 29 2 *", "2096-03-01T00:00:00Z", 1))
}

func TestSkippedAndRepeatedTimes(t *testing.T) {
	for _, c := range []struct {
		spec, after string
		times       []string
	}{
		{"CRON_TZ=America/Santiago 0 0 * * *", "2024-09-07T12:00:00Z", // no midnight on September 8
			[]string{"2024-09-08T01:00:00-03:00", "2024-09-09T00:00:00-03:00"}},
		{"CRON_TZ=America/Santiago 0 0 * * 0", "2024-09-07T12:00:00Z",
			[]string{"2024-09-08T01:00:00-03:00", "2024-09-15T00:00:00-03:00"}},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2024-03-30T12:00:00Z",
			[]string{"2024-03-31T03:00:00+02:00", "2024-04-01T02:30:00+02:00"}},
		{"CRON_TZ=Europe/Berlin */20 2 * * *", "2024-03-30T12:00:00Z", // once for all skipped times
			[]string{"2024-03-31T03:00:00+02:00", "2024-04-01T02:00:00+02:00"}},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2024-10-26T12:00:00Z",
			[]string{"2024-10-27T02:30:00+02:00", "2024-10-27T02:30:00+01:00", "2024-10-28T02:30:00+01:00"}},
		{"CRON_TZ=Australia/Lord_Howe 15 2 * * *", "2024-10-05T12:00:00Z", // a gap of half an hour
			[]string{"2024-10-06T02:30:00+11:00", "2024-10-07T02:15:00+11:00"}},
		{"CRON_TZ=Pacific/Apia 0 0 30 * *", "2011-12-29T12:00:00Z", // a date that does not exist there
			[]string{"2011-12-31T00:00:00+14:00", "2012-01-30T00:00:00+14:00"}},
		{"@daily", "2024-03-30T12:00:00Z", []string{"2024-03-31T00:00:00Z", "2024-04-01T00:00:00Z"}},
	} {
		require.Equal(t, c.times, next(t, c.spec, c.after, len(c.times)), c.spec)
	}
}

func TestUnsupportedForms(t *testing.T) {
	for spec, message := range map[string]string{
		"0 0 L * *":                   `"L" is not supported: L`,
		"0 0 15W * *":                 `"W" is not supported: 15W`,
		"0 0 * * FRI#3":               `"#" is not supported: FRI#3`,
		"H 0 * * *":                   `"H" is not supported: H`,
		"0 0 0 * * *":                 "needs 5 fields (minute, hour, day, month, weekday), has 6",
		"0 0 * * * Europe/Berlin":     "needs 5 fields (minute, hour, day, month, weekday), has 6",
		"@reboot":                     "@reboot is not one of @yearly, @monthly, @weekly, @daily, @hourly and @every",
		"TZ=Europe/Berlin @every 90s": "an interval has no time zone",
		"0 0 30 2 *":                  "it is never due",
	} {
		_, err := Parse(spec)
		require.EqualError(t, err, fmt.Sprintf("spec %q: %s", spec, message))
	}
	for _, spec := range []string{"0 0 * jul,aug wed", "0 0 * MAR THU-SAT", "@midnight", "0 0 ? * ?"} {
		_, err := Parse(spec)
		require.NoError(t, err, spec)
	}
}

// A field is a random part of a spec.
type field struct {
	text string
	has  [60]bool
	any  bool
}

// newField draws a field with values from least to most.
func newField(dice *rand.Rand, least, most int) field {
	f := field{text: "*", any: true}
	step := 1
	switch dice.IntN(3) {
	case 0:
	case 1:
		f.any, step = false, 2+dice.IntN(most-least-1)
		f.text = "*/" + strconv.Itoa(step)
	default:
		f.any = false
		var parts []string
		for range 1 + dice.IntN(3) {
			value := least + dice.IntN(most-least+1)
			parts, f.has[value] = append(parts, strconv.Itoa(value)), true
		}
		f.text = strings.Join(parts, ",")
		return f
	}
	for value := least; value <= most; value += step {
		f.has[value] = true
	}
	return f
}

// An oracle knows the minutes of a spec, independently of the parser.
type oracle struct{ minute, hour, day, month, weekday field }

func newOracle(dice *rand.Rand) oracle {
	return oracle{newField(dice, 0, 59), newField(dice, 0, 23), newField(dice, 1, 31),
		newField(dice, 1, 12), newField(dice, 0, 6)}
}

func (o oracle) spec() string {
	return strings.Join([]string{o.minute.text, o.hour.text, o.day.text, o.month.text, o.weekday.text}, " ")
}

// matches reports whether a clock with a shown time, as if in UTC, matches the spec.
func (o oracle) matches(shown time.Time) bool {
	if !o.minute.has[shown.Minute()] || !o.hour.has[shown.Hour()] || !o.month.has[shown.Month()] {
		return false
	}
	day, weekday := o.day.has[shown.Day()], o.weekday.has[shown.Weekday()]
	if o.day.any || o.weekday.any {
		return day && weekday
	}
	return day || weekday
}

// times walks from one time to another by the minute, and returns the due times: minutes that
// match, and moments when the clock skips a matching minute.
func (o oracle) times(from, to time.Time, zone *time.Location) []time.Time {
	shows := func(at time.Time) time.Time {
		_, offset := at.In(zone).Zone()
		return at.UTC().Add(time.Duration(offset) * time.Second)
	}
	var due []time.Time
	before := shows(from)
	for at := from.Add(time.Minute); !at.After(to); at = at.Add(time.Minute) {
		shown := shows(at)
		isDue := o.matches(shown)
		for skipped := before.Add(time.Minute); !isDue && skipped.Before(shown); skipped = skipped.Add(time.Minute) {
			isDue = o.matches(skipped)
		}
		if before = shown; isDue {
			due = append(due, at)
		}
	}
	return due
}

// zones returns the names of all time zones.
func zones(t *testing.T) []string {
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	require.NoError(t, err)
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib/time/zoneinfo.zip"))
	require.NoError(t, err)
	defer archive.Close()
	var names []string
	for _, file := range archive.File {
		if !strings.HasSuffix(file.Name, "/") && file.Name != "Factory" {
			names = append(names, file.Name)
		}
	}
	require.Greater(t, len(names), 400)
	return names
}

// transitions returns when a zone's offset changes, from 1990 on, and the ends of leap years.
func transitions(zone *time.Location) []time.Time {
	var found []time.Time
	at := offsetEnds(time.Date(1990, 1, 1, 0, 0, 0, 0, zone))
	for !at.IsZero() && at.Year() < 2041 {
		found = append(found, at)
		at = offsetEnds(at)
	}
	return found
}

var (
	seed  = flag.Uint64("cron.seed", uint64(time.Now().UnixNano()), "the first seed of random specs")
	share = flag.Float64("cron.share", 0.05, "the share of all changes of clocks to check")
)

// Every change of a clock, and a time between two changes, is checked with a random spec.
func TestTimesAgreeWithAnOracle(t *testing.T) {
	t.Logf("-cron.seed %d -cron.share %v", *seed, *share)
	dice := rand.New(rand.NewPCG(*seed, 0))
	checked := 0
	for _, name := range zones(t) {
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		for _, change := range append(transitions(zone), time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) {
			if dice.Float64() >= *share {
				continue
			}
			change = change.Truncate(time.Minute) // where its tables end, in 2038
			agree(t, dice, name, zone, change.Add(-36*time.Hour), change.Add(36*time.Hour))
			from := time.Unix(631152000+60*dice.Int64N(50*365*24*60), 0)
			agree(t, dice, name, zone, from, from.Add(72*time.Hour))
			checked++
		}
	}
	require.NotZero(t, checked)
}

// agree compares a random spec with the oracle. The times must be whole minutes.
func agree(t *testing.T, dice *rand.Rand, name string, zone *time.Location, from, to time.Time) {
	t.Helper()
	o := newOracle(dice)
	spec := "CRON_TZ=" + name + " " + o.spec()
	schedule, err := Parse(spec)
	if err != nil {
		require.ErrorContains(t, err, "never due")
		require.Empty(t, o.times(from, to, zone), spec)
		return
	}
	var times []time.Time
	for at := schedule.Next(from); !at.IsZero() && !at.After(to); at = schedule.Next(at) {
		times = append(times, at)
	}
	require.True(t, slices.EqualFunc(o.times(from, to, zone), times, time.Time.Equal),
		"%s from %s to %s", spec, from.UTC(), to.UTC())
}
