// Package settings describes the settings of a namespace: their names, defaults and valid values.
package settings

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The limits of a rate, which is a number of jobs in a period.
const (
	MaxRate = 1_000_000
	MaxPer  = 366 * 24 * time.Hour
)

// The suffixes of the names of a queue's own settings.
const (
	SuffixHeartbeat      = "-heartbeat"
	SuffixMaxConcurrency = "-max-concurrency"
	SuffixMaxRate        = "-max-rate"
)

// A Kind is a kind of setting values.
type Kind int

const (
	Text     Kind = iota
	Count         // a whole number, not negative
	Factor        // a number, not negative
	Seconds       // not negative
	LockTime      // seconds, more than 0
	Switch        // 1 or 0
	Rate          // "n/seconds"
)

// IsNumber reports whether the values are numbers.
func (k Kind) IsNumber() bool { return k != Text && k != Switch && k != Rate }

// A Setting is a row of the table of settings.
type Setting struct {
	Name    string // for a queue's own setting, a suffix
	Kind    Kind
	Default string // empty without a default
	Meaning string // for people
	Unit    string // "s" if it is a time
	Least   float64
	Danger  string // of a value below Least
}

const (
	lockDanger    = "a slow network or a pause of a worker is enough to lose its jobs"
	historyDanger = "complete jobs may be deleted before they are read, or before a put is sent again"
)

// OfNamespaces lists the settings of a namespace.
var OfNamespaces = []Setting{
	{"application", Text, "qless", "A name for people to read", "", 0, ""}, // for other clients
	{"heartbeat", LockTime, "60", "How long a lock lasts unless its worker renews it", "s",
		5, lockDanger},
	{"grace-period", Seconds, "10", "How long a worker may still report after its lock has ended",
		"s", 0, ""},
	{"max-worker-age", Seconds, "86400", "How long a silent worker is listed", "s",
		300, "workers are forgotten while they run"},
	{"backoff-initial-delay", Seconds, "0",
		"How long a job waits after its worker has lost it, before the factor", "s", 0, ""},
	{"backoff-factor", Factor, "3", "The factor of that delay for each further loss", "", 0, ""},
	{"jobs-history", Seconds, "604800", "How long completed jobs are kept", "s",
		60, historyDanger},
	{"jobs-history-count", Count, "50000", "The number of completed jobs kept", "jobs",
		100, historyDanger},
	{"jobs-failed-history", Seconds, "",
		"How long failed jobs are kept: forever if it is not set", "s", 0, ""},
	{"jobs-failed-history-count", Count, "",
		"The number of failed jobs kept in each failure group: all if it is not set", "jobs", 0, ""},
	{"max-job-history", Count, "100", "The entries kept of a job's history: 0 for all", "entries",
		0, ""},
	{"stats-history", Count, "30", "How long statistics are kept", "days", 0, ""},
	{"histogram-history", Count, "7", "How long histograms are kept", "days", 0, ""},
	{"sync-enabled", Switch, "",
		"Whether clients in PHP perform a job in the process that puts it", "", 0, ""},
}

// OfQueues lists a queue's own settings, by the suffixes of their names.
var OfQueues = []Setting{
	{SuffixHeartbeat, LockTime, "", "How long a lock on a job of the queue lasts", "s",
		5, lockDanger},
	{SuffixMaxConcurrency, Count, "", "The most jobs of the queue that run at once", "jobs", 0, ""},
	{SuffixMaxRate, Rate, "", "The most jobs of the queue that are started in a time", "", 0, ""},
}

// Of returns the row of a setting, with the queue of a queue's own setting.
func Of(name string) (s Setting, queue string, known bool) {
	for _, s := range OfNamespaces {
		if s.Name == name {
			return s, "", true
		}
	}
	for _, s := range OfQueues {
		if queue, found := strings.CutSuffix(name, s.Name); found && queue != "" {
			return s, queue, true
		}
	}
	return Setting{}, "", false
}

// Default returns the default of a setting, or the empty string.
func Default(name string) string {
	s, _, _ := Of(name)
	return s.Default
}

// Defaults returns all defaults, by name.
func Defaults() map[string]string {
	defaults := map[string]string{}
	for _, s := range OfNamespaces {
		if s.Default != "" {
			defaults[s.Name] = s.Default
		}
	}
	return defaults
}

// Write formats a value of a setting for the scripts. It returns an error for an invalid value or
// an unknown setting, and may suggest another name. A text may still be invalid UTF-8.
func Write(name string, value any) (string, error) {
	s, _, known := Of(name)
	if !known {
		hint := ""
		if similar := similarSetting(name); similar != "" {
			hint = fmt.Sprintf("; did you mean %q?", similar)
		}
		return "", fmt.Errorf("no setting %q%s", name, hint)
	}
	return s.Kind.write(name, value)
}

// checkRate returns an error unless a text is a number of jobs and a time in seconds, separated by
// a slash.
func checkRate(name, text string) error {
	count, seconds, _ := strings.Cut(text, "/")
	n, err := strconv.Atoi(count)
	length, problem := strconv.ParseFloat(seconds, 64)
	if err != nil || problem != nil || n < 1 || n > MaxRate ||
		!(length >= 0.001 && length <= MaxPer.Seconds()) {
		return fmt.Errorf("%s must be like 10/60, which is a number from 1 to %d and a time from "+
			"0.001 to %.0f seconds, not %q", name, MaxRate, MaxPer.Seconds(), text)
	}
	return nil
}

// write formats a value for the scripts.
func (k Kind) write(name string, value any) (string, error) {
	duration, isDuration := value.(time.Duration)
	text := fmt.Sprint(value)
	if isDuration {
		text = strconv.FormatFloat(duration.Seconds(), 'f', -1, 64)
	}
	if k == Text {
		if _, isString := value.(string); !isString {
			return "", fmt.Errorf("%s must be a string, not %v", name, value)
		}
		return text, nil
	}
	if k == Switch {
		return writeSwitch(name, value)
	}
	if k == Rate {
		return text, checkRate(name, text)
	}
	if isDuration && (k == Count || k == Factor) {
		return "", fmt.Errorf("%s must be a number, not %v", name, value)
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || !isNumberOrText(value) {
		return "", fmt.Errorf("%s must be a number, not %q", name, text)
	}
	return text, k.check(name, text, n)
}

// writeSwitch formats true or false.
func writeSwitch(name string, value any) (string, error) {
	switch fmt.Sprint(value) {
	case "true", "1":
		return "1", nil
	case "false", "0":
		return "0", nil
	}
	return "", fmt.Errorf("%s must be true or false, not %v", name, value)
}

// isNumberOrText reports whether a value has a valid type for a setting.
func isNumberOrText(value any) bool {
	v := reflect.ValueOf(value)
	return v.CanInt() || v.CanUint() || v.CanFloat() || v.Kind() == reflect.String
}

// check returns an error if the value n is invalid for a setting of this kind.
func (k Kind) check(name, text string, n float64) error {
	switch {
	case k == Count && (n != math.Trunc(n) || n > math.MaxInt32):
		return fmt.Errorf("%s must be a whole number, not %s", name, text)
	case k == LockTime && n <= 0:
		return fmt.Errorf("%s must be more than 0, not %s", name, text)
	case n < 0:
		return fmt.Errorf("%s must not be negative, as %s is", name, text)
	}
	return nil
}

// similarSetting returns the setting likely meant by a misspelt name, or the empty string.
func similarSetting(name string) string {
	const typos = 3
	similar, least := "", typos+1
	consider := func(candidate string, written string, meant string) {
		if d := Distance(written, meant); d < least && d < len(meant)/2 {
			similar, least = candidate, d
		}
	}
	for _, known := range OfNamespaces {
		consider(known.Name, name, known.Name)
	}
	for i, r := range name {
		if r != '-' || i == 0 {
			continue
		}
		for _, known := range OfQueues {
			consider(name[:i]+known.Name, name[i:], known.Name)
		}
	}
	return similar
}

// Distance returns the Levenshtein distance of two strings: the number of letters to insert, delete
// or replace to turn one into the other.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = slices.Min([]int{replaced, row[j] + 1, row[j+1] + 1})
		}
	}
	return row[len(b)]
}
