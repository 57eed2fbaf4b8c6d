// Workq-server takes the place of Workq's server program: it speaks the same protocol, has the same
// flags, and keeps jobs in qless.
//
//	QLESS_REDIS_URL=redis://localhost:6379 workq-server -listen 127.0.0.1:9922
//
// Without QLESS_REDIS_URL, jobs are kept in memory, which is enough to try it out.
package main

import (
	"context"
	"os"

	"github.com/qless/qless-go/gateway/workq/serve"
)

func main() {
	os.Exit(serve.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
