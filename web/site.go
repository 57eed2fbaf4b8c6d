package web

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/web/internal/actions"
	"github.com/qless/qless-go/web/internal/find"
	"github.com/qless/qless-go/web/internal/rates"
)

// A site has the pages of one namespace.
type site struct {
	Source
	handler  *Handler
	in       *inspect.Inspector
	space    *actions.Space
	Base     string // the path of the pages, without a trailing slash
	mux      *http.ServeMux
	pages    *http.ServeMux // the pages, and nothing else
	samples  samples
	denials  denials
	feed     feed
	tallies  rates.Tallies
	groups   gradual[string, groupRow]
	recorded atomic.Int64 // the last recorded minute
	runs     gradual[string, jobRun]
	usual    gradual[queueKlass, usualRun]
	exams    exams
	keys     keyScan
	views    gradual[string, *view]
	last     atomic.Pointer[doctor.Status] // the last status read
}

// The parameters of a page with a search, and of a page with a list of jobs.
const (
	ofSearches = " q since until large examined passed stop"
	ofLists    = ofSearches + " from klass tag jid data after sort"
)

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// A query holds the subject and the parameters of a page's URL.
type query struct {
	path string // the pattern of the page
	name string
	url.Values
}

// A period is a page's requested period, with its texts.
type period struct {
	units.Period
	SinceText string `json:"-"`
	UntilText string `json:"-"`
}

// period returns the requested period.
func (q query) period() (p period, err error) {
	p.SinceText, p.UntilText = q.Get("since"), q.Get("until")
	if p.Period, err = units.ParsePeriod(p.SinceText, p.UntilText, time.Now()); err != nil {
		return p, invalid("%v", err)
	}
	return p, nil
}

// search returns the requested search.
func (q query) search() (find.Query, error) {
	p, err := q.period()
	if err != nil {
		return find.Query{}, err
	}
	return find.NewQuery(q.Get, p.Period)
}

// Ends returns the ends of the period for a form, at fixed times.
func (p period) Ends() [2]string { return [2]string{exactly(p.Since), exactly(p.Until)} }

// exactly formats the end of a period for a form, or returns "".
func exactly(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Within returns the URL of a list, for the same period.
func (p period) Within(list string) string {
	values := url.Values{}
	if p.SinceText != "" {
		values.Set("since", p.SinceText)
	}
	if p.UntilText != "" {
		values.Set("until", p.UntilText)
	}
	switch {
	case len(values) == 0:
		return list
	case strings.Contains(list, "?"):
		return list + "&" + values.Encode()
	}
	return list + "?" + values.Encode()
}

// from returns the first requested row.
func (q query) from() int {
	from, err := strconv.Atoi(q.Get("from"))
	if err != nil {
		return 0
	}
	return max(0, from)
}

// Link returns the URL of something with a name: /queues/mail. Names of dots only, "/" and "-"
// become parameters: /queues/-?name=..
func (s *site) Link(kind, name string) string {
	isDots := strings.Trim(name, ".") == ""
	if isDots || name == "-" || name == "/" {
		return s.Base + "/" + kind + "/-?name=" + url.QueryEscape(name)
	}
	return s.Base + "/" + kind + "/" + url.PathEscape(name)
}

// Sub returns the URL of a page below that of something with a name: /queues/mail/why
func (s *site) Sub(kind, name, page string) string {
	path, query, hasQuery := strings.Cut(s.Link(kind, name), "?")
	if hasQuery {
		return path + "/" + page + "?" + query
	}
	return path + "/" + page
}

// nameOf returns the name in a URL made by Link.
func nameOf(r *http.Request) string {
	query := r.URL.Query()
	name, err := url.QueryUnescape(query.Get("name" + actions.EscapedMark))
	if err == nil && name != "" {
		return name
	}
	if query.Has("name") {
		return query.Get("name")
	}
	return r.PathValue("name")
}

// rows are the visible rows of a list.
type rows struct{ From, Shown, Total, Size int }

// First and Last return the numbers of the first and last row, counted from 1.
func (r rows) First() int { return min(r.From+1, r.Total) }
func (r rows) Last() int  { return r.From + r.Shown }

// HasNext reports whether a next page exists, and Next returns its first row.
func (r rows) HasNext() bool { return r.Last() < r.Total }
func (r rows) Next() string  { return strconv.Itoa(r.From + r.Size) }

// HasPrevious reports whether a previous page exists, and Previous returns its first row.
func (r rows) HasPrevious() bool { return r.From > 0 }
func (r rows) Previous() string  { return strconv.Itoa(max(0, r.From-r.Size)) }

// part returns up to n items of a list, starting at from.
func part[T any](all []T, from, n int) []T {
	from = min(from, len(all))
	return all[from:min(from+n, len(all))]
}

// pageSize is the number of rows of a page.
const pageSize = 45

// ownPage returns the URL of a page of the site, or of the overview for any other page.
func (s *site) ownPage(page string) *url.URL {
	own, err := url.Parse(page)
	isOwn := err == nil && !own.IsAbs() && own.Host == "" && own.Opaque == "" &&
		strings.HasPrefix(own.EscapedPath(), s.Base+"/") && !strings.HasPrefix(own.Path, "//")
	if !isOwn {
		own, _ = url.Parse(s.Base + "/")
	}
	return own
}

// log returns a logger with the user and the action.
func (s *site) log(r *http.Request, action string) *slog.Logger {
	options := &s.handler.options
	return options.Logger.With("action", action, "user", options.User(r), "namespace", s.Name)
}

// denials are the actions denied to the dashboard's Redis user.
type denials struct {
	mu    sync.Mutex
	until map[Action]time.Time
}

// A groupRow is a failure group.
type groupRow struct {
	Name     string                  `json:"name"`
	Jobs     int                     `json:"jobs"`
	First    time.Time               `json:"first,omitzero"` // of the oldest failure
	Last     time.Time               `json:"last,omitzero"`
	Message  string                  `json:"message,omitempty"` // of the latest failure
	Sample   string                  `json:"sample,omitempty"`  // the jid of the latest failed job
	Queue    string                  `json:"queue,omitempty"`   // of the latest failed job
	Klasses  []inspect.KlassFailures `json:"klasses"`           // of the latest failures
	Examined int                     `json:"examined"`          // the number of these failures
}

// A keyScan looks for the sets of keys in use, some of them with each view.
type keyScan struct {
	mu     sync.Mutex
	cursor uint64
	found  map[string]int64 // sizes of sets, in this pass over the database
	known  map[string]int64 // at the end of the last pass, or nil in the first pass
}

// IsRedacted reports whether data and results of jobs are neither shown nor searched.
func (s *site) IsRedacted() bool { return s.handler.options.Redact != nil }

// redactAll hides the secret parts of jobs in a list.
func (s *site) redactAll(jobs []inspect.Row) {
	if !s.IsRedacted() {
		return
	}
	for i := range jobs {
		jobs[i].Failure = s.redactedFailure(&jobs[i])
		jobs[i].Data = ""
	}
}

// redactedFailure returns the failure of a job in a list without the secret parts.
func (s *site) redactedFailure(row *inspect.Row) *qless.Failure {
	redact := s.handler.options.Redact
	if redact == nil || row.Failure == nil {
		return row.Failure
	}
	failure := *row.Failure
	job := &qless.Job{
		JID: row.JID, Klass: row.Klass, Queue: row.Queue, State: row.State,
		Priority: row.Priority, Remaining: row.Remaining, Retries: row.Retries,
		Tags: row.Tags, Worker: row.Worker, Failure: &failure, Data: json.RawMessage("{}"),
	}
	redact(job)
	return job.Failure
}

// redact hides the secret parts of a job. It also passes the failure of each attempt to Redact.
func (s *site) redact(job *qless.Job) {
	redact := s.handler.options.Redact
	if redact == nil {
		return
	}
	for i := range job.Attempts {
		attempt, copied := &job.Attempts[i], *job
		copied.Attempts = nil
		copied.Failure = &qless.Failure{
			Group: attempt.Group, Message: attempt.Message,
			When: attempt.Began.Add(attempt.Ran), Worker: attempt.Worker,
		}
		redact(&copied)
		shown := cmp.Or(copied.Failure, &qless.Failure{})
		attempt.Group, attempt.Message = shown.Group, shown.Message
	}
	redact(job)
}
