package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/hosts"
	"github.com/qless/qless-go/web/internal/actions"
)

// A Source is a namespace of the dashboard.
type Source struct {
	// Name is the name of the namespace on the pages, and in URLs if there are several. Names must be
	// unique. Defaults to the client's namespace.
	Name string

	// Client reads and changes the jobs.
	Client *qless.Client

	// Redis is the connection for the page about the server. Without it, that page has only the
	// client's figures, and neither unique keys nor the keys of limits are listed.
	Redis redis.UniversalClient
}

// Options configure how the dashboard is mounted and what its users may do. The zero value mounts
// the dashboard at the root and allows everything.
type Options struct {
	// Allow, if set, is called before an action is offered, and again before the action is done. If
	// Allow panics, the user may not do the action. Panics of this and the other functions are logged.
	Allow func(r *http.Request, action Action) bool

	// Colour is the color of the Environment: red, amber, green, blue or violet. Defaults to none.
	Colour string

	// Environment is a name for all pages, such as "production".
	Environment string

	// Hosts are the host names of the dashboard for browsers, besides localhost. Requests for other
	// names are refused, because they could come from a page of another site, with a name that
	// resolves to this address. Without Hosts, only requests over the loopback interface are checked.
	// Addresses such as 10.1.2.3 are never refused.
	Hosts []string

	// Interval is the time between two updates of a page. Most data is read at most once per interval
	// for all viewers. Defaults to 1.75 seconds.
	Interval time.Duration

	// Late is the age of the oldest job from which a queue needs attention. Defaults to 5 minutes.
	Late time.Duration

	// Links, if set, returns links for the page of a job, such as links to traces.
	Links func(job *qless.Job) []Link

	// Logger receives a record of each action, with the user, the action, the jobs and the outcome.
	// Defaults to [slog.Default].
	Logger *slog.Logger

	// Namespaces, if set, returns the present namespaces, for adding namespaces newer than the
	// dashboard. It is called in the background when all namespaces are viewed, at most once a minute.
	Namespaces func(ctx context.Context) ([]Source, error)

	// Prefix is the path at which the dashboard is mounted, such as "/queues".
	Prefix string

	// ReadOnly disables all actions.
	ReadOnly bool

	// Redact, if set, changes the Data, Headers, Failure, Attempts, History and Progress of a job
	// before they are shown. Redact receives a copy of the job, and another copy for each attempt with
	// the attempt's failure as the Failure. Elsewhere, data and results of jobs are then not shown,
	// searched or offered as a download. If Redact panics, the job is shown without these fields.
	Redact func(job *qless.Job)

	// User, if set, returns the user of a request for the log of actions. Defaults to the user of
	// HTTP basic authentication, or the remote address.
	User func(r *http.Request) string
}

// A Link leads from the page of a job to another site.
type Link struct {
	Text string `json:"text"`
	URL  string `json:"url"` // http, https or a path
}

// A Handler serves the dashboard. It is safe for concurrent use.
type Handler struct {
	options Options
	known   atomic.Pointer[known]
	looks   looks
	look    func() // looks for new namespaces
	root    http.Handler

	history    *actions.History
	streams    streams
	background sync.WaitGroup
}

func userOf(r *http.Request) string {
	if name, _, ok := r.BasicAuth(); ok {
		return name
	}
	return r.RemoteAddr
}

func invalid(format string, args ...any) error {
	return &qless.Error{
		Code: qless.ErrInvalid, Op: "web.new", Message: fmt.Sprintf(format, args...),
	}
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.root.ServeHTTP(w, r) }

// isNamed reports whether a request names the dashboard as its own pages do.
func (h *Handler) isNamed(r *http.Request) bool {
	names := h.options.Hosts
	return len(names) == 0 && !hosts.IsLocal(r) || hosts.Allows(r.Host, names)
}

// space returns the path segment of a namespace. A slash, or dots only, can't be a segment.
func space(name string, i int) string {
	if strings.Trim(name, ".") == "" || name == "/" {
		return fmt.Sprintf("namespace-%d", i+1)
	}
	return url.PathEscape(name)
}

// codeOf returns the code of an error, if any.
func codeOf(err error) qless.Code {
	var cause *qless.Error
	if errors.As(err, &cause) {
		return cause.Code
	}
	return ""
}

// statusOf returns the HTTP status for an error.
func statusOf(err error) int {
	switch {
	case errors.Is(err, errDenied):
		return http.StatusForbidden
	case errors.Is(err, qless.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, qless.ErrInvalid):
		return http.StatusBadRequest
	case errors.Is(err, qless.ErrUnavailable):
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func notFound(format string, args ...any) error {
	return &qless.Error{
		Code: qless.ErrNotFound, Op: "web", Message: fmt.Sprintf(format, args...),
	}
}

var (
	errDenied   = errors.New("this is not allowed here")
	errReadOnly = fmt.Errorf("%w: the dashboard is read-only", errDenied)
	errNoPerm   = fmt.Errorf("%w: Redis does not permit it to the dashboard's user", errDenied)
)

// streams counts the live pages.
type streams struct {
	open atomic.Int64
	most int64
}

// known are the namespaces of a dashboard. Namespaces are never removed.
type known struct {
	all []*site
	mux *http.ServeMux // of their pages
}

// sites returns the namespaces.
func (h *Handler) sites() []*site { return h.known.Load().all }

// looks are the looks for new namespaces.
type looks struct {
	mu   sync.Mutex
	last time.Time
	end  context.CancelFunc // of the last look
}

// halt ends a look under way.
func (l *looks) halt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end != nil {
		l.end()
	}
}
