//go:build !linux

package workq

import (
	"net"
	"os"
)

// look returns an error if the other side is known to be gone.
func look(connection net.Conn) error {
	if isReset(connection) {
		return os.ErrClosed
	}
	return nil
}
