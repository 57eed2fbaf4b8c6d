package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/qless/qless-go/web/internal/actions"
)

const (
	maxStreams     = 1000             // the maximum number of live pages
	streamPatience = 30 * time.Second // the longest time for a browser to receive an update
	answerPatience = 2 * time.Second  // the longest unnoticed reading
)

// live sends the changing part of a page after each change, as server-sent events, while the page
// is open. All pages are updated together, at the beginning of a turn of the samples.
func (s *site) live(w http.ResponseWriter, r *http.Request) {
	streams := &s.handler.streams
	defer streams.open.Add(-1)
	if streams.open.Add(1) > streams.most {
		w.Header().Set("Retry-After", "60")
		http.Error(w, "too many pages are being updated", http.StatusServiceUnavailable)
		return
	}
	page, once := r.URL.Query().Get("page"), actions.NewID()
	now := s.fragment(r, page, once)
	if !now.isPage || now.isStill {
		s.fail(w, r, notFound("there are no updates of %q", actions.Short(page)))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	to := &stream{w: w, control: http.NewResponseController(w)}
	for to.update(now) == nil {
		next := time.NewTimer(time.Until(s.samples.turn(time.Now(), s.handler.options.Interval)))
		select {
		case <-next.C:
		case <-r.Context().Done():
			next.Stop()
			return
		}
		if !now.isStill {
			now = s.next(r, page, once, to)
		}
	}
}

// next returns the current state of a page. During a long reading, it notifies the browser.
func (s *site) next(r *http.Request, page, once string, to *stream) *recorder {
	got := make(chan *recorder, 1)
	go func() { got <- s.fragment(r, page, once) }()
	late := time.NewTimer(answerPatience)
	defer late.Stop()
	select {
	case now := <-got:
		return now
	case <-late.C:
		_ = to.late() // update detects that the browser has gone
		return <-got
	}
}

// A stream sends a page to a browser.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	last    []byte    // without ages
	at      time.Time // when the last state was read, if any
	isLate  bool      // the browser marks the state as old
}

// update sends a page, or a sign of life if only ages have changed. Without an answer from the
// server, the browser keeps the old page.
func (t *stream) update(now *recorder) error {
	if now.isDown {
		return t.late()
	}
	page := now.body.Bytes()
	t.at = time.Now()
	ageless := withoutAges(page)
	if !t.isLate && bytes.Equal(ageless, t.last) {
		return t.send(":\n\n")
	}
	t.last, t.isLate = ageless, false
	text, _ := json.Marshal(string(page)) // one line
	return t.send(fmt.Sprintf("event: content\ndata: %s\n\n", text))
}

// withoutAges returns a page without the texts of times, which are kept up to date by the browser.
func withoutAges(page []byte) []byte {
	var rest []byte
	for {
		before, after, found := bytes.Cut(page, []byte("<time "))
		rest = append(rest, before...)
		if !found {
			return rest
		}
		age := bytes.IndexByte(after, '>')
		end := bytes.Index(after, []byte("</time>"))
		rest, page = append(rest, after[:age]...), after[end:]
	}
}

// late sends the browser the time of the state it shows, if known.
func (t *stream) late() error {
	at := ""
	if t.isLate = true; !t.at.IsZero() {
		at = t.at.UTC().Format(time.RFC3339)
	}
	return t.send("event: late\ndata: " + at + "\n\n")
}

// send sends an event. Instead of the server's write timeout, each event has its own.
func (t *stream) send(event string) error {
	_ = t.control.SetWriteDeadline(time.Now().Add(streamPatience))
	_, err := io.WriteString(t.w, event)
	if err == nil {
		err = t.control.Flush()
	}
	_ = t.control.SetWriteDeadline(time.Time{})
	return err
}

// fragment returns the current state of the changing part of a page. It serves pages only: requests
// for other paths may have effects, or never end.
func (s *site) fragment(r *http.Request, page, once string) *recorder {
	got := &recorder{}
	target, err := url.ParseRequestURI(page)
	if err != nil || target.IsAbs() {
		return got
	}
	asked := r.Clone(context.WithValue(r.Context(), isFragment{}, once))
	asked.URL, asked.RequestURI, asked.Pattern = target, page, ""
	asked.Header.Set("Accept", "text/html")
	s.pages.ServeHTTP(got, asked)
	return got
}

// A recorder records the response of a page.
type recorder struct {
	body    bytes.Buffer
	header  http.Header
	isPage  bool // not the response for an unknown path
	isDown  bool // the server does not answer
	isStill bool // the page is no longer updated
}

func (r *recorder) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }
func (r *recorder) WriteHeader(int)             {}
