package web

import (
	"testing"
	"time"

	"github.com/qless/qless-go/web/internal/actions"
	"github.com/qless/qless-go/web/internal/rates"
)

// LimitReceipts changes how much a receipt of a dashboard has at most.
func LimitReceipts(h *Handler, jobs, bytes int) {
	h.history.MaxReceipt = actions.ReceiptSize{Jobs: jobs, Bytes: bytes}
}

// LimitStreams changes how many pages of a dashboard are updated at a time.
func LimitStreams(h *Handler, most int) { h.streams.most = int64(most) }

// LimitLooks changes how long a look at rates may take, for a test.
func LimitLooks(t *testing.T, most time.Duration) {
	before := rates.ReadTime
	rates.ReadTime = most
	t.Cleanup(func() { rates.ReadTime = before })
}

// EndTurn has a dashboard read again what is good for a turn only.
func EndTurn(h *Handler) {
	for _, s := range h.sites {
		s.samples.mu.Lock()
		for key, got := range s.samples.all {
			if !got.isKept {
				delete(s.samples.all, key)
			}
		}
		s.samples.mu.Unlock()
	}
}

// HasFeeds reports whether a dashboard subscribes to events.
func HasFeeds(h *Handler) bool {
	for _, s := range h.sites {
		s.feed.mu.Lock()
		listens := s.feed.begun != nil
		s.feed.mu.Unlock()
		if listens {
			return true
		}
	}
	return false
}
