//go:build unix

package workq

import (
	"net"
	"syscall"
)

// isReset reports whether the other side has reset the connection.
func isReset(connection net.Conn) bool {
	reset := false
	err := control(connection, func(fd int) {
		code, err := syscall.GetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_ERROR)
		reset = err != nil || code != 0
	})
	return reset || err != nil
}

// hasEnded reports whether the other side has ended its stream, and all of it was read.
func hasEnded(connection net.Conn) bool {
	ended := false
	_ = control(connection, func(fd int) {
		var next [1]byte
		n, _, err := syscall.Recvfrom(fd, next[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		ended = n == 0 && err == nil
	})
	return ended
}

// control calls f with the descriptor of a connection that has one.
func control(connection net.Conn, f func(fd int)) error {
	socket, ok := connection.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { f(int(fd)) })
}
