//go:build unix

package serve

import (
	"os"
	"os/signal"
	"syscall"
)

// ignoreReopen ignores the signal on which the other server reopens its log files. This one has
// none.
func ignoreReopen() (stop func()) {
	reopen := make(chan os.Signal, 1)
	signal.Notify(reopen, syscall.SIGUSR1)
	return func() { signal.Stop(reopen) }
}
