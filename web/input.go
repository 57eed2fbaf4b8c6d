package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/qless/qless-go"
)

// An input reads what a form says, and notes what can't be used.
type input struct {
	form     url.Values
	problems map[string]string // by the name of the field, or "" for all
	once     string            // what the form is known by if it is sent again
	hides    bool              // data is not shown here
}

func (in *input) isRefused() bool { return len(in.problems) > 0 }

// refuse notes that a field can't be used. The first reason counts.
func (in *input) refuse(name, format string, args ...any) {
	if in.problems == nil {
		in.problems = map[string]string{}
	}
	if in.problems[name] == "" {
		in.problems[name] = fmt.Sprintf(format, args...)
	}
}

// require refuses fields that are empty and must not be.
func (in *input) require(fields []field) {
	for _, field := range fields {
		if !field.IsOpt && in.form.Get(field.Name) == "" {
			in.refuse(field.Name, "This is needed.")
		}
	}
}

func (in *input) text(name string) string { return in.form.Get(name) }

func (in *input) has(name string) bool { return in.word(name) != "" }

func (in *input) word(name string) string { return strings.TrimSpace(in.form.Get(name)) }

// number reads a whole number, or 0 if there is none.
func (in *input) number(name string) int {
	text := in.word(name)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		in.refuse(name, "This is not a whole number.")
	}
	return n
}

// time reads a time as a number of seconds, or as text such as "90s".
func (in *input) time(name string) time.Duration {
	text := in.word(name)
	if text == "" {
		return 0
	}
	d, err := parseTime(text)
	if err != nil || d < 0 {
		in.refuse(name, "This is not a time: write seconds, or 90s, 15m, 12h, 7d.")
	}
	return d
}

func parseTime(text string) (time.Duration, error) {
	if days, found := strings.CutSuffix(text, "d"); found {
		n, err := strconv.ParseFloat(days, 64)
		return seconds(n*24*60*60, err)
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return seconds(n, nil)
	}
	return time.ParseDuration(text)
}

func seconds(n float64, err error) (time.Duration, error) {
	const most = 290 * 365 * 24 * 60 * 60 // what a time.Duration holds
	if err == nil && !(n >= 0 && n < most) {
		err = strconv.ErrRange
	}
	if err != nil {
		return 0, err
	}
	return time.Duration(n * float64(time.Second)), nil
}

// list reads texts that are separated by commas.
func (in *input) list(name string) []string {
	return split(in.form.Get(name), func(r rune) bool { return r == ',' || r == '\n' })
}

// jids reads jids, which have no spaces or commas here.
func (in *input) jids(name string) []string {
	return split(in.form.Get(name), func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
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

// data reads JSON, in one line, or nil if there is none.
func (in *input) data(name string) json.RawMessage {
	text := in.word(name)
	if text == "" {
		return nil
	}
	var line bytes.Buffer
	if err := json.Compact(&line, []byte(text)); err != nil {
		in.refuse(name, "This is not JSON: %v.", err)
		return nil
	}
	return line.Bytes()
}

// putOptions reads the options of a new job.
func (in *input) putOptions() []qless.PutOption {
	var options []qless.PutOption
	if in.has("priority") {
		options = append(options, qless.Priority(in.number("priority")))
	}
	if in.has("delay") {
		options = append(options, qless.Delay(in.time("delay")))
	}
	if tags := in.list("tags"); len(tags) > 0 {
		options = append(options, qless.Tags(tags...))
	}
	if in.has("retries") {
		options = append(options, qless.Retries(in.number("retries")))
	}
	if jids := in.jids("depends"); len(jids) > 0 {
		options = append(options, qless.DependsOn(jids...))
	}
	return options
}

// A form in HTML can't hold every name: browsers change line ends, and what is no UTF-8. Such a
// value is escaped as in a URL, and its input has a name with this at the end.
const escapedMark = "%"

func isPlain(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsAny(text, "\x00\r\n\ufffd")
}

// A hidden is an input that is not shown.
type hidden struct{ Name, Value string }

// Hidden returns an input that is not shown, for the template "hidden". It can have any value.
func (f *frame) Hidden(name, value string) hidden { return hide(name, value) }

func hide(name, value string) hidden {
	if isPlain(value) {
		return hidden{name, value}
	}
	return hidden{name + escapedMark, url.QueryEscape(value)}
}

// Pick returns the value of the input "job" that selects a job in the state that the page shows.
func (f *frame) Pick(state qless.State, jid string) string {
	if isPlain(jid) {
		return string(state) + ":" + jid
	}
	return string(state) + escapedMark + ":" + url.QueryEscape(jid)
}

// unhidden returns a form with all values as they were before they were hidden.
func unhidden(form url.Values) (url.Values, error) {
	plain := url.Values{}
	for name, values := range form {
		name, isEscaped := strings.CutSuffix(name, escapedMark)
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

// picked returns a job that was selected, and the state that the page showed.
func picked(value string) (state qless.State, jid string, err error) {
	shown, jid, found := strings.Cut(value, ":")
	if !found {
		return "", "", invalid("the job %q has no state", value)
	}
	if plain, isEscaped := strings.CutSuffix(shown, escapedMark); isEscaped {
		shown = plain
		if jid, err = url.QueryUnescape(jid); err != nil {
			return "", "", invalid("the form can't be read: %v", err)
		}
	}
	return qless.State(shown), jid, nil
}
