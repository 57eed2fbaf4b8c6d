// Package health has the commands that say how the queues and their server are.
package health

import "github.com/qless/qless-go/cmd/qless/internal/place"

// An app runs the commands of this package in a place.
type app struct{ *place.Place }
