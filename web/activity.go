package web

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/web/internal/words"
)

// A feed subscribes to the events of a namespace while a page shows them. All viewers share one
// subscription.
type feed struct {
	mu      sync.Mutex
	begun   chan struct{} // closed once the subscription exists or has failed; nil if there is none
	stop    context.CancelFunc
	idle    *time.Timer // stops it when no page is open
	problem string      // the reason why there is no subscription
	kept    []happening // the latest first
}

// The number of events that a feed keeps, and the time for which it stays subscribed after the last
// view.
const (
	eventsKept = 200
	feedIdle   = 8               // in intervals between two updates of a page
	feedBegins = 3 * time.Second // the longest that the first page waits for the subscription
)

// A happening is an event with the time of its arrival.
type happening struct {
	Time time.Time `json:"time"`
	events.Event
}

// An activityData holds the recent events.
type activityData struct {
	Events  []happening    `json:"events"` // the latest first
	Kept    int            `json:"kept"`   // the number of events without the filter
	Problem string         `json:"problem,omitempty"`
	Filter  activityFilter `json:"filter"`
	Kinds   []events.Kind  `json:"-"`
}

// An activityFilter selects the events that match every field that is set.
type activityFilter struct {
	Queue string `json:"queue,omitempty"`
	JID   string `json:"jid,omitempty"`
	Kind  string `json:"kind,omitempty"`
}

func (f activityFilter) has(e *events.Event) bool {
	return (f.Queue == "" || e.Queue == f.Queue || e.To == f.Queue) &&
		(f.JID == "" || strings.Contains(e.JID, f.JID)) &&
		(f.Kind == "" || string(e.Kind) == f.Kind)
}

// activity shows the events as they happen.
func (s *site) activity(r *http.Request) (*view, error) {
	query := r.URL.Query()
	data := &activityData{Events: []happening{}, Kinds: events.Kinds(), Filter: activityFilter{
		Queue: query.Get("queue"), JID: query.Get("jid"), Kind: query.Get("kind"),
	}}
	kept, problem, err := s.feed.events(r.Context(), s)
	if err != nil {
		return nil, err
	}
	data.Kept, data.Problem = len(kept), problem
	for _, one := range kept {
		if !data.Filter.has(&one.Event) {
			continue
		}
		if s.IsRedacted() { // Redact needs a whole job
			one.Message = ""
		}
		data.Events = append(data.Events, one)
	}
	return &view{template: "activity", Title: "Activity", Section: "activity", Data: data}, nil
}

// events returns the kept events, the latest first. It subscribes unless there was a view recently.
func (f *feed) events(ctx context.Context, s *site) (kept []happening, problem string, err error) {
	select {
	case <-f.begin(ctx, s):
	case <-time.After(feedBegins):
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.kept), f.problem, nil
}

// begin returns a channel that is closed once the feed listens.
func (f *feed) begin(ctx context.Context, s *site) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	idle := feedIdle * s.handler.options.Interval
	if f.begun == nil {
		f.begun = make(chan struct{})
		ctx, f.stop = context.WithCancel(context.WithoutCancel(ctx))
		f.idle = time.AfterFunc(idle, f.stop)
		s.handler.background.Go(func() { f.listen(ctx, s.Client, f.begun) })
	}
	f.idle.Reset(idle)
	return f.begun
}

// listen keeps new events until there was no view for a while.
func (f *feed) listen(ctx context.Context, client *qless.Client, begun chan struct{}) {
	defer f.end()
	heard, err := events.Listen(ctx, client)
	f.note(err)
	close(begun)
	if err != nil {
		return
	}
	for event := range heard {
		f.keep(event)
	}
}

// note records whether there is a subscription. Events since the last one are unknown.
func (f *feed) note(err error) {
	f.mu.Lock()
	f.problem = ""
	if err != nil {
		f.problem = err.Error()
	}
	isGap := err == nil && len(f.kept) > 0
	f.mu.Unlock()
	if isGap {
		f.keep(events.Event{Kind: events.Gap})
	}
}

func (f *feed) keep(event events.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept = slices.Insert(f.kept, 0, happening{time.Now(), event})
	f.kept = f.kept[:min(len(f.kept), eventsKept)]
}

// halt makes the feed end soon.
func (f *feed) halt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun != nil {
		f.stop()
	}
}

func (f *feed) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle.Stop()
	f.stop()
	f.begun = nil
}

// Sentence describes the details that the other columns do not show.
func (h happening) Sentence() string {
	switch h.Kind {
	case events.Gap:
		return "Events may be missing here: nobody was looking, or the connection broke."
	case events.Advanced:
		return "into " + h.To
	case events.ConfigSet:
		return h.Option + " is " + h.Value
	case events.ConfigUnset:
		return h.Option
	case events.Spawned, events.Unfailed:
		return words.Plural(h.Count, "job")
	}
	return ""
}
