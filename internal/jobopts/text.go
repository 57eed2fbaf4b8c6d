package jobopts

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/internal/wire"
)

// A Kind is the form in which people write an option.
type Kind string

// The kinds of options.
const (
	Bool     Kind = "bool"
	Duration Kind = "duration" // a number of seconds, or a text such as "90s" or "forever"
	List     Kind = "list"     // of texts; repeated use adds items
	Number   Kind = "number"
	Pairs    Kind = "key=value" // an object of texts; repeated use adds pairs
	Text     Kind = "text"
	Time     Kind = "time"
)

// Kind returns the form in which people write the option.
func (r *Row) Kind() Kind {
	switch r.value(&Options{}).(type) {
	case *bool, *Unique:
		return Bool
	case **time.Duration, **Span, **Deadline:
		return Duration
	case *[]any, *[]string, *wire.List[wire.Text]:
		if r.Words != nil {
			return Text
		}
		return List
	case **int, *wire.Number:
		return Number
	case *map[string]string:
		return Pairs
	case **time.Time:
		return Time
	}
	return Text
}

// FlagName returns the flag of the option.
func (r *Row) FlagName() string {
	if r.Flag != "" {
		return r.Flag
	}
	return strings.ReplaceAll(r.Key, "_", "-")
}

// Line returns the row in the table of docs/extensions.md, for a row with a Key.
func (r *Row) Line() string {
	return "| " + r.Doc + " | `" + r.Key + "` | `--" + r.FlagName() + "` |"
}

// Set sets options in the form of a file: by their keys, in JSON.
func (o *Options) Set(values map[string]json.RawMessage) error {
	for _, row := range Table {
		raw, given := values[row.Key]
		if !given || row.Key == "" || string(raw) == "null" {
			continue
		}
		if err := row.checkWord(raw); err != nil {
			return err
		}
		err := read(raw, row.value(o))
		if misfit := (*json.UnmarshalTypeError)(nil); errors.As(err, &misfit) {
			return fmt.Errorf("%s: %s is not possible, want a %s", row.Key, raw, row.Kind())
		} else if err != nil {
			return fmt.Errorf("%s: %w", row.Key, err)
		}
		if row.Key == "jid" && o.JID == "" {
			return errEmptyJID
		}
	}
	o.normalize()
	for key := range values {
		if !isKey(key) {
			return fmt.Errorf("there is no option %q", key)
		}
	}
	return nil
}

// checkWord returns an error if a text in JSON is not a possible value of the option.
func (r *Row) checkWord(raw json.RawMessage) error {
	var word string
	if r.Words == nil || json.Unmarshal(raw, &word) != nil || slices.Contains(r.Words, word) {
		return nil
	}
	return fmt.Errorf("%s %q is none of %s", r.Key, word, strings.Join(r.Words, ", "))
}

// normalize converts options to the form given by programs.
func (o *Options) normalize() {
	if o.Fair != nil && o.Fair.Weight == 0 {
		o.Fair.Weight = 1
	}
	for _, row := range removable {
		value := reflect.ValueOf(row.value(o)).Elem()
		if raw, err := written(value); err == nil && string(raw) == row.None {
			value.SetZero()
			o.Clear(row.Name)
		}
	}
}

// removable holds the rows of options that can be removed from a job.
var removable = rowsWith(func(r *Row) bool { return r.None != "" })

func isKey(key string) bool {
	for _, row := range Table {
		if row.Key == key && key != "" {
			return true
		}
	}
	return false
}

// read reads the value of a field in the form that people write.
func read(raw json.RawMessage, field any) error {
	switch f := field.(type) {
	case **time.Duration:
		d, err := readDuration(raw)
		*f = &d
		return err
	case **Span:
		d, err := readDuration(raw)
		*f = (*Span)(&d)
		return err
	case **Deadline:
		if at := (time.Time{}); json.Unmarshal(raw, &at) == nil {
			*f = At(at)
			return nil
		}
		d, err := readDuration(raw)
		*f = After(d)
		return err
	case *wire.List[wire.Text]:
		return json.Unmarshal(raw, (*[]wire.Text)(f))
	case *wire.Number:
		return json.Unmarshal(raw, (*float64)(f))
	case *wire.Text:
		return json.Unmarshal(raw, (*string)(f))
	case *[]string:
		if raw[0] == '"' {
			raw = json.RawMessage("[" + string(raw) + "]")
		}
		return json.Unmarshal(raw, f)
	}
	return json.Unmarshal(raw, field)
}

// readDuration reads a number of seconds, or a text such as "90s". A negative number, and
// "forever", are Forever.
func readDuration(raw json.RawMessage) (time.Duration, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		var d units.Text
		err := d.UnmarshalText([]byte(text))
		return d.Duration(), err
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return 0, fmt.Errorf(`%s is not a time: want seconds, or a text such as "90s"`, raw)
	}
	if n < 0 {
		return Forever, nil
	}
	return wire.Number(n).Duration(), nil
}

// JSON returns the value of an option given as text, such as a flag. For a repeatable option,
// before is the value so far.
func (r *Row) JSON(before json.RawMessage, text string) (json.RawMessage, error) {
	switch r.Kind() {
	case Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%s is neither true nor false", text)
		}
		return json.Marshal(b)
	case Number:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is not a number", text)
		}
		return json.Marshal(n)
	case Duration:
		raw := quoted(text)
		_, err := readDuration(raw)
		return raw, err
	case Time:
		raw := quoted(text)
		return raw, json.Unmarshal(raw, &time.Time{})
	case List:
		return r.grown(before, text), nil
	case Pairs:
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("%s is not of the form key=value", text)
		}
		return grownPairs(before, key, value)
	}
	return quoted(text), nil
}

// grown returns a list with one or several more texts. The parts of a unique key may be any JSON.
func (r *Row) grown(before json.RawMessage, text string) json.RawMessage {
	var items []json.RawMessage
	_ = json.Unmarshal(before, &items) // none before the first
	_, isAny := r.value(&Options{}).(*[]any)
	switch {
	case isAny && json.Valid([]byte(text)):
		items = append(items, json.RawMessage(text))
	case r.Comma:
		for part := range strings.SplitSeq(text, ",") {
			items = append(items, quoted(part))
		}
	default:
		items = append(items, quoted(text))
	}
	list, _ := json.Marshal(items) // valid JSON always marshals
	return list
}

func quoted(text string) json.RawMessage {
	raw, _ := json.Marshal(text) // texts always marshal
	return raw
}

// grownPairs returns an object with one more text.
func grownPairs(before json.RawMessage, key, value string) (json.RawMessage, error) {
	pairs := map[string]string{}
	if before != nil {
		if err := json.Unmarshal(before, &pairs); err != nil {
			return nil, err
		}
	}
	pairs[key] = value
	return json.Marshal(pairs)
}

// A Shown is an option of a job, for people.
type Shown struct{ Label, Text string }

// A Style writes the times and durations of shown options.
type Style struct {
	Duration func(time.Duration) string
	Time     func(time.Time) string
}

// Show returns the given options in a qless.JobOptions.
func (s Style) Show(jobOptions any) []Shown {
	var shown []Shown
	for _, row := range Table {
		if row.Field == "" {
			continue
		}
		if value := at(reflect.ValueOf(jobOptions), row.Field); value.IsValid() && !value.IsZero() {
			shown = append(shown, Shown{row.Label, s.text(reflect.Indirect(value))})
		}
	}
	return shown
}

func (s Style) text(value reflect.Value) string {
	switch v := value.Interface().(type) {
	case time.Time:
		return s.Time(v)
	case time.Duration:
		if v == Forever {
			return "ever"
		}
		return s.Duration(v)
	case bool:
		return "yes"
	}
	if list := reflect.TypeFor[[]string](); value.CanConvert(list) {
		return strings.Join(value.Convert(list).Interface().([]string), ",")
	}
	return fmt.Sprint(value)
}

// at returns the field at a path, or the zero value if a pointer in the path is nil.
func at(value reflect.Value, path string) reflect.Value {
	for name := range strings.SplitSeq(path, ".") {
		if value = reflect.Indirect(value); !value.IsValid() {
			return value
		}
		value = value.FieldByName(name)
	}
	return value
}
