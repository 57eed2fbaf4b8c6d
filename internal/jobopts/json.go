package jobopts

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/internal/wire"
)

// JSON returns a job with the options in the form of a file, for Set. The data is kept byte by
// byte, but a caller such as json.Marshal may change spaces and escapes.
func (o *Options) JSON(klass, data string) ([]byte, error) {
	if o.Batch != nil || o.OpensBatch || o.MemberOf != "" {
		return nil, errors.New("a member or a callback of a batch can't be JSON")
	}
	copied, err := o.writable(klass, data)
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
		raw, err := written(reflect.ValueOf(row.value(copied)).Elem())
		switch {
		case err != nil:
			return nil, err
		case raw == nil && row.None != "" && o.IsCleared(row.Name):
			raw = []byte(row.None)
		case raw == nil:
			continue
		}
		text.WriteString(`,"` + row.Key + `":`)
		text.Write(raw)
	}
	text.WriteString("}")
	return text.Bytes(), nil
}

// writable returns a copy with fields that can be created and changed, and the parts of its unique
// key. A key made from the data stays only if the data, as json.Marshal writes it, has another key.
func (o *Options) writable(klass, data string) (*Options, error) {
	copied := *o
	if o.Unique == nil || o.Unique.Key == "" && !o.Unique.Data {
		return &copied, nil
	}
	unique := *o.Unique
	copied.Unique = &unique
	key := unique.Key
	unique.Key = ""
	if strings.HasPrefix(key, "[") {
		return &copied, json.Unmarshal([]byte(key), &unique.Parts)
	}
	unique.Data = true
	marshaled, _ := json.Marshal(json.RawMessage(data)) // nothing for invalid JSON
	if o.Claim != nil && o.Claim.Key != dataKey(klass, string(marshaled)) {
		unique.Key = o.Claim.Key
	}
	return &copied, nil
}

// written returns the JSON of an option for read, or nil if the option is not given.
func written(value reflect.Value) ([]byte, error) {
	if value.IsZero() {
		return nil, nil
	}
	if value.Kind() == reflect.Pointer {
		value = value.Elem()
	}
	switch v := value.Interface().(type) {
	case Unique:
		if v.Key != "" {
			return json.Marshal(v.Key)
		}
		return written(reflect.ValueOf(v.Data))
	case time.Duration:
		return json.Marshal(units.Text(v))
	case Span:
		return json.Marshal(units.Text(v))
	case Deadline:
		if v.IsTime {
			return json.Marshal(v.Seconds.Time())
		}
		return json.Marshal(units.Text(v.Seconds.Duration()))
	case wire.Number:
		return json.Marshal(float64(v))
	}
	return json.Marshal(value.Interface())
}
