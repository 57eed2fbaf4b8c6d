package workq

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"syscall"
)

// The states of a TCP connection on Linux in which the other side may still send.
const (
	tcpEstablished = 1
	tcpCloseWait   = 8
)

// look returns io.EOF or another error if no more data will arrive after the unread data: the other
// side has ended its stream, or is gone.
func look(connection net.Conn) error {
	state := tcpEstablished
	err := control(connection, func(fd int) {
		info, err := syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_INFO)
		if err == nil { // the first byte is the state
			var first [4]byte
			binary.NativeEndian.PutUint32(first[:], uint32(info))
			state = int(first[0])
		}
	})
	switch {
	case err != nil:
		return err
	case state == tcpCloseWait:
		return io.EOF
	case state != tcpEstablished:
		return os.ErrClosed
	}
	return nil
}
