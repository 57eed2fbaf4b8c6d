package units

import (
	"bytes"
	"encoding/json"
	"reflect"
	"sync"
	"time"
)

// Marshal writes the exported fields of a struct as JSON, with each duration as a [Text]. This
// includes nested structs and pointers to structs, unless they marshal themselves. Fields with
// durations follow the others.
func Marshal(v any) ([]byte, error) {
	value := reflect.ValueOf(v)
	texts := reflect.New(structWithTexts(value.Type())).Elem()
	copyFields(texts, value)
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false) // the caller decides on escaping
	err := encoder.Encode(texts.Interface())
	return text.Bytes(), err
}

// Unmarshal reads the output of Marshal into a struct.
func Unmarshal[T any](text []byte, into *T) error {
	value := reflect.ValueOf(into).Elem()
	texts := reflect.New(structWithTexts(value.Type()))
	copyFields(texts.Elem(), value)
	if err := json.Unmarshal(text, texts.Interface()); err != nil {
		return err
	}
	copyFields(value, texts.Elem())
	return nil
}

// withTexts returns a type with texts in place of durations.
func withTexts(t reflect.Type) reflect.Type {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return reflect.TypeFor[Text]()
	case t.Kind() == reflect.Pointer:
		return reflect.PointerTo(withTexts(t.Elem()))
	case t.Kind() == reflect.Struct && !t.Implements(reflect.TypeFor[json.Marshaler]()):
		if _, timed := fieldsWithTexts(t); len(timed) > 0 {
			return structWithTexts(t)
		}
	}
	return t
}

// structsWithTexts holds the results of structWithTexts by type.
var structsWithTexts sync.Map

// structWithTexts does the same for a struct, which loses its methods.
func structWithTexts(t reflect.Type) reflect.Type {
	if known, ok := structsWithTexts.Load(t); ok {
		return known.(reflect.Type)
	}
	plain, timed := fieldsWithTexts(t)
	made := reflect.StructOf(append(plain, timed...))
	structsWithTexts.Store(t, made)
	return made
}

// fieldsWithTexts does the same for the exported fields of a struct, first without durations, then
// with durations.
func fieldsWithTexts(t reflect.Type) (plain, timed []reflect.StructField) {
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() {
			continue
		}
		if changed := withTexts(field.Type); changed != field.Type {
			field.Type = changed
			timed = append(timed, field)
		} else {
			plain = append(plain, field)
		}
	}
	return plain, timed
}

// copyFields copies the fields shared by two structs, by name.
func copyFields(to, from reflect.Value) {
	for i := range to.NumField() {
		if source := from.FieldByName(to.Type().Field(i).Name); source.IsValid() {
			copyValue(to.Field(i), source)
		}
	}
}

func copyValue(to, from reflect.Value) {
	switch {
	case from.CanConvert(to.Type()):
		to.Set(from.Convert(to.Type()))
	case from.Kind() == reflect.Struct:
		copyFields(to, from)
	case !from.IsNil():
		to.Set(reflect.New(to.Type().Elem()))
		copyFields(to.Elem(), from.Elem())
	}
}
