// Package settings describes the settings of a namespace: their names, defaults and valid values.
package settings

import (
	"fmt"
	"maps"
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

// A kind is a kind of value that a setting can have.
type kind int

const (
	kindText     kind = iota
	kindCount         // a whole number, not negative
	kindFactor        // a number, not negative
	kindSeconds       // not negative
	kindLockTime      // seconds, more than 0
	kindSwitch        // 1 or 0
	kindRate          // "n/seconds"
)

// all describes the known settings, by name. Some have no value by default.
var all = map[string]struct {
	kind         kind
	defaultValue string
}{
	"backoff-factor":            {kindFactor, "3"},
	"backoff-initial-delay":     {kindSeconds, "0"},
	"grace-period":              {kindSeconds, "10"},
	"heartbeat":                 {kindLockTime, "60"},
	"histogram-history":         {kindCount, "7"},
	"jobs-failed-history":       {kindSeconds, ""},
	"jobs-failed-history-count": {kindCount, ""},
	"jobs-history":              {kindSeconds, "604800"},
	"jobs-history-count":        {kindCount, "50000"},
	"max-job-history":           {kindCount, "100"},
	"max-worker-age":            {kindSeconds, "86400"},
	"stats-history":             {kindCount, "30"},

	// These two mean something only to other clients.
	"application":  {kindText, "qless"},
	"sync-enabled": {kindSwitch, ""},
}

// ofQueues holds the kinds of a queue's own settings, by suffix.
var ofQueues = map[string]kind{
	SuffixHeartbeat:      kindLockTime,
	SuffixMaxConcurrency: kindCount,
	SuffixMaxRate:        kindRate,
}

// Default returns the default of a setting, or the empty string if it has none.
func Default(name string) string { return all[name].defaultValue }

// Defaults returns all defaults, by name.
func Defaults() map[string]string {
	defaults := map[string]string{}
	for name := range all {
		defaults[name] = Default(name)
	}
	maps.DeleteFunc(defaults, func(_, value string) bool { return value == "" })
	return defaults
}

// Write formats a value of a setting for the scripts. It returns an error if there is no such
// setting, which may suggest another name, or if it can't have the value. A text may still be
// invalid UTF-8.
func Write(name string, value any) (string, error) {
	kind, err := kindOf(name)
	if err != nil {
		return "", err
	}
	return kind.write(name, value)
}

// checkRate returns an error unless a text is a number of jobs and a time in seconds, with a slash
// between them.
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

// kindOf returns the kind of a setting, or an error that suggests an existing name.
func kindOf(name string) (kind, error) {
	if setting, known := all[name]; known {
		return setting.kind, nil
	}
	for suffix, kind := range ofQueues {
		if queue, found := strings.CutSuffix(name, suffix); found && queue != "" {
			return kind, nil
		}
	}
	hint := ""
	if similar := similarSetting(name); similar != "" {
		hint = fmt.Sprintf("; did you mean %q?", similar)
	}
	return 0, fmt.Errorf("no setting %q%s", name, hint)
}

// write formats a value for the scripts.
func (k kind) write(name string, value any) (string, error) {
	duration, isDuration := value.(time.Duration)
	text := fmt.Sprint(value)
	if isDuration {
		text = strconv.FormatFloat(duration.Seconds(), 'f', -1, 64)
	}
	if k == kindText {
		if _, isString := value.(string); !isString {
			return "", fmt.Errorf("%s must be a string, not %v", name, value)
		}
		return text, nil
	}
	if k == kindSwitch {
		return writeSwitch(name, value)
	}
	if k == kindRate {
		return text, checkRate(name, text)
	}
	if isDuration && (k == kindCount || k == kindFactor) {
		return "", fmt.Errorf("%s must be a number, not %v", name, value)
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) || !isNumberOrText(value) {
		return "", fmt.Errorf("%s must be a number, not %q", name, text)
	}
	return text, k.check(name, text, n)
}

// writeSwitch formats a value that is true or false.
func writeSwitch(name string, value any) (string, error) {
	switch fmt.Sprint(value) {
	case "true", "1":
		return "1", nil
	case "false", "0":
		return "0", nil
	}
	return "", fmt.Errorf("%s must be true or false, not %v", name, value)
}

// isNumberOrText reports whether a value has a type that a setting can be set to.
func isNumberOrText(value any) bool {
	v := reflect.ValueOf(value)
	return v.CanInt() || v.CanUint() || v.CanFloat() || v.Kind() == reflect.String
}

// check returns an error if a setting of this kind can't have the value n.
func (k kind) check(name, text string, n float64) error {
	switch {
	case k == kindCount && (n != math.Trunc(n) || n > math.MaxInt32):
		return fmt.Errorf("%s must be a whole number, not %s", name, text)
	case k == kindLockTime && n <= 0:
		return fmt.Errorf("%s must be more than 0, not %s", name, text)
	case n < 0:
		return fmt.Errorf("%s must not be negative, as %s is", name, text)
	}
	return nil
}

// similarSetting returns the setting that a misspelt name may stand for, or the empty string.
func similarSetting(name string) string {
	const typos = 3
	similar, least := "", typos+1
	consider := func(candidate string, written string, meant string) {
		if d := Distance(written, meant); d < least && d < len(meant)/2 {
			similar, least = candidate, d
		}
	}
	for _, known := range slices.Sorted(maps.Keys(all)) {
		consider(known, name, known)
	}
	for i, r := range name {
		if r != '-' || i == 0 {
			continue
		}
		for _, suffix := range slices.Sorted(maps.Keys(ofQueues)) {
			consider(name[:i]+suffix, name[i:], suffix)
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
