//go:build !unix

package serve

// ignoreReopen does nothing: this system has no such signal.
func ignoreReopen() (stop func()) { return func() {} }
