package jobopts

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/qless/qless-go/internal/wire"
)

// JobArgs appends the pairs of arguments shared by put, next and recur.
func (o *Options) JobArgs(args []any) []any {
	if o.Priority != nil {
		args = append(args, "priority", strconv.Itoa(*o.Priority))
	}
	if o.Tags != nil {
		args = append(args, "tags", wire.JSONList(o.Tags))
	}
	if o.Retries != nil {
		args = append(args, "retries", strconv.Itoa(*o.Retries))
	}
	return args
}

// PutArgs appends the pairs of arguments of a put, except for the delay. isNew means the jid is
// new, so conditions hold.
func (o *Options) PutArgs(args []any, isNew bool) []any {
	args = o.JobArgs(args)
	if o.At != nil {
		args = append(args, "at", wire.FormatTime(*o.At))
	}
	depends := o.DependsOn
	if o.OpensBatch {
		depends = append(depends[:len(depends):len(depends)], OpenBatch)
	}
	if len(depends) > 0 {
		args = append(args, "depends", wire.JSONList(depends))
	}
	if o.MustExist {
		args = append(args, "strict", "1")
	}
	if o.MemberOf != "" {
		args = append(args, "batch", o.MemberOf)
	}
	if len(o.If) > 0 && !isNew {
		args = append(args, "if", ifArgs[o.If[0]])
	}
	return o.StoredArgs(append(args, o.Unique.replaceArgs()...))
}

// ifArgs are the arguments for conditions.
var ifArgs = map[string]string{ifAbsent: "absent", ifFinished: "finished", ifNotRunning: "idle"}

// NextArgs appends the pairs of arguments that put a completed job into its next queue.
func (o *Options) NextArgs(args []any) []any {
	args = o.JobArgs(append(args, "delay", o.DelayText()))
	if len(o.DependsOn) > 0 {
		args = append(args, "depends", wire.JSONList(o.DependsOn))
	}
	return o.StoredArgs(args)
}

// DelayText returns the delay in seconds.
func (o *Options) DelayText() string {
	if o.Delay == nil {
		return "0"
	}
	return wire.FormatSeconds(*o.Delay)
}

// StoredArgs appends the pairs of arguments for the stored options, and the letters of the options
// that an existing job loses.
func (o *Options) StoredArgs(args []any) []any {
	letters, values := o.given()
	if o.OnFailure != nil {
		values["f"] = Policy{Do: o.OnFailure.Do, Of: o.DependsOn}
	}
	if letters != "" {
		args = append(args, "o", storedText(letters, values))
	}
	drop := ""
	for _, letter := range strings.Split(o.cleared, "") {
		if !strings.Contains(letters+drop, letter) {
			drop += letter
		}
	}
	if drop != "" {
		args = append(args, "drop", drop)
	}
	return args
}

// Text returns the options in stored form, LETTERS|JSON, or nothing without options.
func (o *Options) Text() string {
	letters, values := o.given()
	if letters == "" {
		return ""
	}
	return storedText(letters, values)
}

// given returns the letters of the given options, and the values of letters with a value.
func (o *Options) given() (letters string, values map[string]any) {
	for _, row := range stored {
		field := row.fieldOf(o)
		if !isGiven(field) {
			continue
		}
		letters += row.Letter
		if row.Value == "" {
			continue
		}
		if values == nil {
			values = map[string]any{}
		}
		values[row.Letter] = field
		if d, ok := field.(**Deadline); ok && (*d).IsTime {
			asTimes, _ := values["a"].(string)
			values["a"] = asTimes + row.Letter
		}
	}
	return letters, values
}

// stored holds the rows of the options that the server stores and Go reads.
var stored = rowsWith(func(r *Row) bool {
	return r.Letter != "" && (r.stored != nil || r.value != nil)
})

// fieldOf returns a pointer to the value of a row's letter.
func (r *Row) fieldOf(o *Options) any {
	if r.stored != nil {
		return r.stored(o)
	}
	return r.value(o)
}

// isGiven reports whether a field has a value.
func isGiven(field any) bool {
	value := reflect.ValueOf(field).Elem()
	if value.Kind() == reflect.Map || value.Kind() == reflect.Slice {
		return value.Len() > 0
	}
	return !value.IsZero()
}

func storedText(letters string, values map[string]any) string {
	if values == nil {
		return letters + "|{}"
	}
	raw, err := json.Marshal(values)
	if err != nil {
		panic(err) // all values have types that always marshal
	}
	return letters + "|" + string(raw)
}

// Parse reads the result of Text. Damaged options count as not given.
func Parse(text string) Options {
	_, raw, _ := strings.Cut(text, "|")
	var o Options
	_ = o.UnmarshalJSON([]byte(raw))
	return o
}

// UnmarshalJSON reads the JSON of the field x:o. A damaged value counts as not given.
func (o *Options) UnmarshalJSON(raw []byte) error {
	*o = Options{}
	var values map[string]json.RawMessage
	if json.Unmarshal(raw, &values) != nil {
		return nil
	}
	for _, row := range stored {
		value, isStored := values[row.Letter]
		if !isStored || row.Value == "" {
			continue
		}
		if field := row.fieldOf(o); json.Unmarshal(value, field) != nil {
			reflect.ValueOf(field).Elem().SetZero()
		}
	}
	if put, isStored := values["put"]; isStored {
		_ = o.PutAt.UnmarshalJSON(put)
	}
	return nil
}
