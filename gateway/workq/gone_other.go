//go:build !unix

package workq

import "net"

// isReset can't detect on this system that the other side is gone, and reports false.
func isReset(net.Conn) bool { return false }

// hasEnded can't detect on this system that the other side has ended its stream, and reports false.
func hasEnded(net.Conn) bool { return false }
