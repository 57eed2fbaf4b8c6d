package qlessotel

import (
	"cmp"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"

	"github.com/qless/qless-go"
)

// An operation is the subject of a span or a measurement. Empty fields are omitted.
type operation struct {
	name  string
	kind  messagingconv.OperationTypeAttr
	queue string
	klass string
	jid   string
}

// system is the value of messaging.system.
const system messagingconv.SystemAttr = "qless"

// The attributes specific to qless.
const (
	klassKey       = attribute.Key("messaging.qless.klass")
	attemptKey     = attribute.Key("messaging.qless.attempt")
	outcomeKey     = attribute.Key("messaging.qless.outcome")
	delayKey       = attribute.Key("messaging.qless.delay")
	waitKey        = attribute.Key("messaging.qless.wait")
	spawnedFromKey = attribute.Key("messaging.qless.spawned_from")
)

// spanName returns the name of the operation's span.
func (o *operation) spanName() string {
	if o.queue == "" {
		return o.name
	}
	return o.name + " " + o.queue
}

// attributes returns the attributes of the operation's span.
func (o *operation) attributes() []attribute.KeyValue {
	all := []attribute.KeyValue{
		semconv.MessagingSystemKey.String(string(system)),
		semconv.MessagingOperationName(o.name),
		semconv.MessagingOperationTypeKey.String(string(o.kind)),
	}
	for _, a := range []attribute.KeyValue{
		semconv.MessagingDestinationName(o.queue), klassKey.String(o.klass),
		semconv.MessagingMessageID(o.jid),
	} {
		if a.Value.AsString() != "" {
			all = append(all, a)
		}
	}
	return all
}

// errorType returns the kind of an error, with few possible values: the code of a [qless.Error], or
// the type of any other error.
func errorType(err error) attribute.KeyValue {
	var panicked *qless.PanicError
	var failed *qless.Error
	var code qless.Code
	switch {
	case errors.As(err, &panicked):
		return semconv.ErrorTypeKey.String("panic")
	case errors.As(err, &failed):
		return semconv.ErrorTypeKey.String(cmp.Or(string(failed.Code), "_OTHER"))
	case errors.As(err, &code):
		return semconv.ErrorTypeKey.String(string(code))
	}
	return semconv.ErrorType(err)
}

// failure returns the attributes for an error, none if it is nil.
func failure(err error) []attribute.KeyValue {
	if err == nil {
		return nil
	}
	return []attribute.KeyValue{errorType(err)}
}
