// Package together calls a function for several values concurrently, such as the shards of a queue.
package together

import (
	"cmp"
	"context"
	"sync"

	"github.com/qless/qless-go/internal/guard"
)

// Ask calls question for each element of several concurrently. It returns the answers, and the
// first error, in the order of the elements. If a user's code panics, so does Ask, in the caller's
// goroutine, where the panic can be recovered. A call of runtime.Goexit is an error.
func Ask[T, A any](several []T, question func(one T) (A, error)) ([]A, error) {
	answers, errs := make([]A, len(several)), make([]error, len(several))
	panics := make([]any, len(several))
	var all sync.WaitGroup
	for i, one := range several {
		all.Go(func() {
			defer func() { panics[i] = recover() }()
			errs[i] = guard.ErrGoexit
			answers[i], errs[i] = question(one)
		})
	}
	all.Wait()
	for _, value := range panics {
		if value != nil {
			panic(value)
		}
	}
	for _, err := range errs {
		if err != nil {
			return answers, err
		}
	}
	return answers, nil
}

// First calls question for each element of several concurrently, and returns the first known
// answer. The context of the other calls ends, and First does not wait for them. Without a known
// answer, it returns the first error, in the order of the elements. Panics are as in Ask.
func First[T, A any](
	ctx context.Context, several []T,
	question func(ctx context.Context, one T) (answer A, known bool, err error),
) (first A, known bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type reply struct {
		at     int
		answer A
		known  bool
		err    error
		panic  any
	}
	replies := make(chan reply, len(several))
	for i, one := range several {
		go func() {
			r := reply{at: i, err: guard.ErrGoexit}
			defer func() {
				r.panic = recover()
				replies <- r
			}()
			r.answer, r.known, r.err = question(ctx, one)
		}()
	}
	errs := make([]error, len(several))
	for range several {
		switch r := <-replies; {
		case r.panic != nil:
			panic(r.panic)
		case r.known:
			return r.answer, true, nil
		default:
			errs[r.at] = r.err
		}
	}
	return first, false, cmp.Or(errs...)
}

// Each calls do for each element of several concurrently, and returns the first error, in the order
// of the elements.
func Each[T any](several []T, do func(one T) error) error {
	_, err := Ask(several, func(one T) (struct{}, error) { return struct{}{}, do(one) })
	return err
}

// AskFew is Ask with at most n calls at a time.
func AskFew[T, A any](n int, several []T, question func(one T) (A, error)) ([]A, error) {
	places := make(chan struct{}, n)
	return Ask(several, func(one T) (A, error) {
		places <- struct{}{}
		defer func() { <-places }()
		return question(one)
	})
}
