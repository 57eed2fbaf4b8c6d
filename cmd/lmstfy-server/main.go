// Lmstfy-server takes the place of lmstfy's own server: it has its flags, and reads its
// configuration file. The lmstfy package says what is different.
package main

import (
	"context"
	"os"

	"github.com/qless/qless-go/gateway/lmstfy/serve"
)

func main() {
	os.Exit(serve.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
