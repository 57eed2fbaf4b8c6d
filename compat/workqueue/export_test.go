package workqueue

import (
	"context"
	"time"
)

// Follow runs a cleaner with tickers of the test's.
func (c *Cleaner) Follow(ctx context.Context, light, deep <-chan time.Time) {
	c.follow(ctx, light, deep)
}

// The digests and the text by which tests know what is sent.
var (
	CompleteText = completeText
	CompleteSHA  = completeScript.sha
	LeaseSHA     = leaseScript.sha
	RenewSHA     = renewScript.sha
)

// Plain returns an item without its lease.
func (i Item) Plain() Item { return Item{ID: i.ID, Data: i.Data} }

// LongestStop is how long an idle worker takes to stop at most, apart from what it computes.
const LongestStop = waitSlice + hangTimeout
