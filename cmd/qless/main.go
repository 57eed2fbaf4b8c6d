// Qless shows the state of the queues of a Redis server, and repairs them:
//
//	qless status
//	qless why mail
//	qless failed unfail timeout --yes
//
// "qless help" lists the commands. The server comes from --redis, QLESS_REDIS_URL or the context in
// use, and otherwise is redis://localhost:6379.
package main

import (
	"os"

	"github.com/qless/qless-go/cmd/qless/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
