package testkit

import (
	"bytes"
	"sync"
)

// serverLog keeps the output of a server over all its runs, and notices when the server is ready.
type serverLog struct {
	mu    sync.Mutex
	text  bytes.Buffer
	run   int           // the offset where the text of this run begins
	ready chan struct{} // closed when this run accepts connections; nil afterwards
}

// begin starts the log of another run. The channel is closed when the run is ready.
func (l *serverLog) begin() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run = l.text.Len()
	l.ready = make(chan struct{})
	return l.ready
}

// Write takes a piece of the output; a line may arrive in several pieces.
func (l *serverLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, err := l.text.Write(p)
	if l.ready != nil && l.says("Ready to accept connections") {
		close(l.ready)
		l.ready = nil
	}
	return n, err
}

// portTaken reports whether this run could not listen on its port.
func (l *serverLog) portTaken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.says("Address already in use")
}

// says reports whether this run printed a text.
func (l *serverLog) says(text string) bool {
	return bytes.Contains(l.text.Bytes()[l.run:], []byte(text))
}

// String returns all output.
func (l *serverLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
