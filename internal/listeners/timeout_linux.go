package listeners

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is the Linux option that limits how long written data may stay unacknowledged.
const tcpUserTimeout = 18

func setUserTimeout(tcp *net.TCPConn, d time.Duration) error {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		ms := int(d.Milliseconds())
		failed = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, ms)
	})
	if err != nil {
		return err
	}
	return failed
}
