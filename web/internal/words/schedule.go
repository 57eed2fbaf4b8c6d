package words

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Schedule describes the times of a schedule's spec, without the time zone. It returns "" for specs
// of an uncommon form.
func Schedule(spec string) string {
	spec = strings.TrimSpace(timeZone.ReplaceAllString(strings.TrimSpace(spec), ""))
	if full, isKnown := shorthands[spec]; isKnown {
		spec = full
	}
	if interval, ok := strings.CutPrefix(spec, "@every "); ok {
		if d, err := time.ParseDuration(strings.TrimSpace(interval)); err == nil && d > 0 {
			return "every " + Exact(d)
		}
		return ""
	}
	fields := strings.Fields(spec)
	if len(fields) != 5 {
		return ""
	}
	times := timesOf(fields[0], fields[1])
	if isAny(fields[2]) && isAny(fields[3]) && isAny(fields[4]) {
		if strings.HasPrefix(times, "at ") {
			return "every day " + times
		}
		return times
	}
	if days := daysOf(fields[2], fields[3], fields[4]); times != "" && days != "" {
		return times + " " + days
	}
	return ""
}

// shorthands are the specs with a name.
var shorthands = map[string]string{
	"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@weekly": "0 0 * * 0",
	"@monthly": "0 0 1 * *", "@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *",
}

var timeZone = regexp.MustCompile(`^(CRON_)?TZ=\S+`)

// timesOf describes the times of a day: "at 06:30", "every 5 minutes".
func timesOf(minute, hour string) string {
	if n := stepOf(minute, 60); hour == "*" && n > 0 {
		return every(n, "minute")
	}
	past, err := strconv.Atoi(minute)
	if err != nil || past < 0 || past > 59 {
		return ""
	}
	if n := stepOf(hour, 24); n > 0 {
		text := every(n, "hour")
		if past > 0 {
			text += fmt.Sprintf(", at minute %d", past)
		}
		return text
	}
	times := listOf(hour, 0, 23, func(h int) string { return fmt.Sprintf("%02d:%02d", h, past) })
	if times == "" || strings.Contains(hour, "-") { // each of these hours
		return ""
	}
	return "at " + times
}

// stepOf returns the n of "*" or "*/n" if the times are evenly spaced, and otherwise 0.
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

func every(n int, unit string) string {
	if n == 1 {
		return "every " + unit
	}
	return fmt.Sprintf("every %d %ss", n, unit)
}

func isAny(field string) bool { return field == "*" || field == "?" }

// daysOf describes the days: "on Monday", "on day 1 of every month".
func daysOf(day, month, weekday string) string {
	days, months := "", "every month"
	if isAny(day) && isAny(month) {
		days = listOf(weekday, 0, 7, func(n int) string { return time.Weekday(n % 7).String() })
		if days == "" {
			return ""
		}
		return "on " + days
	}
	if !isAny(month) {
		months = listOf(month, 1, 12, func(n int) string { return time.Month(n).String() })
	}
	days = listOf(day, 1, 31, strconv.Itoa)
	if days == "" || months == "" || !isAny(weekday) {
		return ""
	}
	return "on day " + days + " of " + months
}

// listOf describes a field such as "1,3-5" or "mon": "1, 3 to 5 and 7". It returns "" for other
// fields.
func listOf(field string, least, most int, word func(int) string) string {
	number := func(text string) int {
		for n := least; n <= most; n++ {
			if len(text) == 3 && strings.HasPrefix(strings.ToLower(word(n)), strings.ToLower(text)) {
				return n
			}
		}
		if n, err := strconv.Atoi(text); err == nil && n >= least && n <= most {
			return n
		}
		return -1
	}
	parts := strings.Split(field, ",")
	for i, part := range parts {
		from, to, isRange := strings.Cut(part, "-")
		first := number(from)
		if first < 0 || isRange && number(to) < first {
			return ""
		}
		if parts[i] = word(first); isRange {
			parts[i] += " to " + word(number(to))
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	last := len(parts) - 1
	return strings.Join(parts[:last], ", ") + " and " + parts[last]
}
