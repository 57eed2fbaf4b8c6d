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

// A feed subscribes to the events of a namespace while a page shows the events. All viewers share
// one subscription.
type feed struct {
	mu      sync.Mutex
	begun   chan struct{} // closed once the subscription exists or has failed; nil without one
	stop    context.CancelFunc
	idle    *time.Timer // ends the subscription when no page is open
	problem string      // why the subscription is missing
	kept    []happening // the latest first
}

// The number of events that a feed keeps, and how long the feed stays subscribed after the last
// view.
const (
	eventsKept = 200
	feedIdle   = 8               // in intervals between two updates of a page
	feedBegins = 3 * time.Second // the longest wait of the first page for the subscription
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

// An activityFilter selects events by all fields that are set.
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

// activity shows events live.
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

// events returns the kept events, the latest first. It subscribes unless recently viewed.
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

// listen keeps new events until no page was viewed for a while.
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

// note records whether the feed is subscribed. Events since the last kept event are unknown.
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

// Sentence describes the details missing in the other columns.
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
