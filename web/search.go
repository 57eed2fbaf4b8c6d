package web

import (
	"net/url"
	"strconv"

	"github.com/qless/qless-go/web/internal/find"
)

// A search is the progress of a search, including previous requests.
type search struct {
	Examined int    `json:"examined"`
	Total    int    `json:"total"`          // the length of the lists
	Large    int    `json:"large,omitzero"` // the jobs with data too large to search
	Next     string `json:"next,omitempty"`
	What     string `json:"-"` // the noun for the searched things
	param    string // the parameter of Next
	hasFound bool
}

// newSearch returns the progress of a search for jobs.
func newSearch(q url.Values, found *find.Search, total int, param, next string) *search {
	return (&search{
		Examined: found.Sum(), Total: total, Large: found.Large, Next: next, What: "job", param: param,
		hasFound: len(found.Items) > 0,
	}).after(q)
}

// after adds the progress of previous requests.
func (s *search) after(q url.Values) *search {
	looked, _ := strconv.Atoi(q.Get("examined"))
	large, _ := strconv.Atoi(q.Get("passed"))
	s.Examined, s.Large = s.Examined+max(0, looked), s.Large+max(0, large)
	s.Total = max(s.Total, s.Examined)
	return s
}
