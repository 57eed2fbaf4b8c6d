// Package find searches lists of jobs, a limited part of them at a time.
package find

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
)

// The maximum numbers of lists and jobs read by a request, and its maximum time. A search in the
// data has only a maximum time.
const (
	MaxLists    = 70
	MaxExamined = 10_000
	MaxTime     = 2 * time.Second
)

// A List is a list of jobs to search.
type List struct {
	Name    string // for people
	Total   int    // the length of the list
	Jobs    inspect.Selection
	Filter  inspect.Filter
	Matches func(*inspect.Row) bool // a condition not checked by the server, or nil

	units.Period       // of the times when jobs entered their present states
	IsLatestFirst bool // in the order of these times

	// The place of the list in a search. Lists are searched in the order of their places: a search can
	// continue even if lists come and go.
	place   string
	isAgain bool // searched before, with another filter
}

// Selection returns the jobs of the list that match its filter.
func (l *List) Selection() inspect.Selection {
	if l.Filter == (inspect.Filter{}) {
		return l.Jobs
	}
	return l.Jobs.Where(l.Filter)
}

// Wants reports whether a job of the list is in its period and matches. isLast reports that no
// later job does.
func (l *List) Wants(job *inspect.Row) (isWanted, isLast bool) {
	isLast = l.IsLatestFirst && job.Since.Before(l.Since)
	return l.Has(job.Since) && (l.Matches == nil || l.Matches(job)), isLast
}

// Bounds limit a search.
type Bounds struct {
	Items int // jobs found
	Lists int // lists read
	Jobs  int // jobs read
}

// A Search holds the matches found so far.
type Search struct {
	Items    []inspect.Row
	Examined []Report
	Next     string // the place to continue; empty at the end
	Large    int    // the jobs with data too large to search

	redact func([]inspect.Row)
	bounds Bounds
	until  time.Time
}

// A Report is the progress of the search of a list.
type Report struct {
	List     string `json:"list"`
	Examined int    `json:"examined"`
	Total    int    `json:"total"`
	IsDone   bool   `json:"is_done"` // to the end of the list
}

// New returns a search that has not begun. Rows are redacted before being matched.
func New(bounds Bounds, redact func([]inspect.Row)) *Search {
	return &Search{
		Items: []inspect.Row{}, Examined: []Report{}, redact: redact, bounds: bounds,
		until: time.Now().Add(MaxTime),
	}
}

// Run searches lists from where another search ended, or from the beginning.
func (s *Search) Run(ctx context.Context, lists []List, from string) error {
	begin, err := url.ParseQuery(from)
	if err != nil || from != "" && !begin.Has("at") {
		return invalid("a search can't continue at %q", from)
	}
	at, cursor := begin.Get("at"), inspect.Cursor(begin.Get("after"))
	for i := range lists {
		l := &lists[i]
		if l.place < at || l.place == at && cursor == "" && at != "" {
			continue
		}
		if l.place != at {
			cursor = ""
		}
		rest, err := s.Scan(ctx, l, cursor)
		if err != nil {
			return err
		}
		if rest != "" || s.isOver() || len(s.Examined) >= s.bounds.Lists {
			s.Next = url.Values{"at": {l.place}, "after": {string(rest)}}.Encode()
			return nil
		}
	}
	return nil
}

// Scan searches a list from a cursor, and returns the cursor for continuing.
func (s *Search) Scan(
	ctx context.Context, l *List, after inspect.Cursor,
) (rest inspect.Cursor, err error) {
	if l.Filter.Data != "" {
		s.bounds.Jobs = math.MaxInt
	}
	report := Report{List: l.Name}
	for {
		most := s.bounds.Items - len(s.Items)
		if l.Matches != nil || l.Period != (units.Period{}) {
			most = 100 // some of the jobs match
		}
		found, err := l.Selection().AtMost(max(most, 1)).Find(ctx, after)
		if err != nil {
			return "", err
		}
		s.redact(found.Items)
		for _, row := range found.Items {
			isWanted, isLast := l.Wants(&row)
			if isWanted {
				s.Items = append(s.Items, row)
			}
			if isLast {
				found.Next = ""
				break
			}
		}
		report.Examined += found.Examined
		s.Large += found.Large
		s.bounds.Jobs -= found.Examined
		if after = found.Next; after == "" || s.isOver() {
			report.Total, report.IsDone = max(l.Total, report.Examined), after == ""
			s.Examined = append(s.Examined, report)
			return after, nil
		}
	}
}

// isOver reports whether the search has reached a bound.
func (s *Search) isOver() bool {
	return len(s.Items) >= s.bounds.Items || s.bounds.Jobs <= 0 || time.Now().After(s.until)
}

// Sum returns the number of jobs read.
func (s *Search) Sum() (n int) {
	for _, report := range s.Examined {
		n += report.Examined
	}
	return n
}

func invalid(format string, args ...any) error {
	return &qless.Error{
		Code: qless.ErrInvalid, Op: "web.find", Message: fmt.Sprintf(format, args...),
	}
}
