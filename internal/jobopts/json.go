package jobopts

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"time"

	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/internal/wire"
)

// JSON returns a job with the options in the form of a file, which Set reads. The data is kept byte
// by byte.
func (o *Options) JSON(klass, data string) ([]byte, error) {
	if o.Batch != nil || o.OpensBatch || o.MemberOf != "" {
		return nil, errors.New("a member or a callback of a batch can't be JSON")
	}
	copied, err := o.writable()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	text.WriteString(`{"klass":`)
	text.Write(quoted(klass))
	text.WriteString(`,"data":` + data)
	for _, row := range Table {
		if row.Key == "" {
			continue
		}
		value := written(reflect.ValueOf(row.value(copied)).Elem())
		if value == nil && row.Letter != "" && o.IsCleared(row.Name) {
			value = clearing[row.Name]
		}
		if value == nil {
			continue
		}
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		text.WriteString(`,"` + row.Key + `":`)
		text.Write(raw)
	}
	text.WriteString("}")
	return text.Bytes(), nil
}

// endless is the text of an unlimited time.
const endless = units.Text(Forever)

// clearing holds the values that remove options from a job.
var clearing = map[string]any{
	"Headers": map[string]string{}, "OnLost": "first", "StartBy": endless, "TTL": endless,
	"KeepFor": endless, "MaxRunTime": endless,
}

// writable returns a copy whose fields can be made and changed, with the parts of its unique key.
func (o *Options) writable() (*Options, error) {
	copied := *o
	if o.Unique == nil || o.Unique.Key == "" {
		return &copied, nil
	}
	unique := *o.Unique
	copied.Unique = &unique
	if unique.Key[0] != '[' {
		unique.Data = true
		return &copied, nil
	}
	return &copied, json.Unmarshal([]byte(unique.Key), &unique.Parts)
}

// written returns the value of an option in the form that read reads, or nil if it is not given.
func written(value reflect.Value) any {
	if value.IsZero() {
		return nil
	}
	if value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	switch v := value.Interface().(type) {
	case time.Duration:
		return spanText(v)
	case Span:
		return spanText(time.Duration(v))
	case Deadline:
		if v.IsTime {
			return v.Seconds.Time()
		}
		return spanText(v.Seconds.Duration())
	case wire.Number:
		return float64(v)
	}
	return value.Interface()
}

// spanText returns a time as a text that readDuration reads.
func spanText(d time.Duration) string { return units.Text(d).String() }
