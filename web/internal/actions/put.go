package actions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/jobopts"
)

// newJobActions returns the actions that put jobs.
func newJobActions() []*Info {
	return []*Info{
		{
			Name: "job.put", Label: "New job", Done: "The job was put.", Creates: true,
			Fields: putFields,
			Action: checked{putJob, func(f *Form) { f.spec() }},
		},
		{
			Name: "job.restore", Label: "Put again", Done: "put again",
			Hint:   "The jobs of the receipt are put as they were. Those that exist are left alone.",
			Fields: []Field{subject("receipt", "Receipt")},
			IsLong: isLongReceipt, Action: restore{},
		},
	}
}

// putFields are the fields of a new job.
var putFields = withOptions([]Field{
	subject("queue", "Queue"),
	{Name: "klass", Label: "Klass", Kind: Text},
	{Name: "data", Label: "Data, as JSON", Kind: JSON, Optional: true, Secret: true},
	{Name: "priority", Label: "Priority", Kind: Number, Optional: true,
		Hint: "Higher ones are popped first; 0 by default."},
	{Name: "retries", Label: "Retries", Kind: Number, Optional: true, Hint: "5 by default."},
	{Name: "delay", Label: "Delay", Kind: Duration, Optional: true},
	{Name: "tags", Label: "Tags", Kind: Tags, Optional: true},
	{Name: "depends", Label: "Waits for", Kind: JIDs, Optional: true, Hint: manyJIDs},
})

// withOptions adds the options of jobs without a field. Forms have no jid, and so no condition on a
// job with the same jid.
func withOptions(fields []Field) []Field {
	own := map[string]int{}
	for i, field := range fields {
		own[field.Name] = i
	}
	for _, row := range jobopts.Table {
		switch i, isOwn := own[row.Key]; {
		case row.Key == "" || row.Key == "jid" || row.Key == "if":
		case isOwn:
			fields[i].option = row
		default:
			fields = append(fields, optionField(row))
		}
	}
	return fields
}

// optionKinds are the kinds of fields for options that are not text.
var optionKinds = map[jobopts.Kind]Kind{
	jobopts.Bool: Box, jobopts.Duration: Duration, jobopts.List: Tags, jobopts.Pairs: Tags,
}

func optionField(row *jobopts.Row) Field {
	label := strings.ReplaceAll(row.Key, "_", " ")
	if strings.EqualFold(label, row.Name) { // such as TTL
		label = row.Name
	}
	usage, _, _ := strings.Cut(strings.ReplaceAll(row.Usage, "--", ""), ";")
	field := Field{
		Name: row.Key, Label: strings.ToUpper(label[:1]) + label[1:], Kind: optionKinds[row.Kind()],
		Hint: strings.ToUpper(usage[:1]) + usage[1:] + ".", Optional: true,
		Choices: row.Words, Group: cmp.Or(optionGroups[row.Key], "Other"), option: row,
	}
	if row.Words != nil {
		field.Kind = Choice
	}
	return field
}

// The titles of the groups of rare options, by the keys of the options.
const start, run, life, unique = "Start", "Run", "Lifetime", "Unique key"

var optionGroups = map[string]string{
	"at": start, "must_exist": start, "on_failure": start, "fair": start, "weight": start,
	"limits": start, "lock_time": run, "on_lost": run, "max_run_time": run, "headers": run,
	"start_by": life, "ttl": life, "keep_for": life, "keep_failed_for": life,
	"unique": unique, "unique_data": unique, "unique_for": unique, "unique_until_started": unique,
	"replace": unique, "keep_due": unique, "within": unique,
}

// spec returns the job described by a form, and records invalid fields.
func (f *Form) spec() (spec qless.JobSpec) {
	values := map[string]json.RawMessage{}
	for _, field := range putFields {
		if field.option == nil {
			continue
		}
		for _, text := range f.texts(field) {
			value, err := field.option.JSON(values[field.Name], text)
			if err != nil {
				f.Refuse(field.Name, "This can't be used: %v.", err)
				continue
			}
			values[field.Name] = value
		}
	}
	text, _ := json.Marshal(values) // the values are valid JSON
	err := spec.UnmarshalJSON(text)
	if own := (*qless.Error)(nil); errors.As(err, &own) {
		f.Refuse("", "%s", own.Message)
	}
	spec.Klass, spec.Data = f.Get("klass"), f.jobData()
	return spec
}

// texts returns the values of a field for its option.
func (f *Form) texts(field Field) []string {
	text := f.word(field.Name)
	switch field.Kind {
	case Tags:
		return f.tags(field.Name)
	case JIDs:
		return f.jids(field.Name)
	case Box:
		if text != "" {
			text = "true"
		}
	case Duration:
		if d, err := parseTime(text); err == nil {
			text = d.String()
		}
	}
	if text == "" {
		return nil
	}
	return []string{text}
}

func putJob(ctx context.Context, r *Run) error {
	spec, once := r.Form.spec(), r.Form.Once
	if r.Form.has("replace") { // a job that replaces itself exists only once
		once = ""
	}
	if once != "" { // another process may have put the job
		spec.Options = append(spec.Options, qless.JID(once), qless.IfAbsent)
	}
	queue := r.Space.Client.Queue(r.Form.Get("queue"))
	jid, err := queue.Put(ctx, spec.Klass, spec.Data, spec.Options...)
	var refused *qless.Error
	if once != "" && errors.As(err, &refused) &&
		refused.Code == qless.ErrExists && refused.JID == once {
		jid, err = once, nil
	}
	return r.put(jid, err)
}
