// Package jobs has the commands that show, put and change jobs.
package jobs

import "github.com/qless/qless-go/cmd/qless/internal/place"

// An app runs the commands of this package in a place.
type app struct{ *place.Place }
