// Package lmstfy is a server that speaks the HTTP API of lmstfy in front of qless. Clients of
// lmstfy need no change. Their jobs are qless jobs, which workers in Go, Ruby, Python and PHP can
// see and run.
//
// A job of the namespace ns and the queue q is in the queue "ns/q". Its klass is [Klass], and its
// data is {"body": "..."}, in base64. Consumers also receive jobs put into such a queue by clients
// of qless: the body is then the job's data, as JSON.
//
// [New] embeds the server in a program. The command qless serve lmstfy reads the configuration file
// of lmstfy's own server: see [LoadFile].
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
