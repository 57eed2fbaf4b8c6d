package web

import (
	"context"
	"net/http"
	"strconv"

	"github.com/qless/qless-go/doctor"
)

// why says what a queue waits for.
func (s *site) why(r *http.Request) (*view, error) {
	name := nameOf(r, "queue")
	data, err := s.readWhy(r.Context(), name)
	if err != nil {
		return nil, err
	}
	return &view{template: "why", title: "Why: " + name, section: "queues", data: data}, nil
}

// readWhy returns what a queue waits for, as it was read lately.
func (s *site) readWhy(ctx context.Context, name string) (*doctor.Explanation, error) {
	return sampledFor(ctx, &s.samples, whyAge, "why "+strconv.Quote(name),
		func(ctx context.Context) (*doctor.Explanation, error) {
			return doctor.Why(ctx, s.Client, name)
		})
}
