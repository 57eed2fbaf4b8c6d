package qless

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/jobopts"
)

// A Klass is a kind of job: a name, the type T of the data, and default options. Declare it once,
// to put jobs and to handle them:
//
//	var Welcome = qless.NewKlass[Mail]("Welcome", qless.Retries(3), qless.Limits{"smtp"})
//
// Only the name is known to the server, and to programs in other languages. A Klass never changes,
// and is safe for concurrent use. The zero value has no name, and can't be used.
type Klass[T any] struct {
	name     string
	defaults []PutOption
}

// NewKlass returns a klass. The name may be that of a class in another language, such as
// "Mail::Welcome". A klass without data is a Klass[struct{}].
//
// Options of a put replace defaults of the same type. [Headers] are merged; empty ones remove the
// defaults. An [At] replaces a default [Delay].
//
// NewKlass panics if the name is empty, is not UTF-8 or has a *, or if an option is nil, is invalid
// or describes a single job: [JID], [At] and [DependsOn].
func NewKlass[T any](name string, defaults ...PutOption) Klass[T] {
	if err := checkDefaults(name, defaults); err != nil {
		panic(fmt.Sprintf("qless: NewKlass(%q): %v", name, err))
	}
	return Klass[T]{name, slices.Clone(defaults)}
}

// checkDefaults returns an error if no klass can have this name or these default options.
func checkDefaults(name string, defaults []PutOption) error {
	if err := jobopts.CheckName("klass", name); err != nil {
		return err
	}
	if strings.Contains(name, "*") {
		return errors.New("the klass is a pattern")
	}
	var o jobopts.Options
	for _, option := range defaults {
		if option == nil {
			return errors.New("nil option")
		}
		option.applyPut(&o)
	}
	if o.JID != "" || o.At != nil || len(o.DependsOn) > 0 || o.MustExist {
		return errors.New("JID, At and DependsOn can't be defaults")
	}
	return o.Check()
}

// Name returns the name of the klass.
func (k Klass[T]) Name() string { return k.name }

// Put puts a job into a queue, as [Queue.Put] does, and returns its jid.
func (k Klass[T]) Put(
	ctx context.Context, to Putter, data T, options ...PutOption,
) (jid string, err error) {
	return to.Put(ctx, k.name, data, k.with(options)...)
}

// Spec returns a job that can be put with others, for instance by [Queue.PutMany], [Batch.Add],
// [Client.NewBatch] or a [Schedule].
func (k Klass[T]) Spec(data T, options ...PutOption) JobSpec {
	return JobSpec{Klass: k.name, Data: data, Options: k.with(options)}
}

// with returns the options of a put: the defaults of the klass, and those given.
func (k Klass[T]) with(given []PutOption) []PutOption {
	if len(k.defaults) == 0 || slices.Contains(given, nil) { // nil will be refused
		return given
	}
	return []PutOption{withDefaults{k.defaults, given}}
}

// withDefaults are the options of a put of a klass.
type withDefaults struct{ defaults, given []PutOption }

func (o withDefaults) applyPut(given *jobopts.Options) {
	var own jobopts.Options
	for _, option := range o.given {
		option.applyPut(&own)
	}
	for _, option := range o.defaults {
		option.applyPut(given)
	}
	if own.At != nil {
		given.Delay = nil
	}
	if len(own.If) > 0 {
		given.If = nil
	}
	for _, option := range o.given {
		option.applyPut(given)
	}
}

// Recur puts a job into a queue at regular intervals, as [Queue.Recur] does. A klass whose defaults
// include an option that is not a RecurOption, such as [Limits], is [ErrInvalid].
func (k Klass[T]) Recur(
	ctx context.Context, queue *Queue, data T, every time.Duration, options ...RecurOption,
) (jid string, err error) {
	var all []RecurOption
	for _, option := range k.defaults {
		own, ok := option.(RecurOption)
		if !ok {
			return "", invalid("recur", "", "recurring jobs have no %T, a default of %s", option, k.name)
		}
		all = append(all, own)
	}
	return queue.Recur(ctx, k.name, data, every, append(all, options...)...)
}

// Data decodes the data of a job. A job of another klass is [ErrInvalid], as is one whose data is
// not a T.
func (k Klass[T]) Data(job *Job) (data T, err error) {
	if job.Klass != k.name {
		return data, invalid("unmarshal", job.JID, "the klass is %q, not %q", job.Klass, k.name)
	}
	err = job.Unmarshal(&data)
	return data, err
}

// Handle registers the handler of the klass, as [Worker.Handle] does, and panics in the same cases.
// A job whose data is not a T fails, as with [Typed].
func (k Klass[T]) Handle(
	on Registry, work func(ctx context.Context, job *Job, data T) error, options ...HandleOption,
) {
	on.Handle(k.name, Typed(work), options...)
}

// A Putter is where a [Klass] puts its jobs, such as a [Queue] or a queue of package outbox.
type Putter interface {
	Put(ctx context.Context, klass string, data any, options ...PutOption) (jid string, err error)
}

// A Registry is where a [Klass] registers its handler: a [Worker] or a [WorkerGroup].
type Registry interface {
	Handle(klass string, handler Handler, options ...HandleOption)
}

// A Function is a klass whose jobs have a result of the type R.
type Function[T, R any] struct{ Klass[T] }

// NewFunction returns a function, and panics in the same cases as [NewKlass].
func NewFunction[T, R any](name string, defaults ...PutOption) Function[T, R] {
	return Function[T, R]{NewKlass[T](name, defaults...)}
}

// Handle registers the handler of the function, as [Klass.Handle] does. The return value of work
// becomes the result of the job, as with [TypedResult].
func (f Function[T, R]) Handle(
	on Registry, work func(ctx context.Context, job *Job, data T) (R, error),
	options ...HandleOption,
) {
	on.Handle(f.name, TypedResult(work), options...)
}

// Call puts a job, waits until it has ended, and returns its result. The errors are those of
// [Queue.Call] and [ResultAs]: a job that fails is [ErrFailed].
func (f Function[T, R]) Call(
	ctx context.Context, to Caller, data T, options ...PutOption,
) (R, error) {
	return ResultAs[R](to.Call(ctx, f.name, data, f.with(options)...))
}

// A Caller is where a [Function] is called: a [Queue], or one of package shards.
type Caller interface {
	Call(ctx context.Context, klass string, data any, options ...PutOption) (Result, error)
}

// Wait waits for a job that was put earlier, as [Client.Wait] does, and returns its result. The
// errors are those of Client.Wait and [ResultAs].
func (f Function[T, R]) Wait(
	ctx context.Context, client *Client, jid string, options ...WaitOption,
) (R, error) {
	return ResultAs[R](client.Wait(ctx, jid, options...))
}
