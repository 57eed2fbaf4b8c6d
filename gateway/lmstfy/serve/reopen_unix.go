//go:build unix

package serve

import (
	"os"
	"os/signal"
	"syscall"
)

// ignoreReopen ignores the signal to reopen log files, which only lmstfy's own server has.
func ignoreReopen() (stop func()) {
	reopen := make(chan os.Signal, 1)
	signal.Notify(reopen, syscall.SIGUSR1)
	return func() { signal.Stop(reopen) }
}
