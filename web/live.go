package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// live sends the changing part of a page whenever it has changed, as server-sent events, for as
// long as somebody looks at it. All pages are updated at the same times: when a turn of the samples
// begins.
func (s *site) live(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{}) // the server's limit is for pages
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	var last []byte
	for {
		now, err := s.fragment(r.Context(), r, r.URL.Query().Get("page"))
		if err != nil {
			s.fail(w, r, err)
			return
		}
		if !bytes.Equal(now, last) {
			last = now
			text, _ := json.Marshal(string(now)) // one line
			_, err = fmt.Fprintf(w, "event: content\ndata: %s\n\n", text)
		} else {
			_, err = fmt.Fprint(w, ":\n\n")
		}
		if err != nil || control.Flush() != nil {
			return
		}
		next := time.NewTimer(time.Until(s.samples.turn(time.Now(), s.handler.options.Interval)))
		select {
		case <-next.C:
		case <-r.Context().Done():
			next.Stop()
			return
		}
	}
}
