package lmstfy

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/qless/qless-go/internal/listeners"
)

// A Server speaks lmstfy's protocol. Create one with [New], and end it with [Server.Shutdown].
type Server struct {
	config    Config
	defaults  defaults
	pools     map[string]*pool
	tokens    *tokens
	limiters  *limiters
	metrics   *metrics
	sizes     *sizes
	accessLog atomic.Bool

	stop    *listeners.Stop    // consumers must be answered
	close   context.CancelFunc // ends background work
	running sync.WaitGroup

	mu      sync.Mutex
	servers []*http.Server
}
