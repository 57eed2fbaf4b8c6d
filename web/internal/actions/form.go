package actions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/web/internal/words"
)

// A Field is a value that an action needs.
type Field struct {
	Name     string `json:"name"`
	Label    string `json:"label"`
	Kind     Kind   `json:"-"`
	Hint     string `json:"hint"`
	Optional bool   `json:"optional"` // may be empty
	Subject  bool   `json:"-"`        // the action's subject, not asked for if known
	Secret   bool   `json:"-"`        // not logged
	Group    string `json:"-"`        // of rare fields, hidden at first

	Choices []string `json:"choices,omitempty"` // for the kind Choice

	option *jobopts.Row // the option of a job to set, or nil
}

// A Kind is the form of a field's text.
type Kind string

const (
	Text     Kind = "text"
	Number   Kind = "number"
	Duration Kind = "duration"
	Tags     Kind = "tags"
	JIDs     Kind = "jids"
	JSON     Kind = "json"
	Box      Kind = "checkbox"
	Choice   Kind = "choice"
)

// Example returns an example of the text of a field's kind.
func (f Field) Example() string {
	switch f.Kind {
	case Duration:
		return "90s, 15m, 12h, 7d"
	case Tags:
		return "separated by commas"
	}
	return ""
}

// Input returns the type of the field's input.
func (f Field) Input() string {
	switch f.Kind {
	case Number, Box:
		return string(f.Kind)
	}
	return "text"
}

// subject returns the field with the name of an action's subject.
func subject(name, label string) Field {
	return Field{Name: name, Label: label, Kind: Text, Subject: true}
}

// A Form holds the fields of an action, and the problems of the fields.
type Form struct {
	url.Values
	Problems map[string]string // by the name of the field, or "" for all
	Once     string            // identifies a form sent again
}

// allQueues is the input that selects all queues.
const allQueues = "all"

// Queues describes the queues selected by a form, if several, or returns "".
func (f *Form) Queues() string {
	if f.Has(allQueues) {
		return "all queues"
	} else if names := f.Values["queue"]; len(names) > 1 {
		return words.Plural(len(names), "queue")
	}
	return ""
}

// Refuse records an invalid field. Only the first reason is kept.
func (f *Form) Refuse(name, format string, args ...any) {
	if f.Problems == nil {
		f.Problems = map[string]string{}
	}
	if f.Problems[name] == "" {
		f.Problems[name] = fmt.Sprintf(format, args...)
	}
}

// isNeeded is the problem of an empty field.
const isNeeded = "This is needed."

// check checks the fields by their kinds.
func (f *Form) check(fields []Field) {
	for _, field := range fields {
		if !field.Optional && f.Get(field.Name) == "" {
			f.Refuse(field.Name, isNeeded)
		}
		text := f.word(field.Name)
		if text == "" {
			continue
		}
		switch field.Kind {
		case Number:
			if _, err := strconv.Atoi(text); err != nil {
				f.Refuse(field.Name, "This is not a whole number.")
			}
		case Duration:
			isEver := field.option != nil && text == "forever"
			if d, err := parseTime(text); !isEver && (err != nil || d < 0) {
				f.Refuse(field.Name, "This is not a time: write seconds, or 90s, 15m, 12h, 7d.")
			}
		case JSON:
			if err := json.Compact(&bytes.Buffer{}, []byte(text)); err != nil {
				f.Refuse(field.Name, "This is not JSON: %v.", err)
			}
		case Choice:
			if !slices.Contains(field.Choices, text) {
				f.Refuse(field.Name, "This is not one of: %s.", strings.Join(field.Choices, ", "))
			}
		case Tags:
			if len(f.tags(field.Name)) == 0 && !field.Optional {
				f.Refuse(field.Name, isNeeded)
			}
		}
	}
}

func (f *Form) has(name string) bool { return f.word(name) != "" }

func (f *Form) word(name string) string { return strings.TrimSpace(f.Get(name)) }

// number returns an integer, or 0 if missing.
func (f *Form) number(name string) int {
	n, _ := strconv.Atoi(f.word(name))
	return n
}

// duration returns a duration, written as a number of seconds or as text such as "90s".
func (f *Form) duration(name string) time.Duration {
	d, _ := parseTime(f.word(name))
	return d
}

func parseTime(text string) (time.Duration, error) {
	unit := "s"
	number, isDays := strings.CutSuffix(text, "d")
	n, err := strconv.ParseFloat(number, 64)
	if isDays {
		n, unit = n*24, "h"
	}
	if err == nil {
		text = strconv.FormatFloat(n, 'f', -1, 64) + unit
	}
	return time.ParseDuration(text)
}

// tags returns texts separated by commas.
func (f *Form) tags(name string) []string {
	return split(f.Get(name), func(r rune) bool { return r == ',' || r == '\n' })
}

// jids returns jids separated by spaces or commas.
func (f *Form) jids(name string) []string {
	return split(f.Get(name), func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

func split(text string, isBetween func(rune) bool) []string {
	var parts []string
	for _, part := range strings.FieldsFunc(text, isBetween) {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// data returns JSON on one line, or nil if missing.
func (f *Form) data(name string) json.RawMessage {
	var line bytes.Buffer
	if err := json.Compact(&line, []byte(f.word(name))); err != nil || line.Len() == 0 {
		return nil
	}
	return line.Bytes()
}

// jobData returns the data of a new job.
func (f *Form) jobData() any {
	if data := f.data("data"); data != nil {
		return data
	}
	return nil
}

// isFresh reports whether a form has only the subject of an action.
func (f *Form) isFresh(fields []Field) bool {
	for _, field := range fields {
		if field.Subject && f.Get(field.Name) == "" || !field.Subject && f.Has(field.Name) {
			return false
		}
	}
	return true
}

// fill sets values that fit into an input. The pairs are names and values.
func (f *Form) fill(pairs ...string) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if isPlain(pairs[i+1]) {
			f.Set(pairs[i], pairs[i+1])
		}
	}
}

// EscapedMark ends the name of an input with a value escaped as in a URL. HTML forms can't hold
// every value: browsers change line ends and invalid UTF-8.
const EscapedMark = "%"

func isPlain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsAny(text, "\x00\r\n\ufffd")
}

// A Hidden is a hidden input.
type Hidden struct{ Name, Value string }

// Hide returns a hidden input with any value.
func Hide(name, value string) Hidden {
	if isPlain(value) {
		return Hidden{name, value}
	}
	return Hidden{name + EscapedMark, url.QueryEscape(value)}
}

// Unhide reverses Hide for the values of a form.
func Unhide(form url.Values) (url.Values, error) {
	plain := url.Values{}
	for name, values := range form {
		name, isEscaped := strings.CutSuffix(name, EscapedMark)
		for _, value := range values {
			if isEscaped {
				var err error
				if value, err = url.QueryUnescape(value); err != nil {
					return nil, invalid("the form can't be read: %v", err)
				}
			}
			plain[name] = append(plain[name], value)
		}
	}
	return plain, nil
}

// Pick returns the value of the input "job" for selecting a job in the state shown on a page.
func Pick(state qless.State, jid string) string {
	hidden := Hide(string(state), jid)
	return hidden.Name + ":" + hidden.Value
}

// picked parses the value of Pick.
func picked(value string) (state qless.State, jid string, err error) {
	shown, jid, found := strings.Cut(value, ":")
	if !found {
		return "", "", invalid("the job %q has no state", value)
	}
	if plain, isEscaped := strings.CutSuffix(shown, EscapedMark); isEscaped {
		shown = plain
		if jid, err = url.QueryUnescape(jid); err != nil {
			return "", "", invalid("the form can't be read: %v", err)
		}
	}
	return qless.State(shown), jid, nil
}

func invalid(format string, args ...any) error {
	return &qless.Error{
		Code: qless.ErrInvalid, Op: "web.action", Message: fmt.Sprintf(format, args...),
	}
}
