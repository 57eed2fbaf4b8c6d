//go:build !interop

package mixed

import "testing"

// pythonCommand returns no command: there is no client for Python.
func pythonCommand(*testing.T, settings) []string { return nil }
