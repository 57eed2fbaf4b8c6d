package guard

import (
	"log/slog"
	"time"
)

// Clock puts a guard around a clock, if any. If the clock does not return, the time is this
// machine's.
func Clock(clock func() time.Time, logger *slog.Logger) func() time.Time {
	if clock == nil {
		return nil
	}
	g := New("Clock", logger)
	return func() time.Time {
		now, err := Value(g.Call, clock)
		if err != nil {
			return time.Now()
		}
		return now
	}
}
