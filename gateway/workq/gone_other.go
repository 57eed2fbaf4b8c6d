//go:build !unix

package workq

import "net"

// isReset can't tell whether the other side is gone.
func isReset(net.Conn) bool { return false }

// hasEnded reports that nothing is known of what the other side has said.
func hasEnded(net.Conn) bool { return false }
