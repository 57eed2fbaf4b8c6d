package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go/web/internal/actions"
)

// streams counts the live pages.
type streams struct {
	open atomic.Int64
	most int64
}

const (
	maxStreams     = 1000             // the maximum number of live pages
	streamPatience = 30 * time.Second // the longest that a browser may take for an update
)

// live sends the changing part of a page whenever it has changed, as server-sent events, as long as
// the page is open. All pages are updated at the same times, when a turn of the samples begins.
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
	for to.send(now.body.Bytes()) == nil {
		next := time.NewTimer(time.Until(s.samples.turn(time.Now(), s.handler.options.Interval)))
		select {
		case <-next.C:
		case <-r.Context().Done():
			next.Stop()
			return
		}
		if !now.isStill {
			now = s.fragment(r, page, once)
		}
	}
}

// A stream sends a page to a browser.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	last    []byte
}

// send sends a page, or a sign of life if it has not changed. Instead of the server's write
// timeout, each update has its own.
func (t *stream) send(page []byte) error {
	_ = t.control.SetWriteDeadline(time.Now().Add(streamPatience))
	event := []byte(":\n\n")
	if !bytes.Equal(page, t.last) {
		t.last = page
		text, _ := json.Marshal(string(page)) // one line
		event = fmt.Appendf(nil, "event: content\ndata: %s\n\n", text)
	}
	_, err := t.w.Write(event)
	if err == nil {
		err = t.control.Flush()
	}
	_ = t.control.SetWriteDeadline(time.Time{})
	return err
}

// fragment returns the current state of the part of a page that is updated. It serves pages only:
// requests for other paths may have effects, or never end.
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
	isPage  bool // and not the response for an unknown path
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
