package web

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// specInWords says when a schedule is due, or returns the empty string for a spec that is of no
// common form. The time zone is not part of it.
func specInWords(spec string) string {
	spec = strings.TrimSpace(spec)
	for _, zone := range []string{"CRON_TZ=", "TZ="} {
		if strings.HasPrefix(spec, zone) {
			_, spec, _ = strings.Cut(spec, " ")
		}
	}
	switch spec = strings.TrimSpace(spec); spec {
	case "@hourly":
		spec = "0 * * * *"
	case "@daily", "@midnight":
		spec = "0 0 * * *"
	case "@weekly":
		spec = "0 0 * * 0"
	case "@monthly":
		spec = "0 0 1 * *"
	case "@yearly", "@annually":
		spec = "0 0 1 1 *"
	}
	if every, ok := strings.CutPrefix(spec, "@every "); ok {
		return everyInWords(strings.TrimSpace(every))
	}
	fields := strings.Fields(spec)
	if len(fields) != 5 {
		return ""
	}
	times, days := timesInWords(fields[0], fields[1]), daysInWords(fields[2], fields[3], fields[4])
	switch {
	case times == "" || days == "":
		return ""
	case days != everyDay:
		return times + " " + days
	case strings.HasPrefix(times, "at ") && !strings.HasSuffix(times, "hour"):
		return everyDay + " " + times
	}
	return times
}

const everyDay = "every day"

func everyInWords(text string) string {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return ""
	}
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if d%unit.length == 0 {
			return everyN(int(d/unit.length), unit.name)
		}
	}
	return "every " + d.String()
}

func everyN(n int, unit string) string {
	if n == 1 {
		return "every " + unit
	}
	return fmt.Sprintf("every %d %ss", n, unit)
}

// timesInWords says at which times of a day: "at 06:30", "every 5 minutes".
func timesInWords(minute, hour string) string {
	if hour == "*" {
		if n := stepOf(minute, 60); n > 0 {
			return everyN(n, "minute")
		}
		if m := numbersOf(minute, 0, 59, nil); len(m) == 1 {
			return fmt.Sprintf("at minute %d of every hour", m[0])
		}
		return ""
	}
	minutes := numbersOf(minute, 0, 59, nil)
	if len(minutes) != 1 {
		return ""
	}
	if n := stepOf(hour, 24); n > 0 {
		if minutes[0] == 0 {
			return everyN(n, "hour")
		}
		return fmt.Sprintf("%s, at minute %d", everyN(n, "hour"), minutes[0])
	}
	var times []string
	for _, h := range numbersOf(hour, 0, 23, nil) {
		times = append(times, fmt.Sprintf("%02d:%02d", h, minutes[0]))
	}
	if times == nil {
		return ""
	}
	return "at " + listed(times)
}

// daysInWords says on which days: "every day", "on Monday", "on day 1 of every month".
func daysInWords(day, month, weekday string) string {
	isAny := func(field string) bool { return field == "*" || field == "?" }
	switch {
	case isAny(day) && isAny(month) && isAny(weekday):
		return everyDay
	case isAny(day) && isAny(month):
		return weekdaysInWords(weekday)
	case !isAny(weekday):
		return ""
	}
	days := numbersOf(day, 1, 31, nil)
	if len(days) == 0 {
		return ""
	}
	on := "on day " + listed(texts(days, strconv.Itoa))
	if len(days) > 1 {
		on = "on days " + listed(texts(days, strconv.Itoa))
	}
	if isAny(month) {
		return on + " of every month"
	}
	months := numbersOf(month, 1, 12, func(n int) string { return time.Month(n).String() })
	if len(months) == 0 {
		return ""
	}
	return on + " of " + listed(texts(months, func(n int) string { return time.Month(n).String() }))
}

func weekdaysInWords(field string) string {
	name := func(n int) string { return time.Weekday(n % 7).String() }
	days := numbersOf(field, 0, 7, name)
	for i, day := range days {
		days[i] = day % 7
	}
	slices.Sort(days)
	days = slices.Compact(days)
	switch {
	case len(days) == 0:
		return ""
	case len(days) == 7:
		return everyDay
	case slices.Equal(days, []int{1, 2, 3, 4, 5}):
		return "from Monday to Friday"
	}
	if days[0] == 0 { // a week begins on Monday
		days = append(days[1:], 0)
	}
	return "on " + listed(texts(days, name))
}

// stepOf returns the n of "*" or "*/n", if the times are evenly spaced; else 0.
func stepOf(field string, whole int) int {
	if field == "*" {
		return 1
	}
	step, ok := strings.CutPrefix(field, "*/")
	n, err := strconv.Atoi(step)
	if !ok || err != nil || n < 1 || n >= whole || whole%n != 0 {
		return 0
	}
	return n
}

// maxListed is how many numbers are said one by one.
const maxListed = 7

// numbersOf returns the numbers of a field such as "1,3-5" or "mon", or none if it is something
// else.
func numbersOf(field string, least, most int, name func(int) string) []int {
	number := func(text string) (int, bool) {
		for n := least; name != nil && n <= most; n++ {
			if strings.EqualFold(text, name(n)[:3]) {
				return n, true
			}
		}
		n, err := strconv.Atoi(text)
		return n, err == nil && n >= least && n <= most
	}
	var all []int
	for one := range strings.SplitSeq(field, ",") {
		from, to, isRange := strings.Cut(one, "-")
		first, ok := number(from)
		last, okLast := first, true
		if isRange {
			last, okLast = number(to)
		}
		if !ok || !okLast || last < first || len(all)+last-first >= maxListed+1 {
			return nil
		}
		for n := first; n <= last; n++ {
			all = append(all, n)
		}
	}
	return all
}

func texts(numbers []int, text func(int) string) []string {
	all := make([]string, len(numbers))
	for i, n := range numbers {
		all[i] = text(n)
	}
	return all
}

// listed joins texts: "1, 2 and 3".
func listed(all []string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " and " + all[last]
}
