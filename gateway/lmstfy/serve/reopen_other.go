//go:build !unix

package serve

// ignoreReopen does nothing: there is no such signal.
func ignoreReopen() (stop func()) { return func() {} }
