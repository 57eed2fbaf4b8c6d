package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/qless/qless-go"
)

// The JSON of Ruby's web interface, for programs that read it: how many jobs each queue has, or
// one of them, and how many have failed in each group.

func (s *site) rubyQueues(w http.ResponseWriter, r *http.Request) {
	answerRuby(s, w, r, "ruby queues", func(ctx context.Context) ([]qless.QueueCounts, error) {
		queues, err := s.Client.Queues(ctx)
		if queues == nil {
			queues = []qless.QueueCounts{}
		}
		return queues, err
	})
}

func (s *site) rubyQueue(w http.ResponseWriter, r *http.Request, name string) {
	key := "ruby queue " + strconv.Quote(name)
	answerRuby(s, w, r, key, func(ctx context.Context) (qless.QueueCounts, error) {
		return s.Client.Queue(name).Counts(ctx)
	})
}

func (s *site) rubyFailed(w http.ResponseWriter, r *http.Request) {
	answerRuby(s, w, r, "ruby failed", func(ctx context.Context) (map[string]int, error) {
		groups, err := s.Client.FailureGroups(ctx)
		if groups == nil {
			groups = map[string]int{}
		}
		return groups, err
	})
}

func answerRuby[T any](
	s *site, w http.ResponseWriter, r *http.Request, key string,
	read func(ctx context.Context) (T, error),
) {
	got, err := sampled(r.Context(), &s.samples, key, read)
	if err != nil {
		r.Header.Set("Accept", "application/json")
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(got)
}

// rubyName returns the queue of a path such as /queues/mail.json.
func (s *site) rubyName(r *http.Request) (name string, isRuby bool) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return "", false
	}
	rest, isQueue := strings.CutPrefix(r.URL.EscapedPath(), s.base+"/queues/")
	rest, isJSON := strings.CutSuffix(rest, ".json")
	if !isQueue || !isJSON || rest == "" || strings.Contains(rest, "/") {
		return "", false
	}
	name, err := url.PathUnescape(rest)
	return name, err == nil
}
