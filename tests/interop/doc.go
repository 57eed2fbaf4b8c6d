// Package interop contains tests that share one Redis with clients in other languages. They are
// built with the tag interop: go test -tags interop ./tests/interop
package interop
