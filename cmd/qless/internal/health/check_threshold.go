package health

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A threshold is the maximum of a figure or, with below, the minimum. A nil threshold is never
// passed.
type threshold struct {
	limit float64
	below bool
	unit  string
}

func (t *threshold) isPassed(value float64) bool {
	switch {
	case t == nil:
		return false
	case t.below:
		return value < t.limit
	}
	return value > t.limit
}

func (t *threshold) String() string {
	if t.below {
		return "< " + figure(t.limit, t.unit)
	}
	return "> " + figure(t.limit, t.unit)
}

// MarshalJSON writes only the limit.
func (t *threshold) MarshalJSON() ([]byte, error) { return json.Marshal(t.limit) }

// nagios returns the range of figures that do not alert.
func (t *threshold) nagios() string {
	switch {
	case t == nil:
		return ""
	case t.below:
		return formatNumber(t.limit) + ":"
	}
	return formatNumber(t.limit)
}

// formatNumber writes a number with up to three decimals.
func formatNumber(n float64) string {
	return strconv.FormatFloat(math.Round(n*1000)/1000, 'f', -1, 64)
}

// A thresholdFlag is a flag with thresholds: one number, or several with names, such as
// "age=5m,waiting=1000".
type thresholdFlag struct {
	names  []string // the first name is the default
	unit   map[string]string
	below  map[string]bool
	values map[string]*threshold
}

func (f *thresholdFlag) Type() string { return "thresholds" }

func (f *thresholdFlag) String() string {
	var parts []string
	for _, name := range f.names {
		if t := f.values[name]; t != nil {
			parts = append(parts, name+"="+formatNumber(t.limit)+t.unit)
		}
	}
	return strings.Join(parts, ",")
}

// Set reads the flag. Omitted thresholds keep their defaults.
func (f *thresholdFlag) Set(value string) error {
	for part := range strings.SplitSeq(value, ",") {
		name, number, found := strings.Cut(part, "=")
		if !found {
			name, number = f.names[0], part
		}
		unit, known := f.unit[name]
		if !known {
			return fmt.Errorf("no threshold is called %q: want one of %s",
				name, strings.Join(f.names, ", "))
		}
		limit, err := parseLimit(number, unit)
		if err != nil {
			return err
		}
		f.values[name] = &threshold{limit, f.below[name], unit}
	}
	return nil
}

// parseLimit parses a number. Seconds may be a duration, and a share may have a percent sign.
func parseLimit(number, unit string) (float64, error) {
	text := number
	switch unit {
	case "s":
		if d, err := time.ParseDuration(text); err == nil {
			return d.Seconds(), nil
		}
	case "%":
		text = strings.TrimSuffix(text, "%")
	}
	limit, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(limit) || math.IsInf(limit, 0) || limit < 0 {
		return 0, fmt.Errorf("%q is not a threshold", number)
	}
	return limit, nil
}

// A kindOfThreshold is a figure with thresholds, and their defaults, or "".
type kindOfThreshold struct {
	name, unit, warn, crit string
	below                  bool
}

// thresholds returns the values of --warn and --crit for a check.
func thresholds(kinds ...kindOfThreshold) (warn, crit *thresholdFlag) {
	flag := func(value func(kindOfThreshold) string) *thresholdFlag {
		f := &thresholdFlag{
			unit: map[string]string{}, below: map[string]bool{}, values: map[string]*threshold{},
		}
		for _, k := range kinds {
			f.names = append(f.names, k.name)
			f.unit[k.name], f.below[k.name] = k.unit, k.below
			if text := value(k); text != "" {
				if err := f.Set(k.name + "=" + text); err != nil {
					panic(err) // a default of this program
				}
			}
		}
		return f
	}
	return flag(func(k kindOfThreshold) string { return k.warn }),
		flag(func(k kindOfThreshold) string { return k.crit })
}
