package workqueue

import (
	"context"
	"time"
)

// Follow runs a cleaner with the test's tickers.
func (c *Cleaner) Follow(ctx context.Context, light, deep <-chan time.Time) {
	c.follow(ctx, light, deep)
}

// The digests and the text by which tests recognize scripts.
var (
	CompleteText = completeText
	CompleteSHA  = completeScript.sha
	LeaseSHA     = leaseScript.sha
	RenewSHA     = renewScript.sha
)

// Plain returns an item without its lease.
func (i Item) Plain() Item { return Item{ID: i.ID, Data: i.Data} }

// LongestStop is the longest that an idle worker takes to stop, apart from computing.
const LongestStop = waitSlice + hangTimeout
