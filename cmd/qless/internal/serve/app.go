// Package serve has the commands that run servers.
package serve

import "github.com/qless/qless-go/cmd/qless/internal/place"

// An app runs the commands of this package in a place.
type app struct{ *place.Place }
