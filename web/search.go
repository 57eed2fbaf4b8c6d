package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/qless/qless-go"
)

// How far a request looks: at so many jobs, fewer if their data is read, and for so long.
const (
	maxLooked         = 10_000
	maxLookedWithData = 1_000
	maxSearch         = 2 * time.Second
)

// A jobFilter says which jobs of a list are looked for.
type jobFilter struct {
	Klass string `json:"klass,omitempty"`
	Tag   string `json:"tag,omitempty"`
	JID   string `json:"jid,omitempty"`
	Data  string `json:"data,omitempty"`
}

func filterOf(r *http.Request) jobFilter {
	query := r.URL.Query()
	return jobFilter{query.Get("klass"), query.Get("tag"), query.Get("jid"), query.Get("data")}
}

func (f jobFilter) isEmpty() bool { return f == jobFilter{} }

func (f jobFilter) key() string { return fmt.Sprintf("%q %q %q %q", f.Klass, f.Tag, f.JID, f.Data) }

// checkFilter returns an error if a filter asks for what is not shown.
func (s *site) checkFilter(f jobFilter) error {
	if f.Data != "" && s.IsRedacted() {
		return invalid("data of jobs is not shown here, and so it can't be searched")
	}
	return nil
}

// A search is what a request has found in a list, and how far it has looked.
type search struct {
	Items  []qless.JobSummary `json:"-"`
	Looked int                `json:"looked"` // with the requests before
	Total  int                `json:"total"`  // the length of the list
	Next   qless.Cursor       `json:"next,omitempty"`
}

// A finder looks for jobs in some list.
type finder func(
	ctx context.Context, filter qless.Filter, after qless.Cursor,
) (qless.Finding, error)

// search looks for jobs in a list from the cursor of a request on, until a page is full, or it has
// looked at enough.
func (s *site) search(
	r *http.Request, key string, total int, filter jobFilter, find finder,
) (*search, error) {
	query := r.URL.Query()
	after := qless.Cursor(query.Get("after"))
	before, _ := strconv.Atoi(query.Get("looked"))
	key += filter.key() + " " + strconv.Quote(string(after))
	found, err := sampled(r.Context(), &s.samples, key, func(ctx context.Context) (*search, error) {
		return s.searchFrom(ctx, filter, after, find)
	})
	if err != nil {
		return nil, err
	}
	here := *found
	here.Looked += max(0, before)
	here.Total = max(total, here.Looked)
	return &here, nil
}

func (s *site) searchFrom(
	ctx context.Context, filter jobFilter, after qless.Cursor, find finder,
) (*search, error) {
	most := maxLooked
	if filter.Data != "" {
		most = maxLookedWithData
	}
	until := time.Now().Add(maxSearch)
	found := &search{Items: []qless.JobSummary{}, Next: after}
	for {
		part, err := find(ctx, qless.Filter{
			Klass: filter.Klass, Tag: filter.Tag, JID: filter.JID, Data: filter.Data,
			Limit: pageSize - len(found.Items),
		}, found.Next)
		if err != nil {
			return nil, err
		}
		s.redactAll(part.Items)
		found.Items = append(found.Items, part.Items...)
		found.Looked += part.Looked
		found.Next = part.Next
		isFull := len(found.Items) >= pageSize || found.Looked >= most || time.Now().After(until)
		if found.Next == "" || isFull {
			return found, nil
		}
	}
}

// Continue is the URL at which a search goes on.
func (f *frame) Continue(found *search) string {
	return f.continueAt(url.Values{
		"after": {string(found.Next)}, "looked": {strconv.Itoa(found.Looked)},
	})
}

// continueAt is the page's own URL with some parameters changed.
func (f *frame) continueAt(parameters url.Values) string {
	query := f.Request.URL.Query()
	query.Del("outcome")
	for name, values := range parameters {
		query[name] = values
	}
	return f.Request.URL.EscapedPath() + "?" + query.Encode()
}
