// Package interop contains tests that share one Redis with clients in other languages. The tests
// are built with the tag interop: go test -tags interop ./tests/interop
package interop
