package workqueue

import (
	"context"
	"time"
)

// Follow runs a cleaner with tickers of the test's.
func (c *Cleaner) Follow(ctx context.Context, light, deep <-chan time.Time) {
	c.follow(ctx, light, deep)
}

// The digests by which tests know what is sent.
var (
	CompleteSHA = completeScript.sha
	LeaseSHA    = leaseScript.sha
	RenewSHA    = renewScript.sha
)
