//go:build !linux

package listeners

import (
	"net"
	"time"
)

func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
