package web

import (
	"testing"
	"time"

	"github.com/qless/qless-go/web/internal/actions"
	"github.com/qless/qless-go/web/internal/rates"
)

// LimitReceipts limits the sizes of a dashboard's receipts.
func LimitReceipts(h *Handler, jobs, bytes int) {
	h.history.MaxReceipt = actions.ReceiptSize{Jobs: jobs, Bytes: bytes}
}

// LimitStreams limits the number of live pages of a dashboard.
func LimitStreams(h *Handler, most int) { h.streams.most = int64(most) }

// LimitLooks limits the time of a reading of rates during a test.
func LimitLooks(t *testing.T, most time.Duration) {
	first, next := rates.FirstTime, rates.ReadTime
	rates.FirstTime, rates.ReadTime = most, most
	t.Cleanup(func() { rates.FirstTime, rates.ReadTime = first, next })
}

// EndTurn makes a dashboard read samples of the current turn again.
func EndTurn(h *Handler) {
	for _, s := range h.sites() {
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
	for _, s := range h.sites() {
		s.feed.mu.Lock()
		listens := s.feed.begun != nil
		s.feed.mu.Unlock()
		if listens {
			return true
		}
	}
	return false
}

// LookAgain lets the next view look for namespaces.
func LookAgain(h *Handler) {
	h.looks.mu.Lock()
	defer h.looks.mu.Unlock()
	h.looks.last = time.Time{}
}

// Paths returns the paths of the pages.
func Paths() (all []string) {
	for _, page := range pages {
		all = append(all, page.path)
	}
	return all
}
