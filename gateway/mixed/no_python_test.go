//go:build !interop

package mixed

import "testing"

// pythonCommand returns nil: there is no Python client.
func pythonCommand(*testing.T, settings) []string { return nil }
