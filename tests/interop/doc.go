// Package interop holds the tests that share one Redis with clients of other languages. They
// are built with the tag interop: go test -tags interop ./tests/interop
package interop
