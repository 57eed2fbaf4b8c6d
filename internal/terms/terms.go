// Package terms reads searches for jobs: words such as klass:Send data.user.id=7.
package terms

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// Terms match the jobs for which all terms hold.
type Terms struct {
	Text    string `json:"text,omitempty"`    // the klass, a tag, or a part of the jid
	Klass   string `json:"klass,omitempty"`   //
	Tag     string `json:"tag,omitempty"`     // one of the tags
	JID     string `json:"jid,omitempty"`     // a part of the jid
	Queue   string `json:"queue,omitempty"`   //
	State   string `json:"state,omitempty"`   // or a list, such as stalled
	Failure string `json:"failure,omitempty"` // a part of the group or message, in any case
	Data    string `json:"data,omitempty"`    // a part of the data
	Path    string `json:"path,omitempty"`    // of a value in the data: user.id
	Value   string `json:"value,omitempty"`   // the value at Path, as text or JSON
}

// Fill sets empty fields: klass, tag, jid, queue, state, failure and data.
func (t *Terms) Fill(value func(field string) string) {
	for name, field := range t.fields() {
		*field = cmp.Or(*field, value(name))
	}
}

func (t *Terms) fields() map[string]*string {
	return map[string]*string{
		"klass": &t.Klass, "tag": &t.Tag, "jid": &t.JID, "queue": &t.Queue, "state": &t.State,
		"failure": &t.Failure, "data": &t.Data,
	}
}

// Words are the beginnings of words that name a field.
var Words = []string{"klass:", "tag:", "jid:", "queue:", "state:", "failure:", "data:"}

// inData begins the path of a value.
const inData = "data."

// Parse reads a search. A part with spaces is in quotes: tag:"night run". Other words are one text.
func Parse(text string) (t Terms, err error) {
	fields := t.fields()
	var free []string
	for _, word := range split(text) {
		path, value, isPath := strings.Cut(word, "=")
		name, rest, _ := strings.Cut(word, ":")
		field := fields[name]
		switch {
		case isPath && len(path) > len(inData) && strings.HasPrefix(path, inData):
			if t.Path != "" {
				return t, fmt.Errorf("there are two paths in the data, %s and %s", t.Path, path)
			}
			t.Path, t.Value = path[len(inData):], unquoted(value)
		case field == nil || name == word:
			free = append(free, unquoted(word))
		case rest == "":
			return t, fmt.Errorf("nothing follows %s", word)
		case *field != "":
			return t, fmt.Errorf("%s: is there twice", name)
		default:
			*field = unquoted(rest)
		}
	}
	t.Text = strings.Join(free, " ")
	return t, nil
}

// Word returns a word that names a field.
func Word(field, text string) string {
	if strings.Contains(text, " ") {
		text = `"` + text + `"`
	}
	return field + text
}

// split returns the words of a text. Spaces between quotes do not end a word.
func split(text string) []string {
	isQuoted := false
	return strings.FieldsFunc(text, func(r rune) bool {
		if r == '"' {
			isQuoted = !isQuoted
		}
		return r == ' ' && !isQuoted
	})
}

// unquoted removes the quotes around a text, if nothing else in it is quoted.
func unquoted(text string) string {
	if len(text) > 1 && strings.Count(text, `"`) == 2 && text[0] == '"' && text[len(text)-1] == '"' {
		return text[1 : len(text)-1]
	}
	return text
}

// InData reports whether the data is searched.
func (t *Terms) InData() bool { return t.Data+t.Path != "" }

// Filter returns the part of the terms that the server checks. The data must have the last name of
// a path.
func (t *Terms) Filter() inspect.Filter {
	filter := inspect.Filter{Klass: t.Klass, Tag: t.Tag, JID: t.JID, Data: t.Data}
	if t.Path != "" && t.Data == "" {
		names := strings.Split(t.Path, ".")
		name, _ := json.Marshal(names[len(names)-1])
		filter.Data = string(name)
	}
	return filter
}

// NeedsData reports whether Holds needs the data of a row.
func (t *Terms) NeedsData() bool { return t.Path != "" }

// Holds reports whether a row that passes the filter matches. It does not check the state and the
// queue.
func (t *Terms) Holds(row *inspect.Row) bool {
	hasText := t.Text == "" || row.Klass == t.Text || slices.Contains(row.Tags, t.Text) ||
		strings.Contains(row.JID, t.Text)
	hasFailed := t.Failure == "" || row.Failure != nil &&
		(contains(row.Failure.Group, t.Failure) || contains(row.Failure.Message, t.Failure))
	return hasText && hasFailed && (t.Path == "" || t.hasValue([]byte(row.Data)))
}

// HoldsOf reports whether a job matches, except for its state and queue.
func (t *Terms) HoldsOf(job *qless.Job) bool {
	row := inspect.Row{
		JID: job.JID, Klass: job.Klass, Tags: job.Tags, Failure: job.Failure, Data: string(job.Data),
	}
	return (t.Klass == "" || job.Klass == t.Klass) &&
		(t.Tag == "" || slices.Contains(job.Tags, t.Tag)) &&
		strings.Contains(job.JID, t.JID) && t.Holds(&row) &&
		(strings.Contains(row.Data, t.Data) || strings.Contains(asRead(row.Data), t.Data))
}

// escapes are the JSON escapes read by the server's search.
var escapes = regexp.MustCompile(`\\u[0-9a-fA-F]{4}|\\["/]`)

// asRead returns data in the form read by people.
func asRead(data string) string {
	return escapes.ReplaceAllStringFunc(data, func(escape string) string {
		if code, err := strconv.ParseUint(escape[2:], 16, 16); err == nil {
			return string(rune(code))
		}
		return escape[1:]
	})
}

func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// hasValue reports whether the data has the value at the path. A number in the path may be an index
// of a list.
func (t *Terms) hasValue(data []byte) bool {
	at := json.RawMessage(data)
	for name := range strings.SplitSeq(t.Path, ".") {
		var object map[string]json.RawMessage
		var list []json.RawMessage
		place := 0
		switch {
		case json.Unmarshal(at, &object) == nil:
			at = object[name]
		case json.Unmarshal(at, &list) == nil:
			if _, err := fmt.Sscan(name, &place); err != nil || place < 0 || place >= len(list) {
				return false
			}
			at = list[place]
		default:
			return false
		}
	}
	if at == nil {
		return false
	}
	var text string
	if json.Unmarshal(at, &text) == nil && len(at) > 0 && at[0] == '"' {
		return text == t.Value
	}
	return string(at) == t.Value
}
